package run

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/lingserve/lingserve/control"
	"github.com/lingserve/lingserve/tape"
	"github.com/lingserve/lingserve/web/once"
)

// forwardMessage hands a message to the replica that has its session. ok is false where it is to be started here. It is asked for again
// with the same id, of whoever has the session then, until it is known what became of it: as long as that is not, it is not started here.
func (s *Service) forwardMessage(ctx context.Context, req *Request, sp *spec) (t report, ok bool) {
	if replica, err := s.elsewhere(ctx, sp.lane()); err == nil && replica == "" && !sp.inDoubt {
		return t, false
	}
	waiting, cancel := context.WithTimeout(ctx, s.o.Times.Hand)
	defer cancel()
	as := *req
	if as.Session == "" {
		as.Session = sp.session
	}
	for {
		replica, err := s.elsewhere(waiting, sp.lane())
		switch {
		case err != nil:
			s.log.WarnContext(ctx, "unknown which replica has a session", "error", err)
		case replica == "" && !sp.inDoubt:
			return t, false
		case replica == "":
			var run string
			if run, err = s.takenBefore(waiting, sp.lane(), sp.id); err == nil {
				return report{Run: run, Again: true}, run != ""
			}
		default:
			t, ok, err = s.handMessage(waiting, replica, &as, sp)
			if ok {
				return t, true
			}
		}
		if !sp.inDoubt {
			if err == nil || !errors.Is(err, control.ErrAway) {
				return t, false // it waits here until it can have the session
			}
			return reportOf(away()), true
		}
		select {
		case <-time.After(handPause):
		case <-waiting.Done():
			if ctx.Err() != nil {
				return report{left: context.Cause(ctx)}, true // the caller has gone
			}
			s.log.WarnContext(ctx, "a session's replica does not answer", "replica", replica, "run", sp.id, "error", cmp.Or(err, errNotHere))
			const why = "the session's replica did not answer, so it may or may not have accepted the message"
			return reportOf(doubtful(sp, sp.id, why)), true
		}
	}
}

// handMessage asks a replica once to take a message; ok is false where it was not taken, or nobody knows.
func (s *Service) handMessage(ctx context.Context, replica string, req *Request, sp *spec) (t report, ok bool, err error) {
	sp.start.enter(startForwarded)
	t, ok, err = s.ask(ctx, replica, &command{
		id: sp.id, name: CommandStart, session: sp.lane(),
		Ask: req, ID: sp.id, Who: req.Who, Key: sp.key, Hash: sp.hash, Caller: sp.caller, KeyTag: sp.keyTag, Alone: sp.agent.unattended, Doubt: sp.inDoubt,
	})
	switch {
	case err == nil && t.Problem != nil && t.Problem.Code == codeDraining:
		return report{}, false, nil // when it has gone the session can be had here
	case err != nil && !notExecuted(err):
		sp.inDoubt = true
		sp.start.enter(startDoubtful)
	case err != nil:
		s.log.WarnContext(ctx, "cannot forward a message to another replica", "replica", replica, "error", err)
	}
	return t, ok, err
}

// forwarded is what came of a message that another replica was handed.
func (s *Service) forwarded(ctx context.Context, req *Request, sp *spec, t report) (*Run, Outcome, error) {
	if err := t.failure(); err != nil {
		if !errors.Is(err, ErrUnknownOutcome) && t.left == nil {
			sp.start.enter(startRefused)
			s.forgetKey(ctx, sp)
		}
		return nil, Outcome{}, err
	}
	out := Outcome{FollowUp: t.Late}
	switch {
	case t.Again:
		out.Kind = Replayed
		sp.start.enter(startReplayed)
	case t.Late != "":
		out.Kind = Steered
		sp.start.enter(startSteered)
	default:
		sp.start.enter(startRunning)
	}
	r, _, err := s.awaitStart(ctx, req, sp.hash, &once.Claim{Run: t.Run})
	if codeOf(err) == codeOverloaded { // which would say that it was not taken
		err = doubtful(sp, t.Run, "a run accepted the message, but the server cannot read this run now")
	}
	return r, out, err
}

// takenBefore finds the run whose turn has taken a message, by the tape of its session; "" is none.
func (s *Service) takenBefore(ctx context.Context, lane, id string) (run string, err error) {
	for e, err := range s.o.Tapes.Read(ctx, tape.Name(s.o.Workspace, lane), tape.Query{Newest: true, Limit: mostTaken}) {
		switch {
		case errors.Is(err, tape.ErrNotFound):
			return "", nil
		case err != nil:
			s.log.WarnContext(ctx, "unknown whether a message was accepted", "run", id, "error", err)
			return "", err
		}
		if m := tape.MetaOf(e); m.Turn == id || m.Run == id {
			return m.Turn, nil
		}
	}
	return "", nil
}

// mostTaken is how many entries are looked at for a message that may have been taken: it was a moment ago.
const mostTaken = 1000

// doubtful is the answer for a message that was taken, or may have been, by a run that cannot be shown: it must not be sent again, unless
// that finds the first one.
func doubtful(sp *spec, run, why string) *Error {
	if sp.key != "" {
		return &Error{Kind: ErrUnknownOutcome, Detail: why + "; retry with the same Idempotency-Key", Run: run, Retry: TapesRetry}
	}
	// Without a time to retry: a balancer that is told to retry would send the message again.
	const advice = "; read the session to find out. With an Idempotency-Key you can retry safely"
	return &Error{Kind: ErrUnknownOutcome, Detail: why + advice, Run: run, ID: run}
}
