package web

import (
	"cmp"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/lingserve/lingserve/run"
)

// wireRequests start a run of the workflow "steps" on each wire.
var wireRequests = map[string]struct {
	path, body string
	other      string // a request with another input
	end        string // of a stream that is complete
}{
	"native":       {"/v1/runs?format=sse", `{"workflow":"steps"}`, `{"workflow":"steps","input":{"a":1}}`, "finished"},
	"AG-UI":        {"/v1/agui/steps", aguiSteps, strings.Replace(aguiSteps, "{}", `{"a":1}`, 1), "RUN_FINISHED"},
	"AI SDK":       {"/v1/ui/steps", uiSteps, strings.Replace(uiSteps, "{}", `{"a":1}`, 1), `"finish"`},
	"AI SDK, text": {"/v1/ui/steps/object", `{}`, `{"a":1}`, `"}`},
	"OpenAI":       {completions, chatBody("steps", "{}", streaming), chatBody("steps", `{"a":1}`, streaming), "[DONE]"},
}

const (
	aguiSteps = `{"threadId":"t","runId":"r","messages":[],"forwardedProps":{"input":{}}}`
	uiSteps   = `{"id":"c","messages":[{"role":"user","parts":[]}],"input":{}}`
)

// post sends a request whose answer may begin only when its run has made something.
func (b *bench) post(path, body string, header ...string) <-chan *http.Response {
	answered := make(chan *http.Response, 1)
	go func() {
		resp, err := b.try(b.t.Context(), "POST", path, body, header...)
		if err != nil {
			b.t.Errorf("POST %s: %v", path, err)
			resp = &http.Response{Body: http.NoBody}
		}
		answered <- resp
	}()
	return answered
}

// FT-28
func TestARepeatedRequestIsTheSameRunOnEachWire(t *testing.T) {
	for name, w := range wireRequests {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, nil).serve()
			answered := b.post(w.path, w.body, "Idempotency-Key: k")
			st := <-b.steps.came
			st.send("a", "x")
			st.finish()
			first := <-answered
			whole := text(t, first)
			again := b.do("POST", w.path, w.body, "Idempotency-Key: k")
			if again.Header.Get("X-Run-Id") != first.Header.Get("X-Run-Id") || first.Header.Get("Idempotency-Replayed") != "" || again.Header.Get("Idempotency-Replayed") != "true" {
				t.Errorf("%v, and repeated %v", first.Header, again.Header)
			}
			if body := text(t, again); !strings.Contains(body, w.end) || !strings.Contains(whole, w.end) || b.steps.started() != 1 {
				t.Errorf("%d runs: %s", b.steps.started(), body)
			}
			if resp := b.do("POST", w.path, w.other, "Idempotency-Key: k"); resp.StatusCode != 422 || !strings.Contains(text(t, resp), "the Idempotency-Key belongs to another request") {
				t.Errorf("another request: %d", resp.StatusCode)
			}
			for _, key := range []string{"a b", "schlüssel", strings.Repeat("k", 256)} {
				if resp := b.do("POST", w.path, w.body, "Idempotency-Key: "+key); resp.StatusCode != 400 || !strings.Contains(text(t, resp), "Idempotency-Key") {
					t.Errorf("the key %q: %d", key, resp.StatusCode)
				}
			}
		})
	}
}

// FT-21: a stream that ends cleanly while its run goes on would be taken for a whole one.
func TestAServerThatGoesBreaksTheStreamsOfEachWireOff(t *testing.T) {
	for name, w := range wireRequests {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, nil).serve()
			answered := b.post(w.path, w.body)
			st := <-b.steps.came
			st.send("a", "half ")
			resp := <-answered
			var body []byte
			for piece := make([]byte, 1000); !strings.Contains(string(body), "half "); {
				n, err := resp.Body.Read(piece)
				if err != nil {
					t.Fatal(err)
				}
				body = append(body, piece[:n]...)
			}
			over, cancel := context.WithCancel(t.Context())
			cancel()
			if err := b.s.Drain(over); err != nil {
				t.Fatal(err)
			}
			rest, err := io.ReadAll(resp.Body)
			if err == nil || strings.Contains(string(rest), w.end) {
				t.Errorf("%v: %s", err, rest)
			}
		})
	}
}

// FT-18
func TestAClientThatGoesAwayCancelsItsRunOnlyIfItSaidSo(t *testing.T) {
	for name, tt := range map[string]struct {
		path, body string
		cancels    bool
		key        string
	}{
		"a stream that leaves it running": {"/v1/runs?format=sse", `{"workflow":"steps"}`, false, ""},
		"a stream that does not":          {"/v1/runs?format=sse&on_disconnect=cancel", `{"workflow":"steps"}`, true, ""},
		"JSON Lines that do not":          {"/v1/runs", `{"workflow":"steps","format":"jsonl","on_disconnect":"cancel"}`, true, ""},
		"a document that is left":         {"/v1/runs", `{"workflow":"steps"}`, false, ""},
		"a document that is not":          {"/v1/runs", `{"workflow":"steps","on_disconnect":"cancel"}`, true, ""},
		"AG-UI":                           {"/v1/agui/steps", aguiSteps, false, ""},
		"AG-UI that cancels":              {"/v1/agui/steps?on_disconnect=cancel", aguiSteps, true, ""},
		"a chat":                          {"/v1/ui/steps?on_disconnect=continue", uiSteps, false, ""},
		"a chat that cancels":             {"/v1/ui/steps?on_disconnect=cancel", uiSteps, true, ""},
		"a completion":                    {completions, chatBody("steps", "{}", ""), true, ""},
		"a streamed completion":           {completions, chatBody("steps", "{}", streaming), true, ""},
		"a completion with a key":         {completions, chatBody("steps", "{}", ""), false, "Idempotency-Key: k"},
		"a streamed one with a key":       {completions, chatBody("steps", "{}", streaming), false, "Idempotency-Key: k"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, nil).serve()
			ctx, leave := context.WithCancel(t.Context())
			answered := make(chan struct{})
			go func() {
				defer close(answered)
				if resp, err := b.try(ctx, "POST", tt.path, tt.body, cmp.Or(tt.key, "X-None: x")); err == nil {
					_, _ = io.Copy(io.Discard, resp.Body)
					resp.Body.Close()
				}
			}()
			st := <-b.steps.came
			st.send("a", "b")
			leave()
			<-answered
			if tt.cancels {
				<-st.ctx.Done()
			} else {
				st.send("a", "c")
				st.finish()
			}
			want, result, reason := run.StatusCompleted, `{"a":"bc"}`, ""
			if tt.cancels {
				want, result, reason = run.StatusCanceled, `{"a":"b"}`, "the client disconnected"
			}
			d := readDocument(t, b.do("GET", "/v1/runs/"+st.m.ID()+"/events?format=json", ""))
			if d.Status != want || string(d.Result) != result || d.Reason != reason {
				t.Errorf("%+v %s", d, d.Result)
			}
		})
	}
	t.Run("with nobody to go away", func(t *testing.T) {
		b := newBench(t, nil).serve()
		p := readProblem(t, b.do("POST", "/v1/runs?on_disconnect=cancel", `{"workflow":"steps"}`, "Prefer: respond-async"))
		if p.Status != 400 || p.Errors[0].Parameter != "on_disconnect" {
			t.Errorf("%+v", p)
		}
	})
}
