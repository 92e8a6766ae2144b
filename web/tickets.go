package web

import (
	"errors"
	"net/http"
	"time"

	"github.com/lingserve/lingserve/access"
	"github.com/lingserve/lingserve/run"
	"github.com/lingserve/lingserve/web/wire"
)

// postTicket gives a caller a ticket, with which one GET at a path is let in that can send no headers.
func (s *Server) postTicket(w http.ResponseWriter, r *http.Request) *wire.Problem {
	var body struct {
		Path string `field:"path"`
	}
	if p := s.wire.ReadMembers(w, r, true, &body); p != nil {
		return p
	}
	text, expires, err := s.tickets.Issue(r.Context(), access.Visitor{Principal: wire.Who(r), Grant: recorderOf(r).visitor.Grant}, http.MethodGet, body.Path)
	if refusal, ok := errors.AsType[*access.Refusal](err); ok && refusal.Status == http.StatusBadRequest {
		return wire.Invalid(run.Field{Pointer: "/path", Detail: refusal.Detail})
	}
	if err != nil {
		return s.wire.Problem(r.Context(), err)
	}
	s.wire.SendJSON(w, r, http.StatusCreated, struct {
		Ticket  string    `json:"ticket"`
		Expires time.Time `json:"expires"`
	}{text, expires.UTC().Truncate(time.Second)})
	return nil
}
