package bedrock

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/adaptertest"
	"github.com/lingserve/lingserve/internal/fakeproviders"
	"github.com/lingserve/lingserve/internal/rawjson"
)

func event(name, members string) string {
	return string(fakeproviders.AppendFrame(nil, "event", name, "{"+members+"}"))
}

// listen lists what comes of a stream.
func listen(t *testing.T, stream io.Reader) string {
	t.Helper()
	return adaptertest.List(modelAt(t, lite, streaming(stream)).Stream(t.Context(), adapter.Request{Messages: question}))
}

// MO-14, MO-16: exceptions in the stream, and the reasons for which an answer ends.
func TestEndsOfAnswers(t *testing.T) {
	w := adaptertest.Bedrock
	exception := func(name, message string) string {
		return string(fakeproviders.AppendFrame(nil, "exception", name, rawjson.MustMarshal(map[string]string{"message": message})))
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
		"an error without an exception": {string(fakeproviders.AppendFrame(nil, "error", "InternalError", "")), "error upstream_unavailable retryable says"},
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
		"ModelNotReadyException":        {429, `{"message":"x"}`, adapter.CodeUnavailable, "retry later"},
		"ModelErrorException":           {424, `{"message":"x"}`, adapter.CodeUnavailable, "retry later"},
		"AccessDeniedException":         {403, `{"Message":"You don't have access to the model with the specified model ID."}`, adapter.CodeAuth, "denies access to this model"},
		"ValidationException": {
			400, `{"message":"Invocation of model ID x with on-demand throughput isn’t supported. Retry your request with the ID or ARN of an inference profile that contains this model."}`,
			adapter.CodeProtocol, "inference profile",
		},
		"ValidationException:http://internal.amazon.com/coral/": {400, `{"Message":"The model returned the following errors: prompt is too long: 209 tokens > 200 maximum"}`, adapter.CodeInvalid, "too long"},
		"ResourceNotFoundException":                             {404, `{"message":"x"}`, adapter.CodeProtocol, "does not know this model"},
	} {
		t.Run(kind, func(t *testing.T) {
			e := failureOf(t, &adaptertest.Answering{Status: row.status, Header: http.Header{"X-Amzn-Errortype": {kind}}, Body: strings.NewReader(row.body)})
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
	got, _, err := adaptertest.ReadAnswer(modelAt(t, lite, streaming(strings.NewReader(stream))).Stream(t.Context(), adapter.Request{Messages: question}))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]adapter.Citation{
		{Title: "facts", Text: "ab", Start: 4, End: 10}, {URL: "https://example.org/a", Title: "example.org", Start: 4, End: 10},
	}, got.Citations); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]adapter.Media{{Type: "image/png", URL: "data:image/png;base64,AQID"}}, got.Media); diff != "" {
		t.Error(diff)
	}
}

func FuzzStream(f *testing.F) { adaptertest.Fuzz(f, subject) }
