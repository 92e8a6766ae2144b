package web

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/agent"
	webchannel "github.com/lingserve/lingserve/channel/web"
	"github.com/lingserve/lingserve/internal/heavy"
	"github.com/lingserve/lingserve/run"
	"github.com/lingserve/lingserve/tape"
	"github.com/lingserve/lingserve/tube"
	"github.com/lingserve/lingserve/web/aisdk"
	"github.com/lingserve/lingserve/web/frame"
)

// The chats of the AI SDK (useChat) ask here. A chat is a session, and an answer's message has the id of the run that makes it.

// plainly answers with a problem as a sentence: what the body says, these clients show.
func (p *problem) plainly(w http.ResponseWriter) {
	text := p.Detail
	if p.ID != "" {
		text += " (" + p.ID + ")"
	}
	p.head(w, "text/plain; charset=utf-8")
	_, _ = w.Write([]byte(text)) // the client may have gone away
}

// another is what a model is told where the last answer was not wanted.
const another = "The user wants another answer to this message, in place of the last one."

// postUI starts the answer to a chat's message, or goes on with one whose questions the message answers.
func (s *Server) postUI(w http.ResponseWriter, r *http.Request) {
	if p := s.startUI(w, r); p != nil {
		p.plainly(w)
	}
}

func (s *Server) startUI(w http.ResponseWriter, r *http.Request) *problem {
	body, p := s.readJSON(w, r)
	if p != nil {
		return p
	}
	version, leave, p := viewUI(r, true)
	if p == nil {
		p = checkBody(body)
	}
	if p != nil {
		return p
	}
	var req *aisdk.Request
	var err error
	heavy.Do(len(body), func() { req, err = aisdk.Read(body) })
	if m, ok := errors.AsType[*aisdk.Misfit](err); ok {
		return invalid(misfit{Pointer: m.Pointer, Detail: m.Detail})
	}
	a, p := s.targetUI(r)
	if p != nil {
		return p
	}
	if req.Answers != nil {
		return s.continueUI(w, r, req, version, leave)
	}
	st := &start{Request: a, view: view{format: frame.SSE, leave: leave}}
	d := new(decoder)
	if st.idempotencyKey(d, r); len(d.misfits) > 0 {
		return invalid(d.misfits...)
	}
	if s.o.Turns != nil && who(r).Remembers() { // who may not has what was said in the request
		st.Session = req.Chat
	}
	if st.Input = req.Input; st.Input == nil {
		st.Input = s.inputOf(&st.Request, cmp.Or(req.Text, aboutFiles))
	}
	st.Files = req.Files
	st.Instructions = req.System
	if req.Regenerate {
		st.Instructions = join(st.Instructions, another)
	}
	for _, before := range req.Before {
		st.History = append(st.History, run.Said{Role: before.Role, Text: before.Text})
	}
	if version >= aisdk.Version6 { // whose stream has ended with the question, and does not tell how it goes on
		s.goOn(r, req.Chat)
	}
	run, _, p := s.startRun(w, r, st)
	if p != nil {
		return p.moved(func(m *misfit) {
			rest, input := strings.CutPrefix(m.Pointer, "/input")
			switch {
			case m.Pointer == "/session":
				m.Pointer = "/id"
			case strings.HasPrefix(m.Pointer, "/files"):
				m.Pointer = "/messages/" + itoa(req.Last) + "/parts"
			case input && req.Input == nil:
				m.Pointer = "/messages/" + itoa(req.Last)
				if rest != "" {
					m.Detail = strings.TrimPrefix(rest, "/") + ": " + m.Detail
				}
			}
		})
	}
	s.followUI(w, r, run, run.Events(), encoderUI(run, version), leave)
	return nil
}

// join puts an empty line between two texts, where there are two.
func join(a, b string) string {
	if a != "" && b != "" {
		a += "\n\n"
	}
	return a + b
}

// versionUI reads which version of the SDK asks.
func versionUI(r *http.Request) (version int, p *problem) {
	version, _, p = viewUI(r, false)
	return version, p
}

// viewUI reads the query: which version of the SDK asks, and, where it starts a run, whether that ends with its connection.
func viewUI(r *http.Request, starts bool) (version int, leave bool, p *problem) {
	version = aisdk.Version5
	d := &decoder{}
	known := map[string]func(string){"v": func(value string) {
		var err error
		if version, err = aisdk.ReadVersion(value); err != nil {
			d.fail("", "%s", err)
		}
	}}
	if starts {
		known["on_disconnect"] = func(value string) { leave = d.word("", value, "continue", "cancel") == "cancel" }
	}
	return version, leave, d.query(r, known)
}

// postUIObject runs a workflow for useObject, which sends the input and reads the document's text.
func (s *Server) postUIObject(w http.ResponseWriter, r *http.Request) {
	if p := s.objectUI(w, r); p != nil {
		p.plainly(w)
	}
}

