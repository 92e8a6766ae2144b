package run

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/lingserve/lingserve/access"
	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/channel"
	webchannel "github.com/lingserve/lingserve/channel/web"
	"github.com/lingserve/lingserve/flow"
	"github.com/lingserve/lingserve/internal/schema"
	"github.com/lingserve/lingserve/internal/wording"
	"github.com/lingserve/lingserve/run/hooks"
	"github.com/lingserve/lingserve/tape"
	"github.com/lingserve/lingserve/turn"
)

// admitFiles holds memory for the files that a request names, before they are read.
func (s *Service) admitFiles(a *Request) error {
	n := s.fileBytes(a)
	if n > mostMedia/3*4 {
		return tooMuch(LimitInput, Field{Pointer: "/files", Detail: "expected at most " + wording.Plural(mostMedia, "byte") + " of all files"})
	}
	if n == 0 {
		return nil
	}
	switch a.Account.Admit(n) {
	case adapter.Refused:
		return littleMemory("the server has no memory for the files of this request now; retry later")
	case adapter.Impossible:
		return tooMuch(LimitMemory, Field{Pointer: "/files", Detail: "the files exceed this server's memory limit; send fewer or smaller ones"})
	}
	return nil
}

// withFiles is the same for the messages of a completion.
func (s *Service) withFiles(by access.Principal, c *Completion) (*Completion, error) {
	as := *c
	as.Messages = slices.Clone(c.Messages)
	for i := range as.Messages {
		m := &as.Messages[i]
		parts, p := s.o.Files.Open(by, "/messages/"+strconv.Itoa(i)+"/content", m.Parts)
		if p != nil {
			return nil, p
		}
		m.Parts = parts
	}
	return &as, nil
}

// MayStart says what keeps somebody from starting what is asked for: nil where nothing does. It is called before the service looks whether
// there is such a thing, so that nobody learns that of what is not for them.
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

// NoMemory is told to those who may not use sessions.
const NoMemory = "your key or token may not use sessions"

// ChannelOf returns the channel whose session an id means when p uses it; "" for a session of p's own. Where keys are needed, only operators
// and admins have ids for the sessions of channels: the ids of others lead to their own sessions alone. Without keys every id would lead to
// such a session, so the ids of channels are taken out.
func (s *Service) ChannelOf(p access.Principal, id string) string {
	if name := channel.ChannelOf(id); slices.Contains(s.o.ChannelNames, name) && (p.Owner() == "" || p.Operates() && name != Channel) {
		return name
	}
	return ""
}

// Unfit is the text of an error about what a client wrote, without the prefix of its kind.
func Unfit(err error) string { return strings.TrimPrefix(err.Error(), tape.ErrInvalid.Error()+": ") }

// CheckSession says why an id cannot be that of a session that somebody names; "" where it can. A blank one would be everybody's: an
// agent takes it for none.
func (s *Service) CheckSession(p access.Principal, id string) string {
	if err := tape.CheckSession(id); err != nil {
		return Unfit(err)
	}
	if _, ok := webchannel.SessionName(p.Owner(), webchannel.SessionKey(p.Owner(), id)); !ok {
		return "the session id is too long together with its owner's name; other characters than ASCII letters, digits and punctuation count as three bytes"
	}
	if strings.TrimSpace(id) == "" {
		return "the session id is empty; expected at least one visible character"
	}
	if name := s.ChannelOf(p, id); name != "" {
		return "this id belongs to a session of the channel " + wording.Quote(name) + ", which only that channel continues; choose another id"
	}
	return ""
}

// room refuses a run whose models would have to read too much, and one that is to be kept where there is no room for it. Whether too
// many runs go on is known only when it begins: its message may be for one of them.
func (s *Service) room(ctx context.Context, a *Request, sp *spec) error {
	if p := CheckSize(a, s.o.Input, s.o.Images); p != nil {
		return p
	}
	if s.o.Pressure.DiskBroken() && (sp.key != "" || sp.session != "") {
		return diskFull()
	}
	if s.o.Pressure.LowDisk() && (sp.key != "" || sp.session != "") {
		return overLimit(LimitDisk, "the server's disk is nearly full, so it starts no runs in sessions or with an Idempotency-Key; retry later", DiskRetry)
	}
	bounded, ok := s.o.Tapes.(interface {
		Room(ctx context.Context, session string) error
	})
	if !ok || sp.agent == nil || sp.session == "" {
		return nil
	}
	refused := bounded.Room(ctx, sp.lane())
	if refused == nil {
		return nil
	}
	if _, err := tape.Lookup(ctx, s.o.Tapes, s.o.Workspace, sp.lane()); err == nil {
		return nil
	} else if !errors.Is(err, tape.ErrNotFound) {
		refused = err
	}
	return s.SessionError(ctx, refused)
}

