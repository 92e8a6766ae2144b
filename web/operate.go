package web

import (
	"net/http"

	"github.com/lingserve/lingserve/agent"
	"github.com/lingserve/lingserve/tape"
)

// Turns of chat platforms have no run that a client could follow. Operators see what waits in the session of such a turn, answer it, and
// end the turn.

// getApprovals lists the questions for approval that wait in a session.
func (s *Server) getApprovals(w http.ResponseWriter, r *http.Request, t *tape.Tape) {
	if p := new(decoder).query(r, nil); p != nil {
		p.write(w)
		return
	}
	questions, err := s.runs.Questions(r.Context(), t.Session())
	if err != nil {
		s.problem(r.Context(), err).write(w)
		return
	}
	list := struct {
		Approvals []agent.Question `json:"approvals"`
	}{questions}
	if list.Approvals == nil {
		list.Approvals = []agent.Question{}
	}
	s.sendJSON(w, r, http.StatusOK, list)
}

// postSessionApproval answers a question for approval that waits in a session.
func (s *Server) postSessionApproval(w http.ResponseWriter, r *http.Request, t *tape.Tape) {
	answer, p := s.readAnswer(w, r)
	if p == nil {
		if err := s.runs.AnswerSession(r.Context(), t.Session(), answer); err != nil {
			p = s.problem(r.Context(), err)
		}
	}
	if p != nil {
		p.write(w)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// postSessionCancel ends the turn of a session, and those that wait.
func (s *Server) postSessionCancel(w http.ResponseWriter, r *http.Request, t *tape.Tape) {
	_, p := s.readBody(w, r)
	if p == nil {
		p = new(decoder).query(r, nil)
	}
	stopped := 0
	if p == nil {
		var err error
		if stopped, err = s.runs.StopSession(r.Context(), t.Session()); err != nil {
			p = s.problem(r.Context(), err)
		}
	}
	if p == nil && stopped == 0 {
		p = newProblem(codeConflict, "the session has no active run")
	}
	if p != nil {
		p.write(w)
		return
	}
	s.sendJSON(w, r, http.StatusAccepted, map[string]int{"canceled": stopped})
}
