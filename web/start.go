package web

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/run"
	"github.com/lingserve/lingserve/tube"
	"github.com/lingserve/lingserve/web/frame"
)

// postRun starts a run, or resumes the one that Last-Event-ID names.
func (s *Server) postRun(w http.ResponseWriter, r *http.Request) {
	st, p := s.parsePost(w, r)
	if p != nil {
		p.write(w)
		return
	}
	s.begin(w, r, st)
}

// getStart does the same for EventSource, which can only GET.
func (s *Server) getStart(w http.ResponseWriter, r *http.Request) {
	// A browser gives up for good when it gets a 503, and comes back when the connection drops: by then to another server.
	if r.Header.Get("Accept") == "text/event-stream" && s.runs.Draining() && r.Header.Get("Last-Event-ID") == "" {
		panic(http.ErrAbortHandler)
	}
	st, p := s.parseGet(r)
	if p == nil && st.resume == nil && s.isCommand(&st.Request) {
		p = newProblem(codeInvalid, "GET does not accept commands to an agent; use POST /v1/runs")
		p.Status = http.StatusMethodNotAllowed
		p.header = http.Header{"Allow": {http.MethodPost}}
	}
	if p != nil {
		p.write(w)
		return
	}
	s.begin(w, r, st)
}

// isCommand reports whether a message is a command to an agent. An agent that a workflow answers for has none: its texts may begin with a comma.
func (s *Server) isCommand(a *run.Request) bool {
	if by, ok := s.o.Agents.(run.ByWorkflow); a.Agent == "" || ok && by.Workflow(a.Agent) != "" {
		return false
	}
	var text string
	return json.Unmarshal(a.Input, &text) == nil && channel.IsCommand(text)
}

func (s *Server) begin(w http.ResponseWriter, r *http.Request, st *start) {
	if p := st.formatOf(r, offers); p != nil {
		p.write(w)
		return
	}
	if st.resume != nil {
		s.resume(w, r, &st.view, "")
		return
	}
	run, _, p := s.startRun(w, r, st)
	if p != nil {
		if r.Method == http.MethodGet {
			p = p.moved(toParameter)
		}
		p.write(w)
		return
	}
	// What was asked for is not needed while the answer goes on.
	v := st.view
	s.answer(w, r, run, &v, 0)
}

// toParameter names the parameter of a query in place of the member of a body: workflow for /workflow, input.question for /input/question,
// and params with the pointer /a/b for /params/a/b.
func toParameter(m *misfit) {
	name, ok := strings.CutPrefix(m.Pointer, "/")
	first, rest, deep := strings.Cut(name, "/")
	switch {
	case !ok || m.Parameter != "":
		return // it leads into a parameter already
	case deep && first == "input" && !strings.Contains(rest, "/"):
		name = "input." + strings.NewReplacer("~1", "/", "~0", "~").Replace(rest)
		m.Pointer = ""
	case deep:
		name, m.Pointer = first, "/"+rest
	default:
		m.Pointer = ""
	}
	m.Parameter = name
}

// startRun starts the run that is asked for, or finds the one that the same request has started before. The answer's headers say how.
func (s *Server) startRun(w http.ResponseWriter, r *http.Request, st *start) (*run.Run, run.Outcome, *problem) {
	q := st.Request // the caller's own stays as it is: what was asked for is not needed while the answer goes on
	q.Who, q.Caller, q.Trace, q.Account = who(r), s.countedFor(r, who(r)), traceOf(r), accountOf(r)
	q.Unattended, q.Size = !st.async && !isStream(st.format), int(r.ContentLength)
	of, out, err := s.runs.Start(r.Context(), &q)
	if err != nil {
		return nil, out, s.problem(r.Context(), err)
	}
	if out.FollowUp != "" {
		w.Header().Set("X-Follow-Up-Id", out.FollowUp)
	}
	if out.Kind == run.Replayed {
		w.Header().Set("Idempotency-Replayed", "true")
	}
	return of, out, nil
}

// find finds a run for who asks.
func (s *Server) find(r *http.Request, id string) (*run.Run, *problem) {
	of, err := s.runs.Find(r.Context(), who(r), id)
	if err != nil {
		return nil, s.problem(r.Context(), err)
	}
	return of, nil
}

// answer answers with a run in the framing asked for, from its event numbered from on.
func (s *Server) answer(w http.ResponseWriter, r *http.Request, run *run.Run, v *view, from uint64) {
	ofRun(w.Header(), run.ID)
	switch {
	case v.async:
		w.Header().Set("Preference-Applied", "respond-async")
		s.send(w, r, http.StatusAccepted, "application/json", documentOf(run, v.reserved)...)
	case isStream(v.format):
		reader := run.ReadNow(from)
		if v.snapshot {
			reader = run.Snapshot()
		}
		s.stream(w, r, run, reader, v)
	default:
		s.aggregate(w, r, run, v)
	}
}

