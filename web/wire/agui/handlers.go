package agui

import (
	"cmp"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/lingserve/lingserve/run"
	"github.com/lingserve/lingserve/tube"
	"github.com/lingserve/lingserve/web/wire"
	"github.com/lingserve/lingserve/web/wire/frame"
	"github.com/lingserve/lingserve/web/wire/request"
)

// Handlers answer the requests of this wire.
type Handlers struct{ *wire.Server }

// PostRun runs an agent or a workflow for a client, or gives the client's answers to the run that waits for them and continues that.
func (h Handlers) PostRun(w http.ResponseWriter, r *http.Request) *wire.Problem {
	var query struct {
		request.Disconnect
		// Not steer: the answer to a steered message is part of the run that it is steered to, and this client has a part of that.
		OnBusy string `field:"on_busy" words:"queue reject interrupt"`
	}
	in, q, p := wire.ReadStart(h.Server, w, r, &query, Read)
	if p != nil {
		return p
	}
	v := &wire.View{Format: frame.SSE, Kind: wire.StreamAGUI, CancelOnDisconnect: query.Cancels()}
	waiting, p := h.answer(r, in)
	switch {
	case p != nil:
		return p
	case in.Asks || len(in.Resume) == 0:
		q.OnBusy, q.Done = query.OnBusy, true
		return h.run(w, r, q, v, in)
	case waiting != nil && waiting.TakenOver(): // its events do not begin as the client has them
		return h.rejoin(w, r, waiting, v, in)
	case waiting != nil: // the message has only answers
		h.resume(w, r, waiting, v, in)
	default:
		h.gone(w, in)
	}
	return nil
}

// run starts the run that an input asks for.
func (h Handlers) run(w http.ResponseWriter, r *http.Request, q *run.Request, v *wire.View, in *Input) *wire.Problem {
	if h.Remembers(wire.Who(r)) {
		q.Session = in.Thread
	}
	notes, p := h.fill(q, in)
	if p != nil {
		return p
	}
	if f := request.CheckConversation(q); f != nil { // here, where the name of the member is known
		p := wire.Invalid(*f)
		p.Detail = "/messages: " + p.Detail
		return p
	}
	if q.OnBusy == "" {
		if p := h.DenyQuestions(r, in.Thread); p != nil {
			return p
		}
	}
	of, out, p := h.Start(w, r, q)
	if p != nil {
		return p.Move(in.move)
	}
	if out.Replayed { // for a client that may have a part of it
		return h.rejoin(w, r, of, v, in)
	}
	described := h.runOf(of, in)
	described.Notes = notes
	h.stream(w, r, of, v, described)
	return nil
}

// stream streams all of a run.
func (h Handlers) stream(w http.ResponseWriter, r *http.Request, of *run.Run, v *wire.View, described Run) {
	v.Begin = func() (frame.Encoder, *tube.Reader) { return NewEncoder(described), of.Events() }
	h.Stream(w, r, of, v)
}

// fill takes from an input what should run, and returns notes of what it does not use. What a front end's program forwards goes before
// what its user says: the program knows the workflow.
func (h Handlers) fill(q *run.Request, in *Input) (notes []Note, p *wire.Problem) {
	d := new(request.Decoder)
	property := func(name string, read func(q *run.Request, at string, raw json.RawMessage)) {
		if raw, ok := in.Props[name]; ok && !request.IsNull(raw) {
			read(q, "/forwardedProps/"+name, raw)
		}
	}
	property("input", func(q *run.Request, _ string, raw json.RawMessage) { q.Input = raw })
	property("model", func(q *run.Request, at string, raw json.RawMessage) { q.Model = d.Model(at, raw) })
	property("params", d.Params)
	property("options", d.Options)
	if q.Input == nil && !in.Asks {
		d.Fail("/messages", "expected a message of the user at the end, or forwardedProps.input")
	}
	if p := wire.Invalid(d.Faults...); p != nil {
		return nil, p
	}
	notes = toolsOf(in)
	q.Files, q.History = in.Files, in.Said
	if q.Input == nil {
		q.Input = h.Input(q, in.Text)
	}
	if q.Agent == "" {
		return notes, nil // a workflow has its own instructions
	}
	q.Instructions = in.Instructions
	if state := string(in.State); state != "" && state != "{}" {
		with := strings.TrimPrefix(q.Instructions+"\n\nThe state of the page that the user looks at, as JSON: "+state, "\n\n")
		if len(with) > request.MaxInstructions {
			return append(notes, warning("state_ignored", "the page's state is too large for the agent and was left out", nil)), nil
		}
		q.Instructions = with
	}
	return notes, nil
}

