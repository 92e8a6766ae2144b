package web

import (
	"context"
	"testing"

	"github.com/lingserve/lingserve/run"
	"github.com/lingserve/lingserve/runlog"
)

// slow is a log of runs whose tails are given when then has returned.
type slow struct {
	runlog.Shared
	then func(id string)
}

func (s *slow) Follow(ctx context.Context, id string) (runlog.Tail, error) {
	tail, err := s.Shared.Follow(ctx, id)
	if err == nil {
		s.then(id)
	}
	return tail, err
}

// CL-08: a run that is taken over while somebody begins to follow it here is this replica's: it can be canceled, and ends with the server.
func TestARunThatIsTakenOverWhileItIsLookedForIsHere(t *testing.T) {
	g := newGroup(t)
	a := g.replica(func(o *Options) { anew(o, scriptedBy(hangs("old words"))) })
	var b *replica
	b = g.replica(func(o *Options) {
		anew(o, scriptedBy(hangs("new words")))
		shared := *o.Shared
		shared.Runs = &slow{shared.Runs, func(id string) {
			if b.s.runs.Inspect().Own(id) == nil && !b.s.runs.Inspect().Adopt(t.Context(), id, a.shared.Control.Replica()) {
				t.Error("it cannot be taken over")
			}
		}}
		o.Shared = &shared
	})
	id := a.do("POST", "/v1/runs", `{"workflow":"anew","input":{"q":"x"}}`, "Prefer: respond-async").Header.Get("X-Run-Id")
	c := g.replica(nil)
	eventually(t, "all that it says is stored", func() bool { // who still writes is not taken for dead
		return string(readDocument(t, c.do("GET", "/v1/runs/"+id, "")).Result) == `{"answer":"old words"}`
	})
	if d := readDocument(t, b.do("GET", "/v1/runs/"+id, "")); d.Status != run.StatusRunning {
		t.Errorf("%+v", d)
	}
	if b.s.runs.Inspect().Own(id) == nil {
		t.Fatal("who has it does not know that")
	}
	if r := b.do("POST", "/v1/runs/"+id+"/cancel", ""); r.StatusCode != 202 {
		t.Fatalf("%d: %s", r.StatusCode, text(t, r))
	}
	if d := readDocument(t, b.do("GET", "/v1/runs/"+id+"/events?format=json", "")); d.Status != run.StatusCanceled {
		t.Errorf("%+v", d)
	}
}
