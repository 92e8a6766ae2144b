package web

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
)

// CL-09: while the database is away the server is not ready; overload alone makes it no less ready.
func TestTheDatabaseIsAway(t *testing.T) {
	var away atomic.Bool
	b := newBench(t, func(o *Options) { o.Away = away.Load }).serve()
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
	away.Store(true)
	ready(503, `"status":"away","version":"1.2.3","database":"away"`)
	if resp := b.do("GET", "/healthz", ""); resp.StatusCode != 200 {
		t.Errorf("/healthz: %d", resp.StatusCode)
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
	away.Store(false)
	b.s.shed.memory.over.Store(true)
	ready(200, `"overloaded":["memory"]`)
}