// toolsOf notes that the tools of a page are not called: its agent runs here, and may continue when the page is gone.
func toolsOf(in *Input) []Note {
	if len(in.Tools) == 0 {
		return nil
	}
	return []Note{warning("tools_ignored", "the page's tools are ignored; an agent calls only its own tools, on the server", in.Tools)}
}

// warning is a note about something that was asked for and is ignored.
func warning(code, message string, tools []string) Note {
	value, _ := json.Marshal(struct {
		Code    string   `json:"code"`
		Message string   `json:"message"`
		Tools   []string `json:"tools,omitempty"`
	}{code, message, tools})
	return Note{Name: "warning", Value: value}
}

// attached names the run that a client has come back to.
func attached(of *run.Run) Note {
	value, _ := json.Marshal(map[string]string{"run": of.ID})
	return Note{Name: "attached", Value: value}
}

// runOf returns how the client gets a run.
func (h Handlers) runOf(of *run.Run, in *Input) Run {
	described := Run{
		Thread: in.Thread, ID: in.Run, Parent: in.Parent, Of: of.ID,
		State:    of.Of.Agent == "", // an agent mostly says a text
		Old:      in.Version == "",
		Answered: func(n uint64, id string) bool { return wire.Answered(of, n, id) },
	}
	if w, ok := h.Workflows.Get(cmp.Or(of.Of.Workflow, h.ByWorkflow(of.Of.Agent))); ok && w.Info().Graph != nil {
		for _, b := range w.Info().Graph.Bots {
			if b.Format == "text" {
				described.Texts = append(described.Texts, wire.RootPattern(b.Root))
			}
		}
	}
	return described
}

// answer gives the client's answers to the run that waits for them, and returns the run; nil if there are no answers, or the run is
// no longer known. An answer to a question that is already closed is no error: the run tells what came of the question.
func (h Handlers) answer(r *http.Request, in *Input) (waiting *run.Run, p *wire.Problem) {
	for i, a := range in.Resume {
		at := request.Item("/resume", i) + "/interruptId"
		runID, n, id, ok := ParseQuestion(a.ID)
		if !ok || !run.ValidID(runID) {
			return nil, wire.Invalid(run.Field{Pointer: at, Detail: "unknown id; expected one from this server"})
		}
		of, p := h.Find(r, runID)
		switch {
		case p != nil && p.Replica != "":
			return nil, p
		case p != nil:
			continue // the client has to get rid of the question somehow
		case !wire.InSession(r, of, in.Thread):
			return nil, wire.Invalid(run.Field{Pointer: at, Detail: "belongs to another thread"})
		case waiting != nil && waiting != of:
			return nil, wire.Invalid(run.Field{Pointer: at, Detail: "belongs to another run than the previous one"})
		}
		waiting = of
		a.ID = id
		if err := h.Runs.Answer(r.Context(), of, a); err != nil {
			if p := h.Problem(r.Context(), err); p.Code != wire.CodeConflict && !wire.Answered(of, n, id) {
				return nil, p
			}
		}
	}
	return waiting, nil
}

// resume streams a run whose questions the client has answered, from the last question on.
func (h Handlers) resume(w http.ResponseWriter, r *http.Request, of *run.Run, v *wire.View, in *Input) {
	var last uint64
	for _, a := range in.Resume {
		if _, n, _, _ := ParseQuestion(a.ID); n > last {
			last = n
		}
	}
	described := h.runOf(of, in)
	described.Notes = append(toolsOf(in), attached(of))
	e := NewEncoder(described)
	for event := range of.Events().Waiting() {
		if event.N > last {
			break
		}
		e.Skip(event)
	}
	e.Resume()
	v.Begin = func() (frame.Encoder, *tube.Reader) { return e, of.ReadNow(last + 1) }
	h.Stream(w, r, of, v)
}

