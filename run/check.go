package run

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/lingserve/lingserve/access"
	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/agent/workflow"
	"github.com/lingserve/lingserve/flow"
	"github.com/lingserve/lingserve/internal/mediapart"
	"github.com/lingserve/lingserve/internal/rawjson"
	"github.com/lingserve/lingserve/internal/wording"
	"github.com/lingserve/lingserve/tape"
	"github.com/lingserve/lingserve/turn"
)

// MayStart returns ErrForbidden if a caller may not start what a request names. It is called before the lookup, so that a caller does not
// learn what exists beyond its rights.
func MayStart(p access.Principal, a *Request) error {
	switch {
	case a.Agent != "" && !p.Asks(a.Agent):
		return refuse(ErrForbidden, "your key or token may not use the agent "+wording.Quote(a.Agent))
	case a.Workflow != "" && !p.Runs(a.Workflow):
		return refuse(ErrForbidden, "your key or token may not run the workflow "+wording.Quote(a.Workflow))
	case a.Inline != nil && !p.Runs(""):
		return refuse(ErrForbidden, "your key or token may not run workflows inside requests")
	case a.Completion != nil && !p.Runs(""):
		return refuse(ErrForbidden, "your key or token may not use models directly; use an agent or workflow of GET /v1/models")
	case a.Session != "" && !p.Remembers():
		return refuse(ErrForbidden, NoMemory)
	}
	return nil
}

// NoMemory is the sentence for callers that may not use sessions.
const NoMemory = "your key or token may not use sessions"

// prepare checks a request and decides everything about its run, which gets this id.
func (s *Service) prepare(p access.Principal, a *Request, id string) (*spec, error) {
	files, err := s.o.Files.Open(p, "/files", a.Files)
	if err != nil {
		return nil, err
	}
	sp := &spec{
		origin: origin{
			ID: id, Of: a.Subject, owner: p.Owner(), Role: p.Role, Session: a.Session,
			Keyed: a.Key != "", Caller: a.Caller, KeyTag: a.KeyTag, Unattended: a.Unattended,
		},
		request: a, files: files, config: s.o.Bot, account: a.Account,
	}
	switch {
	case a.Agent != "" && (a.Workflow != "" || a.Inline != nil):
		return nil, misfit("/agent", "expected a workflow or an agent, not both")
	case a.Agent != "":
		return s.prepareAgent(p, a, sp)
	case a.Session != "" && s.o.Turns == nil:
		return nil, misfit("/session", "this server has no sessions")
	case a.Session == "" && a.OnBusy != "":
		return nil, misfit("/on_busy", "expected a session too, because only a session can be busy")
	case a.OnBusy == string(turn.Steer):
		return nil, misfit("/on_busy", "steer works only with agents; expected queue, reject or interrupt")
	}
	if sp.workflow, err = s.workflowOf(p, a); err != nil {
		return nil, err
	}
	info := sp.workflow.Info()
	sp.Of.Workflow = info.Name
	var faults misfits
	sp.input, err = flow.Prepare(sp.workflow, a.Input)
	if ie, ok := errors.AsType[*flow.InputError](err); ok {
		for _, problem := range ie.Problems {
			faults.add("/input"+problem.Pointer, problem.Detail)
		}
	} else if err != nil {
		faults.add("/input", err.Error())
	}
	if a.Model != "" {
		faults.add("/model", s.CheckModel(a.Model))
	}
	if a.Session != "" {
		faults.add("/session", s.CheckSession(p, a.Session))
	}
	if len(faults) > 0 {
		return nil, misfitting(faults...)
	}
	// A bot's own model goes before that of the caller, which goes before the workflow's, and that before the server's.
	sp.model = cmp.Or(a.Model, info.Model, s.o.Bot.Model, s.o.Models.Default)
	sp.config.Model = sp.model // which flow takes for the caller's choice
	sp.config.Options = a.Options.Over(sp.config.Options)
	sp.config.Done, sp.config.HTMLEvents = sp.config.Done || a.Done, sp.config.HTMLEvents || a.HTML
	if a.Strict {
		sp.config.OnInvalid = sp.config.OnInvalid.Strict()
	}
	if info.Resume && !a.Attached {
		sp.Again = a
	}
	if a.Session != "" {
		s.makeTurn(sp, a)
		return sp, nil
	}
	sp.history = slices.Clone(a.History)
	for i := range sp.history {
		m := &sp.history[i]
		if m.Parts, err = s.o.Files.Open(p, fmt.Sprintf("/messages/%d/content", i), m.Parts); err != nil {
			return nil, err
		}
	}
	return sp, nil
}

