package aisdk

import (
	"bytes"
	"cmp"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/agent"
	"github.com/lingserve/lingserve/run"
	"github.com/lingserve/lingserve/tube"
	"github.com/lingserve/lingserve/web/wire"
	"github.com/lingserve/lingserve/web/wire/frame"
	"github.com/lingserve/lingserve/web/wire/request"
)

// Handlers answer the requests of this wire, of the AI SDK's chats (useChat) and objects (useObject). A chat is a session, and an answer's
// message has the id of the run that makes it.
type Handlers struct{ *wire.Server }

// WriteProblem answers with a problem as a sentence: clients show the body.
func WriteProblem(w http.ResponseWriter, p *wire.Problem) {
	text := p.Detail
	if p.ID != "" && !strings.Contains(text, p.ID) {
		text += " (" + p.ID + ")"
	}
	p.Head(w, "text/plain; charset=utf-8")
	_, _ = w.Write([]byte(text)) // the client may have gone away
}

// another is the instruction to a model whose last answer was not wanted.
const another = "The user wants another answer to this message, in place of the last one."

// PostChat starts the answer to a chat's message, or continues one whose questions the message answers.
func (h Handlers) PostChat(w http.ResponseWriter, r *http.Request) *wire.Problem {
	var query query
	req, q, p := wire.ReadStart(h.Server, w, r, &query, Read)
	if p != nil {
		return p
	}
	version, cancel := query.version(), query.Cancels()
	if req.Answers != nil {
		return h.resume(w, r, req, version, cancel)
	}
	if h.Remembers(wire.Who(r)) {
		q.Session = req.Chat
	}
	q.Files, q.Instructions, q.History = req.Files, req.System, req.Before
	if q.Input = req.Input; q.Input == nil {
		q.Input = h.Input(q, req.Text)
	}
	if req.Regenerate {
		q.Instructions = join(q.Instructions, another)
	}
	if version >= Version6 { // whose stream ended with the question, and does not tell what follows
		if p := h.DenyQuestions(r, req.Chat); p != nil {
			return p
		}
	}
	of, _, p := h.Start(w, r, q)
	if p != nil {
		return p.Move(req.move)
	}
	h.follow(w, r, of, wholeOf(of, version), cancel)
	return nil
}

// move turns a place in a run's request into one of a chat's.
func (r *Request) move(f *run.Field) {
	message := request.Item("/messages", r.Last)
	rest, input := strings.CutPrefix(f.Pointer, "/input")
	switch {
	case f.Pointer == "/session":
		f.Pointer = "/id"
	case strings.HasPrefix(f.Pointer, "/files"):
		f.Pointer = message + "/parts"
	case input && r.Input == nil:
		f.Pointer = message
		if rest != "" {
			f.Detail = strings.TrimPrefix(rest, "/") + ": " + f.Detail
		}
	}
}

// join puts an empty line between two texts, where there are two.
func join(a, b string) string {
	if a != "" && b != "" {
		a += "\n\n"
	}
	return a + b
}

// query is the query of requests that follow a run.
type query struct {
	V string `field:"v" words:"5 6 7"` // major version of the package ai
	request.Disconnect
}

// version returns the version of the SDK that asks.
func (q query) version() int { return int(cmp.Or(q.V, "5")[0] - '0') }

// PostObject runs a workflow for useObject, which sends the input and reads the document's text.
func (h Handlers) PostObject(w http.ResponseWriter, r *http.Request) *wire.Problem {
	var query query
	asInput := func(body []byte) (json.RawMessage, []run.Field) { return bytes.TrimSpace(body), nil }
	input, q, p := wire.ReadStart(h.Server, w, r, &query, asInput)
	if p != nil {
		return p
	}
	q.Input = input
	q.Done = true // so that what is complete need not wait to be written
	of, _, p := h.Start(w, r, q)
	if p != nil { // the body is the input
		return p.Move(func(f *run.Field) { f.Pointer = strings.TrimPrefix(f.Pointer, "/input") })
	}
	e := NewObject(h.Roots(q.Subject))
	v := &wire.View{Format: frame.JSONL, Media: "text/plain; charset=utf-8", CancelOnDisconnect: query.Cancels(), Kind: wire.StreamUI}
	v.Begin = func() (frame.Encoder, *tube.Reader) { return e, of.Events() }
	wire.SetRun(w.Header(), of.ID)
	if p := h.AwaitOutput(r, of, v, 0, false); p != nil { // a stream of nothing that breaks off would say less
		return p
	}
	h.Stream(w, r, of, v)
	if !e.Complete() {
		panic(http.ErrAbortHandler) // a clean end would read as the end of the document
	}
	return nil
}