// gone answers a client whose answers are for a run that is no longer known: with a run that is canceled.
func (h Handlers) gone(w http.ResponseWriter, in *Input) {
	data, _ := json.Marshal(map[string]string{"reason": "the run of this question is no longer stored"})
	e := NewEncoder(Run{Thread: in.Thread, ID: in.Run, Parent: in.Parent, Old: in.Version == ""})
	writeWhole(w, e, tube.Event{Kind: tube.Named, Name: "canceled", Value: data})
}

// writeWhole answers with a stream that has ended already.
func writeWhole(w http.ResponseWriter, e *Encoder, last tube.Event) {
	wire.StreamHeaders(w.Header(), frame.SSE)
	_, _ = w.Write(e.Append(e.Open(nil), last)) // the client may have gone away
}

// move turns a place in a run's request into one of an input.
func (in *Input) move(f *run.Field) {
	switch rest, input := strings.CutPrefix(f.Pointer, "/input"); {
	case input && in.Props["input"] == nil:
		f.Pointer = in.At
		if rest != "" {
			f.Detail = strings.TrimPrefix(rest, "/") + ": " + f.Detail + "; send an object in forwardedProps.input"
		}
	case f.Pointer == "/session":
		f.Pointer = "/threadId"
	case f.Pointer != "":
		f.Pointer = "/forwardedProps" + f.Pointer
	}
}

// WriteProblem answers with a problem in the words of a failed run, as JSON: clients read that, and show it as it is.
func WriteProblem(w http.ResponseWriter, p *wire.Problem) {
	text, _ := json.Marshal(struct { // strings can be written
		Message string      `json:"message"`
		Code    string      `json:"code"`
		Run     string      `json:"run,omitempty"`
		ID      string      `json:"id,omitempty"`
		Errors  []run.Field `json:"errors,omitempty"`
	}{p.Detail, p.Code, p.Run, p.ID, p.Errors})
	p.Head(w, "application/json")
	_, _ = w.Write(append(text, '\n')) // the client may have gone away
}

// GetThread brings a client back to a conversation: its messages, what its last run has made, and how that continues.
func (h Handlers) GetThread(w http.ResponseWriter, r *http.Request) *wire.Problem {
	var query request.Disconnect
	if p := wire.Query(r, &query); p != nil {
		return p
	}
	v := &wire.View{Format: frame.SSE, Kind: wire.StreamAGUI, CancelOnDisconnect: query.Cancels()}
	if _, p := h.PathTarget(r); p != nil {
		return p
	}
	thread := wire.PathValue(r, "thread")
	if why := h.Runs.CheckSession(wire.Who(r), thread); why != "" {
		return wire.NewProblem(wire.CodeNotFound, "unknown thread: "+why)
	}
	last, p := h.Latest(r, thread)
	if p != nil {
		return p
	}
	if last != nil {
		return h.rejoin(w, r, last, v, &Input{Thread: thread, Run: last.ID, Version: Version})
	}
	return h.recall(w, r, thread)
}

// rejoin streams a run to a client that has nothing or a part of it: the conversation before the run, and all events of the run.
func (h Handlers) rejoin(w http.ResponseWriter, r *http.Request, of *run.Run, v *wire.View, in *Input) *wire.Problem {
	before, _, p := h.conversation(r.Context(), in.Thread, of)
	if p != nil {
		return p
	}
	described := h.runOf(of, in)
	described.Notes, described.Before = []Note{attached(of)}, before
	h.stream(w, r, of, v, described)
	return nil
}

// recall answers for a thread that has no run: with what is on its tape.
func (h Handlers) recall(w http.ResponseWriter, r *http.Request, thread string) *wire.Problem {
	before, partial, p := h.conversation(r.Context(), thread, nil)
	if p != nil {
		return p
	}
	if len(before) == 0 {
		before = nil
	}
	e := NewEncoder(Run{Thread: thread, ID: run.NewID(), Before: before}) // a run that only the client knows
	last := tube.Event{Kind: tube.Named, Name: "finished", Value: []byte(`{"status":"completed"}`)}
	if partial {
		last.Name, last.Value = "canceled", []byte(`{"reason":"the last answer was broken off"}`)
	}
	writeWhole(w, e, last)
	return nil
}
