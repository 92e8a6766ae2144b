package web

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/lingserve/lingserve/access"
	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/agent"
	"github.com/lingserve/lingserve/agent/workflow"
	"github.com/lingserve/lingserve/bot"
	"github.com/lingserve/lingserve/channel"
	webchannel "github.com/lingserve/lingserve/channel/web"
	"github.com/lingserve/lingserve/flow"
	"github.com/lingserve/lingserve/internal/rawjson"
	"github.com/lingserve/lingserve/internal/vfs"
	"github.com/lingserve/lingserve/jsonuri"
	"github.com/lingserve/lingserve/ling"
	"github.com/lingserve/lingserve/tool"
	"github.com/lingserve/lingserve/tube"
	"github.com/lingserve/lingserve/turn"
)

// Agents are who answers in sessions: plugins of [Options].Turns, which take an envelope by the name that its Extra has under
// [ExtraAgent].
type Agents interface {
	// Names are those that a run can ask for, the default one first.
	Names() []string
	// Answer gives somebody's decision to a call that waits for it; see [agent.Agent.Answer].
	Answer(context.Context, agent.Answer) error
	// Questions are the calls of a session that wait for approval, the oldest first.
	Questions(session string) []agent.Question
}

// ByWorkflow is what [Agents] are, too, where workflows answer for some of them.
type ByWorkflow interface {
	// Workflow is the name of the workflow that answers for this agent; "" for none.
	Workflow(agent string) string
}

// Channel is the channel of envelopes that come from here.
const Channel = webchannel.Name

// Members of an envelope's Extra.
const (
	ExtraAgent   = turn.ExtraAgent
	extraOptions = "options"      // adapter.Options: what is asked of the models
	extraRun     = "answers"      // *agentRun: a workflow is to answer
	extraCaller  = "instructions" // string: what the caller has beside the agent's own
	extraHistory = "said"         // []said: what was said before, for a session that is new
)

// door is the plugin that stands for this server in the turns that it starts.
type door struct{}

// DispatchOutbound has nothing to send: what goes out here, the run has told already.
func (door) DispatchOutbound(_ context.Context, e *turn.Envelope) (bool, error) {
	return e.Channel == Channel, nil
}

// BeforeModel asks of the models what the caller of the run has asked for.
func (door) BeforeModel(ctx context.Context, req *adapter.Request, _ turn.State) (*agent.Reply, error) {
	t := turn.FromContext(ctx)
	if t == nil {
		return nil, nil
	}
	if o, ok := t.Envelope().Extra[extraOptions].(adapter.Options); ok {
		req.Options = o.Over(req.Options)
	}
	return nil, nil
}

// SystemPrompt adds what the configuration has for those who come by HTTP, and behind it what the caller says.
func (door) SystemPrompt(ctx context.Context, _ turn.Prompt, _ turn.State) (string, error) {
	var text string
	if t := channel.FromContext(ctx); t != nil && t.Context.Channel == Channel {
		text = t.Context.GroupSystemPrompt
	}
	if t := turn.FromContext(ctx); t != nil {
		caller, _ := t.Envelope().Extra[extraCaller].(string)
		if more := instructed(caller); more != "" && text != "" {
			text += "\n\n" + more
		} else {
			text += more
		}
	}
	return text, nil
}

