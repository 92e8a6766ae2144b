package web

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/lingserve/lingserve/access"
	"github.com/lingserve/lingserve/adapter/wire"
	"github.com/lingserve/lingserve/flow"
	"github.com/lingserve/lingserve/internal/heavy"
	"github.com/lingserve/lingserve/internal/wording"
	"github.com/lingserve/lingserve/run"
	"github.com/lingserve/lingserve/tube"
	"github.com/lingserve/lingserve/web/frame"
	"github.com/lingserve/lingserve/web/openai"
)

// postCompletion answers a chat completion: an agent, a workflow or a model takes the place of OpenAI's.
func (s *Server) postCompletion(w http.ResponseWriter, r *http.Request) {
	body, p := s.readJSON(w, r)
	if p == nil {
		p = checkBody(body)
	}
	if p != nil {
		p.openai(w, nil)
		return
	}
	var q *openai.Request
	var refusal *openai.Error
	heavy.Do(len(body), func() { q, refusal = openai.Read(body) })
	if refusal != nil {
		writeOpenAI(w, refusal)
		return
	}
	st, d := new(start), new(decoder)
	if st.idempotencyKey(d, r); len(d.misfits) > 0 {
		invalid(d.misfits...).openai(w, q)
		return
	}
	if refusal := s.completionOf(who(r), &st.Request, q); refusal != nil {
		writeOpenAI(w, refusal)
		return
	}
	// Whoever waits for an answer in this shape cannot be asked anything. And it cannot come back to a run, but by its key: a run that
	// nobody has a key to has nobody who wants it when the connection is gone.
	st.format, st.leave = frame.JSON, st.Key == ""
	of, _, p := s.startRun(w, r, st)
	if p != nil {
		p.openai(w, q)
		return
	}
	h := w.Header()
	ofRun(h, of.ID)
	h.Set("X-Request-Id", of.ID)
	head := openai.Head{ID: of.ID, Model: q.Model, Created: of.Began.Unix()}
	v := st.view
	if q.Stream {
		shape := s.shapeOf(&st.Request)
		v.format = frame.SSE
		v.encode = func(*run.Run) frame.Encoder {
			return openai.NewStream(head, q.Usage, shape, func() openai.End { return openaiEnd(endOf(of)) })
		}
		if s.awaitOutput(r, of, &v); !refuseCompletion(w, of) {
			s.stream(w, r, of, of.Events(), &v)
		}
		return
	}
	s.complete(w, r, of, &v, head)
}

// endOf is the result of a run.
func endOf(r *run.Run) run.Result {
	o, _, _ := r.Result()
	return o
}

// byWorkflow is the workflow that answers for an agent; "" where the agent does.
func (s *Server) byWorkflow(agent string) string {
	if by, ok := s.o.Agents.(run.ByWorkflow); ok && agent != "" {
		return by.Workflow(agent)
	}
	return ""
}

// inTemplate is what a template in a root stands for: some key.
var inTemplate = regexp.MustCompile(`[^/]*\{\{.*?\}\}[^/]*`)

// shapeOf says what is known of a document: of a workflow's, where its bots write. Those that mend what another has failed of are
// not expected.
func (s *Server) shapeOf(a *run.Request) (shape openai.Shape) {
	if a.Completion != nil {
		shape.Text = !a.Completion.JSON
		return shape
	}
	name := cmp.Or(a.Workflow, s.byWorkflow(a.Agent))
	if name == "" {
		shape.Text = true
		return shape
	}
	wf, ok := s.o.Workflows.Get(name)
	if !ok || wf.Info().Graph == nil {
		return shape
	}
	for _, b := range wf.Info().Graph.Bots {
		if len(b.On) == 0 || slices.ContainsFunc(b.On, func(t flow.Trigger) bool { return t.Error == "" }) {
			shape.Roots = append(shape.Roots, inTemplate.ReplaceAllString(b.Root, "*"))
		}
	}
	return shape
}

// completionOf makes an ask of a request: what its model names, with the messages as that takes them.
func (s *Server) completionOf(p access.Principal, a *run.Request, q *openai.Request) *openai.Error {
	target, ok := s.target(p, q.Model)
	if !ok {
		if _, err := s.o.Models.Model(q.Model); err != nil || !strings.Contains(q.Model, ":") || !p.Runs("") {
			return s.noModel(q.Model)
		}
		target.Model = q.Model
		target.Completion = &run.Completion{Messages: q.Messages, JSON: q.JSON, Schema: q.Schema, SchemaName: q.SchemaName}
	}
	a.Subject, a.Model, a.Completion = target.Subject, target.Model, target.Completion
	a.Options = q.Options
	a.Done = true
	if a.Completion != nil {
		return nil
	}
	if q.Schema != nil || q.JSON && a.Agent != "" && s.byWorkflow(a.Agent) == "" {
		return &openai.Error{Status: http.StatusBadRequest, Code: codeInvalid, Param: "response_format", Message: "agents answer with text, and workflows with a document " +
			"of their own schema; remove this, or use a model"}
	}
	if q.Session != "" && s.o.Turns != nil && p.Remembers() { // who may not has said all that there is, as these clients do
		a.Session = q.Session
	}
	instructions, before, now, refusal := q.Conversation()
	if refusal != nil {
		return refusal
	}
	a.Instructions = instructions
	for _, m := range before {
		a.History = append(a.History, run.Said{Role: m.Role, Text: m.Content})
	}
	text := now.Content
	if len(now.Parts) > 0 {
		var texts []string
		for _, p := range now.Parts {
			if p.Type == "text" {
				texts = append(texts, p.Text)
			} else {
				a.Files = append(a.Files, p)
			}
		}
		text = cmp.Or(strings.Join(texts, "\n"), aboutFiles)
	}
	a.Input = s.inputOf(a, text)
	return nil
}

