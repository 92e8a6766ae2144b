package web

import (
	"testing"
	"time"

	"github.com/lingserve/lingserve/web/wire"
)

// CL-10, RU-03: nobody is told the id of a run that the other replicas cannot know, since nothing of it is stored: who begins it is told to come back.
func TestARunWhoseBeginningCannotBeStoredIsRefused(t *testing.T) {
	g := newGroup(t)
	a, b := g.replica(nil), g.replica(nil)
	a.s.runs.Inspect().Times().Begin = 50 * time.Millisecond
	whole := g.loseWrites()
	body := `{"workflow":"steps"}`
	for _, header := range []string{"Accept: text/event-stream", "Prefer: respond-async", "Accept: application/json", "Idempotency-Key: k"} {
		resp := a.do("POST", "/v1/runs", body, header)
		if p := readProblem(t, resp); resp.StatusCode != 503 || p.Code != wire.CodeOverloaded || resp.Header.Get("Retry-After") == "" || resp.Header.Get("X-Run-Id") != "" {
			t.Errorf("%s: %d %+v %v", header, resp.StatusCode, p, resp.Header)
		}
		st := <-a.steps.came
		if header != "Idempotency-Key: k" {
			<-st.ctx.Done() // nobody could ever ask for it
			continue
		}
		defer st.finish()
	}
	whole()
	id := ""
	for id == "" { // with the key, it is found when it is stored
		resp := b.do("POST", "/v1/runs", body, "Idempotency-Key: k", "Prefer: respond-async")
		if resp.StatusCode != 503 && resp.StatusCode != 202 {
			t.Fatalf("%d: %s", resp.StatusCode, text(t, resp))
		}
		id = resp.Header.Get("X-Run-Id")
	}
	if n := len(b.steps.came); n > 0 {
		t.Error("it was begun twice")
	}
}
