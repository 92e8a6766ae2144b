package web

import (
	"context"
	"errors"

	"github.com/lingserve/lingserve/access"
	"github.com/lingserve/lingserve/agent"
	"github.com/lingserve/lingserve/control"
)

// decide gives somebody's decision to a call of a run that waits for approval. Of answer, the caller says the call, whether it is
// approved, the reason and what is to be remembered; the problem says that nothing waits, or does not any more.
func (s *Server) decide(ctx context.Context, run *run, answer agent.Answer) *problem {
	// Where nobody has to say who they are, whoever reaches the server may do all that it can; what a user says to an agent may not.
	p := access.From(ctx)
	answer.Session, answer.Turn, answer.By, answer.Role = "", run.id, Channel, p.Role
	if owner := p.Owner(); owner != "" {
		answer.By = owner
	}
	if run.followed() {
		_, refused := s.askOwner(ctx, run, control.Request{Command: commandDecide, Body: mustJSON(decision{
			Call: answer.Call, Approve: answer.Approve, Reason: answer.Reason, Remember: answer.Remember, Nobody: answer.Nobody,
			By: answer.By, Role: answer.Role,
		})})
		if refused != nil && run.ended() {
			refused = uncalled(answer.Call)
		}
		if refused != nil {
			refused.Run = run.id
		}
		return refused
	}
	return s.answerCall(ctx, run, answer)
}

// uncalled is the problem of an answer to what nobody has asked.
func uncalled(call string) *problem {
	return newProblem(codeNotFound, "no call "+quote(call)+" of this run waits for approval")
}

// answerCall gives a decision to a call of a run of this replica.
func (s *Server) answerCall(ctx context.Context, run *run, answer agent.Answer) *problem {
	err := agent.ErrNoQuestion
	if s.o.Agents != nil {
		err = s.o.Agents.Answer(ctx, answer)
	}
	var refused *problem
	switch {
	case err == nil:
		return nil
	case errors.Is(err, agent.ErrAnswered):
		refused = newProblem(codeConflict, "the call has been answered, or is over")
	case errors.Is(err, agent.ErrRole):
		refused = newProblem(codeForbidden, "the tool asks for somebody with a higher role")
	default:
		refused = uncalled(answer.Call)
	}
	refused.Run = run.id
	return refused
}
