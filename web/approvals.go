package web

import (
	"encoding/json"
	"errors"
	"net/http"

	"github.com/go-chi/chi/v5"

	"github.com/lingserve/lingserve/agent"
	"github.com/lingserve/lingserve/tool"
)

// maxReason bounds what a model is told of a denial.
const maxReason = 1 << 10

// postApproval answers a call of a run's agent that waits for approval.
func (s *Server) postApproval(w http.ResponseWriter, r *http.Request) {
	// Whoever reaches the server may do all that it can; what a user says to an agent may not.
	answer := agent.Answer{Call: pathValue(r, "call"), By: Channel, Role: tool.Admin}
	decision := ""
	p := s.body(w, r, true, func(d *decoder) fields {
		return fields{
			"decision": func(at string, raw json.RawMessage) { decision = d.oneOf(at, raw, "approve", "deny") },
			"reason":   func(at string, raw json.RawMessage) { answer.Reason = d.text(at, raw, maxReason) },
			"remember": func(at string, raw json.RawMessage) { answer.Remember = d.oneOf(at, raw, "session") != "" },
		}
	})
	if p == nil && decision == "" {
		p = invalid(misfit{Pointer: "/decision", Detail: "expected approve or deny"})
	}
	if p != nil {
		p.write(w)
		return
	}
	run, p := s.find(r, chi.URLParam(r, "run"))
	if p != nil {
		p.write(w)
		return
	}
	ofRun(w.Header(), run.id)
	answer.Turn, answer.Approve = run.id, decision == "approve"
	err := agent.ErrNoQuestion
	if s.o.Agents != nil {
		err = s.o.Agents.Answer(r.Context(), answer)
	}
	switch {
	case err == nil:
		w.WriteHeader(http.StatusNoContent)
		return
	case errors.Is(err, agent.ErrAnswered):
		p = newProblem(codeConflict, "the call has been answered, or is over")
	default:
		p = newProblem(codeNotFound, "no call "+quote(answer.Call)+" of this run waits for approval")
	}
	p.Run = run.id
	p.write(w)
}
