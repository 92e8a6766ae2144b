package web

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/lingserve/lingserve/access"
	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/control"
	"github.com/lingserve/lingserve/flow"
	"github.com/lingserve/lingserve/internal/heavy"
	"github.com/lingserve/lingserve/internal/rawjson"
	"github.com/lingserve/lingserve/internal/vfs"
	"github.com/lingserve/lingserve/jsonuri"
	"github.com/lingserve/lingserve/tube"
	"github.com/lingserve/lingserve/turn"
	"github.com/lingserve/lingserve/web/frame"
	"github.com/lingserve/lingserve/web/once"
)

// errLeft is why a run ends whose client asked for that.
var errLeft = errors.New("the client disconnected")

// errAsked is why a run ends that was canceled by request.
var errAsked = errors.New("canceled by request")

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
	if r.Header.Get("Accept") == "text/event-stream" && s.runs.isDraining() && r.Header.Get("Last-Event-ID") == "" {
		panic(http.ErrAbortHandler)
	}
	st, p := s.parseGet(r)
	if p == nil && st.resume == nil && s.isCommand(&st.ask) {
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
func (s *Server) isCommand(a *ask) bool {
	if by, ok := s.o.Agents.(ByWorkflow); a.Agent == "" || ok && by.Workflow(a.Agent) != "" {
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
	run, again, p := s.startRun(r, st)
	if p != nil {
		if r.Method == http.MethodGet {
			p = p.moved(toParameter)
		}
		p.write(w)
		return
	}
	if st.late != "" {
		w.Header().Set("X-Follow-Up-Id", st.late)
	}
	if again {
		w.Header().Set("Idempotency-Replayed", "true")
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

// startRun starts the run that is asked for, or finds the one that the same request has started before.
func (s *Server) startRun(r *http.Request, st *start) (run *run, again bool, p *problem) {
	defer func() {
		if again && run != nil {
			s.replayed(r, run)
		}
	}()
	var hash [16]byte
	size := max(len(st.Input), int(r.ContentLength))
	begun := "" // the run that the key leads to, where it is to begin anew
	if st.key != "" {
		heavy.Do(size, func() { hash = st.hash() })
		// Before anything else is looked at: what was started once does not depend on what could be started now.
		c, p := s.attach(r.Context(), who(r).Owner(), st.key, hash)
		if p != nil {
			return nil, false, p
		}
		if c.Run != "" {
			if run, anew, p := s.findBegun(r, st, &c); !anew {
				return run, true, p
			}
			begun = c.Run
		}
	}
	asks := who(r)
	p = mayStart(asks, &st.ask)
	if p != nil {
		return nil, false, p
	}
	if s.shed.memory.over.Load() {
		return nil, false, littleMemory(nothingBegins)
	}
	if p := s.noEngine(); p != nil {
		return nil, false, p
	}
	var sp spec
	if p := s.admitFiles(r, &st.ask); p != nil {
		return nil, false, p
	}
	heavy.Do(size, func() { sp, p = s.prepare(asks, &st.ask) })
	if p != nil {
		return nil, false, p
	}
	sp.asked, sp.keeps = accountOf(r), st.ask.kept(&sp)
	sp.key, sp.hash, sp.caller = st.key, hash, s.countedFor(r, asks)
	sp.trace = traceOf(r)
	if p := s.room(r.Context(), &st.ask, &sp); p != nil {
		return nil, false, p
	}
	if sp.agent != nil {
		sp.agent.alone = !st.async && !isStream(st.format)
	}
	var id string
	if s.o.Shared != nil {
		run, again, done, p := s.startShared(r, st, asks, &sp, begun)
		if done || p != nil {
			return run, again, p
		}
		defer s.beginning.leave(sp.id)
	}
	if sp.agent != nil {
		run, id, again, p = s.startAgent(sp)
	} else {
		run, id, p = s.runs.start(sp)
		again = run == nil
	}
	if p != nil {
		if s.o.Shared != nil && sp.key != "" && begun == "" {
			s.forgetKey(r.Context(), &sp)
		}
		return nil, false, p
	}
	if run != nil && run.place != nil {
		switch p := s.unstored(r.Context(), run, &sp); { // from now on it is found everywhere
		case p != nil:
			return nil, false, p
		case run.isGone() && begun != "": // somebody else has begun it at the same time
			run, _, p := s.findBegun(r, st, &once.Claim{Run: run.id})
			return run, true, p
		}
	}
	if run != nil && run.again != nil {
		s.runs.flush(r.Context()) // it is promised that a restart does not end it
	}
	if run == nil && !again && sp.agent != nil {
		if sp.agent.alone {
			run = sp.agent.answering(r.Context())
		} else {
			st.late = sp.agent.id
		}
	}
	if run == nil {
		run, p := s.find(r, id)
		return run, again, p
	}
	return run, false, nil
}

// startShared is what comes before a run can be started here, where there are other replicas: done says that it is not to be, since it was
// started before, or elsewhere. Else sp.id is noted as about to begin. begun is its id where it is to begin anew.
func (s *Server) startShared(r *http.Request, st *start, asks access.Principal, sp *spec, begun string) (run *run, again, done bool, p *problem) {
	switch {
	case begun != "":
		if sp.id, sp.anew = begun, true; sp.agent != nil {
			sp.rename(begun)
			sp.agent.doubt = true
		}
	case sp.agent != nil:
		sp.id = sp.agent.id
	default:
		sp.id = newRunID()
	}
	s.beginning.enter(sp.id)
	defer func() {
		if done || p != nil {
			s.beginning.leave(sp.id)
		}
	}()
	if sp.key != "" && begun == "" {
		earlier, p := s.claimKey(r.Context(), sp)
		if p != nil {
			return nil, false, false, p
		}
		if earlier.Run != "" {
			run, _, p := s.findBegun(r, st, &once.Claim{Run: earlier.Run})
			return run, true, true, p
		}
	}
	if sp.agent != nil {
		if t, ok := s.startElsewhere(r.Context(), asks, &st.ask, sp); ok {
			run, again, p := s.startedElsewhere(r, st, sp, t)
			return run, again, true, p
		}
	}
	return nil, false, false, nil
}

// attach finds the run that the same principal has started with a key, on whichever replica.
func (s *Server) attach(ctx context.Context, owner, key string, hash [16]byte) (c once.Claim, p *problem) {
	if s.o.Shared != nil {
		return s.findKey(ctx, owner, key, hash)
	}
	c.Run, p = s.runs.attach(owner, key, hash)
	return c, p
}

// startedElsewhere is what came of a message that another replica was handed.
func (s *Server) startedElsewhere(r *http.Request, st *start, sp *spec, t report) (*run, bool, *problem) {
	if p := t.problem(); p != nil {
		if sp.key != "" && !t.unknown && !sp.anew {
			s.forgetKey(r.Context(), sp)
		}
		return nil, false, p
	}
	st.late = t.Late
	run, _, p := s.findBegun(r, st, &once.Claim{Run: t.Run})
	if p != nil && p.Code == codeOverloaded { // which would say that it was not taken
		p = doubtful(sp, t.Run, "a run accepted the message, but the server cannot read this run now")
	}
	return run, t.Again, p
}

// findBegun finds a run that was begun, perhaps on another replica and a moment ago. Meanwhile its key may come to lead to another one,
// whose turn takes the message. anew says of the run of a key that it never began, and may now, under the same id: should it have begun
// after all, the log of runs takes what one of them writes.
func (s *Server) findBegun(r *http.Request, st *start, c *once.Claim) (found *run, anew bool, p *problem) {
	if s.o.Shared == nil {
		run, p := s.find(r, c.Run)
		return run, false, p
	}
	ctx, cancel := context.WithTimeout(r.Context(), begunWait)
	defer cancel()
	run, p := s.findStored(ctx, r, c.Run)
	there := true
	for look := 0; p != nil && p.Code == codeNotFound; look++ {
		if by := claimer(c); by != "" && look%begunAsk == 1 {
			if there, anew = s.neverBegun(ctx, st, c.Run, by); anew {
				return nil, true, nil
			}
		}
		select {
		case <-time.After(begunPause):
			if st.key != "" {
				if now, p := s.findKey(ctx, who(r).Owner(), st.key, st.hash()); p == nil && now.Run != "" && now.Run != c.Run {
					c = &once.Claim{Run: now.Run}
				}
			}
			run, p = s.findStored(ctx, r, c.Run)
		case <-ctx.Done():
			if r.Context().Err() != nil {
				panic(http.ErrAbortHandler) // the client disconnected
			}
			if claimer(c) != "" && there {
				return nil, false, awayProblem() // it is about to begin
			}
			return nil, false, lostProblem(c.Run)
		}
	}
	return run, false, p
}

// findStored finds a run. One that begins here is there when the log of runs has taken it, and not another replica's.
func (s *Server) findStored(ctx context.Context, r *http.Request, id string) (*run, *problem) {
	run, p := s.find(r, id)
	if p != nil || run.followed() {
		return run, p
	}
	if run.awaitEvent(ctx, run.tube.From()); run.isGone() {
		return nil, newProblem(codeNotFound, "unknown run; it never existed or has expired")
	}
	return run, nil
}

// claimer is the replica that has let a key lead to its run; "" where that does not matter.
func claimer(c *once.Claim) string {
	var by claimed
	_ = json.Unmarshal(c.Of, &by) // what an earlier version has stored
	return by.Replica
}

// neverBegun asks the replica that was to begin a run whether it did. One that has died could have, and what it did is known of a workflow
// that does nothing before it is written down, and of a message, which its tape has.
func (s *Server) neverBegun(ctx context.Context, st *start, id, replica string) (there, anew bool) {
	t, _, err := s.ask(ctx, replica, control.Request{Command: commandBegun, Run: id})
	switch {
	case err != nil:
		return true, false // it is asked again
	case t.NotHere:
		return true, true
	case slices.Contains(s.o.Shared.Replicas(), replica):
		return true, false
	}
	if a := &st.ask; a.Workflow != "" {
		w, ok := s.o.Workflows.Get(a.Workflow)
		return false, ok && w.Info().Restart && a.Session == ""
	}
	return false, st.ask.Agent != ""
}

const (
	// begunWait is how long it may take until of a run that was begun on another replica something is stored, and begunPause is between
	// looks for it.
	begunWait  = 5 * time.Second
	begunPause = 20 * time.Millisecond
	// begunAsk is after how many looks the replica is asked that was to begin it.
	begunAsk = 10
)

// find finds a run; the problem says whether there was one.
func (s *Server) find(r *http.Request, id string) (*run, *problem) {
	run, err := s.runs.get(r.Context(), who(r), id)
	switch {
	case err == nil:
		return run, nil
	case errors.Is(err, errGone):
		p := newProblem(codeGone, "this run ended too long ago and is no longer stored")
		p.Run = id
		return nil, p
	case errors.Is(err, errDamaged):
		p := newProblem(codeGone, damagedMessage)
		p.Run = id
		return nil, p
	case errors.Is(err, errUnknown):
		return nil, unknownRun()
	case isAway(err) && r.Context().Err() == nil:
		return nil, awayProblem()
	case vfs.Failed(err):
		return nil, reached(limitDisk, "the server's disk has failed, so it cannot read this run now; retry later", diskRetry)
	}
	return nil, s.noRoom(err)
}

// damagedMessage is told to those who come back to a run whose file cannot be read.
const damagedMessage = "the stored data of this run is damaged; find the cause in the server's log under the run's id"

// prepare checks what is asked for against what there is.
func (s *Server) prepare(p access.Principal, a *ask) (spec, *problem) {
	sp := spec{owner: p.Owner(), role: p.Role}
	var misfits []misfit
	fail := func(pointer, detail string) { misfits = append(misfits, misfit{Pointer: pointer, Detail: detail}) }
	if p := a.checkSaid(); p != nil {
		return sp, p
	}
	files, refusal := s.openFiles(p, "/files", a.Files)
	if refusal != nil {
		return sp, refusal
	}
	sp.files = files
	switch {
	case a.Agent != "" && (a.Workflow != "" || a.Inline != nil):
		return sp, invalid(misfit{Pointer: "/agent", Detail: "expected a workflow or an agent, not both"})
	case a.Agent != "":
		return s.prepareAgent(p, a, files)
	case a.Session != "" && s.o.Turns == nil:
		return sp, invalid(misfit{Pointer: "/session", Detail: "this server has no sessions"})
	case a.Session == "" && a.OnBusy != "":
		return sp, invalid(misfit{Pointer: "/on_busy", Detail: "expected a session too, because only a session can be busy"})
	case a.OnBusy == string(turn.Steer):
		return sp, invalid(misfit{Pointer: "/on_busy", Detail: "steer works only with agents; expected queue, reject or interrupt"})
	case a.Completion != nil:
		c, p := s.withFiles(p, a.Completion)
		if p != nil {
			return sp, p
		}
		sp.workflow = c.workflow()
	case a.Inline != nil:
		w, p := s.inline(a.Inline)
		if p != nil {
			return sp, p
		}
		sp.workflow = w
	case a.Workflow == "":
		return sp, invalid(misfit{Pointer: "/workflow", Detail: "expected the name of a workflow; GET /v1/workflows lists them"})
	default:
		w, ok := s.o.Workflows.Get(a.Workflow)
		if !ok {
			return sp, newProblem(codeNotFound, "unknown workflow "+quote(a.Workflow)+"; "+s.workflowNames(p, a.Workflow))
		}
		sp.workflow = w
	}
	info := sp.workflow.Info()

	input, misfit := a.input(info.Input)
	if misfit != nil {
		return sp, misfit
	}
	var err error
	if sp.input, err = flow.Prepare(sp.workflow, input); err != nil {
		if ie, ok := errors.AsType[*flow.InputError](err); ok {
			for _, problem := range ie.Problems {
				fail("/input"+problem.Pointer, problem.Detail)
			}
		} else {
			fail("/input", err.Error())
		}
	}

	sp.config = s.o.Bot
	sp.model = info.Model
	if a.Model != "" {
		if _, err := s.o.Models.Model(a.Model); err != nil {
			fail("/model", strings.TrimPrefix(err.Error(), "adapter: "))
		}
		sp.model = a.Model
	}
	if sp.model == "" {
		sp.model = s.o.Bot.Model
	}
	if sp.model == "" {
		sp.model = s.o.Models.Default
	}
	// A bot's own model goes before this one, which flow takes for the caller's choice.
	sp.config.Model = sp.model
	sp.config.Options = a.Options.Over(sp.config.Options)
	if a.Done {
		sp.config.Done = true
	}
	if a.HTML {
		sp.config.HTMLEvents = true
	}
	if a.Strict {
		sp.config.OnInvalid = sp.config.OnInvalid.Strict()
	}
	sp.params = a.Params
	if len(a.Exclude)+len(a.Include) > 0 {
		sp.filters = []tube.Filter{{Exclude: matchers(a.Exclude), Include: matchers(a.Include)}}
	}
	if a.Session != "" {
		if why := s.noSession(p, a.Session); why != "" {
			fail("/session", why)
		}
	}
	if len(misfits) > 0 {
		return sp, invalid(misfits...)
	}
	if info.Restart && a.Session == "" {
		sp.again = &again{ask: *a, role: sp.role}
	}
	if a.Session != "" {
		s.inSession(&sp, a.Session, turn.Policy(a.OnBusy), input)
		sp.agent.envelope.Extra[extraHistory] = a.History
	} else {
		sp.history = messages(a.History)
	}
	return sp, nil
}

// kept is how many bytes of the request its run holds to its end: the input, decoded; beside it, in a session, the message on the tape, and
// what a restart needs.
func (a *ask) kept(sp *spec) int64 {
	n := int64(len(a.Input) + len(a.Instructions) + len(a.Inline))
	for _, said := range a.History {
		n += int64(len(said.Text))
	}
	n += a.fileBytes()
	if sp.agent != nil || sp.again != nil {
		n *= 2
	}
	return n
}

// matchers compiles patterns that have been checked.
func matchers(patterns []string) []tube.Matcher {
	var list []tube.Matcher
	for _, text := range patterns {
		if p, err := jsonuri.CompilePattern(text); err == nil {
			list = append(list, p)
		}
	}
	return list
}

// inline reads a workflow that the request itself brings.
func (s *Server) inline(text json.RawMessage) (flow.Workflow, *problem) {
	if !s.o.InlineWorkflows {
		return nil, invalid(misfit{
			Pointer: "/workflow",
			Detail:  "expected the name of a workflow; this server accepts no workflows inside requests (inline_workflows)",
		})
	}
	w, err := flow.ParseSpec("workflow", text, nil, s.o.Models.Providers()...)
	if err == nil {
		return w, nil
	}
	var misfits []misfit
	for _, e := range flatten(err) {
		m := misfit{Pointer: "/workflow", Detail: e.Error()}
		if fe, ok := errors.AsType[*flow.FileError](e); ok {
			m.Detail = "line " + itoa(fe.Line) + ", column " + itoa(fe.Column) + " of the workflow: " + fe.Message
		}
		if misfits = append(misfits, m); len(misfits) == maxMisfits {
			break
		}
	}
	return nil, invalid(misfits...)
}

// flatten takes joined errors apart.
func flatten(err error) []error {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []error{err}
	}
	var list []error
	for _, e := range joined.Unwrap() {
		list = append(list, flatten(e)...)
	}
	return list
}

// workflowNames says what there is for somebody, who asked for something else.
func (s *Server) workflowNames(p access.Principal, name string) string {
	var names []string
	for _, w := range s.o.Workflows.All() {
		if name := w.Info().Name; p.Runs(name) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return "this server has none"
	}
	return expected(name, names)
}

func quote(s string) string {
	text, _ := json.Marshal(clip(s))
	return string(text)
}

// input puts the input together: the properties of a query go over those of the object, each as its schema wants it.
func (a *ask) input(schema json.RawMessage) (json.RawMessage, *problem) {
	if len(a.Properties) == 0 {
		if a.Input == nil {
			return json.RawMessage("{}"), nil
		}
		return a.Input, nil
	}
	object := map[string]json.RawMessage{}
	if a.Input != nil && json.Unmarshal(a.Input, &object) != nil {
		return nil, invalid(misfit{Parameter: "input", Detail: "expected an object together with input.NAME, found " + rawjson.Kind(a.Input)})
	}
	var shape struct {
		Properties map[string]struct{ Type any } `json:"properties"`
	}
	_ = json.Unmarshal(schema, &shape) // a property that the schema says nothing about is a string
	for name, text := range a.Properties {
		quoted, _ := json.Marshal(text)
		object[name] = quoted
		if p, ok := shape.Properties[name]; ok && !isString(p.Type) && json.Valid([]byte(text)) {
			object[name] = json.RawMessage(text)
		}
	}
	text, err := json.Marshal(object)
	if err != nil {
		return nil, invalid(misfit{Parameter: "input", Detail: "expected JSON"})
	}
	return text, nil
}

// isString says whether a schema's type allows a string, or anything.
func isString(t any) bool {
	switch t := t.(type) {
	case nil:
		return true
	case string:
		return t == "string"
	case []any:
		return slices.Contains(t, any("string"))
	}
	return false
}

// answer answers with a run in the framing asked for, from its event numbered from on.
func (s *Server) answer(w http.ResponseWriter, r *http.Request, run *run, v *view, from uint64) {
	ofRun(w.Header(), run.id)
	switch {
	case v.async:
		w.Header().Set("Preference-Applied", "respond-async")
		s.send(w, r, http.StatusAccepted, "application/json", run.document(v.reserved)...)
	case isStream(v.format):
		reader := run.tube.NewReader(from)
		if v.snapshot {
			reader = run.tube.SnapshotReader()
		}
		s.stream(w, r, run, reader, v)
	default:
		s.aggregate(w, r, run, v)
	}
}

// aggregate waits for the run's end and answers with its document.
func (s *Server) aggregate(w http.ResponseWriter, r *http.Request, run *run, v *view) {
	f, r := s.follow(w, r, run, StreamJSON)
	defer f.over(nil)
	defer run.hold()()
	s.await(r, run, v)
	f.end = StreamComplete
	o, document, beside := run.state()
	if p := o.refusal(run.id, document, beside); p != nil {
		p.write(w)
		return
	}
	s.send(w, r, http.StatusOK, "application/json", o.document(run.id, document, beside, v.reserved)...)
}

// await waits for the run's end. A client that goes away meanwhile gets no answer, and no clean end.
func (s *Server) await(r *http.Request, run *run, v *view) {
	for _, end := range run.ends() {
		select {
		case <-end:
			continue
		default:
		}
		select {
		case <-end:
		case <-r.Context().Done():
			s.giveUp(run, v)
			panic(http.ErrAbortHandler)
		case <-s.stopping.Done():
			panic(http.ErrAbortHandler)
		}
	}
	run.must()
}

// must breaks the answer off where the run has ended here alone: whoever comes back gets the end that is its own.
func (r *run) must() {
	if !r.final() {
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
	run, err := s.runs.get(r.Context(), who(r), id.run)
	switch {
	case r.Context().Err() != nil:
		panic(http.ErrAbortHandler)
	case errors.Is(err, errDamaged):
		s.observer.Resumed(ResumeGone)
		s.gone(w, r, id, v, damagedMessage)
		return
	case isFull(err):
		s.noRoom(err).write(w)
		return
	case isAway(err), vfs.Failed(err):
		panic(http.ErrAbortHandler) // an EventSource that is told 503 does not come back
	case err != nil:
		s.observer.Resumed(ResumeGone)
		s.gone(w, r, id, v, "this run is no longer stored; start a new one")
		return
	case run.lost || id.n >= goneNumber:
		// The id is of a log that is not there any more.
		s.observer.Resumed(ResumeGone)
		s.gone(w, r, id, v, lostMessage)
		return
	}
	next := id.n + 1
	switch sent, over := s.awaitSeen(r, run, id.n); {
	case next > sent:
		s.observer.Resumed(ResumeInvalid)
		notFitting(v, "names event "+id.String()+", but the run has had "+plural(int64(sent), "event")).write(w)
	case next == sent && over && !(v.snapshot && v.fromQuery):
		// Everything was delivered. A browser that is told so stops; a page that was loaded anew and wants the document has
		// its id in the query and says snapshot=1.
		s.observer.Resumed(ResumeComplete)
		ofRun(w.Header(), run.id)
		w.WriteHeader(http.StatusNoContent)
	default:
		s.observer.Resumed(ResumeFollowed)
		v.async = false
		s.answer(w, r, run, v, next)
	}
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
		N: lastNumber, Kind: tube.Named, Name: "finished", Value: []byte(`{"status":"` + statusInterrupted + `"}`),
	})
	streamHeaders(w.Header(), v.format)
	out := s.newOutput(w, r)
	if _, err := out.Write(text); err != nil {
		panic(http.ErrAbortHandler)
	}
}
