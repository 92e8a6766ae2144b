package native

import (
	"encoding/json"
	"net/http"

	"github.com/go-chi/chi/v5"

	"github.com/lingserve/lingserve/agent"
	"github.com/lingserve/lingserve/run"
	"github.com/lingserve/lingserve/web/wire"
	"github.com/lingserve/lingserve/web/wire/request"
)

// maxReason bounds the reason of a denial, which the model gets.
const maxReason = 1 << 10

// PostApproval answers a question for approval of a run's agent.
func (h Handlers) PostApproval(w http.ResponseWriter, r *http.Request) *wire.Problem {
	answer, p := h.ReadAnswer(w, r)
	if p != nil {
		return p
	}
	of, p := h.Find(r, chi.URLParam(r, "run"))
	if p != nil {
		return p
	}
	wire.SetRun(w.Header(), of.ID)
	if err := h.Runs.Answer(r.Context(), of, answer); err != nil {
		return h.Problem(r.Context(), err)
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// ReadAnswer reads a decision, and the id of the question that the path names.
func (h Handlers) ReadAnswer(w http.ResponseWriter, r *http.Request) (answer agent.Answer, p *wire.Problem) {
	decision := ""
	p = h.ReadMembers(w, r, true, func(d *request.Decoder) request.Fields {
		return request.Fields{
			"decision": func(at string, raw json.RawMessage) { decision = d.OneOf(at, raw, "approve", "deny") },
			"reason":   func(at string, raw json.RawMessage) { answer.Reason = d.Text(at, raw, maxReason) },
			"remember": func(at string, raw json.RawMessage) { answer.Remember = d.OneOf(at, raw, "session") != "" },
		}
	})
	if p == nil && decision == "" {
		p = wire.Invalid(run.Field{Pointer: "/decision", Detail: "expected approve or deny"})
	}
	if p != nil {
		return answer, p
	}
	var known bool
	if answer.ID, known = agent.ReadQuestionID(wire.PathValue(r, "approval")); !known {
		// Clients send the model's id of the call, which models repeat.
		return answer, wire.NewProblem(wire.CodeGone, "call ids do not work here; expected /v1/runs/{run}/approvals/{approval}, with the id from the event "+
			string(agent.ApprovalRequiredEvent))
	}
	answer.Approve = decision == "approve"
	return answer, nil
}