// prepareAgent checks a run of an agent against what there is.
func (s *Server) prepareAgent(p access.Principal, a *ask, files []adapter.Part) (spec, *problem) {
	sp := spec{owner: p.Owner(), role: p.Role}
	if s.o.Turns == nil {
		return sp, newProblem(codeNotFound, "unknown agent "+quote(a.Agent)+"; this server has no agents")
	}
	if names := s.agents(p); !slices.Contains(names, a.Agent) {
		return sp, newProblem(codeNotFound, "unknown agent "+quote(a.Agent)+"; "+expected(a.Agent, names))
	}
	var misfits []misfit
	fail := func(pointer, detail string) { misfits = append(misfits, misfit{Pointer: pointer, Detail: detail}) }
	if a.Model != "" {
		fail("/model", "an agent chooses its own model; send the input ,model NAME to change it for the session")
	}
	if a.Params != nil {
		fail("/params", "an agent takes no params")
	}
	if a.Session != "" {
		if why := s.noSession(p, a.Session); why != "" {
			fail("/session", why)
		}
	}
	if by, ok := s.o.Agents.(ByWorkflow); ok && len(misfits) == 0 {
		if workflow := by.Workflow(a.Agent); workflow != "" {
			return s.prepareByWorkflow(p, a, workflow)
		}
	}
	var text string
	switch {
	case len(a.Properties) > 0:
		fail("/input", "an agent's input is text without properties")
	case a.Input == nil || a.Input[0] != '"' || json.Unmarshal(a.Input, &text) != nil:
		found := "nothing"
		if a.Input != nil {
			found = rawjson.Kind(a.Input)
		}
		fail("/input", "expected a string, found "+found)
	case text == "" && len(files) == 0:
		fail("/input", "is empty; expected a message to the agent")
	}
	if len(misfits) > 0 {
		return sp, invalid(misfits...)
	}
	sp.agent = &agentRun{
		s: s, name: a.Agent, id: newRunID(), policy: turn.Policy(a.OnBusy), done: a.Done,
		placed: make(chan struct{}), begun: make(chan struct{}), ruled: make(chan struct{}), ready: make(chan struct{}),
	}
	sp.session = a.Session
	if sp.session == "" { // one of its own, in which the conversation can go on
		sp.session = sp.agent.id
	}
	sp.agent.envelope = &turn.Envelope{
		ID: sp.agent.id, Channel: Channel, Content: text, Media: mediaOf(files), Life: sp.agent,
		Extra: map[string]any{
			ExtraAgent: a.Agent, turn.ExtraRun: sp.agent.id, extraOptions: a.Options, extraCaller: a.Instructions, extraHistory: a.History,
		},
	}
	sp.workflow = flow.Func(a.Agent, "", nil, func(ctx context.Context, m *ling.Manager, _ map[string]any) error {
		return sp.agent.run(ctx, m)
	})
	sp.config = s.o.Bot
	if len(a.Exclude)+len(a.Include) > 0 {
		sp.filters = []tube.Filter{{Exclude: matchers(a.Exclude), Include: matchers(a.Include)}}
	}
	return sp, nil
}

// prepareByWorkflow checks a run of an agent that a workflow answers for.
func (s *Server) prepareByWorkflow(by access.Principal, a *ask, workflow string) (spec, *problem) {
	if _, ok := s.o.Workflows.Get(workflow); !ok {
		p := newProblem(codeInternal, "this agent's workflow is missing; find the cause in the server's log under this id")
		p.ID = newRunID()
		s.log.Error("agent's workflow is missing", "id", p.ID, "agent", a.Agent, "workflow", workflow)
		return spec{}, p
	}
	if a.OnBusy == string(turn.Steer) {
		return spec{}, invalid(misfit{
			Pointer: "/on_busy", Detail: "this agent does not support steer, because it is a workflow; expected queue, reject or interrupt",
		})
	}
	as := *a
	as.Agent, as.Workflow = "", workflow
	if as.Session == "" { // one of its own, in which the conversation can go on
		as.Session = newRunID()
	}
	sp, p := s.prepare(by, &as)
	if p == nil {
		sp.agent.as = a.Agent
	}
	return sp, p
}

// agentRun is a run that is a turn of an agent: a prepared one of the kernel, whose reply is the run's tube. It is also the lifespan
// of the turn's envelope, which keeps the turn from beginning before the run is there to tell of it.
type agentRun struct {
	s         *Server
	name      string
	id        string // of the run, and of the turn
	as        string // the agent that a workflow answers for; "" for none
	policy    turn.Policy
	answer    *workflow.Answer // of a workflow, which writes to the tube itself; nil for an agent
	done      bool             // completed values are told
	alone     bool             // the caller waits for the document and cannot answer questions
	doubt     bool             // another replica may have taken the message: the tape says so
	envelope  *turn.Envelope
	spec      *spec
	admission channel.Admission // observeOnly: nothing of the turn is to be seen

	cancel context.CancelCauseFunc // ends the turn
	ticket *turn.Ticket
	begun  chan struct{} // closed when tells is set, or there is to be none
	tells  *run          // the run that tells of the turn; nil: it could not be started, or another turn has used the message
	ready  chan struct{} // closed when m is set
	m      *ling.Manager // what is written to
	own    *ling.Manager // of the run: another one than m where nothing is to be seen

	place     sync.Once
	placed    chan struct{} // closed when taken is set
	taken     taken
	supervise func()        // waits for the end of tells, and keeps what is kept of it
	ruled     chan struct{} // closed when shown is set
	shown     bool          // the run may be seen

	mu      sync.Mutex
	steered []spec // messages that were given to this run's turn
	over    bool   // no more of them are taken

	// Of the turn's goroutine, and of the run's when that has ended.
	calls   map[string]int // numbers of the calls that are not answered, by id: a later call may have the id of an earlier one
	told    int            // calls so far
	last    int            // of the last call
	cited   int            // sources so far
	made    int            // images and sounds so far
	wrote   bool           // text
	line    bool           // the text ends with a line
	gap     bool           // calls have come since
	size    int            // of what was written
	large   bool           // it was too much
	silent  bool           // the workflow answers, and all that happens is on the tube
	pending []byte
}

