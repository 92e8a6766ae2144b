package native

import (
	"net/http"

	"github.com/go-chi/chi/v5"

	"github.com/lingserve/lingserve/run"
	"github.com/lingserve/lingserve/web/wire"
	"github.com/lingserve/lingserve/web/wire/frame"
	"github.com/lingserve/lingserve/web/wire/request"
)

// GetRun answers with a run's status and its result so far.
func (h Handlers) GetRun(w http.ResponseWriter, r *http.Request) *wire.Problem {
	reserved, run, p := h.readDocument(w, r)
	if p != nil {
		return p
	}
	defer run.Hold()()
	free, err := h.Runs.Room(r.Context(), run)
	if err != nil {
		return h.Problem(r.Context(), err)
	}
	defer free()
	h.Send(w, r, http.StatusOK, "application/json", Document(run, reserved)...)
	return nil
}

// GetEvents attaches to a run: it sends the events that the client does not have, and then follows the run. HEAD gets the headers.
func (h Handlers) GetEvents(w http.ResponseWriter, r *http.Request) *wire.Problem {
	d, v := new(request.Decoder), new(view)
	var query struct {
		shown
		followQuery
		After *int64 `field:"after" min:"0"` // the number of the event that the client has seen last
	}
	d.Query(r, &query)
	v.readShown(&query.shown)
	v.readFollow(d, &query.followQuery)
	v.resumeAfter(d, r.Header.Get("Last-Event-ID"), false)
	p := wire.Invalid(d.Faults...)
	if p != nil {
		return p
	}
	if v.Format, p = wire.Choose(r, v.Format, wire.StreamOffers); p != nil {
		return p
	}
	id := chi.URLParam(r, "run")
	if v.resume != nil && r.Method != http.MethodHead {
		return h.resume(w, r, v, id)
	}
	of, p := h.Find(r, id)
	if p != nil {
		return p
	}
	if r.Method == http.MethodHead {
		wire.SetRun(w.Header(), of.ID)
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		if v.Format != frame.JSON {
			wire.StreamHeaders(w.Header(), v.Format)
		}
		w.WriteHeader(http.StatusOK)
		return nil
	}
	var from uint64
	if query.After != nil {
		from = uint64(*query.After) + 1
		if _, err := of.Read(from); err != nil {
			return h.ahead(r, err, run.Field{Parameter: "after"})
		}
	}
	return h.answer(w, r, of, v, from)
}

// PostCancel ends a run that goes on. What it has produced is kept.
func (h Handlers) PostCancel(w http.ResponseWriter, r *http.Request) *wire.Problem {
	if _, p := h.ReadBody(w, r); p != nil {
		return p
	}
	reserved, run, p := h.readDocument(w, r)
	if p != nil {
		return p
	}
	if err := h.Runs.Cancel(run); err != nil {
		return h.Problem(r.Context(), err)
	}
	h.Send(w, r, http.StatusAccepted, "application/json", Document(run, reserved)...)
	return nil
}

// ahead is the answer to an event that the run has not had. at is where the request names it; "" is what the error says.
func (h Handlers) ahead(r *http.Request, err error, at run.Field) *wire.Problem {
	p := h.Problem(r.Context(), err)
	if p.Aborts() {
		return p
	}
	at.Detail += p.Detail
	return wire.Invalid(at)
}

// readDocument reads a request for the document of a run, and finds the run. reserved reports whether the document has the reserved values.
func (h Handlers) readDocument(w http.ResponseWriter, r *http.Request) (reserved bool, found *run.Run, p *wire.Problem) {
	var query struct {
		Include []string `field:"include" words:"reserved"`
	}
	if p = wire.Query(r, &query); p != nil {
		return false, nil, p
	}
	if found, p = h.Find(r, chi.URLParam(r, "run")); p == nil {
		wire.SetRun(w.Header(), found.ID)
	}
	return len(query.Include) > 0, found, p
}