// misfits collects the invalid members of a request.
type misfits []Field

// add adds an invalid member, unless detail is empty.
func (m *misfits) add(pointer, detail string) {
	if detail != "" {
		*m = append(*m, Field{Pointer: pointer, Detail: detail})
	}
}

// workflowOf returns the workflow that a request names or contains, or one that only calls a model.
func (s *Service) workflowOf(p access.Principal, a *Request) (flow.Workflow, error) {
	switch {
	case a.Completion != nil:
		return a.Completion.workflow(), nil
	case a.Inline != nil:
		return s.inline(a.Inline)
	case a.Workflow == "":
		return nil, misfit("/workflow", "expected the name of a workflow; GET /v1/workflows lists them")
	}
	return s.Workflow(p, a.Workflow)
}

// Workflow returns the workflow of a name. Error: ErrUnknown, which lists the workflows that p may run.
func (s *Service) Workflow(p access.Principal, name string) (flow.Workflow, error) {
	if w, ok := s.o.Workflows.Get(name); ok {
		return w, nil
	}
	var names []string
	for _, w := range s.o.Workflows.All() {
		if known := w.Info().Name; p.Runs(known) {
			names = append(names, known)
		}
	}
	expected := "this server has none"
	if len(names) > 0 {
		expected = wording.Expected(name, names)
	}
	return nil, refuse(ErrUnknown, "unknown workflow "+wording.Quote(name)+"; "+expected)
}

// inline reads the workflow in a request.
func (s *Service) inline(text json.RawMessage) (flow.Workflow, error) {
	if !s.o.InlineWorkflows {
		return nil, misfit("/workflow", "expected the name of a workflow; this server accepts no workflows inside requests (inline_workflows)")
	}
	w, err := flow.ParseSpec("workflow", text, nil, s.o.Models.Providers()...)
	var faults misfits
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range joined.Unwrap() {
			detail := e.Error()
			if fe, ok := errors.AsType[*flow.FileError](e); ok {
				detail = fmt.Sprintf("line %d, column %d of the workflow: %s", fe.Line, fe.Column, fe.Detail())
			}
			faults.add("/workflow", detail)
		}
	} else {
		for _, model := range w.Info().Models() {
			faults.add("/workflow", s.CheckModel(model))
		}
	}
	if len(faults) > 0 {
		return nil, misfitting(faults[:min(len(faults), maxMisfits)]...)
	}
	return w, nil
}

// maxMisfits bounds what one error says.
const maxMisfits = 20

