package web

import (
	"cmp"
	"encoding/json"
	"maps"
	"net/http"
	"strings"

	"github.com/lingserve/lingserve/access"
	"github.com/lingserve/lingserve/agent"
	webchannel "github.com/lingserve/lingserve/channel/web"
	"github.com/lingserve/lingserve/flow"
	"github.com/lingserve/lingserve/internal/heavy"
	"github.com/lingserve/lingserve/internal/wording"
	"github.com/lingserve/lingserve/run"
	"github.com/lingserve/lingserve/tube"
	"github.com/lingserve/lingserve/web/agui"
	"github.com/lingserve/lingserve/web/frame"
)

// postAGUI runs an agent or a workflow for a client that speaks AG-UI, or gives the client's answers to the run that waits for
// them and goes on with that.
func (s *Server) postAGUI(w http.ResponseWriter, r *http.Request) {
	p := s.agui(w, r)
	if p != nil {
		writeAGUI(w, p)
	}
}

// agui is postAGUI but for its problem.
func (s *Server) agui(w http.ResponseWriter, r *http.Request) *problem {
	body, p := s.readJSON(w, r)
	if p != nil {
		return p
	}
	st, d := new(start), new(decoder)
	if p := d.query(r, map[string]func(string){
		"on_disconnect": func(value string) { st.leave = d.word("", value, "continue", "cancel") == "cancel" },
		// A message that is steered to a run is told by that one, of which this client has a part.
		"on_busy": func(value string) { st.OnBusy = d.word("", value, policies[:3]...) },
	}); p != nil {
		return p
	}
	target, ok := s.target(who(r), pathValue(r, "agent"))
	if !ok {
		return s.noTarget(who(r), pathValue(r, "agent"))
	}
	if st.idempotencyKey(d, r); len(d.misfits) > 0 {
		return invalid(d.misfits...)
	}
	if p := checkBody(body); p != nil {
		return p
	}
	var in *agui.Input
	var faults []agui.Fault
	heavy.Do(len(body), func() { in, faults = agui.Read(body) })
	if len(faults) > 0 {
		return invalid(misfits(faults)...)
	}
	answeredRun, p := s.answerAGUI(r, in)
	if p != nil {
		return p
	}
	if answeredRun != nil && !in.Asks { // the answers are all that is said
		return s.resumeAGUI(w, r, answeredRun, st, in)
	}
	if len(in.Resume) > 0 && !in.Asks {
		s.goneAGUI(w, in)
		return nil
	}
	st.Subject, st.Done, st.format = target.Subject, true, frame.SSE
	if s.o.Turns != nil && who(r).Remembers() { // who may not has what was said in the request
		st.Session = in.Thread
	}
	notes, p := s.askedBy(&st.Request, in)
	if p != nil {
		return p
	}
	if err := st.CheckSaid(); err != nil { // here, where it is known what it is called
		p := s.problem(r.Context(), err)
		p.Detail = "/messages: " + p.Detail
		return p
	}
	if st.OnBusy == "" {
		s.goOn(r, in.Thread)
	}
	of, out, p := s.startRun(w, r, st)
	if p != nil {
		return inAGUI(p, in)
	}
	if out.Kind == run.Replayed { // by a client that may have a part of it
		return s.rejoinAGUI(w, r, of, st, in)
	}
	as := s.asAGUI(of, in)
	as.Notes = notes
	v := st.view
	v.encode = encoder(agui.NewEncoder(as))
	s.answer(w, r, of, &v, 0)
	return nil
}

// noTarget says who could have been asked by somebody.
func (s *Server) noTarget(p access.Principal, name string) *problem {
	agents, workflows := s.targets(p)
	return newProblem(codeNotFound, "unknown agent or workflow "+wording.Quote(name)+"; "+wording.Expected(name, append(agents, workflows...)))
}

func misfits(faults []agui.Fault) (list []misfit) {
	for _, f := range faults {
		list = append(list, misfit{Pointer: f.Pointer, Detail: f.Detail})
	}
	return list
}

func encoder(e frame.Encoder) func(*run.Run) frame.Encoder {
	return func(*run.Run) frame.Encoder { return e }
}

