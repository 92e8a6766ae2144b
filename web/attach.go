package web

import (
	"errors"
	"net/http"

	"github.com/go-chi/chi/v5"

	"github.com/lingserve/lingserve/adapter"
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
	defer run.hold()()
	free, p := s.roomFor(r, run)
	if p != nil {
		p.write(w)
		return
	}
	defer free()
	s.send(w, r, http.StatusOK, "application/json", run.document(st.reserved)...)
}

// roomFor waits for the memory that the document of a run takes which goes on. One that has ended has paid for it.
func (s *Server) roomFor(r *http.Request, run *run) (free func(), p *problem) {
	if run.ended() || s.o.Ledger == nil {
		return func() {}, nil
	}
	a := s.o.Ledger.Open()
	if err := a.Reserve(r.Context(), int64(run.tube.Bytes())); err != nil {
		a.Release()
		return nil, s.noRoom(err)
	}
	return a.Release, nil
}

// isFull says that there was no memory.
func isFull(err error) bool {
	_, full := errors.AsType[*adapter.Error](err)
	return full
}

// noRoom is the problem of an answer that there is no memory for.
func (s *Server) noRoom(err error) *problem {
	if !isFull(err) {
		panic(http.ErrAbortHandler) // the client disconnected
	}
	return littleMemory("the server has no memory for this run's document; retry later; the run continues")
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
		sent, _ := s.awaitSeen(r, run, *v.after)
		if from = *v.after + 1; from > sent {
			invalid(misfit{Parameter: "after", Detail: "the run has had " + plural(int64(sent), "event")}).write(w)
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
	if p := s.cancelAnywhere(r.Context(), who(r), run); p != nil {
		p.write(w)
		return
	}
	s.send(w, r, http.StatusAccepted, "application/json", run.document(st.reserved)...)
}
