package bedrock

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/aws/aws-sdk-go-v2/aws/protocol/eventstream"
	"github.com/google/go-cmp/cmp"
	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/adaptertest"
	"github.com/lingserve/lingserve/internal/upstream"
)

func event(name, members string) string {
	return string(upstream.AppendFrame(nil, "event", name, "{"+members+"}"))
}

// listen lists what comes of a stream.
func listen(t *testing.T, stream io.Reader) string {
	t.Helper()
	m, err := newProvider(t, Options{Transport: answering{kind: streamType, body: stream}, Key: "test-key"}, AWS{Region: "us-east-1"}).Model(lite)
	if err != nil {
		t.Fatal(err)
	}
	return adaptertest.List(m.Stream(t.Context(), adapter.Request{Messages: question}))
}

// MO-14, MO-16: exceptions in the stream, and the reasons for which an answer ends.
func TestEndsOfAnswers(t *testing.T) {
	w := adaptertest.Bedrock
	exception := func(name, message string) string {
		return string(upstream.AppendFrame(nil, "exception", name, marshal(map[string]string{"message": message})))
	}
	for name, row := range map[string]struct{ stream, want string }{
		"throttled":                     {exception("throttlingException", "Too many tokens, please wait before trying again."), "error upstream_rate_limited retryable says"},
		"the model failed":              {exception("modelStreamErrorException", "boom"), "error upstream_unavailable retryable says"},
		"internal":                      {exception("internalServerException", "boom"), "error upstream_unavailable retryable says"},
		"unavailable":                   {exception("serviceUnavailableException", "boom"), "error upstream_unavailable retryable says"},
		"too slow":                      {exception("modelTimeoutException", "boom"), "error upstream_timeout retryable says"},
		"not valid":                     {exception("validationException", "boom"), "error upstream_protocol says"},
		"too long":                      {exception("validationException", "Input is too long for requested model."), "error invalid_request context-length says"},
		"an unknown one":                {exception("newException", "boom"), "error upstream_protocol says"},
		"an error without an exception": {string(upstream.AppendFrame(nil, "error", "InternalError", "")), "error upstream_unavailable retryable says"},
		"an exception after the finish": {w.Finish + exception("internalServerException", "boom") + w.Done, "usage 2+1=3 finish stop"},
		"length":                        {event("messageStop", `"stopReason":"max_tokens"`) + w.Done, "usage 2+1=3 finish length"},
		"the context's length":          {event("messageStop", `"stopReason":"model_context_window_exceeded"`) + w.Done, "usage 2+1=3 finish length"},
		"a stop sequence":               {event("messageStop", `"stopReason":"stop_sequence"`) + w.Done, "usage 2+1=3 finish stop"},
		"a guardrail":                   {event("messageStop", `"stopReason":"guardrail_intervened"`) + w.Done, "usage 2+1=3 finish content_filter\nerror upstream_protocol says"},
		"a refusal":                     {event("messageStop", `"stopReason":"refusal"`) + w.Done, "usage 2+1=3 finish refusal"},
		"a new reason":                  {event("messageStop", `"stopReason":"new"`) + w.Done, "usage 2+1=3 finish stop"},
		"a malformed call":              {event("messageStop", `"stopReason":"malformed_tool_use"`) + w.Done, "error upstream_protocol retryable says"},
		"a call that has not begun":     {event("contentBlockDelta", `"contentBlockIndex":0,"delta":{"toolUse":{"input":"{}"}}`), "error upstream_protocol says"},
		"an event that is no JSON":      {event("contentBlockStart", `"start`), "error upstream_protocol says"},
	} {
		t.Run(name, func(t *testing.T) {
			got := listen(t, strings.NewReader(w.Open+w.Text("a")+row.stream))
			if want := "model bedrock:" + lite + ` text "a"` + "\n" + row.want; !strings.HasPrefix(got, want) {
				t.Errorf("%s\nexpected\n%s", got, want)
			}
		})
	}
}

// MO-16: kinds of refusals that have a status of another kind, or a sentence of their own.
func TestKindsOfRefusals(t *testing.T) {
	for kind, row := range map[string]struct {
		status     int
		body, code string
		says       string
	}{
		"ThrottlingException":           {429, `{"message":"Too many requests"}`, adapter.CodeRateLimited, "limits the rate"},
		"ServiceQuotaExceededException": {400, `{"message":"x"}`, adapter.CodeRateLimited, "quota is used up"},
		"ModelNotReadyException":        {429, `{"message":"x"}`, adapter.CodeUnavailable, "try again"},
		"ModelErrorException":           {424, `{"message":"x"}`, adapter.CodeUnavailable, "try again"},
		"AccessDeniedException":         {403, `{"Message":"You don't have access to the model with the specified model ID."}`, adapter.CodeAuth, "does not give access to this model"},
		"ValidationException": {
			400, `{"message":"Invocation of model ID x with on-demand throughput isn’t supported. Retry your request with the ID or ARN of an inference profile that contains this model."}`,
			adapter.CodeProtocol, "inference profile",
		},
		"ValidationException:http://internal.amazon.com/coral/": {400, `{"Message":"The model returned the following errors: prompt is too long: 209 tokens > 200 maximum"}`, adapter.CodeInvalid, "too long"},
		"ResourceNotFoundException":                             {404, `{"message":"x"}`, adapter.CodeProtocol, "does not know this model"},
	} {
		t.Run(kind, func(t *testing.T) {
			e := failureOf(t, answering{status: row.status, kind: "application/json", header: http.Header{"X-Amzn-Errortype": {kind}}, body: strings.NewReader(row.body)})
			if e.Code != row.code || e.Status != row.status || !strings.Contains(e.Message, row.says) || !strings.Contains(e.Cause.Error(), kind) {
				t.Errorf("%+v", e)
			}
		})
	}
}

