package web

import (
	"strings"
	"testing"
	"time"

	"github.com/lingserve/lingserve/run"
)

// CL-07: what was cut off by the end of its replica is interrupted in the log, and on the tape: once, and before any reader is told.
func TestATurnThatADeadReplicaRanHasNoEndOnItsTape(t *testing.T) {
	g := newGroup(t)
	a, dying := g.agents()
	b, _ := g.agents()
	b.s.runs.Inspect().Times().Cut = time.Minute // a tape that cannot be reached so soon is told by the next turn
	id := a.say("wait", "", "Prefer: respond-async").Header.Get("X-Run-Id")
	<-a.talk.waits
	dying.Kill()
	if d := readDocument(t, b.do("GET", "/v1/runs/"+id+"/events?format=json", "")); d.Status != run.StatusInterrupted {
		t.Fatalf("%+v", d)
	}
	if said := b.tapeOf("s"); strings.Count(said, `"turn.aborted","data":{"turn":"`+id+`"}`) != 1 {
		t.Error(said)
	}
	if d := readDocument(t, b.say("again", "")); d.Status != run.StatusCompleted {
		t.Errorf("%+v", d)
	}
	if said := b.tapeOf("s"); strings.Count(said, "turn.aborted") != 1 {
		t.Error(said)
	}
}
