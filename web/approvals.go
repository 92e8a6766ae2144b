package web

import (
	"encoding/json"
	"net/http"

	"github.com/go-chi/chi/v5"

	"github.com/lingserve/lingserve/agent"
)

// maxReason bounds what a model is told of a denial.
const maxReason = 1 << 10

// postApproval answers a question for approval of a run's agent.
func (s *Server) postApproval(w http.ResponseWriter, r *http.Request) {
	answer, p := s.readAnswer(w, r)
	if p != nil {
		p.write(w)
		return
	}
	run, p := s.find(r, chi.URLParam(r, "run"))
	if p != nil {
		p.write(w)
		return
	}
	ofRun(w.Header(), run.ID)
	if err := s.runs.Answer(r.Context(), run, answer); err != nil {
		s.problem(r.Context(), err).write(w)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// readAnswer reads a decision, and the id of the question that the path names.
func (s *Server) readAnswer(w http.ResponseWriter, r *http.Request) (answer agent.Answer, p *problem) {
	decision := ""
	p = s.body(w, r, true, func(d *decoder) fields {
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
		return answer, p
	}
	var known bool
	if answer.ID, known = agent.ReadQuestionID(pathValue(r, "approval")); !known {
		// Earlier versions had the model's id of the call here, which models repeat.
		return answer, newProblem(codeGone, "call ids do not work here; expected /v1/runs/{run}/approvals/{approval}, with the id from the event "+
			string(agent.ApprovalRequiredEvent))
	}
	answer.Approve = decision == "approve"
	return answer, nil
}
