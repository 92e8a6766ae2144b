package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/lingserve/lingserve/agent/workflow"
	"github.com/lingserve/lingserve/bot"
	"github.com/lingserve/lingserve/channel"
	webchannel "github.com/lingserve/lingserve/channel/web"
	"github.com/lingserve/lingserve/flow"
	"github.com/lingserve/lingserve/ling"
	"github.com/lingserve/lingserve/run/transcript"
	"github.com/lingserve/lingserve/turn"
)

// agentRun is a run that is a turn of an agent: a prepared one of the kernel, whose reply is the run's tube. It is also the lifespan
// of the turn's envelope, which keeps the turn from beginning before the run is there to tell of it.
type agentRun struct {
	s          *Service
	name       string
	id         string // of the run, and of the turn
	as         string // the agent that a workflow answers for; "" for none
	policy     turn.Policy
	answer     *workflow.Answer // of a workflow, which writes to the tube itself; nil for an agent
	done       bool             // completed values are told
	unattended bool             // the caller waits for the document and cannot answer questions
	envelope   *turn.Envelope
	spec       *spec

	cancel  context.CancelCauseFunc // ends the turn
	ticket  *turn.Ticket
	decided chan struct{} // closed when tells is set, or there is to be none
	ownRun  *Run          // the run that tells of the turn; nil: it could not be started, or another turn has used the message
	ready   chan struct{} // closed when m is set
	m       *ling.Manager // what is written to
	own     *ling.Manager // of the run: another one than m where nothing is to be seen

	place     sync.Once
	placed    chan struct{} // closed when taken is set
	taken     taken
	supervise func()        // waits for the end of tells, and keeps what is kept of it
	judged    chan struct{} // closed when shown is set
	shown     bool          // the run may be seen

	turn    machine[turnState]
	mu      sync.Mutex
	steered []steeredMessage // messages that were given to this run's turn, while it runs or is queued

	out    *transcript.Writer // is set with m
	silent bool               // the workflow answers, and all that happens is on the tube
}

var (
	// errRefused is why a turn ends whose run could not be started.
	errRefused = errors.New("the run was not started")
	// errInterrupted is what the end of a run says that a later message has ended.
	errInterrupted = errors.New("interrupted")
	// errErased is why the turns of a session end that is erased.
	errErased = errors.New("the session was erased")
)

func (s *Service) newAgentRun(name string, policy turn.Policy) *agentRun {
	return &agentRun{
		s: s, name: name, id: NewID(), policy: policy,
		placed: make(chan struct{}), decided: make(chan struct{}), judged: make(chan struct{}), ready: make(chan struct{}),
	}
}

// turnWork is the workflow of the run: it waits for the turn.
type turnWork struct{ *agentRun }

func (w turnWork) Info() flow.Info { return flow.Info{Name: w.name} }

func (w turnWork) Run(ctx context.Context, m *ling.Manager, _ map[string]any) error {
	return w.run(ctx, m)
}

// startAgent starts a run of an agent, or finds the one that takes its message. The turn goes on behind it.
func (s *Service) startAgent(sp *spec) taken {
	a := sp.agent
	sp.id = a.id
	ctx, cancel := context.WithCancelCause(s.runContext(sp))
	a.cancel = cancel
	m := &webchannel.Message{
		Principal: sp.owner, Role: sp.role, Session: sp.session, Run: a.id, Key: sp.key, Agent: cmp.Or(a.as, a.name), Text: a.envelope.Content, Workflow: a.answer != nil,
		Dispatch: func(ctx context.Context, t *channel.Turn) (channel.DispatchResult, error) {
			return a.dispatch(ctx, t, sp)
		},
	}
	s.turns.Enter()
	go func() { // ends with the turn, and the server waits for it
		defer s.turns.Leave()
		result, err := webchannel.Run(ctx, s.o.Kernel, m)
		a.place.Do(func() {
			a.taken.err = s.refused(result, err)
			a.turn.enter(turnRefused)
			close(a.placed)
		})
		cancel(err)
		a.endSpan(sp)
	}()
	<-a.placed
	return a.taken
}

// taken says which run takes a message.
type taken struct {
	run *Run   // its own, nil where there is none
	id  string // of the run: its own, or that of the turn it was steered to
	err error
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
		if host, ok := e.Life.(*agentRun); ok && host.steer(sp) {
			steered = true
			t.Queued()
			a.takenBy(taken{id: host.id})
			<-a.decided
		}
	}
	if !steered {
		a.turn.enter(turnQueued)
		sp.queued = sp.queued || sp.resumed != nil || a.inQueue()
		r, p := a.s.start(sp)
		a.started(r)
		if r != nil {
			t.Queued()
		}
		a.takenBy(taken{r, sp.id, p})
		if p != nil {
			_, _ = ticket.Wait(context.Background())
			return channel.DispatchResult{}, ofLane(p)
		}
	}
	if a.ownRun != nil {
		a.shown = show(ctx, t.Sink)
		close(a.judged)
		a.supervise()
	}
	_, err = ticket.Wait(context.Background())
	switch {
	case a.ownRun != nil:
		return channel.DispatchResult{}, err
	case steered && ticket.Host() == nil:
		return channel.DispatchResult{}, errRefused // it came too late, and there could be no run for it
	default:
		return channel.DispatchResult{Deferred: true}, nil // the run that takes it says what came of it
	}
}

