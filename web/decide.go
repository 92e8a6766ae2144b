package web

import (
	"context"
	"errors"

	"github.com/lingserve/lingserve/agent"
	"github.com/lingserve/lingserve/tool"
)

// decide gives somebody's decision to a call of a run that waits for approval. Of answer, the caller says the call, whether it is
// approved, the reason and what is to be remembered; the problem says that nothing waits, or does not any more.
func (s *Server) decide(ctx context.Context, run *run, answer agent.Answer) *problem {
	// Whoever reaches the server may do all that it can; what a user says to an agent may not.
	answer.Session, answer.Turn, answer.By, answer.Role = "", run.id, Channel, tool.Admin
	err := agent.ErrNoQuestion
	if s.o.Agents != nil {
		err = s.o.Agents.Answer(ctx, answer)
	}
	var p *problem
	switch {
	case err == nil:
		return nil
	case errors.Is(err, agent.ErrAnswered):
		p = newProblem(codeConflict, "the call has been answered, or is over")
	default:
		p = newProblem(codeNotFound, "no call "+quote(answer.Call)+" of this run waits for approval")
	}
	p.Run = run.id
	return p
}
