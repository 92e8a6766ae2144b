package native

import (
	"net/http"

	"github.com/go-chi/chi/v5"

	"github.com/lingserve/lingserve/agent"
	"github.com/lingserve/lingserve/run"
	"github.com/lingserve/lingserve/web/wire"
)

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
	var body struct {
		Decision string `field:"decision" words:"approve deny"`
		Reason   string `field:"reason" max:"1024"`
		Remember string `field:"remember" words:"session"`
	}
	if p = h.ReadMembers(w, r, true, &body); p != nil {
		return answer, p
	}
	if body.Decision == "" {
		return answer, wire.Invalid(run.Field{Pointer: "/decision", Detail: "expected approve or deny"})
	}
	answer = agent.Answer{Approve: body.Decision == "approve", Reason: body.Reason, Remember: body.Remember != ""}
	var known bool
	if answer.ID, known = agent.ReadQuestionID(wire.PathValue(r, "approval")); !known {
		// Clients send the model's id of the call, which models repeat.
		return answer, wire.NewProblem(wire.CodeGone, "call ids do not work here; expected /v1/runs/{run}/approvals/{approval}, with the id from the event "+
			string(agent.ApprovalRequiredEvent))
	}
	return answer, nil
}