func (s *Server) objectUI(w http.ResponseWriter, r *http.Request) *problem {
	body, p := s.readJSON(w, r)
	if p != nil {
		return p
	}
	_, leave, p := viewUI(r, true)
	if p == nil {
		p = checkBody(body)
	}
	if p != nil {
		return p
	}
	a, p := s.targetUI(r)
	if p != nil {
		return p
	}
	a.Input = bytes.TrimSpace(body)
	a.Done = true // so that what is complete need not wait to be written
	st := &start{Request: a, view: view{format: frame.JSONL, media: "text/plain; charset=utf-8", leave: leave}}
	d := new(decoder)
	if st.idempotencyKey(d, r); len(d.misfits) > 0 {
		return invalid(d.misfits...)
	}
	run, _, p := s.startRun(w, r, st)
	if p != nil { // the body is the input
		return p.moved(func(m *misfit) { m.Pointer = strings.TrimPrefix(m.Pointer, "/input") })
	}
	v := st.view
	s.awaitOutput(r, run, &v)
	if run.Ended() {
		<-run.Done() // a moment later
		o, document, beside := run.Result()
		if p := refusalOf(o, run.ID, document, beside); p != nil {
			ofRun(w.Header(), run.ID)
			return p
		}
	}
	e := aisdk.NewObject(s.shapeOf(&a).Roots)
	v.encode = encoder(e)
	ofRun(w.Header(), run.ID)
	s.stream(w, r, run, run.Events(), &v)
	if !e.Complete() {
		panic(http.ErrAbortHandler) // a clean end would read as the end of the document
	}
	return nil
}

// targetUI is the agent or workflow that the path names.
func (s *Server) targetUI(r *http.Request) (run.Request, *problem) {
	name := pathValue(r, "agent")
	a, ok := s.target(who(r), name)
	if ok {
		return a, nil
	}
	return a, s.noTarget(who(r), name)
}

// continueUI gives the answers of a message to those who wait for them, and goes on with the run behind the question.
func (s *Server) continueUI(w http.ResponseWriter, r *http.Request, req *aisdk.Request, version int, leave bool) *problem {
	if version < aisdk.Version6 {
		return invalid(misfit{Parameter: "v", Detail: "expected 6 or 7 beside a message that answers a question"})
	}
	run, p := s.find(r, req.Message)
	if p != nil {
		return p
	}
	if who(r).Remembers() && run.Lane() != webchannel.SessionKey(who(r).Owner(), req.Chat) {
		return newProblem(codeNotFound, "unknown answer; expected the id of an answer in this chat")
	}
	reader := run.Events()
	e := aisdk.New(optionsUI(run, version))
	answers := map[string]aisdk.Answer{}
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
			_ = s.runs.Answer(r.Context(), run, agent.Answer{ID: id, Approve: a.Approved, Reason: a.Reason})
		}
		e.Continue(ids...)
		if ids != nil {
			break
		}
	}
	if ids == nil {
		return newProblem(codeConflict, "no open question of this answer matches the message; it was answered, or its time is over")
	}
	s.followUI(w, r, run, reader, e, leave)
	return nil
}

// getUIStream goes on with the answer that a chat waits for: all of it, from its beginning.
func (s *Server) getUIStream(w http.ResponseWriter, r *http.Request) {
	version, p := versionUI(r)
	if p == nil {
		_, p = s.targetUI(r)
	}
	if p != nil {
		p.plainly(w)
		return
	}
	run := s.runs.Latest(r.Context(), who(r), pathValue(r, "chat"))
	// One that has ended while nobody listened is told once more: a client whose connection broke would keep half of it.
	if run == nil || run.Ended() && run.Heard.Load() {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	s.followUI(w, r, run, run.Events(), encoderUI(run, version), false)
}

// getUIChat tells a chat's messages, for a page that is loaded anew.
func (s *Server) getUIChat(w http.ResponseWriter, r *http.Request) {
	p := new(decoder).query(r, map[string]func(string){"v": func(string) {}}) // it stands in the address that a page has
	if p == nil {
		_, p = s.targetUI(r)
	}
	chat, running := pathValue(r, "chat"), ""
	var entries []tape.Entry
	run := s.runs.Latest(r.Context(), who(r), chat)
	if run != nil && !run.Ended() {
		running = run.ID
	}
	if p == nil {
		entries, p = s.newest(r.Context(), chat, aisdk.Kinds...)
	}
	if p == nil && running != "" && run.Ended() { // meanwhile, so that its stream may be told to nobody any more
		running = ""
		entries, p = s.newest(r.Context(), chat, aisdk.Kinds...)
	}
	if p != nil {
		p.plainly(w)
		return
	}
	s.sendJSON(w, r, http.StatusOK, struct {
		ID       string          `json:"id"`
		Messages []aisdk.Message `json:"messages"`
	}{chat, aisdk.Messages(entries, running)})
}

func optionsUI(run *run.Run, version int) aisdk.Options {
	return aisdk.Options{Run: run.ID, Version: version, Summary: func() ([]byte, bool) { return summaryUI(run) }}
}

// encoderUI is for a client that is told all of a run.
func encoderUI(run *run.Run, version int) *aisdk.Encoder {
	o := optionsUI(run, version)
	if version >= aisdk.Version6 {
		o.Pass = aisdk.Passed(o, run.Events().Waiting())
	}
	return aisdk.New(o)
}

// followUI streams what an encoder makes of a run.
func (s *Server) followUI(w http.ResponseWriter, r *http.Request, run *run.Run, reader *tube.Reader, e *aisdk.Encoder, leave bool) {
	h := w.Header()
	ofRun(h, run.ID)
	h.Set("X-Vercel-Ai-Ui-Message-Stream", "v1")
	if r.ProtoMajor == 1 {
		h.Set("Connection", "keep-alive")
	}
	s.stream(w, r, run, reader, &view{format: frame.SSE, encode: encoder(e), leave: leave})
	if run.Ended() {
		run.Heard.Store(true)
	}
}

// summaryUI is what a message's metadata has of its run's end.
func summaryUI(of *run.Run) (metadata []byte, truncated bool) {
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