// inQueue reports whether the turn waits behind others.
func (a *agentRun) inQueue() bool {
	status := a.ticket.Status()
	return status.Phase == turn.Queued && !status.Slot && status.Position > 0
}

// ofLane is an error of this package as the error of a lane that says the same.
func ofLane(err error) error {
	switch codeOf(err) {
	case codeOverloaded:
		return turn.ErrQueueFull
	case codeDraining:
		return turn.ErrDraining
	}
	return err
}

// started says that the run goes on, or that it could not be started: then its turn ends.
func (a *agentRun) started(r *Run) {
	if r == nil {
		a.cancel(errRefused)
		a.mu.Lock()
		a.turn.enter(turnRefused)
		a.mu.Unlock()
	}
	a.ownRun = r
	close(a.decided)
}

// steer notes a message that was given to this run's turn; false where no run is there to tell what becomes of it.
func (a *agentRun) steer(sp *spec) bool {
	<-a.decided // its turn may be there a moment before it
	if a.ownRun == nil {
		return false
	}
	if <-a.judged; !a.shown {
		return false // the answer would not be seen
	}
	m := steeredMessage{sp, make(chan struct{})}
	sp.steered, sp.queued = true, true
	if a.s.storeStart(sp) != nil { // a crash would lose it
		sp.steered, sp.queued = false, false
		return false
	}
	a.mu.Lock()
	if !a.turn.is(turnQueued) && !a.turn.is(turnRunning) {
		a.mu.Unlock()
		sp.steered = false
		return false
	}
	sp.agent.turn.enter(turnSteered)
	a.steered = append(a.steered, m)
	a.mu.Unlock()
	a.s.moveKey(sp, a.id) // until a run of its own has it
	close(m.keyed)
	return true
}

// steeredMessage is a message that was given to the turn of another run.
type steeredMessage struct {
	*spec
	keyed chan struct{} // closed when its key leads to that run
}

// followUp is for the end of the turn: the messages that it has not used have turns of their own, which come next or run already.
// Each gets its run, and this one says which.
func (a *agentRun) followUp(m *ling.Manager) {
	a.mu.Lock()
	list := a.steered
	a.steered = nil
	a.turn.enter(turnEnded)
	a.mu.Unlock()
	for _, given := range list {
		<-given.keyed // a key that leads back to the message's own run must be written behind that
		sp := given.spec
		late := sp.agent
		if late.ticket.Host() != nil {
			if r, err := late.ticket.Wait(context.Background()); err != nil && r.TurnID == late.id && errors.Is(err, turn.ErrDraining) {
				m.Report("", lateFailure(codeDraining))
			}
			late.turn.enter(turnUsed)
			a.s.forgetSteered(sp.id, 1)
			close(late.decided)
			late.cancel(nil)
			continue
		}
		late.turn.enter(turnQueued)
		r, p := a.s.start(sp)
		if p != nil {
			m.Report("", lateFailure(codeOf(p)))
		} else {
			a.s.moveKey(sp, r.ID)
			// The tube is open until this returns.
			_ = m.SendEvent("follow_up", map[string]string{"run": r.ID})
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
func (a *agentRun) answering(ctx context.Context) *Run {
	select {
	case <-a.decided:
		return a.ownRun
	case <-ctx.Done():
		return nil
	}
}

// refused is the answer to a message whose turn has ended before there was a run.
func (s *Service) refused(r channel.Result, err error) error {
	switch {
	case errors.Is(err, errClosing):
		r.Admission.Reason = channel.ReasonDraining
	case err != nil:
		r.Admission.Reason = map[string]channel.Reason{
			codeConflict: channel.ReasonSessionBusy, codeOverloaded: channel.ReasonOverloaded, codeDraining: channel.ReasonDraining,
		}[s.o.Turns.Code(err)]
	}
	if said := webchannel.Refuse(r); said != nil {
		e := &Error{Kind: KindOf(said.Code), Detail: said.Detail, Retry: said.RetryAfter}
		if r.Admission.Reason == channel.ReasonOverloaded {
			e.Limit = LimitQueue
		}
		return e
	}
	if err == nil {
		err = fmt.Errorf("a turn ended without a run: %s", r.Admission.Reason)
	}
	e := internal("the server cannot accept the message; find the cause in its log under this id")
	s.log.Error("cannot accept a message", "id", e.ID, "error", err)
	return e
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
	a.turn.enterFrom(turnQueued, turnRunning)
	if r := a.ownRun; r.queued.Load() {
		if err := a.s.storeBegun(ctx, r); err != nil {
			return err
		}
		r.queued.Store(false)
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
	if <-a.judged; a.shown {
		return a.tell(ctx, m)
	}
	// All goes as it would, to where nobody looks.
	hidden := a.s.manager(ctx, a.spec, nil)
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
