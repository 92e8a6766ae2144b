package run

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/lingserve/lingserve/access"
	"github.com/lingserve/lingserve/agent"
	"github.com/lingserve/lingserve/ling"
	"github.com/lingserve/lingserve/tube"
	"github.com/lingserve/lingserve/turn"
)

// leftRun is a run that its replica has left.
type leftRun struct {
	origin
	stored
	queued  bool // its turn has not begun for certain
	attempt int  // of the replica that takes it over
	crashes int  // in a row
	told    agent.Told
	end     *ling.ErrorData // why it does not go on; nil: it does
	// suspended says that it waited for people, and nothing was lost. questions are the ids of those that readers know.
	suspended bool
	questions map[string]bool

	// Of a workflow: it begins when the one before it has begun, or has been canceled.
	after, begins chan struct{}
}

// cutMessage is the error of a run that ended with its server.
const cutMessage = "the server stopped during this run; the run's events so far are kept"

// otherKey follows why a run with an Idempotency-Key was cut off.
const otherKey = "; start it again with another Idempotency-Key"

// Epoch is how many event numbers each attempt of a run has, and its end after a crash. No attempt sends so many events, so a number never means
// two events, even if the first one was not stored. Numbers stay far below 2⁵³.
const Epoch = 1 << 32

// firstEvent returns the number of the first event of the next attempt. No reader has seen it, or one behind it.
func (p *leftRun) firstEvent() uint64 {
	return max((p.tube.Len()/Epoch+1)*Epoch, uint64(p.attempt-1)*Epoch)
}

// endLeft ends a run that was taken over and does not go on.
func (s *Service) endLeft(p *leftRun) {
	over := hasEnded(p.tube)
	if !over {
		p.tube.Leap(p.firstEvent())
		if p.Keyed {
			p.end.Message += otherKey
		}
		status := StatusInterrupted
		if p.end.Code == codeCrashed {
			status = StatusFailed
		}
		_, _ = p.tube.Send(tube.Event{Kind: tube.Named, Name: "error", Value: mustJSON(p.end)}) // cannot fail: it goes on
		_ = p.tube.Close(status)
	}
	r := newRun(p.origin)
	r.tube, r.recording = p.tube, &recording{attempt: p.attempt, seq: 1}
	r.result = r.resultOf(ling.ResultOf(p.tube))
	r.result.Session = p.Session
	close(r.done)
	switch {
	case !s.storeEnd(r), over:
	case p.end.Code == codeCrashed:
		s.log.ErrorContext(r.Context(), "run ended: servers crashed again and again during it", "run", r.ID, r.Of.attr(), "crashes", p.crashes)
	default:
		s.log.WarnContext(r.Context(), "run cut off: its server ended", "run", r.ID, "events", r.tube.Len()%Epoch)
	}
}

// interrupted is the error of a run that cannot go on. reason follows the sentence.
func interrupted(reason string) *ling.ErrorData {
	return &ling.ErrorData{Code: codeInternal, Message: cutMessage + reason, Retryable: true, Fatal: true}
}

// whyNotResumed returns how a run ends that was cut off and does not go on; nil where it goes on.
func whyNotResumed(p *leftRun) *ling.ErrorData {
	switch {
	case p.Again == nil, hasEnded(p.tube):
		return interrupted("")
	case p.crashes >= MaxCrashes:
		message := fmt.Sprintf("the server stopped %d times in a row during this run, so the run does not continue", p.crashes)
		return &ling.ErrorData{Code: codeCrashed, Message: message, Fatal: true}
	}
	return nil
}

// MaxCrashes is how many servers in a row a run may crash before it finishes a step: the run may be the reason.
const MaxCrashes = 3

// resumeAll lets runs go on, the oldest first. What cannot go on ends.
func (s *Service) resumeAll(list []*leftRun) {
	for _, p := range list {
		err := s.resume(p)
		switch {
		case passes(err):
			s.log.Info("cannot resume a run now; it is handed over", "run", p.ID, "error", err)
			if err := s.store.Release(s.ctx, s.replica, []string{p.ID}); err != nil {
				s.log.Warn("cannot hand runs over; they are taken as after a crash", "error", err)
			}
		case err != nil:
			s.log.Warn("cannot resume a run", "run", p.ID, "error", err)
			p.end = interrupted("; it cannot continue, because its workflow or agent has changed")
			s.endLeft(p)
		}
	}
}

// passes reports whether a run that cannot go on now may go on later, or elsewhere.
func passes(err error) bool {
	return errors.Is(err, ErrDraining) || errors.Is(err, ErrAway) || errors.Is(err, ErrOverloaded) || errors.Is(err, ErrBusy)
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
