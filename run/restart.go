package run

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/lingserve/lingserve/access"
	"github.com/lingserve/lingserve/internal/wording"
	"github.com/lingserve/lingserve/tool"
	"github.com/lingserve/lingserve/tube"
	"github.com/lingserve/lingserve/turn"
)

// restart is what a run is run again from after a restart, as its workflow wants it.
type restart struct {
	request Request
	failed  int       // attempts that have ended with a crash
	from    uint64    // number of its first event: those of earlier attempts are below
	began   time.Time // the first attempt
	role    tool.Role // of who has started it
	beside  []byte    // what stood beside the document of the attempt before, by uri
	keyed   bool      // it was started with a key, which leads to it still
	slot    *slot     // among those that are run again; nil for one that need not wait
	row     int       // the number of its attempt in the store; 0: the first
}

// number is that of the attempt in the store.
func (a *restart) number() int {
	if a == nil {
		return 1
	}
	return max(a.row, 1)
}

// firstEvent is the number of the first event.
func (a *restart) firstEvent() uint64 {
	if a == nil {
		return 0
	}
	return a.from
}

// takeBack takes back what stands beside the document of those who come back: a snapshot replaces only what there is in its place.
func (a *restart) takeBack(t *tube.Tube) {
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

// MaxAttempts is how often a run is started, all in all: one that makes the server crash must not do so for ever.
const MaxAttempts = 3

// RestartsAtOnce is how many restarted runs work at the same time. All that ten thousand clients had begun in an hour would
// otherwise ask the models in one second, beside those who ask now, and be refused there.
const RestartsAtOnce = 16

// slot is that of a run among those that are run again: it waits for its turn, and leaves it to the next. The run is there meanwhile, for
// those who come back, and can be canceled.
type slot struct {
	granted chan struct{} // closed when it may begin
	slots   chan struct{} // what it gives back; one element for each that goes on
	state   atomic.Int32
}

// States of a place.
const (
	slotWaits = iota
	slotTaken // it may begin, and has a slot
	slotLeft  // it will not
)

// waits says whether it has not begun.
func (p *slot) waits() bool { return p != nil && p.state.Load() == slotWaits }

// wait waits for the turn. The error is ctx's cause.
func (p *slot) wait(ctx context.Context) error {
	if p == nil {
		return nil
	}
	select {
	case <-p.granted:
		return nil
	case <-ctx.Done():
		if p.state.CompareAndSwap(slotWaits, slotLeft) || p.state.Load() == slotLeft {
			return context.Cause(ctx)
		}
		return nil // it was its turn at the same time; what follows sees ctx, too
	}
}

// leave gives the slot to the next.
func (p *slot) leave() {
	if p != nil {
		<-p.slots
	}
}

// take begins it with a slot of which the caller has had one; false where it has left meanwhile.
func (p *slot) take() bool {
	if !p.state.CompareAndSwap(slotWaits, slotTaken) {
		return false
	}
	close(p.granted)
	return true
}

// restartAll starts once more what a restart has cut off, the oldest first and not all at once. What cannot be started any more has ended.
func (s *Service) restartAll(list []*leftRun) {
	var waiting []*Run
	for _, p := range list {
		r, err := s.restartRun(p)
		if err != nil {
			s.log.Warn("cannot restart a run", "run", p.id, "error", err)
			s.endTaken(p, cutMessage+"; it cannot restart")
			continue
		}
		if r.restart.slot != nil {
			waiting = append(waiting, r)
		}
	}
	if n := len(waiting) - cap(s.slots); n > 0 {
		s.log.Info("runs wait to be restarted", "waiting", n, "at_once", cap(s.slots))
	}
	if len(waiting) > 0 {
		s.wg.Go(func() { s.grantSlots(waiting) })
	}
}

// grantSlots gives those that wait their turn, while there is memory for them, until the server ends.
func (s *Service) grantSlots(list []*Run) {
	tick := time.NewTicker(memoryPause)
	defer tick.Stop()
	for _, r := range list {
		select {
		case s.slots <- struct{}{}:
		case <-s.ctx.Done():
			return
		}
		for s.o.Pressure.LowMemory() {
			select {
			case <-tick.C:
			case <-s.ctx.Done():
				return
			}
		}
		if !r.restart.slot.take() {
			<-s.slots
			continue
		}
		s.log.InfoContext(r.Context(), "run restarted", "run", r.ID, r.Of.attr(), "attempt", r.restart.failed+1)
	}
}

func (s *Service) restartRun(p *leftRun) (*Run, error) {
	who := access.Principal{Name: cmp.Or(p.owner, access.Local.Name), Role: p.Role}
	sp, problem := s.prepare(who, p.Again, p.id) // what it may run, it was asked when it was begun first
	if problem != nil {
		return nil, problem
	}
	if sp.agent != nil { // a message that waits for its turn
		sp.restart, sp.request, sp.agent.policy = new(restart), p.Again, turn.Queue
	}
	if sp.restart == nil {
		return nil, fmt.Errorf("the workflow %s no longer allows a restart", wording.Quote(p.Again.Workflow))
	}
	sp.owner, sp.caller, sp.keyTag = p.owner, p.Caller, p.KeyTag
	before := p.tube
	_, beside := before.Snapshot(false)
	*sp.restart = restart{
		request: *p.Again, role: p.Role, failed: p.failed, from: p.firstEvent(), row: p.attempt, beside: beside, began: p.at, keyed: p.Keyed,
		slot: &slot{granted: make(chan struct{}), slots: s.slots},
	}
	if sp.agent != nil {
		sp.restart.slot = nil
		took := s.startAgent(sp)
		if took.run == nil && took.err == nil {
			took.err = errors.New("another turn took its message")
		}
		return took.run, took.err
	}
	return s.start(sp)
}

// memoryPause is between looks whether there is memory to restart the next run.
const memoryPause = 250 * time.Millisecond