// inputOf makes the input of what is said: that text, or the object that it is where it names properties of the workflow's input.
func (s *Server) inputOf(a *run.Request, text string) json.RawMessage {
	quoted, _ := json.Marshal(text)
	trimmed := strings.TrimSpace(text)
	wf, ok := s.o.Workflows.Get(a.Workflow)
	if !ok || !strings.HasPrefix(trimmed, "{") || checkJSON([]byte(trimmed)) != nil {
		return quoted
	}
	var schema struct {
		Properties map[string]json.RawMessage `json:"properties"`
	}
	var object map[string]json.RawMessage
	_ = json.Unmarshal(wf.Info().Input, &schema) // a workflow without one has no properties
	_ = json.Unmarshal([]byte(trimmed), &object) // it is JSON
	for name := range object {
		if _, ok := schema.Properties[name]; ok {
			return json.RawMessage(trimmed)
		}
	}
	if _, err := flow.Prepare(wf, quoted); err != nil {
		return json.RawMessage(trimmed)
	}
	return quoted
}

// noModel is the error of a name that is none.
func (s *Server) noModel(name string) *openai.Error {
	return &openai.Error{
		Status: http.StatusNotFound, Code: "model_not_found", Param: "model",
		Message: "unknown agent, workflow or model " + wording.Quote(name) + "; GET /v1/models lists them",
	}
}

// openai answers with the problem in OpenAI's shape. q is what was asked; nil where that is not known.
func (p *problem) openai(w http.ResponseWriter, q *openai.Request) {
	refused(w, p.why())
	h := w.Header()
	maps.Copy(h, p.header)
	if p.retryAfter > 0 {
		h.Set("Retry-After", retryAfter(p.retryAfter))
	}
	if p.Run != "" {
		ofRun(h, p.Run)
	}
	if id := cmp.Or(p.ID, p.Run); id != "" {
		h.Set("X-Request-Id", id)
	}
	writeOpenAI(w, p.asOpenAI(q))
}

// asOpenAI is the problem in OpenAI's words: what it is about has another name there.
func (p *problem) asOpenAI(q *openai.Request) *openai.Error {
	e := &openai.Error{Status: p.Status, Code: p.Code, Message: p.Detail}
	if len(p.Errors) == 0 {
		return e
	}
	m := p.Errors[0]
	at := strings.TrimPrefix(m.Pointer, "/")
	name, rest, _ := strings.Cut(at, "/")
	switch {
	case q == nil || at == "":
		e.Param = strings.ReplaceAll(at, "/", ".")
		return e
	case name == "options":
		e.Param = rest
	case name == "input":
		e.Param, e.Message = "messages", m.Detail
		if rest != "" {
			e.Message = rest + ": " + m.Detail
		}
		e.Message = "the last message is invalid: " + e.Message
		return e
	case name == "session":
		e.Param = cmp.Or(q.SessionParam, "user")
	default:
		e.Param = name
	}
	e.Message = m.Detail
	return e
}

// writeOpenAI answers with an error. Every answer has an id to ask for.
func writeOpenAI(w http.ResponseWriter, e *openai.Error) {
	h := w.Header()
	if h.Get("X-Request-Id") == "" {
		h.Set("X-Request-Id", run.NewID())
	}
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(e.Status)
	_, _ = w.Write(append(e.AppendJSON(nil), '\n')) // the client may have gone away
}

// openaiEnd is how a run has ended that has said something; of one that goes on, how it would end now.
func openaiEnd(o run.Result) openai.End {
	end := openai.End{Finish: openai.Stop}
	for _, u := range o.Usage {
		end.Usage.Add(u)
	}
	if o.Truncated {
		end.Finish = openai.Length
	}
	if p := openaiProblem(o); p != nil {
		end.Err = p.asOpenAI(nil)
	}
	if cause, ok := o.Cause(); ok && o.Status == run.StatusFailed && strings.Contains(cause.Message, wire.ContentFilter) {
		end.Finish, end.Err = openai.ContentFilter, nil
	}
	return end
}

