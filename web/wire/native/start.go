// Package native is this server's own wire: runs are started, followed, canceled and approved at /v1/runs, and answered as Server-Sent
// Events, as JSON Lines, or as one JSON document.
package native

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/run"
	"github.com/lingserve/lingserve/tube"
	"github.com/lingserve/lingserve/web/wire"
	"github.com/lingserve/lingserve/web/wire/frame"
)

// Handlers answer the requests of this wire.
type Handlers struct{ *wire.Server }

// PostRun starts a run, or resumes the one that Last-Event-ID names.
func (h Handlers) PostRun(w http.ResponseWriter, r *http.Request) *wire.Problem {
	st, p := h.readPost(w, r)
	if p != nil {
		return p
	}
	return h.begin(w, r, st)
}

// GetStart does the same for EventSource, which can only GET.
func (h Handlers) GetStart(w http.ResponseWriter, r *http.Request) *wire.Problem {
	// A browser gives up for good when it gets a 503, and comes back when the connection drops: by then to another server.
	if r.Header.Get("Accept") == "text/event-stream" && h.Runs.Draining() && r.Header.Get("Last-Event-ID") == "" {
		panic(http.ErrAbortHandler)
	}
	st, p := readGet(r)
	if p == nil && st.resume == nil && h.isCommand(&st.Request) {
		p = wire.NewProblem(wire.CodeInvalid, "GET does not accept commands to an agent; use POST /v1/runs")
		p.Status = http.StatusMethodNotAllowed
		p.Header = http.Header{"Allow": {http.MethodPost}}
	}
	if p != nil {
		return p
	}
	return h.begin(w, r, st)
}

// isCommand reports whether a message is a command to an agent. An agent that a workflow answers for has none: its texts may begin with a comma.
func (h Handlers) isCommand(a *run.Request) bool {
	if a.Agent == "" || h.ByWorkflow(a.Agent) != "" {
		return false
	}
	var text string
	return json.Unmarshal(a.Input, &text) == nil && channel.IsCommand(text)
}

// begin answers a request for a run: it starts one, or resumes one.
func (h Handlers) begin(w http.ResponseWriter, r *http.Request, st *start) *wire.Problem {
	var p *wire.Problem
	if st.Format, p = wire.Choose(r, st.Format, wire.Offers); p != nil {
		return p
	}
	if st.resume != nil {
		return h.resume(w, r, &st.view, "")
	}
	if st.wait != nil && st.Format == frame.JSON {
		st.async = false // it waits first; a stream is not waited for
	}
	st.Unattended = !st.async && st.wait == nil && st.Format == frame.JSON
	if p := h.setProperties(st); p != nil {
		return p
	}
	run, _, p := h.Start(w, r, &st.Request)
	if p != nil {
		if r.Method == http.MethodGet {
			p = st.toQuery(p)
		}
		return p
	}
	// What was asked for is not needed while the answer goes on.
	v := st.view
	return h.answer(w, r, run, &v, 0)
}

// setProperties puts the properties of a query into the input. An agent has none, and refuses an object.
func (h Handlers) setProperties(st *start) *wire.Problem {
	wf, ok := h.Workflows.Get(cmp.Or(st.Workflow, h.ByWorkflow(st.Agent)))
	switch {
	case len(st.properties) == 0:
		return nil
	case ok:
		return st.typeProperties(wf.Info().Input)
	case st.Agent != "":
		st.Input = json.RawMessage("{}")
	}
	return nil
}

// answer answers with a run in the framing asked for, from its event numbered from on.
func (h Handlers) answer(w http.ResponseWriter, r *http.Request, run *run.Run, v *view, from uint64) *wire.Problem {
	wire.SetRun(w.Header(), run.ID)
	switch {
	case v.async:
		w.Header().Set("Preference-Applied", "respond-async")
		h.Send(w, r, http.StatusAccepted, "application/json", Document(run, v.reserved)...)
	case v.Format != frame.JSON:
		v.Begin = func() (frame.Encoder, *tube.Reader) {
			if v.snapshot {
				return nil, run.Snapshot()
			}
			return nil, run.ReadNow(from)
		}
		h.Stream(w, r, run, &v.View)
	default:
		return h.aggregate(w, r, run, v)
	}
	return nil
}

