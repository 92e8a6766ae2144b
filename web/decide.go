package web

import (
	"cmp"
	"context"
	"errors"

	"github.com/lingserve/lingserve/access"
	"github.com/lingserve/lingserve/agent"
	"github.com/lingserve/lingserve/control"
)

// decide gives a person's decision to a question for approval of a run. Of answer, the caller sets the question's id, whether the call is
// approved, the reason and what is to be remembered. The problem says that the question does not wait, or waits no more.
func (s *Server) decide(ctx context.Context, run *run, answer agent.Answer) *problem {
	// Where nobody has to say who they are, whoever reaches the server may do all that it can; what a user says to an agent may not.
	p := access.From(ctx)
	answer.Session, answer.Turn, answer.By, answer.Role = "", run.id, deciderName(p), p.Role
	if run.followed() {
		_, refused := s.askOwner(ctx, run, control.Request{Command: commandDecide, Body: mustJSON(decision{
			ID: answer.ID, Approve: answer.Approve, Reason: answer.Reason, Remember: answer.Remember, Nobody: answer.Nobody,
			Who: p,
		})})
		if refused != nil && run.ended() {
			refused = unasked(answer.ID)
		}
		if refused != nil {
			refused.Run = run.id
		}
		return refused
	}
	return s.answerQuestion(ctx, run, answer)
}

// deciderName is what an agent calls the one who decides.
func deciderName(p access.Principal) string { return cmp.Or(p.Owner(), Channel) }

// unasked is the problem of an answer to an unknown question.
func unasked(id string) *problem {
	return newProblem(codeNotFound, "no question "+quote(id)+" of this run waits for approval")
}

// answerQuestion gives a decision to a question of a run of this replica.
func (s *Server) answerQuestion(ctx context.Context, run *run, answer agent.Answer) *problem {
	err := agent.ErrNoQuestion
	if s.o.Agents != nil {
		err = s.o.Agents.Answer(ctx, answer)
	}
	if err == nil {
		return nil
	}
	refused := refusedAnswer(err, answer.ID)
	refused.Run = run.id
	return refused
}

// refusedAnswer is the problem of an answer that an agent has not taken.
func refusedAnswer(err error, id string) *problem {
	switch {
	case errors.Is(err, agent.ErrAnswered):
		return newProblem(codeConflict, "the question was already answered, or its time is over")
	case errors.Is(err, agent.ErrRole):
		return newProblem(codeForbidden, "your role may not approve this tool; ask an operator or admin")
	}
	return unasked(id)
}