var (
	// errRefused is why a turn ends whose run could not be started.
	errRefused = errors.New("the run was not started")
	// errGoexit is what a turn fails of whose goroutine a plugin has ended.
	errGoexit = errors.New("a plugin has ended its goroutine")
	// errInterrupted is what the end of a run says that a later message has ended.
	errInterrupted = errors.New("interrupted")
	// errErased is why the turns of a session end that is erased.
	errErased = errors.New("the session was erased")
)

// startAgent starts a run of an agent, or finds the one that takes its message. The turn goes on behind it.
// again says that the same request has started it before.
func (s *Server) startAgent(sp spec) (r *run, id string, again bool, p *problem) {
	a := sp.agent
	if sp.key != "" && s.o.Shared == nil {
		// A message must be submitted before its run can be started, and one that comes twice only once.
		s.keyed.Lock()
		defer s.keyed.Unlock()
		if id, p := s.runs.attach(sp.owner, sp.key, sp.hash); id != "" || p != nil {
			return nil, id, true, p
		}
	}
	sp.id = a.id
	ctx, cancel := context.WithCancelCause(s.runs.within(&sp))
	a.cancel = cancel
	m := &webchannel.Message{
		Principal: sp.owner, Role: sp.role, Session: sp.session, Run: a.id, Key: sp.key, Agent: cmp.Or(a.as, a.name), Text: a.envelope.Content, Workflow: a.answer != nil,
		Admission: a.admission,
		Dispatch: func(ctx context.Context, t *channel.Turn) (channel.DispatchResult, error) {
			return a.dispatch(ctx, t, &sp)
		},
	}
	s.runs.turns.enter()
	go func() { // ends with the turn, and the server waits for it
		var result channel.Result
		err := errGoexit
		defer func() {
			a.place.Do(func() {
				a.taken.problem = s.refused(result, err)
				close(a.placed)
			})
			cancel(err)
			a.endSpan(&sp)
			s.runs.turns.leave()
		}()
		result, err = webchannel.Run(ctx, s.o.Kernel, m)
	}()
	<-a.placed
	return a.taken.run, a.taken.id, a.taken.again, a.taken.problem
}

// taken says which run takes a message.
type taken struct {
	run     *run   // its own, nil where there is none
	id      string // of the run: its own, that of the turn it was steered to, or the first one of its key
	again   bool   // the last
	problem *problem
}

// takenBy says which run takes the message, or why none does.
func (a *agentRun) takenBy(t taken) {
	a.place.Do(func() {
		a.taken = t
		close(a.placed)
	})
}