// askedBy takes from an input what is to run, and says what of it is not used. What a front end's own program forwards goes before
// what its user says: it knows the workflow that it asks.
func (s *Server) askedBy(a *run.Request, in *agui.Input) (notes []agui.Note, p *problem) {
	d := new(decoder)
	property := func(name string, take func(at string, raw json.RawMessage)) {
		if raw, ok := in.Props[name]; ok && string(raw) != "null" {
			take("/forwardedProps/"+name, raw)
		}
	}
	property("input", func(_ string, raw json.RawMessage) { a.Input = raw })
	property("model", func(at string, raw json.RawMessage) { a.Model = d.model(at, raw) })
	property("params", func(at string, raw json.RawMessage) { d.params(a, at, raw) })
	property("options", func(at string, raw json.RawMessage) { d.options(a, at, raw) })
	if a.Input == nil && !in.Asks {
		d.fail("/messages", "expected a message of the user at the end, or forwardedProps.input")
	}
	if len(d.misfits) > 0 {
		return nil, invalid(d.misfits...)
	}
	notes = toolsOf(in)
	if a.Input == nil {
		text := in.Text
		if len(in.Files) > 0 {
			text = cmp.Or(text, aboutFiles)
		}
		a.Input = s.inputOf(a, text)
	}
	a.Files = in.Files
	for _, m := range in.Said {
		a.History = append(a.History, run.Said{Role: m.Role, Text: m.Text})
	}
	if a.Agent == "" {
		return notes, nil // a workflow has instructions of its own
	}
	a.Instructions = in.Instructions
	if state := string(in.State); state != "" && state != "{}" {
		with := strings.TrimPrefix(a.Instructions+"\n\nThe state of the page that the user looks at, as JSON: "+state, "\n\n")
		if len(with) > run.MaxInstructions {
			return append(notes, warning("state_ignored", "the page's state is too large for the agent and was left out", nil)), nil
		}
		a.Instructions = with
	}
	return notes, nil
}

// toolsOf says that the tools of a page are not called: its agent runs here, and may go on when the page is gone.
func toolsOf(in *agui.Input) []agui.Note {
	if len(in.Tools) == 0 {
		return nil
	}
	return []agui.Note{warning("tools_ignored", "the page's tools are ignored; an agent calls only its own tools, on the server", in.Tools)}
}

// warning is a note about something that was asked for and is not done.
func warning(code, message string, tools []string) agui.Note {
	value, _ := json.Marshal(struct {
		Code    string   `json:"code"`
		Message string   `json:"message"`
		Tools   []string `json:"tools,omitempty"`
	}{code, message, tools})
	return agui.Note{Name: "warning", Value: value}
}

// attached says which of our runs a client has come back to.
func attached(run *run.Run) agui.Note {
	value, _ := json.Marshal(map[string]string{"run": run.ID})
	return agui.Note{Name: "attached", Value: value}
}

// asAGUI is how a run is told to a client.
func (s *Server) asAGUI(run *run.Run, in *agui.Input) agui.Run {
	as := agui.Run{
		Thread: in.Thread, ID: in.Run, Parent: in.Parent, Of: run.ID,
		State:    run.Of.Agent == "", // an agent mostly says a text
		Old:      in.Version == "",
		Answered: func(n uint64, id string) bool { return answered(run, n, id) },
	}
	if w, ok := s.o.Workflows.Get(cmp.Or(run.Of.Workflow, s.byWorkflow(run.Of.Agent))); ok {
		as.Bots = botsOf(w.Info().Graph)
	}
	return as
}

// botsOf are the bots of a workflow, with what is known of their roots before they run.
func botsOf(g *flow.Graph) (list []agui.Bot) {
	if g == nil {
		return nil
	}
	for _, n := range g.Bots {
		list = append(list, agui.Bot{Name: n.Name, Root: rootPattern(n.Root), Text: n.Format == "text"})
	}
	return list
}

