package run

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/lingserve/lingserve/access"
	"github.com/lingserve/lingserve/agent"
	"github.com/lingserve/lingserve/channel"
	webchannel "github.com/lingserve/lingserve/channel/web"
	"github.com/lingserve/lingserve/internal/disk"
	"github.com/lingserve/lingserve/internal/wording"
	"github.com/lingserve/lingserve/tape"
	"github.com/lingserve/lingserve/turn"
)

// ChannelOf returns the channel whose session an id means when p uses it; "" for a session of p's own. Where keys are needed, only operators
// and admins have ids for the sessions of channels: the ids of others lead to their own sessions alone. Without keys every id would lead to
// such a session, so the ids of channels are taken out.
func (s *Service) ChannelOf(p access.Principal, id string) string {
	if name := channel.ChannelOf(id); slices.Contains(s.o.ChannelNames, name) && (p.Owner() == "" || p.Operates() && name != Channel) {
		return name
	}
	return ""
}

// Unfit is the text of an error about a client's input, without the prefix of its kind.
func Unfit(err error) string { return strings.TrimPrefix(err.Error(), tape.ErrInvalid.Error()+": ") }

// CheckSession returns why a caller cannot name a session so; "" if it can. A blank id would be no session to an agent.
func (s *Service) CheckSession(p access.Principal, id string) string {
	err := tape.CheckSession(id)
	_, fits := webchannel.SessionName(p.Owner(), webchannel.SessionKey(p.Owner(), id))
	name := s.ChannelOf(p, id)
	switch {
	case err != nil:
		return Unfit(err)
	case !fits:
		return "the session id is too long together with its owner's name; other characters than ASCII letters, digits and punctuation count as three bytes"
	case strings.TrimSpace(id) == "":
		return "the session id is empty; expected at least one visible character"
	case name != "":
		return "this id belongs to a session of the channel " + wording.Quote(name) + ", which only that channel continues; choose another id"
	}
	return ""
}

// mayReach returns ErrForbidden if a caller may not use the turns of a session, by its lane, and an [*Elsewhere] if another replica has
// them. Callers reach their own sessions, and operators those of channels.
func (s *Service) mayReach(ctx context.Context, lane string) error {
	p, of := access.From(ctx), channel.ChannelOf(lane)
	_, own := webchannel.SessionName(p.Owner(), lane)
	may := own && p.Remembers()
	if of != Channel && slices.Contains(s.o.ChannelNames, of) {
		may = p.Operates()
	}
	if !may {
		return refuse(ErrForbidden, "the session is another's")
	}
	return s.bringHere(ctx, lane)
}

// bringHere waits until the runs of a session, by its lane, are where their turns are. It returns an [*Elsewhere] if another replica has the session.
func (s *Service) bringHere(ctx context.Context, lane string) error {
	if err := s.awaitSession(ctx, lane); err != nil {
		return err
	}
	return s.elsewhere(ctx, lane)
}

// elsewhere returns an [*Elsewhere] if another replica has the turns of a session, by its lane.
func (s *Service) elsewhere(ctx context.Context, lane string) error {
	if s.o.Holder == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, storeWait)
	defer cancel()
	replica, err := s.o.Holder(ctx, tape.Name(s.o.Workspace, lane))
	switch {
	case err != nil:
		return s.storeError(ctx, err)
	case replica == "" || replica == s.replica:
		return nil
	}
	return &Elsewhere{replica}
}

// Answer answers a question for approval of a run. The caller sets the question's id, the decision, the reason and what to remember. Errors: ErrUnknown, ErrBusy if the question has an answer, ErrForbidden.
func (s *Service) Answer(ctx context.Context, r *Run, answer agent.Answer) error {
	answer.Session, answer.Turn = "", r.ID
	err := s.giveAnswer(ctx, answer, " of this run waits for approval")
	if errors.Is(err, ErrUnknown) && r.asked[answer.ID] && r.manager.Load() != nil {
		err = away() // the run goes on here, and has not come to its question yet
	}
	return err
}

// AnswerSession answers a question for approval that waits in a session, by its lane. Errors: those of Answer, an [*Elsewhere].
func (s *Service) AnswerSession(ctx context.Context, lane string, answer agent.Answer) error {
	if err := s.mayReach(ctx, lane); err != nil {
		return err
	}
	answer.Session, answer.Turn = lane, ""
	return s.giveAnswer(ctx, answer, " waits for approval in this session")
}