// dispatch gives the turn to the lane of its session, and shows it by a run. It returns when both have ended, so that nothing goes on
// behind the kernel's back.
func (a *agentRun) dispatch(ctx context.Context, t *channel.Turn, sp *spec) (channel.DispatchResult, error) {
	e := a.envelope
	e.SessionID = t.SessionKey
	e.Sender.ID, e.Sender.Role = t.Context.SenderID, t.Context.Role
	if a.answer == nil {
		e.Content = t.Context.BodyForAgent
		if e.Sender.NoCommands = !t.Context.CommandAuthorized; t.Context.CommandAuthorized {
			e.Content = t.Context.BodyForCommands
		}
	}
	policy := cmp.Or(a.policy, turn.Policy(t.Policy))
	if policy == turn.Steer && a.answer != nil || t.Context.ObserveOnly && policy != turn.Reject {
		policy = turn.Queue // a workflow cannot be steered; and what nobody is to see does nothing to what somebody does
	}
	a.spec, sp.id = sp, a.id
	ticket, err := a.s.o.Turns.Submit(ctx, e, turn.WithID(a.id), turn.WithPolicy(policy), turn.WithSink(a.take), turn.WithWaiting(a.waits))
	if err != nil {
		return channel.DispatchResult{}, err
	}
	a.ticket = ticket
	steered := false
	if e := ticket.Host(); e != nil {
		// Turns that have no run, or none that is still going on, are of other doors: their answer comes by a run of its own.
		if host, ok := e.Life.(*agentRun); ok && host.steer(*sp) {
			steered = true
			t.Queued()
			a.takenBy(taken{id: host.id})
			<-a.begun
		}
	}
	if !steered {
		r, id, p := a.s.runs.start(*sp)
		a.started(r)
		if r != nil {
			t.Queued()
		}
		a.takenBy(taken{r, id, r == nil, p})
		if p != nil {
			_, _ = ticket.Wait(context.Background())
			return channel.DispatchResult{}, p.ofLane()
		}
	}
	if a.tells != nil {
		a.shown = show(ctx, t.Sink)
		close(a.ruled)
		a.supervise()
	}
	_, err = ticket.Wait(context.Background())
	switch {
	case a.tells != nil:
		return channel.DispatchResult{}, err
	case steered && ticket.Host() == nil:
		return channel.DispatchResult{}, errRefused // it came too late, and there could be no run for it
	default:
		return channel.DispatchResult{Deferred: true}, nil // the run that takes it says what came of it
	}
}

// ofLane is a problem as the error of a lane that says the same.
func (p *problem) ofLane() error {
	switch p.Code {
	case codeOverloaded:
		return turn.ErrQueueFull
	case codeDraining:
		return turn.ErrDraining
	}
	return p
}

// started says that the run goes on, or that it could not be started: then its turn ends.
func (a *agentRun) started(r *run) {
	if r == nil {
		a.cancel(errRefused)
		a.mu.Lock()
		a.over = true
		a.mu.Unlock()
	}
	a.tells = r
	close(a.begun)
}