// openaiProblem is what keeps a run's answer from being one: nil where nothing does. Half an answer is none for clients that cannot
// be told that it is half of one.
func openaiProblem(o run.Result) *problem {
	switch o.Status {
	case run.StatusFailed:
		if cause, ok := o.Cause(); ok {
			p := failureProblem(cause)
			p.header = http.Header{"X-Should-Retry": {strconv.FormatBool(cause.Retryable)}}
			return p
		}
		return newProblem(codeInternal, "the run has failed")
	case run.StatusCanceled:
		p := newProblem(codeConflict, "the run was canceled: "+o.Reason)
		p.Code = run.StatusCanceled
		p.header = http.Header{"X-Should-Retry": {"false"}}
		return p
	case run.StatusInterrupted:
		p := newProblem(codeDraining, "the run was interrupted, because the server shut down")
		p.retryAfter = 2 * time.Second
		return p
	}
	return nil
}

// runOpenAIProblem is that of how a run has ended. Under a key the same request is the same run, so that another try changes nothing.
func runOpenAIProblem(r *run.Run, o run.Result) *problem {
	p := openaiProblem(o)
	if p == nil {
		return nil
	}
	p.Run = r.ID
	if o.Status == run.StatusInterrupted && r.Keyed {
		p.retryAfter = 0
		p.header = http.Header{"X-Should-Retry": {"false"}}
		p.Detail += "; retry with another Idempotency-Key"
	}
	return p
}

// refuseCompletion answers with the error of a run that has ended without having made anything: false for all others.
func refuseCompletion(w http.ResponseWriter, run *run.Run) bool {
	if !run.Ended() {
		return false
	}
	<-run.Done() // a moment later
	o, document, beside := run.Result()
	p := runOpenAIProblem(run, o)
	if p == nil || !empty(document) || !empty(beside) {
		return false
	}
	p.openai(w, nil)
	return true
}

// awaitOutput waits until the run has made something, so that one that fails before is answered with a status, or until it is time
// to say that the connection lives.
func (s *Server) awaitOutput(r *http.Request, run *run.Run, v *view) {
	s.streams.Enter()
	defer s.streams.Leave()
	reader := run.Events()
	defer reader.Leave()
	var late atomic.Bool
	defer context.AfterFunc(r.Context(), reader.Wake)()
	defer context.AfterFunc(s.stopping, reader.Wake)()
	defer time.AfterFunc(s.o.KeepAlive, func() { late.Store(true); reader.Wake() }).Stop()
	for {
		for e := range reader.Waiting() {
			if e.Kind <= tube.Set || e.Terminal() {
				return
			}
		}
		if late.Load() || reader.Ended() {
			return
		}
		<-reader.More()
		if r.Context().Err() != nil {
			s.giveUp(run, v)
			panic(http.ErrAbortHandler)
		}
		if s.stopping.Err() != nil {
			panic(http.ErrAbortHandler)
		}
	}
}

// silence is how long an answer that is not streamed may take before its connection is kept open by a space in front of it. From
// then on its status is 200, and an error is one only by its body; so this comes as late as the patience of proxies allows.
const silence = 30 * time.Second

// complete waits for the run's end and answers with one completion.
func (s *Server) complete(w http.ResponseWriter, r *http.Request, run *run.Run, v *view, head openai.Head) {
	f, r := s.follow(w, r, run, StreamJSON)
	defer f.over(nil)
	defer run.Hold()()
	out, begun := s.newOutput(w, r), false
	tick := time.NewTicker(max(silence, s.o.KeepAlive))
	defer tick.Stop()
	for ends := run.Ends(); len(ends) > 0; {
		select {
		case <-ends[0]:
			ends = ends[1:]
		case <-tick.C:
			if !begun {
				begun = true
				w.Header().Set("Content-Type", "application/json")
				w.Header().Set("Cache-Control", "no-store")
				w.Header().Set("X-Accel-Buffering", "no")
				w.WriteHeader(http.StatusOK)
				tick.Reset(s.o.KeepAlive)
			}
			_, err := out.Write([]byte("\n"))
			if err == nil {
				err = out.Flush()
			}
			if err != nil {
				f.failed(out, err)
				s.left(run, v, err)
			}
		case <-r.Context().Done():
			s.giveUp(run, v)
			panic(http.ErrAbortHandler)
		case <-s.stopping.Done():
			panic(http.ErrAbortHandler)
		}
	}
	if !run.Final() { // it has ended here alone: who comes back gets the end that is its own
		panic(http.ErrAbortHandler)
	}
	f.end = StreamComplete
	o, document, beside := run.Result()
	end := openaiEnd(o)
	if end.Err != nil {
		p := runOpenAIProblem(run, o)
		if !begun {
			p.openai(w, nil)
			return
		}
	}
	if empty(document) && run.Of.Agent != "" {
		document = []byte(`""`)
	}
	var body []byte
	if end.Err != nil {
		body = append(end.Err.AppendJSON(nil), '\n')
	} else {
		body = openai.AppendCompletion(nil, head, document, beside, end)
	}
	if !begun {
		s.send(w, r, http.StatusOK, "application/json", body)
		return
	}
	if _, err := out.Write(body); err != nil {
		panic(http.ErrAbortHandler)
	}
}