// prepareAgent is prepare for a run of an agent.
func (s *Service) prepareAgent(p access.Principal, a *Request, sp *spec) (*spec, error) {
	if s.o.Turns == nil {
		return nil, refuse(ErrUnknown, "unknown agent "+wording.Quote(a.Agent)+"; this server has no agents")
	}
	if names := s.Agents(p); !slices.Contains(names, a.Agent) {
		return nil, refuse(ErrUnknown, "unknown agent "+wording.Quote(a.Agent)+"; "+wording.Expected(a.Agent, names))
	}
	var faults misfits
	if a.Model != "" {
		faults.add("/model", "an agent chooses its own model; send the input ,model NAME to change it for the session")
	}
	if a.Params != nil {
		faults.add("/params", "an agent takes no params")
	}
	if a.Session != "" {
		faults.add("/session", s.CheckSession(p, a.Session))
	}
	if workflow := s.o.Agents.Workflow(a.Agent); workflow != "" && len(faults) == 0 {
		return s.prepareByWorkflow(p, a, sp.ID, workflow)
	}
	var text string
	switch kind := rawjson.Kind(a.Input); {
	case kind != "a string" || json.Unmarshal(a.Input, &text) != nil:
		faults.add("/input", "expected a string, found "+kind)
	case text == "" && len(sp.files) == 0:
		faults.add("/input", "is empty; expected a message to the agent")
	}
	if len(faults) > 0 {
		return nil, misfitting(faults...)
	}
	var media []turn.Media
	for _, f := range sp.files {
		kind := f.Kind()
		if kind != adapter.KindImage && kind != adapter.KindAudio {
			kind = "file"
		}
		media = append(media, turn.Media{Type: kind, URL: f.Image + f.File, Name: f.Name})
	}
	if sp.files = nil; !a.Attached {
		sp.Again = a
	}
	sp.Session = cmp.Or(a.Session, sp.ID) // a new session, in which the conversation can continue
	s.addTurn(sp, a.Agent, &turn.Envelope{
		ID: sp.ID, Channel: Channel, Content: text, Media: media,
		Agent: a.Agent, Run: sp.ID, Timezone: s.o.Timezones[a.Agent],
	})
	return sp, nil
}

// prepareByWorkflow is prepare for an agent whose answers a workflow writes.
func (s *Service) prepareByWorkflow(by access.Principal, a *Request, id, workflow string) (*spec, error) {
	if _, ok := s.o.Workflows.Get(workflow); !ok {
		detail := "this agent's workflow is missing; find the cause in the server's log under this id"
		return nil, s.internal(context.Background(), detail, "agent's workflow is missing", "agent", a.Agent, "workflow", workflow)
	}
	if a.OnBusy == string(turn.Steer) {
		return nil, misfit("/on_busy", "this agent does not support steer, because it is a workflow; expected queue, reject or interrupt")
	}
	as := *a
	as.Agent, as.Workflow = "", workflow
	as.Session = cmp.Or(as.Session, NewID()) // a new session, in which the conversation can continue
	sp, err := s.prepare(by, &as, id)
	if err == nil {
		if sp.Of = a.Subject; sp.Again != nil {
			sp.Again = a
		}
	}
	return sp, err
}

// makeTurn makes a run of a workflow a turn of a session: its bots get the earlier messages, and the tape gets the new ones.
func (s *Service) makeTurn(sp *spec, req *Request) {
	var text string
	if json.Unmarshal(req.Input, &text) != nil {
		text = cmp.Or(string(req.Input), "{}")
	}
	a := s.addTurn(sp, sp.Of.Workflow, &turn.Envelope{
		ID: sp.ID, Channel: Channel, Content: text,
		Sender: turn.Sender{NoCommands: true}, // a workflow's input is what its schema says, commas included
	})
	a.answer = &workflow.Answer{Workflow: sp.workflow, Input: sp.input, Stop: func(cause error) {
		if !a.stop(cause) { // by a later message, or by who erases the session
			a.m.Stop(cause)
		}
	}}
}

// addTurn makes a run a turn.
func (s *Service) addTurn(sp *spec, name string, e *turn.Envelope) *agentRun {
	a := &agentRun{
		s: s, spec: sp, name: name, policy: turn.Policy(sp.request.OnBusy), envelope: e, taken: make(chan struct{}), ready: make(chan struct{}),
	}
	e.Life = a
	sp.agent = a
	return a
}

// ListModels lists the models that callers may name: the configured ones, the default, and those of workflows.
func (s *Service) ListModels() []string {
	return s.o.Models.Usable(append(s.o.Workflows.Models(), s.o.Bot.Model, s.o.Models.Default)...)
}

// CheckModel returns why a request may not name a model or a chain of models; "" if it may.
func (s *Service) CheckModel(chain string) string {
	if _, err := s.o.Models.Model(chain); err != nil {
		return strings.TrimPrefix(err.Error(), "adapter: ")
	}
	for _, name := range adapter.Links(chain) {
		if s.o.ListedModels && !slices.Contains(s.ListModels(), name) {
			return "the model " + wording.Quote(name) + " is not offered; GET /v1/models lists those that are; " +
				"the operator can list it (providers.NAME.models), or allow all (models: any)"
		}
	}
	return ""
}

