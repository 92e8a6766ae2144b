package web

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
)

// CL-04, CL-11: a replica that is told to go while the end of a run cannot be stored tells nobody of that end, whoever comes still: what it has
// shown of the document is not what the run has made. When it is stored, all have all of it.
func TestNobodyIsToldOfAnEndThatIsNotStored(t *testing.T) {
	g := newGroup(t)
	a, b := g.replica(nil), g.replica(nil)
	a.s.runs.storedWait = 10 * time.Millisecond
	const steps, chat = `{"workflow":"steps"}`, `{"model":"steps","messages":[{"role":"user","content":"{}"}]}`
	id, st := a.startAsync("Idempotency-Key: k")
	completion := make(chan struct{})
	asked, cancel := context.WithCancel(t.Context())
	go func() {
		defer close(completion)
		if resp, err := a.try(asked, "POST", "/v1/chat/completions", chat, "Idempotency-Key: c"); err == nil {
			t.Errorf("%d: %s", resp.StatusCode, text(t, resp))
		}
	}()
	completed := <-a.steps.came
	other := completed.m.ID()
	eventually(t, "both have begun", func() bool {
		r, x := a.s.runs.own(id), a.s.runs.own(other)
		return r != nil && x != nil && r.tube.Len() > 0 && x.tube.Len() > 0
	})
	cancel() // it has a key, and goes on
	<-completion
	whole := g.servers.Divert(g.prefix+".runs.*", func(*nats.Msg) *nats.Msg { return nil })
	for _, st := range []*stepped{st, completed} {
		st.send("a", "one")
		st.finish()
	}
	mine, its := a.s.runs.own(id), a.s.runs.own(other)
	eventually(t, "both have made what they make", func() bool {
		return mine.manager.Load().Outcome().Status == statusCompleted && its.manager.Load().Outcome().Status == statusCompleted
	})
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := a.s.Drain(over); err != nil {
		t.Fatal(err)
	}
	<-mine.done
	<-its.done
	for range 10 { // it is chance which of two reasons not to wait any more a client meets
		if resp, err := a.try(t.Context(), "POST", "/v1/runs", steps, "Idempotency-Key: k"); err == nil {
			t.Fatalf("%d: %s", resp.StatusCode, text(t, resp))
		}
		if resp, err := a.try(t.Context(), "POST", "/v1/chat/completions", chat, "Idempotency-Key: c"); err == nil {
			t.Fatalf("%d: %s", resp.StatusCode, text(t, resp))
		}
	}
	if d := readDocument(t, a.do("GET", "/v1/runs/"+id, "")); d.Status != statusRunning || string(d.Result) != "{}" {
		t.Errorf("%s %s", d.Status, d.Result)
	}
	whole()
	const want = `{"a":"one"}`
	if d := b.repeat(steps, "Idempotency-Key: k"); d.Run != id || d.Status != statusCompleted || string(d.Result) != want {
		t.Errorf("%s %s %s", d.Run, d.Status, d.Result)
	}
	eventually(t, "its end is known where it ran", mine.ended)
	if d := readDocument(t, a.do("GET", "/v1/runs/"+id, "")); d.Status != statusCompleted || string(d.Result) != want {
		t.Errorf("%s %s", d.Status, d.Result)
	}
}
