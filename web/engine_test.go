package web

import (
	"net/http"
	"strings"
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
	ready := func(status int, says string) {
		t.Helper()
		got := b.whole("GET", "/readyz", "")
		if got.Status != status || !strings.Contains(got.Body, says) || (got.Header.Get("Retry-After") != "") != (status == 503) {
			t.Errorf("%+v, want %d %s", got, status, says)
		}
	}
	const body = `{"workflow":"steps","input":{"a":[1]}}`
	ready(200, `"status":"ready"`)
	going := b.do("POST", "/v1/runs?format=sse", body, "Idempotency-Key: k")
	st := <-b.steps.came
	e.away.Store(true)
	ready(503, `"status":"away","version":"1.2.3","database":"away"`)
	if resp := b.do("GET", "/healthz", ""); resp.StatusCode != 200 {
		t.Errorf("/healthz: %d", resp.StatusCode)
	}
	turnedAway(t, b.do("POST", "/v1/runs", body), 503, wire.CodeOverloaded, "")
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
	ready(200, `"overloaded":["memory"]`)
}
