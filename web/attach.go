package web

import (
	"net/http"

	"github.com/go-chi/chi/v5"
)

// getRun answers with a run's status and its result so far.
func (s *Server) getRun(w http.ResponseWriter, r *http.Request) {
	var st start
	d := &decoder{}
	s.query(d, r, &st, queryDocument)
	if len(d.misfits) > 0 {
		invalid(d.misfits...).write(w)
		return
	}
	run, p := s.find(r, chi.URLParam(r, "run"))
	if p != nil {
		p.write(w)
		return
	}
	ofRun(w.Header(), run.ID)
	defer run.Hold()()
	free, err := s.runs.Room(r.Context(), run)
	if err != nil {
		s.problem(r.Context(), err).write(w)
		return
	}
	defer free()
	s.send(w, r, http.StatusOK, "application/json", documentOf(run, st.reserved)...)
}

// getEvents attaches to a run: what it has sent, from where the client left off, and then what it sends.
func (s *Server) getEvents(w http.ResponseWriter, r *http.Request) {
	var st start
	d := &decoder{}
	s.query(d, r, &st, queryView|queryResume|queryAfter)
	st.lastEventID(d, r)
	if len(d.misfits) > 0 {
		invalid(d.misfits...).write(w)
		return
	}
	v := &st.view
	if p := v.formatOf(r, streamOffers); p != nil {
		p.write(w)
		return
	}
	id := chi.URLParam(r, "run")
	if v.resume != nil {
		s.resume(w, r, v, id)
		return
	}
	run, p := s.find(r, id)
	if p != nil {
		p.write(w)
		return
	}
	var from uint64
	if v.after != nil {
		from = *v.after + 1
		if _, err := run.Read(r.Context(), from); err != nil {
			s.ahead(r, err, misfit{Parameter: "after"}).write(w)
			return
		}
	}
	s.answer(w, r, run, v, from)
}

// postCancel ends a run that goes on. What it has produced is kept.
func (s *Server) postCancel(w http.ResponseWriter, r *http.Request) {
	if _, p := s.readBody(w, r); p != nil {
		p.write(w)
		return
	}
	var st start
	d := &decoder{}
	s.query(d, r, &st, queryDocument)
	if len(d.misfits) > 0 {
		invalid(d.misfits...).write(w)
		return
	}
	run, p := s.find(r, chi.URLParam(r, "run"))
	if p != nil {
		p.write(w)
		return
	}
	ofRun(w.Header(), run.ID)
	if err := s.runs.Cancel(r.Context(), who(r), run); err != nil {
		s.problem(r.Context(), err).write(w)
		return
	}
	s.send(w, r, http.StatusAccepted, "application/json", documentOf(run, st.reserved)...)
}

// ahead is the answer to an event that the run has not had. at is where the request names it; "" is what the error says.
func (s *Server) ahead(r *http.Request, err error, at misfit) *problem {
	p := s.problem(r.Context(), err)
	at.Detail += p.Detail
	return invalid(at)
}