// resume gives the answers of a message to the run that waits for them, and streams the run from behind the question.
func (h Handlers) resume(w http.ResponseWriter, r *http.Request, req *Request, version int, cancel bool) *wire.Problem {
	if version < Version6 {
		return wire.Invalid(run.Field{Parameter: "v", Detail: "expected 6 or 7 beside a message that answers a question"})
	}
	run, p := h.Find(r, req.Message)
	if p != nil {
		return p
	}
	if !wire.InSession(r, run, req.Chat) {
		return wire.NewProblem(wire.CodeNotFound, "unknown answer; expected the id of an answer in this chat")
	}
	reader := run.Events()
	e := New(optionsOf(run, version))
	answers := map[string]agent.Answer{}
	for _, a := range req.Answers {
		answers[a.ID] = a
	}
	// What the client has had is read once more, up to where its stream ended.
	var scratch []byte
	var ids []string
	for ev := range reader.Waiting() {
		scratch = e.Append(scratch[:0], ev)
		if !e.Over() {
			continue
		}
		for _, id := range e.Questions() {
			a, ok := answers[id]
			if !ok {
				continue
			}
			ids = append(ids, id)
			// A client that comes too late reads in the stream what was decided.
			_ = h.Runs.Answer(r.Context(), run, a)
		}
		e.Continue(ids...)
		if ids != nil {
			break
		}
	}
	if ids == nil {
		return wire.NewProblem(wire.CodeConflict, "no open question of this answer matches the message; it was answered, or its time is over")
	}
	h.follow(w, r, run, func() (frame.Encoder, *tube.Reader) { return e, reader }, cancel)
	return nil
}

// GetStream streams the answer that a chat waits for: all of it, from its beginning.
func (h Handlers) GetStream(w http.ResponseWriter, r *http.Request) *wire.Problem {
	var query query
	p := wire.Query(r, &query)
	if p == nil {
		_, p = h.PathTarget(r)
	}
	if p != nil {
		return p
	}
	run, p := h.Latest(r, wire.PathValue(r, "chat"))
	if p != nil {
		return p
	}
	// A run that ended without a reader is sent again: a client whose connection broke would keep half of it.
	if run == nil || run.Ended() && run.Heard.Load() {
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	h.follow(w, r, run, wholeOf(run, query.version()), query.Cancels())
	return nil
}

// GetChat returns a chat's messages, for a page that was reloaded.
func (h Handlers) GetChat(w http.ResponseWriter, r *http.Request) *wire.Problem {
	var query query // it is in the address that a page has
	if p := wire.Query(r, &query); p != nil {
		return p
	}
	if _, p := h.PathTarget(r); p != nil {
		return p
	}
	chat, running := wire.PathValue(r, "chat"), ""
	run, p := h.Latest(r, chat)
	if p != nil {
		return p
	}
	if run != nil && !run.Ended() {
		running = run.ID
	}
	entries, p := h.Newest(r.Context(), chat, Kinds...)
	if p == nil && running != "" && run.Ended() { // meanwhile, so a stream may have no answer for it
		running = ""
		entries, p = h.Newest(r.Context(), chat, Kinds...)
	}
	if p != nil {
		return p
	}
	h.SendJSON(w, r, http.StatusOK, struct {
		ID       string    `json:"id"`
		Messages []Message `json:"messages"`
	}{chat, Messages(entries, running)})
	return nil
}

func optionsOf(run *run.Run, version int) Options {
	return Options{Run: run.ID, Version: version, Summary: func() ([]byte, bool) { return summaryOf(run) }}
}

// wholeOf begins a stream of all of a run.
func wholeOf(run *run.Run, version int) (begin func() (frame.Encoder, *tube.Reader)) {
	return func() (frame.Encoder, *tube.Reader) {
		o := optionsOf(run, version)
		o.Answered = func(n uint64, id string) bool { return wire.Answered(run, n, id) }
		return New(o), run.Events()
	}
}

// follow streams what an encoder makes of a run.
func (h Handlers) follow(w http.ResponseWriter, r *http.Request, run *run.Run, begin func() (frame.Encoder, *tube.Reader), cancel bool) {
	w.Header().Set("X-Vercel-Ai-Ui-Message-Stream", "v1")
	if r.ProtoMajor == 1 {
		w.Header().Set("Connection", "keep-alive")
	}
	h.Stream(w, r, run, &wire.View{Format: frame.SSE, Begin: begin, Kind: wire.StreamUI, CancelOnDisconnect: cancel})
	if run.Ended() {
		run.Heard.Store(true)
	}
}

// summaryOf is what a message's metadata has of its run's end.
func summaryOf(of *run.Run) (metadata []byte, truncated bool) {
	o := of.Summary()
	metadata, err := json.Marshal(struct {
		Status    string                   `json:"status"`
		Reason    string                   `json:"reason,omitempty"`
		Usage     map[string]adapter.Usage `json:"usage,omitempty"`
		Models    map[string][]string      `json:"models,omitempty"`
		Truncated bool                     `json:"truncated,omitempty"`
	}{o.Status, o.Reason, o.Usage, o.Models, o.Truncated})
	if err != nil { // cannot be: strings, numbers and maps of them
		panic(err)
	}
	return metadata, o.Truncated
}