// aggregate waits for the run's end and answers with its document.
func (s *Server) aggregate(w http.ResponseWriter, r *http.Request, run *run.Run, v *view) {
	f, r := s.follow(w, r, run, StreamJSON)
	defer f.over(nil)
	defer run.Hold()()
	s.await(r, run, v)
	f.end = StreamComplete
	o, document, beside := run.Result()
	if p := refusalOf(o, run.ID, document, beside); p != nil {
		p.write(w)
		return
	}
	s.send(w, r, http.StatusOK, "application/json", aggregated(o, run.ID, document, beside, v.reserved)...)
}

// await waits for the run's end. A client that goes away meanwhile gets no answer, and no clean end.
func (s *Server) await(r *http.Request, run *run.Run, v *view) {
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	defer context.AfterFunc(s.stopping, func() { cancel(errStopped) })()
	if err := run.Wait(ctx); err != nil {
		if r.Context().Err() != nil {
			s.giveUp(run, v)
		}
		panic(http.ErrAbortHandler)
	}
}

// resume goes on after the event that the client has seen last. It never starts a run. path is the run that the path names,
// or "".
func (s *Server) resume(w http.ResponseWriter, r *http.Request, v *view, path string) {
	id := *v.resume
	if path != "" && id.run != path {
		notFitting(v, "is the id of another run's event").write(w)
		return
	}
	if !isStream(v.format) {
		// Somebody who wants the whole document has no place in it to go on from.
		run, p := s.find(r, id.run)
		if p != nil {
			p.write(w)
			return
		}
		s.answer(w, r, run, v, 0)
		return
	}
	of, err := s.runs.Find(r.Context(), who(r), id.run)
	switch e, _ := errors.AsType[*run.Error](err); {
	case r.Context().Err() != nil:
		panic(http.ErrAbortHandler)
	case errors.Is(err, run.ErrDamaged):
		s.observer.Resumed(ResumeGone)
		s.gone(w, r, id, v, e.Detail)
		return
	case errors.Is(err, run.ErrAway), errors.Is(err, run.ErrOverloaded) && e.Limit == run.LimitDisk:
		panic(http.ErrAbortHandler) // an EventSource that is told 503 does not come back
	case errors.Is(err, run.ErrOverloaded):
		s.problem(r.Context(), err).write(w)
		return
	case err != nil:
		s.observer.Resumed(ResumeGone)
		s.gone(w, r, id, v, "this run is no longer stored; start a new one")
		return
	case of.Lost || id.n >= goneNumber:
		// The id is of a log that is not there any more.
		s.observer.Resumed(ResumeGone)
		s.gone(w, r, id, v, run.LostMessage)
		return
	}
	next := id.n + 1
	if _, err := of.Read(r.Context(), next); err != nil {
		at := misfit{Header: "Last-Event-ID", Detail: "names event " + id.String() + ", but "}
		if v.fromQuery {
			at.Header, at.Parameter = "", "last_event_id"
		}
		p := s.ahead(r, err, at)
		s.observer.Resumed(ResumeInvalid)
		p.write(w)
		return
	}
	if of.Complete(next) && !(v.snapshot && v.fromQuery) {
		// Everything was delivered. A browser that is told so stops; a page that was loaded anew and wants the document has
		// its id in the query and says snapshot=1.
		s.observer.Resumed(ResumeComplete)
		ofRun(w.Header(), of.ID)
		w.WriteHeader(http.StatusNoContent)
		return
	}
	s.observer.Resumed(ResumeFollowed)
	v.async = false
	s.answer(w, r, of, v, next)
}

// notFitting is the answer to an id that cannot be resumed from.
func notFitting(v *view, detail string) *problem {
	if v.fromQuery {
		return invalid(misfit{Parameter: "last_event_id", Detail: detail})
	}
	return invalid(misfit{Header: "Last-Event-ID", Detail: detail})
}

// gone is the end of a stream whose run is lost: an "error" event, and "finished". Their ids say all that the next request
// needs: one that has seen both gets a 204, which stops a browser.
func (s *Server) gone(w http.ResponseWriter, r *http.Request, id eventID, v *view, message string) {
	w.Header().Set("X-Run-Id", id.run)
	if id.n >= lastNumber {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	data, err := json.Marshal(map[string]any{"code": codeGone, "message": message, "retryable": false, "fatal": true})
	if err != nil {
		panic(err)
	}
	appendEvent := frame.AppendSSE
	if v.format == frame.JSONL {
		appendEvent = frame.AppendJSONL
	}
	var text []byte
	if v.format == frame.SSE {
		text = appendRetry(text)
	}
	if id.n < goneNumber {
		text = appendEvent(text, id.run, tube.Event{N: goneNumber, Kind: tube.Named, Name: "error", Value: data})
	}
	text = appendEvent(text, id.run, tube.Event{
		N: lastNumber, Kind: tube.Named, Name: "finished", Value: []byte(`{"status":"` + run.StatusInterrupted + `"}`),
	})
	streamHeaders(w.Header(), v.format)
	out := s.newOutput(w, r)
	if _, err := out.Write(text); err != nil {
		panic(http.ErrAbortHandler)
	}
}
