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
	ofRun(w.Header(), run.id)
	s.send(w, r, http.StatusOK, "application/json", run.appendDocument(nil, st.reserved))
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
		if from = *v.after + 1; from > run.tube.Len() {
			invalid(misfit{Parameter: "after", Detail: "the run has had " + plural(int64(run.tube.Len()), "event")}).write(w)
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
	ofRun(w.Header(), run.id)
	if !cancelRun(run, errAsked) {
		p := newProblem(codeConflict, "the run has ended")
		p.Run = run.id
		p.write(w)
		return
	}
	s.send(w, r, http.StatusAccepted, "application/json", run.appendDocument(nil, st.reserved))
}
