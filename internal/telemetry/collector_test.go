package telemetry_test

import (
	"cmp"
	"compress/gzip"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// collector takes spans as a collector of OpenTelemetry does.
type collector struct {
	*httptest.Server

	mu       sync.Mutex
	header   http.Header
	resource map[string]string
	spans    []*tracepb.Span
	raw      []byte
	refuse   int // status of all answers; 0 is yes
	asked    int
}

func newCollector(t testing.TB) *collector {
	c := &collector{resource: map[string]string{}}
	c.Server = httptest.NewServer(c)
	t.Cleanup(c.Close)
	return c
}

func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked++
	if c.refuse != 0 {
		w.WriteHeader(c.refuse)
		return
	}
	var from io.Reader = r.Body
	if r.Header.Get("Content-Encoding") == "gzip" {
		z, err := gzip.NewReader(r.Body)
		if err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		from = z
	}
	body, err := io.ReadAll(from)
	var req collectorpb.ExportTraceServiceRequest
	if err != nil || r.URL.Path != "/v1/traces" || proto.Unmarshal(body, &req) != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	c.header, c.raw = r.Header, append(c.raw, body...)
	for _, of := range req.ResourceSpans {
		for _, a := range of.Resource.GetAttributes() {
			c.resource[a.Key] = valueOf(a.Value)
		}
		for _, scope := range of.ScopeSpans {
			c.spans = append(c.spans, scope.Spans...)
		}
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
	answer, _ := proto.Marshal(new(collectorpb.ExportTraceServiceResponse))
	w.Write(answer)
}

func valueOf(v *commonpb.AnyValue) string {
	switch v := v.GetValue().(type) {
	case *commonpb.AnyValue_StringValue:
		return v.StringValue
	case *commonpb.AnyValue_ArrayValue:
		var list []string
		for _, one := range v.ArrayValue.Values {
			list = append(list, valueOf(one))
		}
		return strings.Join(list, ",")
	case *commonpb.AnyValue_IntValue:
		return fmt.Sprint(v.IntValue)
	case *commonpb.AnyValue_BoolValue:
		return fmt.Sprint(v.BoolValue)
	case *commonpb.AnyValue_DoubleValue:
		return fmt.Sprint(v.DoubleValue)
	}
	return fmt.Sprint(v)
}

// tree writes spans as a page about a trace shows them: below each other, in the order in which they began. Values that differ from run
// to run are left out.
func (c *collector) tree(attributes ...string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	known := map[string]bool{}
	for _, s := range c.spans {
		known[hex.EncodeToString(s.SpanId)] = true
	}
	var b strings.Builder
	var show func(parent string, depth int)
	show = func(parent string, depth int) {
		var list []*tracepb.Span
		for _, s := range c.spans {
			of := hex.EncodeToString(s.ParentSpanId)
			if !known[of] {
				of = ""
			}
			if of == parent {
				list = append(list, s)
			}
		}
		slices.SortStableFunc(list, func(a, b *tracepb.Span) int {
			return cmp.Or(cmp.Compare(a.StartTimeUnixNano, b.StartTimeUnixNano), cmp.Compare(a.Name, b.Name))
		})
		for _, s := range list {
			fmt.Fprintf(&b, "%s%s", strings.Repeat("  ", depth), s.Name)
			for _, a := range s.Attributes {
				if slices.Contains(attributes, a.Key) || len(attributes) == 1 && attributes[0] == "*" {
					fmt.Fprintf(&b, " %s=%s", a.Key, valueOf(a.Value))
				}
			}
			for _, e := range s.Events {
				fmt.Fprintf(&b, " (%s)", e.Name)
			}
			if s.Status.GetCode() == tracepb.Status_STATUS_CODE_ERROR {
				fmt.Fprintf(&b, " ERROR %s", s.Status.Message)
			}
			if len(s.Links) > 0 {
				fmt.Fprintf(&b, " linked")
			}
			if len(attributes) == 1 && attributes[0] == "*" {
				fmt.Fprintf(&b, " [%.1f ms]", float64(s.EndTimeUnixNano-s.StartTimeUnixNano)/1e6)
			}
			b.WriteString("\n")
			show(hex.EncodeToString(s.SpanId), depth+1)
		}
	}
	show("", 0)
	return b.String()
}

// syncBuffer is a buffer that many write to.
type syncBuffer struct {
	mu sync.Mutex
	b  strings.Builder
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}
