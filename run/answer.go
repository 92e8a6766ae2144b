package run

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/lingserve/lingserve/access"
	"github.com/lingserve/lingserve/agent"
	"github.com/lingserve/lingserve/channel"
	webchannel "github.com/lingserve/lingserve/channel/web"
	"github.com/lingserve/lingserve/internal/wording"
	"github.com/lingserve/lingserve/turn"
)

// Answer gives a person's decision to a question for approval of a run. Of answer, the caller sets the question's id, whether the call is
// approved, the reason and what is to be remembered. Errors: ErrNoQuestion, ErrAnswered, ErrRole.
func (s *Service) Answer(ctx context.Context, r *Run, answer agent.Answer) error {
	// Where nobody has to say who they are, whoever reaches the server may do all that it can; what a user says to an agent may not.
	p := access.From(ctx)
	answer.Session, answer.Turn, answer.By, answer.Role = "", r.ID, deciderName(p), p.Role
	err := s.giveAnswer(ctx, answer)
	if err == nil {
		return nil
	}
	refused := refusedAnswer(err, answer.ID)
	refused.Run = r.ID
	return refused
}

// deciderName is what an agent calls the one who decides.
func deciderName(p access.Principal) string { return cmp.Or(p.Owner(), Channel) }

// noQuestion is the error of an answer to an unknown question.
func noQuestion(id string) *Error {
	return refuse(ErrNoQuestion, "no question "+wording.Quote(id)+" of this run waits for approval")
}

// giveAnswer gives a decision to the agent that waits for it.
func (s *Service) giveAnswer(ctx context.Context, answer agent.Answer) error {
	if s.o.Agents == nil {
		return agent.ErrNoQuestion
	}
	return s.o.Agents.Answer(ctx, answer)
}

// refusedAnswer is the error of an answer that an agent has not taken.
func refusedAnswer(err error, id string) *Error {
	switch {
	case errors.Is(err, agent.ErrAnswered):
		return refuse(ErrAnswered, "the question was already answered, or its time is over")
	case errors.Is(err, agent.ErrRole):
		return refuse(ErrRole, "your role may not approve this tool; ask an operator or admin")
	}
	return noQuestion(id)
}

// reaches reports whether somebody may do something to the turns of a session: to their own, and as an operator to those of channels.
func (s *Service) reaches(p access.Principal, lane string) bool {
	if slices.Contains(s.o.ChannelNames, channel.ChannelOf(lane)) && channel.ChannelOf(lane) != Channel {
		return p.Operates()
	}
	_, own := webchannel.SessionName(p.Owner(), lane)
	return own && p.Remembers()
}

// mayReach refuses what somebody may not do to the turns of a session, by its lane, and what another replica has.
func (s *Service) mayReach(ctx context.Context, lane string) error {
	if !s.reaches(access.From(ctx), lane) {
		return refuse(ErrForbidden, "the session is another's")
	}
	if err := s.wakeSession(ctx, lane); err != nil {
		return err
	}
	return s.elsewhere(ctx, lane)
}

// Questions lists the calls that wait for approval in a session, by its lane.
func (s *Service) Questions(ctx context.Context, lane string) ([]agent.Question, error) {
	if err := s.mayReach(ctx, lane); err != nil || s.o.Agents == nil {
		return nil, err
	}
	return s.o.Agents.Questions(lane), nil
}

// AnswerSession answers a question for approval that waits in a session, by its lane.
func (s *Service) AnswerSession(ctx context.Context, lane string, answer agent.Answer) error {
	if err := s.mayReach(ctx, lane); err != nil {
		return err
	}
	p := access.From(ctx)
	answer.Session, answer.By, answer.Role = lane, deciderName(p), p.Role
	switch err := s.giveAnswer(ctx, answer); {
	case err == nil:
		return nil
	case errors.Is(err, agent.ErrNoQuestion):
		return refuse(ErrNoQuestion, "no question "+wording.Quote(answer.ID)+" waits for approval in this session")
	default:
		return refusedAnswer(err, answer.ID)
	}
}

// StopSession ends the turn of a session, by its lane, and those that wait, and returns how many.
func (s *Service) StopSession(ctx context.Context, lane string) (stopped int, err error) {
	if err := s.mayReach(ctx, lane); err != nil || s.o.Turns == nil {
		return 0, err
	}
	return s.o.Turns.Stop(lane, turn.ErrStopped), nil
}

// Exclusive does something while no turn of a session runs, by its lane. The policy [turn.Reject] fails with ErrBusy if one does;
// [turn.Interrupt] ends it, and those that wait, and do is called when their runs have ended. The error may be that of do.
func (s *Service) Exclusive(ctx context.Context, lane string, policy turn.Policy, do func(context.Context) error) error {
	if s.o.Turns == nil {
		return do(ctx)
	}
	if err := s.wakeSession(ctx, lane); err != nil {
		return err
	}
	if err := s.elsewhere(ctx, lane); err != nil {
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

// awaitLane waits until the ends of the runs of a session are stored, whose turns have ended.
func (s *Service) awaitLane(ctx context.Context, lane string) {
	s.mu.Lock()
	var list []*Run
	for _, r := range s.inMemory {
		if r.Lane() == lane && r.manager.Load() != nil {
			list = append(list, r)
		}
	}
	s.mu.Unlock()
	for _, r := range list {
		select {
		case <-r.done:
		case <-ctx.Done():
			return
		}
	}
}

// Forget drops the ended runs of a session from memory, by its lane: they were erased.
func (s *Service) Forget(lane string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, r := range s.inMemory {
		if r.Lane() != lane {
			continue
		}
		select {
		case <-r.done:
			delete(s.inMemory, id)
			r.erased = true // if it is not kept yet, it will be dropped at once
			s.dropLocked(r)
		default:
		}
	}
}