// Agents returns the names of the agents that p may use, the default first.
func (s *Service) Agents(p access.Principal) []string {
	if s.o.Turns == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(s.o.Agents.Names()), func(name string) bool { return !p.Asks(name) })
}

// admitFiles reserves memory for the files of a request before they are read.
func (s *Service) admitFiles(a *Request) error {
	parts := slices.Clone(a.Files)
	for _, m := range a.History {
		parts = append(parts, m.Parts...)
	}
	var n int64 // bytes, as text
	for _, p := range parts {
		n += int64(len(p.Image) + len(p.File))
		if id := mediapart.Ref(&p); id != "" {
			n += s.o.Files.Size(a.Who, id) / 3 * 4
		}
	}
	if n > mostMedia/3*4 {
		return tooMuch(LimitInput, "/files", "expected at most "+wording.Plural(mostMedia, "byte")+" of all files")
	}
	switch a.Account.Admit(n) {
	case adapter.Refused:
		return littleMemory("the server has no memory for the files of this request now; retry later")
	case adapter.Impossible:
		return tooMuch(LimitMemory, "/files", "the files exceed this server's memory limit; send fewer or smaller ones")
	}
	return nil
}

// mostMedia limits the files of one request, in bytes.
const mostMedia = 20 << 20

// room refuses a run whose models would read too much, and one that needs a disk or a new session without room for it. The number of
// active runs counts later, because a message may go to one of them.
func (s *Service) room(ctx context.Context, a *Request, sp *spec) error {
	if err := CheckSize(a, s.o.Input, s.o.Images); err != nil {
		return err
	}
	switch keep := sp.Keyed || sp.Session != ""; {
	case keep && s.o.Pressure.DiskBroken():
		return diskFull()
	case keep && s.o.Pressure.LowDisk():
		return overLimit(LimitDisk, "the server's disk is nearly full, so it starts no runs in sessions or with an Idempotency-Key; retry later", DiskRetry)
	}
	bounded, ok := s.o.Tapes.(interface {
		Room(ctx context.Context, session string) error
	})
	if !ok || sp.agent == nil {
		return nil
	}
	refused := bounded.Room(ctx, sp.Lane())
	if refused == nil {
		return nil
	}
	_, err := tape.Lookup(ctx, s.o.Tapes, s.o.Workspace, sp.Lane())
	switch {
	case err == nil: // the session is there already
		return nil
	case errors.Is(err, tape.ErrNotFound):
		err = refused
	}
	return s.SessionError(ctx, err)
}

// CheckSize checks how much text a request gives models to read. The pointers are those of the native wire.
func CheckSize(a *Request, limit, images int) error {
	if n := len(a.Files); n > images {
		return tooMuch(LimitImages, "", "expected at most "+wording.Plural(int64(images), "image")+fmt.Sprint(" and files, found ", n))
	}
	n, over := 0, error(nil)
	read := func(at, text string) {
		if n += utf8.RuneCountInString(text); n > limit && over == nil {
			over = tooMuch(LimitInput, at, "expected at most "+wording.Plural(int64(limit), "character")+" of content for models in total")
		}
	}
	read("", a.Instructions)
	for i, m := range a.History {
		at := ""
		if a.Completion != nil { // all messages of the body
			at = fmt.Sprintf("/messages/%d/content", i)
		}
		read(at, m.Content)
		for _, part := range m.Parts {
			read(at, part.Text)
		}
	}
	read("/input", string(a.Input))
	return over
}

// chargeTokens charges the caller of a run for its tokens, and ends the count of the run.
func (s *Service) chargeTokens(r *Run) {
	defer r.release()
	if s.o.Limits == nil || r.Caller == "" {
		return
	}
	tokens := 0
	for _, u := range r.result.Usage {
		tokens += u.TotalTokens
	}
	s.o.Limits.Charge(r.Caller, tokens)
}
