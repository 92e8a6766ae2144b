package web

import (
	"encoding/json"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/lingserve/lingserve/web/wire"
)

// engineOf is an engine that is away when it is said to be.
type engineOf struct{ away atomic.Bool }

func (e *engineOf) Away() bool { return e.away.Load() }

// CL-10: while the engine is away the server is not ready and begins nothing; overload alone makes it no less ready.
func TestTheEngineIsAway(t *testing.T) {
	e := &engineOf{}
	b := newBench(t, func(o *Options) { o.Engine = e }).serve()
	ready := func(status int, want health) {
		t.Helper()
		resp := b.do("GET", "/readyz", "")
		var got health
		if err := json.NewDecoder(resp.Body).Decode(&got); err != nil {
			t.Fatal(err)
		}
		if resp.StatusCode != status || got.Status != want.Status || got.Engine != want.Engine || len(got.Overloaded) != len(want.Overloaded) {
			t.Errorf("%d %+v, want %d %+v", resp.StatusCode, got, status, want)
		}
		if (resp.Header.Get("Retry-After") != "") != (status == 503) {
			t.Errorf("Retry-After: %q", resp.Header.Get("Retry-After"))
		}
	}
	const body = `{"workflow":"steps","input":{"a":[1]}}`
	ready(200, health{Status: "ready"})
	going := b.do("POST", "/v1/runs?format=sse", body, "Idempotency-Key: k")
	st := <-b.steps.came
	e.away.Store(true)
	ready(503, health{Status: "away", Engine: "away"})
	if resp := b.do("GET", "/healthz", ""); resp.StatusCode != 200 {
		t.Errorf("/healthz: %d", resp.StatusCode)
	}
	resp := b.do("POST", "/v1/runs", body)
	if p := readProblem(t, resp); p.Status != 503 || p.Code != wire.CodeOverloaded || resp.Header.Get("Retry-After") == "" {
		t.Errorf("a new run: %+v", p)
	}
	// What goes on does, and who comes back to it begins nothing.
	again := b.do("POST", "/v1/runs?format=sse", body, "Idempotency-Key: k")
	st.send("a", "b")
	st.finish()
	for _, resp := range []*http.Response{going, again} {
		if f := fold(t, resp); f.json() != `{"a":"b"}` || f.terminal != `finished{"status":"completed"}` {
			t.Errorf("%s %s", f.json(), f.terminal)
		}
	}
	e.away.Store(false)
	b.s.shed.memory.over.Store(true)
	ready(200, health{Status: "ready", Overloaded: []string{"memory"}})
	e.away.Store(true)
	ready(503, health{Status: "away", Engine: "away", Overloaded: []string{"memory"}})
}
