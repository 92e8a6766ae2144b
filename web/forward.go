package web

import (
	"encoding/json"
	"net/http"

	"github.com/lingserve/lingserve/access"
	"github.com/lingserve/lingserve/cluster"
	"github.com/lingserve/lingserve/web/wire"
)

// forwardedBy is the client of a forwarded request. The replica that forwards it has authenticated the client, and has counted the request.
type forwardedBy struct {
	Visitor access.Visitor `json:"visitor"`
	Caller  string         `json:"caller,omitempty"` // see countedFor
}

// forward passes a request on to the replica that has what the request asks for.
func (s *Server) forward(w http.ResponseWriter, r *http.Request, replica string) {
	rec := recorderOf(r)
	body := rec.body
	if !rec.read {
		var p *wire.Problem
		if body, p = s.readBody(w, r); p != nil {
			writeProblem(w, r, p)
			return
		}
	}
	rec.body = nil
	who, err := json.Marshal(forwardedBy{rec.visitor, s.countedFor(r, wire.Who(r))})
	if err != nil {
		panic(err) // cannot be: strings and numbers
	}
	s.o.Cluster.Forward(w, r, cluster.Forwarding{
		Replica: replica, Principal: who, Client: s.o.Proxies.Client(r).String(), Target: r.URL.Path, Body: body,
	})
}

// enterForwarded lets a request in that another replica has forwarded, for the client that it names. The cluster has checked its signature.
func (s *Server) enterForwarded(rec *recorder, r *http.Request, f cluster.Forwarded) *http.Request {
	by := new(forwardedBy)
	if err := json.Unmarshal(f.Principal, by); err != nil {
		s.log.ErrorContext(r.Context(), "cannot read who sends a forwarded request", "replica", f.Sender, "error", err)
		writeProblem(rec, r, wire.NewProblem(wire.CodeInternal, "the server cannot read a forwarded request"))
		return nil
	}
	rec.visitor, rec.by = by.Visitor, by
	return r.WithContext(access.With(r.Context(), by.Visitor.Principal))
}
