package run

import (
	"cmp"
	"errors"
	"time"

	"github.com/lingserve/lingserve/access"
	"github.com/lingserve/lingserve/internal/backoff"
	"github.com/lingserve/lingserve/turn"
)

// MaxCrashes is how many servers in a row a run may crash before it finishes a step: the run may be the reason.
const MaxCrashes = 3

// RestartsAtOnce is how many resumed runs work at the same time. All that ten thousand clients had begun in an hour would
// otherwise ask the models in one second, beside those who ask now, and be refused there.
const RestartsAtOnce = 16

// resumeAll lets runs go on, the oldest first and not all at once. What cannot go on ends.
func (s *Service) resumeAll(list []*leftRun) {
	var waiting []*leftRun
	for _, p := range list {
		if err := s.resume(p); err != nil {
			s.log.Warn("cannot resume a run", "run", p.ID, "error", err)
			s.endLeft(p, interrupted("; it cannot continue, because its workflow or agent has changed"))
		} else if p.slot != nil {
			waiting = append(waiting, p)
		}
	}
	if n := len(waiting) - cap(s.slots); n > 0 {
		s.log.Info("runs wait to be resumed", "waiting", n, "at_once", cap(s.slots))
	}
	if len(waiting) > 0 {
		s.wg.Go(func() { s.grantSlots(waiting) })
	}
}

// grantSlots gives runs that wait a slot each, while there is memory for them, until the server ends.
func (s *Service) grantSlots(list []*leftRun) {
	for _, p := range list {
		select {
		case s.slots <- struct{}{}:
		case <-s.ctx.Done():
			return
		}
		for s.o.Pressure.LowMemory() {
			if backoff.Sleep(s.ctx, memoryPause) != nil {
				return
			}
		}
		select {
		case p.slot <- struct{}{}:
		case <-p.canceled:
			<-s.slots
		}
	}
}

// resume lets a run go on that was taken over.
func (s *Service) resume(p *leftRun) error {
	who := access.Principal{Name: cmp.Or(p.owner, access.Local.Name), Role: p.Role}
	sp, err := s.prepare(who, p.Again, p.ID) // what it may run, it was asked when it began
	if err != nil {
		return err
	}
	if sp.Again == nil {
		return errors.New("its workflow does not allow it (resume: false)")
	}
	sp.origin, sp.resumed, sp.queued = p.origin, p, true
	if !p.suspended { // else readers have seen what is stored, and nothing more
		p.tube.Leap(p.firstEvent())
	}
	if sp.agent == nil {
		p.slot = make(chan struct{})
		_, err = s.start(sp)
		return err
	}
	sp.agent.policy = turn.Queue
	sp.agent.envelope.Extra[turn.ExtraResumed] = true
	_, host, err := s.startAgent(sp)
	if host != "" {
		err = errors.New("another turn took its message")
	}
	return err
}

// memoryPause is between looks whether there is memory to resume the next run.
const memoryPause = 250 * time.Millisecond
