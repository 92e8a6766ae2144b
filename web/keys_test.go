package web

import (
	"io/fs"
	"net/http"
	"testing"

	"github.com/lingserve/lingserve/web/wire"
)

// FT-28: however a request is written and answered, its key leads to the run that it started first.
func TestARepeatedStartAttachesToTheFirstRun(t *testing.T) {
	b := newBench(t, nil).serve()
	body := `{"workflow":"steps","input":{"a":[1,2]}}`
	first := b.do("POST", "/v1/runs?format=sse", body, "Idempotency-Key: k1")
	st := <-b.steps.came
	st.send("a", "b")
	second := b.do("POST", "/v1/runs", `{"format":"sse","input":{"a":[1, 2]},"workflow":"steps"}`, "Idempotency-Key: k1")
	async := b.do("POST", "/v1/runs", body, "Idempotency-Key: k1", "Prefer: respond-async")
	st.finish()
	later := b.do("GET", "/v1/runs?workflow=steps&key=k1&format=sse&input="+`%7B%22a%22:[1,2]%7D`, "")
	for name, resp := range map[string]*http.Response{"while it runs": second, "async": async, "later": later} {
		if resp.Header.Get("X-Run-Id") != first.Header.Get("X-Run-Id") || resp.Header.Get("Idempotency-Replayed") != "true" {
			t.Errorf("%s: %v", name, resp.Header)
		}
	}
	for _, resp := range []*http.Response{first, second, later} {
		if f := fold(t, resp); f.json() != `{"a":"b"}` || f.terminal != `finished{"status":"completed"}` {
			t.Errorf("%s %s", f.json(), f.terminal)
		}
	}
	for _, other := range []string{`{"workflow":"nope","input":{"a":[1,2]}}`, `{"workflow":"steps","input":{"a":[1,2]},"model":"test:facts"}`} {
		if p := readProblem(t, b.do("POST", "/v1/runs", other, "Idempotency-Key: k1")); p.Status != 422 || p.Code != wire.CodeInvalid {
			t.Errorf("%s: %+v", other, p)
		}
	}
	if p := readProblem(t, b.do("GET", "/v1/runs?workflow=steps&key=a", "", "Idempotency-Key: b")); p.Status != 400 || b.steps.started() != 1 {
		t.Errorf("%+v, %d runs", p, b.steps.started())
	}
}

// FT-28
func TestAFailureIsKeptUnderItsKeyAndARefusalIsNot(t *testing.T) {
	b := newBench(t, func(o *Options) { o.MaxRuns = 1 }).serve()
	for _, refused := range []string{`{"workflow":"steps"`, `{"workflow":"nope"}`, `{"workflow":"chat","input":""}`, `{"workflow":"steps","model":"x"}`} {
		if p := readProblem(t, b.do("POST", "/v1/runs", refused, "Idempotency-Key: k")); p.Status >= 500 {
			t.Errorf("%+v", p)
		}
	}
	_, busy := b.startAsync()
	if p := readProblem(t, b.do("POST", "/v1/runs", `{"workflow":"steps"}`, "Idempotency-Key: k")); p.Status != 503 {
		t.Errorf("%+v", p)
	}
	busy.finish()
	<-b.runOf(busy.m.ID()).Done()
	var resp *http.Response
	eventually(t, "a place is free", func() bool {
		resp = b.do("POST", "/v1/runs", `{"workflow":"steps"}`, "Idempotency-Key: k", "Prefer: respond-async")
		return resp.StatusCode == 202
	})
	st := <-b.steps.came
	st.fail(fs.ErrInvalid)
	for range 2 {
		p := readProblem(t, b.do("POST", "/v1/runs", `{"workflow":"steps"}`, "Idempotency-Key: k"))
		if p.Status != 500 || p.Run != st.m.ID() {
			t.Errorf("%+v", p)
		}
	}
	if b.steps.started() != 2 {
		t.Errorf("%d runs", b.steps.started())
	}
}
