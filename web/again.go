package web

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/lingserve/lingserve/access"
	"github.com/lingserve/lingserve/tool"
	"github.com/lingserve/lingserve/tube"
)

// again is what a run is run again from after a restart, as its workflow wants it.
type again struct {
	ask     ask
	attempt int       // how often it was begun before, and has ended with the server's crash
	from    uint64    // number of its first event: those of earlier attempts are below
	began   time.Time // the first attempt
	role    tool.Role // of who has started it
	beside  []byte    // what stood beside the document of the attempt before, by uri
	keyed   bool      // it was started with a key, which leads to it still
}

// first is the number of the first event.
func (a *again) first() uint64 {
	if a == nil {
		return 0
	}
	return a.from
}

// reset takes back what stands beside the document of those who come back: a snapshot replaces only what there is in its place.
func (a *again) reset(t *tube.Tube) {
	if a == nil || len(a.beside) == 0 {
		return
	}
	var beside map[string]json.RawMessage
	_ = json.Unmarshal(a.beside, &beside) // our own
	for _, uri := range slices.Sorted(maps.Keys(beside)) {
		_, _ = t.Send(tube.Event{Kind: tube.Set, URI: []byte(uri), Value: []byte("null")})
	}
	a.beside = nil
}

// maxAttempts is how often a run is begun, all in all: one that makes the server crash must not do so for ever.
const maxAttempts = 3

// comesAgain says whether an ended run is to be run again by the next server: it was cut off by the end of this one.
func (r *run) comesAgain() bool { return r.again != nil && r.outcome.Status == statusInterrupted }

// startAgain starts once more what a restart has cut off. What cannot be started any more has ended.
func (s *Server) startAgain() {
	list := s.runs.cutOff
	s.runs.cutOff = nil
	for _, p := range list {
		if err := s.runAgain(p); err != nil {
			s.log.Warn("a run that a restart has cut off cannot be run again", "run", p.Run, "error", err)
			s.runs.put(p.run(cutMessage + "; it cannot be run again"))
		}
	}
}

func (s *Server) runAgain(p *replayed) error {
	who := access.Principal{Name: cmp.Or(p.Owner, access.Local.Name), Role: p.Role}
	sp, problem := s.prepare(who, p.Again) // what it may run, it was asked when it was begun first
	if problem != nil {
		return problem
	}
	if sp.again == nil {
		return fmt.Errorf("the workflow %s does not say restart any more", quote(p.Again.Workflow))
	}
	sp.id, sp.owner, sp.caller = p.Run, p.Owner, p.Caller
	before := p.replay.Tube()
	_, beside := before.Snapshot(false)
	*sp.again = again{ask: *p.Again, role: p.Role, attempt: p.Attempt, from: nextEpoch(before), beside: beside, began: p.Began, keyed: p.Keyed}
	sp.follows = true // it was let in before
	r, _, problem := s.runs.start(sp)
	if problem != nil {
		return problem
	}
	s.log.Info("run again after a restart", "run", r.id, r.of.attr(), "attempt", p.Attempt+1)
	return nil
}