// steer notes a message that was given to this run's turn; false where no run is there to tell what becomes of it.
func (a *agentRun) steer(sp spec) bool {
	<-a.begun // its turn may be there a moment before it
	if a.tells == nil {
		return false
	}
	if <-a.ruled; !a.shown {
		return false // the answer would not be seen
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.over {
		return false
	}
	a.steered = append(a.steered, sp)
	a.s.runs.keepKey(sp, a.id) // until a run of its own has it
	return true
}

// follow is for the end of the turn: the messages that it has not used have turns of their own, which come next or run already.
// Each gets its run, and this one says which.
func (a *agentRun) follow(m *ling.Manager) {
	a.mu.Lock()
	list := a.steered
	a.steered, a.over = nil, true
	a.mu.Unlock()
	ctx, cancel := context.WithTimeout(a.s.stopping, cmp.Or(a.s.beginWait, beginWait))
	defer cancel()
	for _, sp := range list {
		late := sp.agent
		if late.ticket.Host() != nil {
			if r, err := late.ticket.Wait(context.Background()); err != nil && r.TurnID == late.id && errors.Is(err, turn.ErrDraining) {
				m.Report("", lateFailure(codeDraining))
			}
			close(late.begun)
			late.cancel(nil)
			continue
		}
		sp.follows = true
		r, id, p := a.s.runs.start(sp)
		if p != nil {
			m.Report("", lateFailure(p.Code))
		} else {
			r.awaitBegun(ctx) // who reads this comes for it, to any replica
			// The tube is open until this returns.
			_ = m.SendEvent("follow_up", map[string]string{"run": id})
		}
		late.started(r)
	}
}

// lateFailure says that a steered message was not used and is not answered any more.
func lateFailure(code string) *bot.Failure {
	return &bot.Failure{
		Code: code, Message: "a message arrived too late for this run and got no answer: " + turn.Sentence(code), Retryable: turn.Retryable(code, nil),
	}
}

// answering waits until it is clear which run answers a message that was steered: nil for the one that it was given to, or where
// ctx has ended.
func (a *agentRun) answering(ctx context.Context) *run {
	select {
	case <-a.begun:
		return a.tells
	case <-ctx.Done():
		return nil
	}
}

// refused is the answer to a message whose turn has ended before there was a run.
func (s *Server) refused(r channel.Result, err error) *problem {
	switch {
	case errors.Is(err, errClosing):
		r.Admission.Reason = channel.ReasonDraining
	case err != nil:
		r.Admission.Reason = map[string]channel.Reason{
			codeConflict: channel.ReasonSessionBusy, codeOverloaded: channel.ReasonOverloaded, codeDraining: channel.ReasonDraining,
		}[s.o.Turns.Code(err)]
	}
	if said := webchannel.Refuse(r); said != nil {
		p := newProblem(said.Code, said.Detail)
		p.Status, p.retryAfter = said.Status, said.RetryAfter
		if r.Admission.Reason == channel.ReasonOverloaded {
			p.reason = limitQueue
		}
		return p
	}
	if err == nil {
		err = fmt.Errorf("a turn ended without a run: %s", r.Admission.Reason)
	}
	p := newProblem(codeInternal, "the server cannot accept the message; find the cause in its log under this id")
	p.ID = newRunID()
	s.log.Error("cannot accept a message", "id", p.ID, "error", err)
	return p
}

// Enter waits until the run is there.
func (a *agentRun) Enter(ctx context.Context) error {
	if t := turn.FromContext(ctx); a.answer != nil && t != nil && t.Inbox() != nil {
		t.Inbox().CloseIfEmpty() // a workflow reads no steering, so messages had better wait
	}
	select {
	case <-a.ready:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if !a.doubt {
		return nil
	}
	switch run, err := a.s.takenBefore(ctx, a.spec.lane(), a.id); { // once more, now that nobody else can write
	case err != nil:
		return err
	case run != "":
		return &bot.Failure{Code: codeConflict, Message: "the message was already accepted by the run " + run}
	}
	return nil
}

// Exit has nothing to do: the run waits for the whole turn.
func (a *agentRun) Exit(context.Context, error) error { return nil }

// run is the work of the run: it waits for the turn, which tells what happens by take.
func (a *agentRun) run(ctx context.Context, m *ling.Manager) error {
	defer a.cancel(nil)
	defer context.AfterFunc(ctx, func() { a.cancel(context.Cause(ctx)) })()
	a.own = m
	if <-a.ruled; a.shown {
		return a.tell(ctx, m)
	}
	// All goes as it would, to where nobody looks.
	hidden := a.s.runs.manager(ctx, a.spec, nil)
	if err := hidden.Go(func(ctx context.Context) error { return a.tell(ctx, hidden) }); err != nil {
		a.cancel(err)
	}
	_ = hidden.Close()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// show says whether a run may be seen: that it is, is what is visible of a turn.
func show(ctx context.Context, sink channel.Sink) (shown bool) {
	_, _ = sink.Do(ctx, channel.Block{Kind: channel.ReplyFinal}, func(context.Context) (channel.Receipt, error) {
		shown = true
		return channel.Receipt{}, nil
	})
	return shown
}

// tell waits for the turn, and tells on m what happens.
func (a *agentRun) tell(ctx context.Context, m *ling.Manager) error {
	if status := a.ticket.Status(); status.Phase == turn.Queued && !status.Slot && status.Position > 0 {
		_ = m.SendEvent("queued", map[string]int{"position": status.Position}) // the run may have been canceled
	}
	a.m = m
	close(a.ready)
	result, err := a.ticket.Wait(context.Background())
	a.follow(m)
	switch {
	case a.stop(err), a.answer != nil && a.answer.Told(err):
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case a.large:
		return &bot.Failure{Code: codeTooLarge, Message: fmt.Sprintf("the run's result exceeds the limit of %d bytes", a.s.o.MaxResult)}
	case err != nil:
		return a.failure(err)
	}
	if a.answer != nil {
		return nil
	}
	if !a.wrote { // a command that was answered beside the lane
		for _, e := range result.Outbound {
			a.text(e.Content)
		}
	}
	if a.done {
		a.send(tube.Event{Kind: tube.Done})
	}
	return nil
}

// waits tells that the turn waits, and how long.
func (a *agentRun) waits(w turn.Waiting) {
	select {
	case <-a.ready:
	default:
		return // the run has not started yet
	}
	_ = a.m.SendEvent("waiting", struct { // the run may have been canceled
		Position int           `json:"position"`
		For      turn.WaitsFor `json:"for,omitempty"`
		Expected int           `json:"expected,omitempty"`
	}{w.Position, w.For, int(math.Ceil(w.Expected.Seconds()))})
}

// stop cancels the run where its turn was ended by somebody: false where err says something else.
func (a *agentRun) stop(err error) bool {
	switch {
	case errors.Is(err, turn.ErrInterrupted):
		a.own.Stop(errInterrupted)
	case errors.Is(err, turn.ErrStopped):
		a.own.Stop(errAsked)
	case errors.Is(err, errErased):
		a.own.Stop(errErased)
	case errors.Is(err, turn.ErrTimeout):
		a.own.Stop(fmt.Errorf("the turn took longer than %s", a.s.o.Turns.Timeout()))
	default:
		return false
	}
	return true
}

// failure is what the run failed of, as users may read it.
func (a *agentRun) failure(err error) error {
	if _, known := bot.Describe(err); known && !isOverloaded(err) {
		return err
	}
	if vfs.Failed(err) {
		a.s.shed.diskFailed()
	}
	code := a.s.o.Turns.Code(err)
	message, again := turn.SentenceOf(code, err), turn.Retryable(code, err)
	switch {
	case errors.Is(err, turn.ErrLeaseLost):
		again = true
		message = "the server lost the session during the answer, because the server or its store did not respond for too long; send the message again"
	case code == codeInternal: // the turn has told the log already
		message = "internal error; find it in the server's log as turn " + a.id
	}
	return &bot.Failure{Code: code, Message: message, Retryable: again, Cause: err}
}

// take writes what happens in the turn to the run's tube. It is called by the turn, one event after the other.
func (a *agentRun) take(e turn.Event, err error) {
	if err != nil || a.m == nil || a.silent {
		return // the turn's end says what it failed of
	}
	switch e.Kind {
	case turn.TextEvent:
		a.text(e.Delta)
	case turn.ReasoningEvent:
		a.append([]byte("$reasoning_context"), e.Delta)
	case turn.ToolCallEvent:
		for _, c := range e.Calls {
			a.call(c)
		}
	case turn.ToolResultEvent:
		for _, r := range e.Results {
			a.result(r)
		}
	case turn.CitationEvent:
		if e.Citation != nil {
			a.beside("$citations", a.cited, e.Citation)
			a.cited++
		}
	case turn.MediaEvent:
		if e.Media != nil {
			a.media(e.Media)
		}
	case turn.UsageEvent:
		if u := e.Usage; u != nil {
			a.m.Used(a.name, u.Model, u.Usage)
		}
	case turn.ErrorEvent:
		if e.Err != nil {
			a.m.Report(a.name, &bot.Failure{Code: e.Err.Code, Message: e.Err.Message})
		}
	case turn.FinalEvent:
		if e.Final != nil && e.Final.Reason == adapter.FinishLength && a.tells != nil {
			a.tells.cut.Store(true)
		}
	default: // approval_required, approval_resolved, handoff, and what plugins add
		if len(e.Value) == 0 {
			return
		}
		_ = a.m.SendEvent(string(e.Kind), e.Value) // a name that is none is nobody's event
		if e.Kind == agent.ApprovalRequiredEvent && (a.alone || a.own != a.m) {
			a.deny(e.Value)
		}
	}
}

// text is a piece of the answer. What stands before calls and after them are two paragraphs, where it does not see to that itself.
func (a *agentRun) text(delta string) {
	if delta == "" {
		return
	}
	if a.gap && a.wrote && !a.line && delta[0] != '\n' {
		delta = "\n\n" + delta
	}
	a.wrote, a.gap, a.line = true, false, strings.HasSuffix(delta, "\n")
	a.append(nil, delta)
}

// append appends to the string at a uri.
func (a *agentRun) append(uri []byte, text string) {
	a.pending = jsonuri.AppendEscaped(a.pending[:0], text)
	a.send(tube.Event{Kind: tube.Append, URI: uri, Value: a.pending})
}

// set sets the value at a numbered uri. A string that is set is sent as one that is appended to.
func (a *agentRun) set(name string, number int, value []byte) {
	a.send(tube.Event{Kind: tube.Set, URI: []byte(name + "/" + strconv.Itoa(number)), Value: value})
}

// send sends an event, unless it makes the result too large: then the turn ends.
func (a *agentRun) send(e tube.Event) {
	if a.size += len(e.Value); a.size > a.s.o.MaxResult {
		if !a.large {
			a.large = true
			a.cancel(errTooMuch)
		}
		return
	}
	_, _ = a.m.Tube().Send(e) // a run that has just been canceled takes no more
}

// errTooMuch ends a turn that writes more than a run may.
var errTooMuch = errors.New("the run's result is too large")

// call tells a call of a tool.
func (a *agentRun) call(c tool.Call) {
	if a.calls == nil {
		a.calls = map[string]int{}
	}
	number, known := a.calls[c.ID]
	if !known {
		number = a.told
		a.told++
	}
	a.calls[c.ID] = number
	a.last, a.gap = number, true
	arguments := c.Arguments
	if !json.Valid(arguments) {
		arguments, _ = json.Marshal(string(arguments))
	}
	var value bytes.Buffer
	enc := json.NewEncoder(&value)
	enc.SetEscapeHTML(false)
	if enc.Encode(tool.Call{ID: c.ID, Name: c.Name, Arguments: arguments}) != nil {
		return // strings and what was JSON before: cannot be
	}
	a.set("$tools", number, bytes.TrimSpace(value.Bytes()))
}

// beside tells a source, or an image or a sound.
func (a *agentRun) beside(name string, number int, what any) {
	var value bytes.Buffer
	enc := json.NewEncoder(&value)
	enc.SetEscapeHTML(false)
	if enc.Encode(what) == nil {
		a.set(name, number, bytes.TrimSpace(value.Bytes()))
	}
}

// media tells an image or a sound that the model made. Data are kept as a file of the run's caller.
func (a *agentRun) media(m *adapter.Media) {
	made := struct {
		Type  string `json:"type"`
		URL   string `json:"url"`
		Bytes int    `json:"bytes,omitempty"`
	}{m.Type, m.URL, 0}
	if kind, data, ok := adapter.OpenDataURL(m.URL); ok {
		url, err := a.s.keepMedia(a.m.Context(), a.spec.owner, kind, data)
		if url == "" {
			a.m.Report(a.name, bot.MediaFailure(err))
			return
		}
		made.URL, made.Bytes = url, len(data)
	}
	a.beside("$media", a.made, made)
	a.made++
}

// result tells what came of a call. What a tool says of its failure is for the model.
func (a *agentRun) result(r tool.Result) {
	number, ok := a.calls[r.ID]
	if !ok {
		number = a.last
	}
	delete(a.calls, r.ID)
	if r.Err == nil {
		a.set("$tool_results", number, r.Value())
		return
	}
	a.set("$tool_results", number, []byte("null"))
	f := &bot.Failure{Code: codeInternal, Message: "the tool " + r.Name + " has failed", Cause: r.Err}
	switch r.Err.Kind {
	case tool.KindUnknown:
		f.Code, f.Message = codeOutput, "the model called an unknown tool: "+clip(r.Name)
	case tool.KindArguments:
		f.Code, f.Message = codeOutput, "the model called the tool "+r.Name+" with invalid arguments"
	case tool.KindDenied:
		f.Code, f.Message = codeForbidden, "the tool "+r.Name+" was not allowed to run"
	case tool.KindTimeout:
		f.Message = "the tool " + r.Name + " took too long"
	case tool.KindInterrupted:
		return // with the turn, whose end says so
	}
	a.m.Report(a.name, f)
}

// deny answers a question that nobody can answer (AG-40): the caller gets the document when all is over.
func (a *agentRun) deny(question json.RawMessage) {
	var q agent.Question
	if json.Unmarshal(question, &q) != nil {
		return
	}
	_ = a.s.o.Agents.Answer(context.Background(), agent.Answer{ // an answer that came before is as good
		Turn: a.id, ID: q.ID, Nobody: true, Role: tool.Admin,
	})
}
