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
	"github.com/lingserve/lingserve/tool"
	"github.com/lingserve/lingserve/turn"
)

// Answer gives a person's decision to a question for approval of a run. Of answer, the caller sets the question's id, whether the call is
// approved, the reason and what is to be remembered. Errors: ErrNoQuestion, ErrAnswered, ErrRole, ErrAway, ErrUnknownOutcome.
func (s *Service) Answer(ctx context.Context, r *Run, answer agent.Answer) error {
	// Where nobody has to say who they are, whoever reaches the server may do all that it can; what a user says to an agent may not.
	p := access.From(ctx)
	answer.Session, answer.Turn, answer.By, answer.Role = "", r.ID, deciderName(p), p.Role
	if !r.followed() {
		return s.answerQuestion(ctx, r, answer)
	}
	_, err := s.askOwner(ctx, r, decide(CommandDecide, p, answer))
	if err != nil && r.Ended() {
		err = noQuestion(answer.ID)
	}
	if e, ok := errors.AsType[*Error](err); ok {
		e.Run = r.ID
	}
	return err
}

// decide is the command that gives an answer.
func decide(name string, who access.Principal, a agent.Answer) *command {
	return &command{name: name, Who: who, ID: a.ID, Approve: a.Approve, Reason: a.Reason, Remember: a.Remember, Nobody: a.Nobody}
}

// deciderName is what an agent calls the one who decides.
func deciderName(p access.Principal) string { return cmp.Or(p.Owner(), Channel) }

// noQuestion is the error of an answer to an unknown question.
func noQuestion(id string) *Error {
	return refuse(ErrNoQuestion, "no question "+wording.Quote(id)+" of this run waits for approval")
}

// answerQuestion gives a decision to a question of a run of this replica.
func (s *Service) answerQuestion(ctx context.Context, r *Run, answer agent.Answer) error {
	err := s.giveAnswer(ctx, answer)
	if err == nil {
		return nil
	}
	refused := refusedAnswer(err, answer.ID)
	refused.Run = r.ID
	return refused
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

// askSession has a command done by the replica that has the turns of a session.
func (s *Service) askSession(ctx context.Context, lane string, c *command) (report, error) {
	c.session, c.Who = lane, access.From(ctx)
	if replica := s.holder(ctx, lane); replica != "" {
		ctx, cancel := context.WithTimeout(ctx, commandWait)
		defer cancel()
		t, ok, err := s.ask(ctx, replica, c)
		switch {
		case err != nil:
			s.log.WarnContext(ctx, "a session's replica does not answer", "replica", replica, "error", err)
			return t, away()
		case ok:
			return t, t.failure()
		}
	}
	t, err := s.execute(ctx, c)
	return t, cmp.Or(err, t.failure())
}

// reaches reports whether somebody may do something to the turns of a session: to their own, and as an operator to those of channels.
func (s *Service) reaches(p access.Principal, lane string) bool {
	if slices.Contains(s.o.ChannelNames, channel.ChannelOf(lane)) && channel.ChannelOf(lane) != Channel {
		return p.Operates()
	}
	_, own := webchannel.SessionName(p.Owner(), lane)
	return own && p.Remembers()
}

// serveQuestions lists what waits in a session of this replica.
func (s *Service) serveQuestions(c *command) report {
	if !s.reaches(c.Who, c.session) {
		return reportOf(refuse(ErrForbidden, "the session is another's"))
	}
	if s.o.Agents == nil {
		return report{}
	}
	return report{Questions: s.o.Agents.Questions(c.session)}
}

// serveAnswer answers a question that waits in a session of this replica.
func (s *Service) serveAnswer(ctx context.Context, c *command) report {
	if !s.reaches(c.Who, c.session) {
		return reportOf(refuse(ErrForbidden, "the session is another's"))
	}
	switch err := s.giveAnswer(ctx, c.answer()); {
	case err == nil:
		return report{}
	case errors.Is(err, agent.ErrNoQuestion):
		return reportOf(refuse(ErrNoQuestion, "no question "+wording.Quote(c.ID)+" waits for approval in this session"))
	default:
		return reportOf(refusedAnswer(err, c.ID))
	}
}

// serveStop ends the turns of a session of this replica.
func (s *Service) serveStop(c *command) report {
	lane := c.session
	run := s.inLane(lane)
	switch {
	case c.Cancels && !s.reaches(c.Who, lane),
		!c.Cancels && (!c.Who.Remembers() || c.Who.Role < tool.Operator && (run == nil || !run.owned(c.Who))):
		return reportOf(refuse(ErrForbidden, "the session is another's"))
	case s.o.Turns == nil:
		return report{}
	}
	cause := errErased
	if c.Cancels {
		cause = turn.ErrStopped
	}
	return report{Stopped: s.o.Turns.Stop(lane, cause)}
}

// Questions lists the calls that wait for approval in a session, by its lane.
func (s *Service) Questions(ctx context.Context, lane string) ([]agent.Question, error) {
	t, err := s.askSession(ctx, lane, &command{name: commandQuestions})
	return t.Questions, err
}

// AnswerSession answers a question for approval that waits in a session, by its lane.
func (s *Service) AnswerSession(ctx context.Context, lane string, answer agent.Answer) error {
	_, err := s.askSession(ctx, lane, decide(commandAnswer, access.Principal{}, answer))
	return err
}

// StopSession ends the turn of a session, by its lane, and those that wait, and returns how many.
func (s *Service) StopSession(ctx context.Context, lane string) (stopped int, err error) {
	t, err := s.askSession(ctx, lane, &command{name: CommandStop, Cancels: true})
	return t.Stopped, err
}

// Exclusive does something while no turn of a session runs, by its lane. The policy [turn.Reject] fails with ErrBusy if one does;
// [turn.Interrupt] ends it, and those that wait, at any replica. The error may be that of do.
func (s *Service) Exclusive(ctx context.Context, lane string, policy turn.Policy, do func(context.Context) error) error {
	if s.o.Turns == nil {
		return do(ctx)
	}
	if policy == turn.Interrupt {
		s.o.Turns.Stop(lane, errErased)
	}
	if replica := s.holder(ctx, lane); replica != "" && policy == turn.Reject {
		return s.refused(channel.Result{}, turn.ErrBusy)
	} else if replica != "" && policy == turn.Interrupt {
		s.stopAt(ctx, replica, lane)
	}
	var done error
	err := s.o.Turns.Alone(ctx, lane, policy, func(ctx context.Context) error {
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