// rootPattern is the pattern of what a template of a root can give, where each of its expressions gives a part of a segment.
func rootPattern(template string) string {
	const any = "\x00"
	for {
		before, rest, ok := strings.Cut(template, "{{")
		if !ok {
			break
		}
		_, after, _ := strings.Cut(rest, "}}")
		template = before + any + after
	}
	segments := strings.Split(template, "/")
	for i, segment := range segments {
		switch {
		case strings.Contains(segment, any):
			segments[i] = "*"
		case segment == "*" || segment == "**":
			segments[i] = `\` + segment
		}
	}
	return strings.Join(segments, "/")
}

// answered says whether the question of event n is answered, or over with the run.
func answered(run *run.Run, n uint64, id string) bool {
	if run.Ended() {
		return true
	}
	for e := range run.ReadNow(n + 1).Waiting() {
		var a struct{ ID string }
		if e.Kind == tube.Named && e.Name == string(agent.ApprovalResolvedEvent) && json.Unmarshal(e.Value, &a) == nil && a.ID == id {
			return true
		}
	}
	return false
}

// answerAGUI gives the client's answers to the run that waits for them, and returns that: nil where there are none, or the run is
// not known any more. A question that is over is none that could be answered wrongly: what came of it, the run tells.
func (s *Server) answerAGUI(r *http.Request, in *agui.Input) (*run.Run, *problem) {
	var of *run.Run
	for i, a := range in.Resume {
		at := "/resume/" + itoa(i) + "/interruptId"
		runID, n, id, ok := agui.ParseQuestion(a.Interrupt)
		if !ok || !run.ValidID(runID) {
			return nil, invalid(misfit{Pointer: at, Detail: "unknown id; expected one from this server"})
		}
		run, p := s.find(r, runID)
		switch {
		case p != nil:
			continue // the client has to get rid of it somehow
		case who(r).Remembers() && run.Lane() != webchannel.SessionKey(who(r).Owner(), in.Thread):
			return nil, invalid(misfit{Pointer: at, Detail: "belongs to another thread"})
		case of != nil && of != run:
			return nil, invalid(misfit{Pointer: at, Detail: "belongs to another run than the previous one"})
		}
		of = run
		answer := agent.Answer{ID: id, Approve: a.Approve, Reason: a.Reason, Remember: a.Remember}
		if err := s.runs.Answer(r.Context(), run, answer); err != nil {
			if p := s.problem(r.Context(), err); p.Code != codeConflict && !answered(run, n, id) {
				return nil, p
			}
		}
	}
	return of, nil
}

// goOn answers the questions of a thread whose user goes on with something else, as a page does that was loaded anew and does not
// know of them: nobody would, and the message would wait until their time is over.
func (s *Server) goOn(r *http.Request, thread string) {
	run := s.runs.Latest(r.Context(), who(r), thread)
	if run == nil || run.Ended() {
		return
	}
	for e := range run.Events().Waiting() {
		var q struct{ ID string }
		if e.Kind == tube.Named && e.Name == string(agent.ApprovalRequiredEvent) && json.Unmarshal(e.Value, &q) == nil && !answered(run, e.N, q.ID) {
			// Where that fails, somebody else has answered.
			_ = s.runs.Answer(r.Context(), run, agent.Answer{ID: q.ID, Reason: "the user sent another message instead"})
		}
	}
}

// resumeAGUI goes on with a run whose questions the client has answered, from the last of them on.
func (s *Server) resumeAGUI(w http.ResponseWriter, r *http.Request, run *run.Run, st *start, in *agui.Input) *problem {
	var last uint64
	for _, a := range in.Resume {
		if _, n, _, _ := agui.ParseQuestion(a.Interrupt); n > last {
			last = n
		}
	}
	as := s.asAGUI(run, in)
	as.Notes = append(toolsOf(in), attached(run))
	e := agui.NewEncoder(as)
	reader := run.Events()
	for event := range reader.Waiting() {
		if event.N > last {
			break
		}
		e.Skip(event)
		if event.N == last {
			break
		}
	}
	e.Resume()
	ofRun(w.Header(), run.ID)
	v := st.view
	v.format, v.encode = frame.SSE, encoder(e)
	s.stream(w, r, run, run.ReadNow(last+1), &v)
	return nil
}

// goneAGUI is the end of a run that is not known any more, for a client that has answered its questions: nothing is waited for.
func (s *Server) goneAGUI(w http.ResponseWriter, in *agui.Input) {
	data, _ := json.Marshal(map[string]string{"reason": "the run of this question is no longer stored"})
	s.whole(w, agui.NewEncoder(agui.Run{Thread: in.Thread, ID: in.Run, Parent: in.Parent, Old: in.Version == ""}), tube.Event{
		Kind: tube.Named, Name: "canceled", Value: data,
	})
}

// whole answers with a stream that has its end already.
func (s *Server) whole(w http.ResponseWriter, e *agui.Encoder, last tube.Event) {
	streamHeaders(w.Header(), frame.SSE)
	_, _ = w.Write(e.Append(e.Open(nil), last)) // the client may have gone away
}

// inAGUI is a problem of a run, where its pointers lead into an input.
func inAGUI(p *problem, in *agui.Input) *problem {
	return p.moved(func(m *misfit) {
		switch rest, input := strings.CutPrefix(m.Pointer, "/input"); {
		case input && in.Props["input"] == nil:
			m.Pointer = in.At
			if rest != "" {
				m.Detail = strings.TrimPrefix(rest, "/") + ": " + m.Detail + "; send an object in forwardedProps.input"
			}
		case m.Pointer == "/session":
			m.Pointer = "/threadId"
		case m.Pointer != "":
			m.Pointer = "/forwardedProps" + m.Pointer
		}
	})
}

// writeAGUI answers with a problem in the words of a failed run, as JSON: that is what clients read, and show as it is.
func writeAGUI(w http.ResponseWriter, p *problem) {
	text, err := json.Marshal(struct {
		Message string   `json:"message"`
		Code    string   `json:"code"`
		Run     string   `json:"run,omitempty"`
		ID      string   `json:"id,omitempty"`
		Errors  []misfit `json:"errors,omitempty"`
	}{p.Detail, p.Code, p.Run, p.ID, p.Errors})
	if err != nil { // cannot be: strings
		panic(err)
	}
	refused(w, p.why())
	h := w.Header()
	maps.Copy(h, p.header)
	if p.retryAfter > 0 {
		h.Set("Retry-After", retryAfter(p.retryAfter))
	}
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(p.Status)
	_, _ = w.Write(append(text, '\n')) // the client may have gone away
}

// getAGUI brings a client back to a conversation: its messages, what its last run has made, and how that goes on.
func (s *Server) getAGUI(w http.ResponseWriter, r *http.Request) {
	st, d := new(start), new(decoder)
	p := d.query(r, map[string]func(string){
		"on_disconnect": func(value string) { st.leave = d.word("", value, "continue", "cancel") == "cancel" },
	})
	name, thread := pathValue(r, "agent"), pathValue(r, "thread")
	if p == nil {
		if _, ok := s.target(who(r), name); !ok {
			p = s.noTarget(who(r), name)
		} else if why := s.runs.CheckSession(who(r), thread); why != "" {
			p = newProblem(codeNotFound, "unknown thread: "+why)
		}
	}
	if p != nil {
		writeAGUI(w, p)
		return
	}
	if last := s.runs.Latest(r.Context(), who(r), thread); last != nil {
		p = s.rejoinAGUI(w, r, last, st, &agui.Input{Thread: thread, Run: last.ID, Version: agui.Version})
	} else {
		p = s.recallAGUI(w, r, thread)
	}
	if p != nil {
		writeAGUI(w, p)
	}
}

// rejoinAGUI tells a client of a run of which it may have nothing, or a part: all that there is, and then what comes.
func (s *Server) rejoinAGUI(w http.ResponseWriter, r *http.Request, run *run.Run, st *start, in *agui.Input) *problem {
	before, _, p := s.conversation(r.Context(), in.Thread, run)
	if p != nil {
		return p
	}
	as := s.asAGUI(run, in)
	as.Notes = []agui.Note{attached(run)}
	e := agui.NewEncoder(as)
	e.Record()
	reader := run.Events()
	for event := range reader.Waiting() {
		e.Skip(event)
	}
	e.Rejoin(before)
	ofRun(w.Header(), run.ID)
	v := st.view
	v.format, v.encode = frame.SSE, encoder(e)
	s.stream(w, r, run, reader, &v)
	return nil
}

// recallAGUI tells a client of a thread of which there is nothing but its tape, or not even that.
func (s *Server) recallAGUI(w http.ResponseWriter, r *http.Request, thread string) *problem {
	before, broken, p := s.conversation(r.Context(), thread, nil)
	if p != nil {
		return p
	}
	e := agui.NewEncoder(agui.Run{Thread: thread, ID: run.NewID()}) // of no run of ours
	if len(before) > 0 {
		e.Rejoin(before)
	}
	last := tube.Event{Kind: tube.Named, Name: "finished", Value: []byte(`{"status":"completed"}`)}
	if broken { // by somebody, or with the server: what there is of it is no answer
		last.Name, last.Value = "canceled", []byte(`{"reason":"the last answer was broken off"}`)
	}
	s.whole(w, e, last)
	return nil
}