// CheckSize checks how much a request gives models to read. pointers say where in a body of ours it is; the handlers of other wires move them.
func CheckSize(a *Request, limit, images int) error {
	if n := len(a.Files); n > images {
		return tooMuch(LimitImages, Field{Detail: "expected at most " + wording.Plural(int64(images), "image") + " and files, found " + strconv.Itoa(n)})
	}
	size := 0
	for _, text := range a.texts {
		size += len(text)
	}
	if size <= limit { // a character has a byte at least
		return nil
	}
	n := 0
	for at, text := range a.texts {
		if n += utf8.RuneCountInString(text); n > limit {
			return tooMuch(LimitInput, Field{Pointer: at, Detail: "expected at most " + wording.Plural(int64(limit), "character") + " of content for models in total"})
		}
	}
	return nil
}

// texts are what models read of a request, and where it is.
func (a *Request) texts(yield func(at, text string) bool) {
	if !yield("", a.Instructions) {
		return
	}
	for _, said := range a.History {
		if !yield("", said.Text) {
			return
		}
	}
	if a.Completion != nil {
		for i, message := range a.Completion.Messages {
			at := "/messages/" + strconv.Itoa(i) + "/content"
			if !yield(at, message.Content) {
				return
			}
			for _, part := range message.Parts {
				if !yield(at, part.Text) {
					return
				}
			}
		}
	}
	for name, text := range a.Properties {
		if !yield("/input"+schema.Pointer([]string{name}), text) {
			return
		}
	}
	yield("/input", string(a.Input))
}

// prepare checks what is asked for against what there is.
func (s *Service) prepare(p access.Principal, a *Request) (*spec, error) {
	sp := &spec{owner: p.Owner(), role: p.Role}
	if err := a.CheckSaid(); err != nil {
		return sp, err
	}
	var err error
	if sp.files, err = s.o.Files.Open(p, "/files", a.Files); err != nil {
		return sp, err
	}
	switch {
	case a.Agent != "" && (a.Workflow != "" || a.Inline != nil):
		return sp, misfitting(Field{Pointer: "/agent", Detail: "expected a workflow or an agent, not both"})
	case a.Agent != "":
		return s.prepareAgent(p, a, sp.files)
	case a.Session != "" && s.o.Turns == nil:
		return sp, misfitting(Field{Pointer: "/session", Detail: "this server has no sessions"})
	case a.Session == "" && a.OnBusy != "":
		return sp, misfitting(Field{Pointer: "/on_busy", Detail: "expected a session too, because only a session can be busy"})
	case a.OnBusy == string(turn.Steer):
		return sp, misfitting(Field{Pointer: "/on_busy", Detail: "steer works only with agents; expected queue, reject or interrupt"})
	}
	if sp.workflow, err = s.workflowOf(p, a); err != nil {
		return sp, err
	}
	info := sp.workflow.Info()
	input, err := a.InputFor(info.Input)
	if err != nil {
		return sp, err
	}
	misfits := append(sp.setInput(input), s.setModel(sp, a.Model, info.Model)...)
	if a.Session != "" {
		if why := s.CheckSession(p, a.Session); why != "" {
			misfits = append(misfits, Field{Pointer: "/session", Detail: why})
		}
	}
	if len(misfits) > 0 {
		return sp, misfitting(misfits...)
	}
	sp.setOptions(a)
	if info.Resume {
		sp.request = a
	}
	if a.Session != "" {
		s.makeTurn(sp, a.Session, turn.Policy(a.OnBusy), input)
		sp.agent.envelope.Extra[hooks.History] = messages(a.History)
	} else {
		sp.history = messages(a.History)
	}
	return sp, nil
}

// workflowOf is the workflow that a request names, or has in it, or that only asks a model.
func (s *Service) workflowOf(p access.Principal, a *Request) (flow.Workflow, error) {
	switch {
	case a.Completion != nil:
		c, err := s.withFiles(p, a.Completion)
		if err != nil {
			return nil, err
		}
		return c.workflow(), nil
	case a.Inline != nil:
		return s.inline(a.Inline)
	case a.Workflow == "":
		return nil, misfitting(Field{Pointer: "/workflow", Detail: "expected the name of a workflow; GET /v1/workflows lists them"})
	}
	w, ok := s.o.Workflows.Get(a.Workflow)
	if !ok {
		return nil, refuse(ErrUnknown, "unknown workflow "+wording.Quote(a.Workflow)+"; "+s.Expected(p, a.Workflow))
	}
	return w, nil
}

