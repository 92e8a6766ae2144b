package web

import (
	"net/http"

	"github.com/lingserve/lingserve/agent"
	"github.com/lingserve/lingserve/tape"
	"github.com/lingserve/lingserve/web/wire"
	"github.com/lingserve/lingserve/web/wire/native"
)

// Turns of chat platforms have no run that a client could follow. Operators see what waits in the session of such a turn, answer it, and
// end the turn.

// getApprovals lists the questions for approval that wait in a session.
func (s *Server) getApprovals(w http.ResponseWriter, r *http.Request, t *tape.Tape) *wire.Problem {
	questions, err := s.runs.Questions(r.Context(), t.Session())
	if err != nil {
		return s.wire.Problem(r.Context(), err)
	}
	s.wire.SendJSON(w, r, http.StatusOK, struct {
		Approvals []agent.Question `json:"approvals"`
	}{append([]agent.Question{}, questions...)})
	return nil
}

// postSessionApproval answers a question for approval that waits in a session.
func (s *Server) postSessionApproval(w http.ResponseWriter, r *http.Request, t *tape.Tape) *wire.Problem {
	answer, p := native.Handlers{Server: s.wire}.ReadAnswer(w, r)
	if p != nil {
		return p
	}
	if err := s.runs.AnswerSession(r.Context(), t.Session(), answer); err != nil {
		return s.wire.Problem(r.Context(), err)
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// postSessionCancel ends the turn of a session, and those that wait.
func (s *Server) postSessionCancel(w http.ResponseWriter, r *http.Request, t *tape.Tape) *wire.Problem {
	if _, p := s.readBody(w, r); p != nil {
		return p
	}
	stopped, err := s.runs.StopSession(r.Context(), t.Session())
	switch {
	case err != nil:
		return s.wire.Problem(r.Context(), err)
	case stopped == 0:
		return wire.NewProblem(wire.CodeConflict, "the session has no active run")
	}
	s.wire.SendJSON(w, r, http.StatusAccepted, map[string]int{"canceled": stopped})
	return nil
}
