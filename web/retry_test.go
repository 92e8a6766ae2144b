package web

import (
	"testing"
	"time"

	"github.com/lingserve/lingserve/adapter"
)

// DH-02: a run that failed for a passing reason before it made anything frees its key. All others keep it.
func TestAPassingFailureFreesItsKey(t *testing.T) {
	limited := &adapter.Error{Code: adapter.CodeRateLimited, Message: "too many requests", Retryable: true, RetryAfter: 7 * time.Second}
	const key = "Idempotency-Key: k"
	for name, request := range map[string][2]string{
		"run":             {"/v1/runs", `{"workflow":"steps"}`},
		"chat completion": {completions, chatBody("steps", "{}", "")},
		"stream":          {completions, chatBody("steps", "{}", streaming)},
		"object":          {"/v1/ui/steps/object", `{}`},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, nil).serve()
			for range 2 { // the second attempt frees it too
				answered := b.post(request[0], request[1], key)
				(<-b.steps.came).fail(limited)
				if resp := <-answered; resp.StatusCode != 429 || resp.Header.Get("Idempotency-Replayed") != "" || resp.Header.Get("Retry-After") == "" {
					t.Fatalf("%d %v", resp.StatusCode, resp.Header)
				}
			}
			answered := b.post(request[0], request[1], key)
			st := <-b.steps.came
			st.set("a", "1")
			st.finish()
			if resp := <-answered; resp.StatusCode != 200 || resp.Header.Get("Idempotency-Replayed") != "" {
				t.Errorf("%d %v", resp.StatusCode, resp.Header)
			}
		})
	}
	for name, fail := range map[string]func(st *stepped){
		"a lasting failure": func(st *stepped) {
			st.fail(&adapter.Error{Code: adapter.CodeAuth, Message: "the key was refused"})
		},
		"a failure with a part of the answer": func(st *stepped) {
			st.set("a", "1")
			st.fail(limited)
		},
		"a failure with a tool call": func(st *stepped) {
			st.set("a/$tools/0", `{"id":"c"}`)
			st.fail(limited)
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, nil).serve()
			answered := b.post("/v1/runs", `{"workflow":"steps"}`, key)
			fail(<-b.steps.came)
			first := (<-answered).Header.Get("X-Run-Id")
			if again := b.do("POST", "/v1/runs", `{"workflow":"steps"}`, key); again.Header.Get("X-Run-Id") != first || again.Header.Get("Idempotency-Replayed") != "true" {
				t.Errorf("%d %v, the first is %s", again.StatusCode, again.Header, first)
			}
		})
	}
}