// aggregate waits for the run's end and answers with its document.
func (h Handlers) aggregate(w http.ResponseWriter, r *http.Request, of *run.Run, v *view) *wire.Problem {
	f, r := h.Follow(w, r, of, wire.StreamJSON)
	defer f.Over(nil)
	var limit time.Duration
	if v.wait != nil {
		limit = max(*v.wait, 1)
	}
	ended, p := h.Await(r, of, &v.View, limit, func() bool { return false })
	if p != nil {
		return p
	}
	f.Complete()
	if !ended {
		w.Header().Set("Preference-Applied", "wait="+strconv.Itoa(int(v.wait.Seconds())))
		h.Send(w, r, http.StatusAccepted, "application/json", Document(of, v.reserved)...)
		return nil
	}
	if o := of.Summary(); o.Status == run.StatusFailed {
		p = wire.OfNothing(of, true)
		for _, e := range o.Errors {
			if p != nil && e.Pointer != "" {
				p.Errors = append(p.Errors, run.Field{Pointer: e.Pointer, Detail: e.Message})
			}
		}
	}
	if p == nil {
		h.Send(w, r, http.StatusOK, "application/json", Document(of, v.reserved)...)
	}
	return p
}

// resume continues after the event that the client has seen last. It never starts a run. path is the run that the path names,
// or "".
func (h Handlers) resume(w http.ResponseWriter, r *http.Request, v *view, path string) *wire.Problem {
	id := *v.resume
	if path != "" && id.run != path {
		return wire.Invalid(lastEvent(v, "is the id of another run's event"))
	}
	if v.Format == frame.JSON {
		// A client that wants the full document has no event to go on from.
		run, p := h.Find(r, id.run)
		if p != nil {
			return p
		}
		return h.answer(w, r, run, v, 0)
	}
	of, err := h.Runs.Find(r.Context(), wire.Who(r), id.run)
	switch e, _ := errors.AsType[*run.Error](err); {
	case r.Context().Err() != nil:
		panic(http.ErrAbortHandler)
	case err != nil && e == nil: // another replica has it
		return h.Problem(r.Context(), err)
	case errors.Is(err, run.ErrDamaged):
		h.Observer.Resumed(wire.ResumeGone)
		h.gone(w, r, id, v, e.Detail)
		return nil
	case errors.Is(err, run.ErrOverloaded) && e.Limit != run.LimitDisk:
		return h.Problem(r.Context(), err)
	case err != nil && !errors.Is(err, run.ErrUnknown) && !errors.Is(err, run.ErrExpired):
		panic(http.ErrAbortHandler) // it may pass, and an EventSource that gets 503 does not come back
	case err != nil, id.n >= lastNumber: // the run was not known, and is
		h.Observer.Resumed(wire.ResumeGone)
		h.gone(w, r, id, v, "this run is no longer stored; start a new one")
		return nil
	}
	next := id.n + 1
	if _, err := of.Read(next); errors.Is(err, run.ErrAway) {
		panic(http.ErrAbortHandler) // as above
	} else if err != nil {
		p := h.ahead(r, err, lastEvent(v, "names event "+id.String()+", but "))
		h.Observer.Resumed(wire.ResumeInvalid)
		return p
	}
	if of.Complete(next) && !(v.snapshot && v.fromQuery) {
		// Everything was delivered. A browser stops after this; a page that was reloaded and wants the document has
		// its id in the query and says snapshot=1.
		h.Observer.Resumed(wire.ResumeComplete)
		wire.SetRun(w.Header(), of.ID)
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	h.Observer.Resumed(wire.ResumeFollowed)
	v.async = false
	return h.answer(w, r, of, v, next)
}

// lastEvent is a fault of the event's id that a client resumes with.
func lastEvent(v *view, detail string) run.Field {
	if v.fromQuery {
		return run.Field{Parameter: "last_event_id", Detail: detail}
	}
	return run.Field{Header: "Last-Event-ID", Detail: detail}
}

// gone is the end of a stream whose run is lost: an "error" event, and "finished", whose id says all that the next request needs: it gets
// a 204, which stops a browser.
func (h Handlers) gone(w http.ResponseWriter, r *http.Request, id eventID, v *view, message string) {
	w.Header().Set("X-Run-Id", id.run)
	if id.n >= lastNumber {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	data, _ := json.Marshal(map[string]any{"code": wire.CodeGone, "message": message, "retryable": false, "fatal": true})
	finished := tube.Event{N: lastNumber, Kind: tube.Named, Name: "finished", Value: []byte(`{"status":"` + run.StatusInterrupted + `"}`)}
	appendEvent, text := frame.AppendJSONL, []byte(nil)
	if v.Format == frame.SSE {
		appendEvent, text = frame.AppendSSE, wire.AppendRetry(nil)
	}
	text = appendEvent(text, id.run, tube.Event{Part: true, Kind: tube.Named, Name: "error", Value: data}) // a part has no id
	text = appendEvent(text, id.run, finished)
	wire.StreamHeaders(w.Header(), v.Format)
	if _, err := h.NewOutput(w, r).Write(text); err != nil {
		panic(http.ErrAbortHandler)
	}
}