// MO-15: where in the text a source belongs, and images.
func TestCitationsHaveTheirPlacesAndImagesAreMedia(t *testing.T) {
	w := adaptertest.Bedrock
	delta := func(block, members string) string {
		return event("contentBlockDelta", `"contentBlockIndex":`+block+`,"delta":{`+members+`}`)
	}
	stop := func(block string) string { return event("contentBlockStop", `"contentBlockIndex":`+block) }
	stream := w.Open + delta("0", `"text":"Hé. "`) + stop("0") +
		delta("1", `"citation":{"title":"facts","sourceContent":[{"text":"a"},{"text":"b"}],"location":{"documentChar":{"documentIndex":0,"start":0,"end":2}}}`) +
		delta("1", `"text":"It"`) + delta("1", `"text":" is."`) + stop("1") +
		delta("2", `"citation":{"location":{"web":{"url":"https://example.org/a","domain":"example.org"}}}`) + stop("2") +
		event("contentBlockStart", `"contentBlockIndex":3,"start":{"image":{"format":"png"}}`) +
		delta("3", `"image":{"source":{"bytes":"AQI="}}`) + delta("3", `"image":{"source":{"bytes":"Aw=="}}`) + stop("3") + w.Finish + w.Done
	m, err := newProvider(t, Options{Transport: answering{kind: streamType, body: strings.NewReader(stream)}, Key: "test-key"}, AWS{Region: "us-east-1"}).Model(lite)
	if err != nil {
		t.Fatal(err)
	}
	var citations []adapter.Citation
	var media []adapter.Media
	for c, err := range m.Stream(t.Context(), adapter.Request{Messages: question}) {
		if err != nil {
			t.Fatal(err)
		}
		if c.Citation != nil {
			citations = append(citations, *c.Citation)
		}
		if c.Media != nil {
			media = append(media, *c.Media)
		}
	}
	if diff := cmp.Diff([]adapter.Citation{
		{Title: "facts", Text: "ab", Start: 4, End: 10}, {URL: "https://example.org/a", Title: "example.org", Start: 4, End: 10},
	}, citations); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]adapter.Media{{Type: "image/png", URL: "data:image/png;base64,AQID"}}, media); diff != "" {
		t.Error(diff)
	}
}

// FT-09, FT-12: messages as the SDK writes them, with headers of all types; and lengths that are not true.
func TestMessagesOfTheStream(t *testing.T) {
	var written bytes.Buffer
	message := eventstream.Message{Payload: []byte(`{"a":1}`)}
	for i, value := range []any{true, false, int8(1), int16(2), int32(3), int64(4), []byte("b"), "c"} {
		v, err := headerOf(value)
		if err != nil {
			t.Fatal(err)
		}
		message.Headers.Set(strings.Repeat("x", i+1), v)
	}
	message.Headers.Set(":message-type", eventstream.StringValue("event"))
	message.Headers.Set(":event-type", eventstream.StringValue("metadata"))
	if err := eventstream.NewEncoder().Encode(&written, message); err != nil {
		t.Fatal(err)
	}
	f := frames{r: iotest.OneByteReader(bytes.NewReader(bytes.Repeat(written.Bytes(), 50))), max: 1 << 10}
	var got frame
	for range 50 {
		if err := f.next(&got); err != nil || string(got.kind) != "event" || string(got.name) != "metadata" || string(got.payload) != `{"a":1}` {
			t.Fatalf("%v %q %q %q", err, got.kind, got.name, got.payload)
		}
	}
	if err := f.next(&got); err != io.EOF {
		t.Error(err)
	}
	// Any bit that is wrong is noticed.
	for i := range written.Len() * 8 {
		b := bytes.Clone(written.Bytes())
		b[i/8] ^= 1 << (i % 8)
		f := frames{r: bytes.NewReader(b), max: 1 << 10}
		if err := f.next(&got); err != errDamaged {
			t.Fatalf("bit %d: %v", i, err)
		}
	}
	for name, row := range map[string]struct {
		max, payload int
		want         string
	}{
		"a message that is larger than allowed": {1 << 10, 1 << 11, "token too long"},
		"one that is just as large":             {1<<10 + 16, 1 << 10, ""},
	} {
		f := frames{r: bytes.NewReader(upstream.AppendFrame(nil, "", "", make([]byte, row.payload))), max: row.max}
		err := f.next(&got)
		if said := ""; err != nil && !strings.Contains(err.Error(), row.want) || (err == nil) != (row.want == said) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// A message that promises 4 MiB and sends nothing takes no memory.
	large := upstream.AppendFrame(nil, "", "", make([]byte, 4<<20-16))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 100 {
		f := frames{r: bytes.NewReader(large[:100]), max: 4 << 20}
		if err := f.next(&got); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatal(err)
		}
	}
	runtime.ReadMemStats(&after)
	if each := (after.TotalAlloc - before.TotalAlloc) / 100; each > 16<<10 {
		t.Errorf("%d bytes", each)
	}
}

func headerOf(value any) (eventstream.Value, error) {
	switch v := value.(type) {
	case bool:
		return eventstream.BoolValue(v), nil
	case int8:
		return eventstream.Int8Value(v), nil
	case int16:
		return eventstream.Int16Value(v), nil
	case int32:
		return eventstream.Int32Value(v), nil
	case int64:
		return eventstream.Int64Value(v), nil
	case []byte:
		return eventstream.BytesValue(v), nil
	case string:
		return eventstream.StringValue(v), nil
	}
	return nil, errors.New("no such type")
}

func FuzzStream(f *testing.F) { adaptertest.Fuzz(f, subject) }
