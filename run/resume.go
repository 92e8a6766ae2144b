package run

import (
	"cmp"
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/lingserve/lingserve/access"
	"github.com/lingserve/lingserve/turn"
)

// resumed is a run that goes on after its server was lost.
type resumed struct {
	*leftRun
	slot *slot // among those that go on; nil for one that need not wait
}

// MaxCrashes is how many servers in a row a run may crash before it finishes a step: the run may be the reason.
const MaxCrashes = 3

// RestartsAtOnce is how many resumed runs work at the same time. All that ten thousand clients had begun in an hour would
// otherwise ask the models in one second, beside those who ask now, and be refused there.
const RestartsAtOnce = 16

// slot is that of a run among those that go on: it waits for its turn, and leaves it to the next. The run is there meanwhile, for
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

// resumeAll lets runs go on, the oldest first and not all at once. What cannot go on ends.
func (s *Service) resumeAll(list []*leftRun) {
	var waiting []*Run
	for _, p := range list {
		r, err := s.resume(p)
		if err != nil {
			s.log.Warn("cannot resume a run", "run", p.id, "error", err)
			s.endTaken(p, interruptedEnd("; it cannot continue, because its workflow or agent has changed"))
			continue
		}
		if r.resumed.slot != nil {
			waiting = append(waiting, r)
		}
	}
	if n := len(waiting) - cap(s.slots); n > 0 {
		s.log.Info("runs wait to be resumed", "waiting", n, "at_once", cap(s.slots))
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
		if !r.resumed.slot.take() {
			<-s.slots
			continue
		}
		s.log.InfoContext(r.Context(), "run resumed", "run", r.ID, r.Of.attr(), "attempt", r.resumed.attempt)
	}
}

// resume lets a run go on that was taken over.
func (s *Service) resume(p *leftRun) (*Run, error) {
	who := access.Principal{Name: cmp.Or(p.owner, access.Local.Name), Role: p.Role}
	sp, err := s.prepare(who, p.Again, p.id) // what it may run, it was asked when it began
	if err != nil {
		return nil, err
	}
	if sp.request == nil {
		return nil, errors.New("its workflow does not allow it (resume: false)")
	}
	sp.owner, sp.caller, sp.keyTag = p.owner, p.Caller, p.KeyTag
	sp.resumed = &resumed{leftRun: p}
	if !p.suspended { // else readers have seen what is stored, and nothing more
		p.tube.Leap(p.firstEvent())
	}
	if sp.agent == nil {
		sp.resumed.slot = &slot{granted: make(chan struct{}), slots: s.slots}
		return s.start(sp)
	}
	sp.agent.policy, sp.agent.unattended = turn.Queue, p.Unattended
	sp.agent.envelope.Extra[turn.ExtraResumed] = true
	took := s.startAgent(sp)
	if took.run == nil && took.err == nil {
		took.err = errors.New("another turn took its message")
	}
	return took.run, took.err
}

// memoryPause is between looks whether there is memory to resume the next run.
const memoryPause = 250 * time.Millisecond