// setInput sets the input as the workflow's schema has it.
func (sp *spec) setInput(input json.RawMessage) (misfits []Field) {
	var err error
	sp.input, err = flow.Prepare(sp.workflow, input)
	if ie, ok := errors.AsType[*flow.InputError](err); ok {
		for _, problem := range ie.Problems {
			misfits = append(misfits, Field{Pointer: "/input" + problem.Pointer, Detail: problem.Detail})
		}
	} else if err != nil {
		misfits = []Field{{Pointer: "/input", Detail: err.Error()}}
	}
	return misfits
}

// setModel sets the model of bots that name none: the caller's, or else the workflow's, or else the server's. A bot's own model goes before it.
func (s *Service) setModel(sp *spec, callers, workflows string) (misfits []Field) {
	if callers != "" {
		if err := s.CheckModel(callers); err != nil {
			misfits = []Field{{Pointer: "/model", Detail: err.Error()}}
		}
	}
	sp.model = cmp.Or(callers, workflows, s.o.Bot.Model, s.o.Models.Default)
	sp.config = s.o.Bot
	sp.config.Model = sp.model // which flow takes for the caller's choice
	return misfits
}

// ListModels lists the models that callers may name: those that are configured, the default, and what the workflows name.
func (s *Service) ListModels() []string {
	return s.o.Models.Usable(append(s.o.Workflows.Models(), s.o.Bot.Model, s.o.Models.Default)...)
}

// CheckModel says why a request may not name a model, or a chain of them; nil where it may.
func (s *Service) CheckModel(chain string) error {
	if _, err := s.o.Models.Model(chain); err != nil {
		return errors.New(strings.TrimPrefix(err.Error(), "adapter: "))
	}
	if !s.o.ListedModels {
		return nil
	}
	listed := s.ListModels()
	for _, name := range adapter.Links(chain) {
		if !slices.Contains(listed, name) {
			return fmt.Errorf("the model %s is not offered; GET /v1/models lists those that are; the operator can list it (providers.NAME.models), or allow all (models: any)",
				wording.Quote(name))
		}
	}
	return nil
}

// setOptions sets what the caller wants of bots and events.
func (sp *spec) setOptions(a *Request) {
	sp.config.Options = a.Options.Over(sp.config.Options)
	sp.config.Done = sp.config.Done || a.Done
	sp.config.HTMLEvents = sp.config.HTMLEvents || a.HTML
	if a.Strict {
		sp.config.OnInvalid = sp.config.OnInvalid.Strict()
	}
	sp.params, sp.filters = a.Params, a.filters()
}

// inline reads a workflow that the request itself brings.
func (s *Service) inline(text json.RawMessage) (flow.Workflow, error) {
	if !s.o.InlineWorkflows {
		return nil, misfitting(Field{
			Pointer: "/workflow",
			Detail:  "expected the name of a workflow; this server accepts no workflows inside requests (inline_workflows)",
		})
	}
	w, err := flow.ParseSpec("workflow", text, nil, s.o.Models.Providers()...)
	var misfits []Field
	if err == nil {
		for _, model := range w.Info().Models() {
			if err := s.CheckModel(model); err != nil {
				misfits = append(misfits, Field{Pointer: "/workflow", Detail: err.Error()})
			}
		}
		if len(misfits) > 0 {
			return nil, misfitting(misfits...)
		}
		return w, nil
	}
	for _, e := range flatten(err) {
		m := Field{Pointer: "/workflow", Detail: e.Error()}
		if fe, ok := errors.AsType[*flow.FileError](e); ok {
			m.Detail = "line " + strconv.Itoa(fe.Line) + ", column " + strconv.Itoa(fe.Column) + " of the workflow: " + fe.Detail()
		}
		if misfits = append(misfits, m); len(misfits) == maxMisfits {
			break
		}
	}
	return nil, misfitting(misfits...)
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

// Expected lists the workflows that somebody may run, for an error about a name that is none of them.
func (s *Service) Expected(p access.Principal, name string) string {
	var names []string
	for _, w := range s.o.Workflows.All() {
		if name := w.Info().Name; p.Runs(name) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return "this server has none"
	}
	return wording.Expected(name, names)
}

// Agents are the names of those that somebody can ask, the default one first.
func (s *Service) Agents(p access.Principal) (names []string) {
	if s.o.Turns == nil {
		return nil
	}
	for _, name := range s.o.Agents.Names() {
		if p.Asks(name) {
			names = append(names, name)
		}
	}
	return names
}
