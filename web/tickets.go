package web

import (
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/lingserve/lingserve/access"
	"github.com/lingserve/lingserve/run"
)

// postTicket gives a caller a ticket, with which one GET at a path is let in that can send no headers.
func (s *Server) postTicket(w http.ResponseWriter, r *http.Request) {
	var path string
	if p := s.body(w, r, true, func(d *decoder) fields {
		return fields{"path": func(at string, raw json.RawMessage) { d.as(at, raw, '"', "a string", &path) }}
	}); p != nil {
		p.write(w)
		return
	}
	text, expires, err := s.tickets.IssueTo(r.Context(), access.Visitor{Principal: who(r), Grant: noteOf(w).visitor.Grant}, http.MethodGet, path)
	if refusal, ok := errors.AsType[*access.Refusal](err); ok {
		if refusal.Status == http.StatusBadRequest {
			invalid(misfit{Pointer: "/path", Detail: refusal.Detail}).write(w)
			return
		}
		problemOf(refusal).write(w)
		return
	}
	if err != nil {
		if r.Context().Err() != nil {
			panic(http.ErrAbortHandler)
		}
		p := newProblem(codeInternal, "the server cannot create a ticket; find the cause in its log under this id")
		p.ID = run.NewID()
		s.log.ErrorContext(r.Context(), "cannot store a ticket", "id", p.ID, "error", err)
		p.write(w)
		return
	}
	s.sendJSON(w, r, http.StatusCreated, struct {
		Ticket  string    `json:"ticket"`
		Expires time.Time `json:"expires"`
	}{text, expires.UTC().Truncate(time.Second)})
}
