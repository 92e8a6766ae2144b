package wire

import (
	"net/http"
	"regexp"
	"strings"
	"testing"
)

// A trace is the one that the header names, where it is written as it has to be, and otherwise there is none.
func FuzzTraceparent(f *testing.F) {
	for _, text := range []string{
		"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "00-00000000000000000000000000000000-b7ad6b7169203331-01",
		"ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-x",
		"00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-",
	} {
		f.Add(text, "vendor=x")
	}
	f.Add("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00", strings.Repeat("a=b,", 40))
	f.Fuzz(func(t *testing.T, text, state string) {
		c := traceOf(&http.Request{Header: http.Header{"Traceparent": {text}, "Tracestate": {state}}})
		parts := traceparent.FindStringSubmatch(text)
		// OpenTelemetry, which reads it, passes over a hyphen at the end.
		good := parts != nil && parts[1] != "ff" && (parts[1] != "00" || parts[5] == "" || parts[5] == "-") && strings.Trim(parts[2], "0") != "" && strings.Trim(parts[3], "0") != ""
		switch {
		case !c.IsValid():
		case !good || c.TraceID().String() != parts[2] || c.SpanID().String() != parts[3] || !c.IsRemote():
			t.Errorf("%q is %v %v", text, c.TraceID(), c.SpanID())
		case c.TraceState().Len() > 32 || strings.ContainsAny(c.TraceState().String(), "\r\n\x00"):
			t.Errorf("%q", c.TraceState())
		}
		if good && parts[1] == "00" && strings.Trim(parts[4][:1], "0") == "" && strings.Contains("01", parts[4][1:]) && !c.IsValid() {
			t.Errorf("%q is not taken", text)
		}
	})
}

// traceparent is the header as https://www.w3.org/TR/trace-context/#traceparent-header writes it: what follows in later versions is theirs.
var traceparent = regexp.MustCompile(`(?s)^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$`)