// giveAnswer gives an answer to its agent. where ends the sentence about an unknown question.
func (s *Service) giveAnswer(ctx context.Context, answer agent.Answer, where string) error {
	// Without keys every caller may approve. A message to an agent may not.
	p := access.From(ctx)
	answer.By, answer.Role = cmp.Or(p.Owner(), Channel), p.Role
	err := agent.ErrNoQuestion
	if s.o.Agents != nil {
		err = s.o.Agents.Answer(ctx, answer)
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, agent.ErrAnswered):
		return &Error{Kind: ErrBusy, Detail: "the question was already answered, or its time is over", Run: answer.Turn}
	case errors.Is(err, agent.ErrNotWritten):
		return away() // it is asked again, perhaps at another replica
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, agent.ErrRole):
		return &Error{Kind: ErrForbidden, Detail: "your role may not approve this tool; ask an operator or admin", Run: answer.Turn}
	}
	return &Error{Kind: ErrUnknown, Detail: "no question " + wording.Quote(answer.ID) + where, Run: answer.Turn}
}

// Questions lists the calls that wait for approval in a session, by its lane.
func (s *Service) Questions(ctx context.Context, lane string) ([]agent.Question, error) {
	if err := s.mayReach(ctx, lane); err != nil || s.o.Agents == nil {
		return nil, err
	}
	return s.o.Agents.Questions(lane), nil
}

// StopSession ends the turn of a session, by its lane, and those that wait, and returns how many.
func (s *Service) StopSession(ctx context.Context, lane string) (stopped int, err error) {
	if err := s.mayReach(ctx, lane); err != nil || s.o.Turns == nil {
		return 0, err
	}
	return s.o.Turns.Stop(lane, turn.ErrStopped), nil
}

// Exclusive calls do while no turn of a session runs, by its lane. The policy [turn.Reject] fails with ErrBusy if one does;
// [turn.Interrupt] ends it, and those that wait, and do is called when their runs have ended. The error may be that of do.
func (s *Service) Exclusive(ctx context.Context, lane string, policy turn.Policy, do func(context.Context) error) error {
	if s.o.Turns == nil {
		return do(ctx)
	}
	if err := s.bringHere(ctx, lane); err != nil {
		return err
	}
	if policy == turn.Interrupt {
		s.o.Turns.Stop(lane, errErased)
	}
	var done error
	err := s.o.Turns.Alone(ctx, lane, policy, func(ctx context.Context) error {
		if policy == turn.Interrupt {
			s.awaitLane(ctx, lane)
		}
		done = do(ctx)
		return nil
	})
	switch {
	case err == nil:
		return done
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return s.refused(channel.Result{}, err)
}

// awaitLane waits until the ends of the runs of a session are stored. Their turns have ended.
func (s *Service) awaitLane(ctx context.Context, lane string) {
	for _, r := range s.active() {
		if r.Lane() == lane {
			_ = r.awaitDone(ctx)
		}
	}
}

// Forget drops the erased runs of a session from memory, by its lane.
func (s *Service) Forget(lane string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, r := range s.inMemory {
		if r.Lane() == lane && r.manager.Load() == nil {
			delete(s.inMemory, id)
			r.erased = true // if it is not kept yet, it will be dropped at once
		}
	}
	s.trimLocked(time.Now())
}

// SessionError returns the error of this package for an error of the store of sessions.
func (s *Service) SessionError(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx) // the caller has gone
	case errors.Is(err, tape.ErrNotFound), errors.Is(err, tape.ErrDeleted):
		return refuse(ErrUnknown, "unknown session")
	case errors.Is(err, tape.ErrNameCollision):
		s.log.ErrorContext(ctx, "two sessions have the same hash", "error", err)
		return refuse(ErrBusy, "this session id cannot be used; choose another one")
	case errors.Is(err, tape.ErrInvalid): // an id that no session can have
		return refuse(ErrUnknown, "unknown session: "+Unfit(err))
	case errors.Is(err, tape.ErrTooMany):
		return overLimit(LimitSessions, "the server reached its limit of sessions; use an existing session, or delete some", SessionsRetry)
	case errors.Is(err, tape.ErrTooManyOfOwner):
		return &Error{Kind: ErrLimited, Limit: LimitSessions, Detail: "you reached the limit of sessions of one caller; use an existing session, or delete some with DELETE /v1/sessions/{id}", Retry: SessionsRetry}
	case errors.Is(err, tape.ErrTooLarge):
		return refuse(ErrTooLarge, "the entry is too large for the session's tape")
	case disk.Failed(err):
		s.log.ErrorContext(ctx, "cannot store or read a session: disk failed", "error", err)
		s.o.Pressure.DiskFailed()
		return diskFull()
	case IsOverloaded(err): // a database that is away; the store's log says why
		return &Error{Kind: ErrAway, Detail: "the server cannot reach the sessions at the moment; retry later", Retry: TapesRetry}
	}
	return s.internal(ctx, "the server cannot use the session's tape; find the cause in its log under this id", "cannot use a tape", "error", err)
}

// IsOverloaded reports whether an error has the code of a store that cannot be reached.
func IsOverloaded(err error) bool {
	coded, ok := errors.AsType[turn.Coded](err)
	return ok && coded.ErrorCode() == codeOverloaded
}
