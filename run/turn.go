package run

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"sync"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/agent"
	"github.com/lingserve/lingserve/agent/workflow"
	"github.com/lingserve/lingserve/bot"
	"github.com/lingserve/lingserve/channel"
	webchannel "github.com/lingserve/lingserve/channel/web"
	"github.com/lingserve/lingserve/internal/disk"
	"github.com/lingserve/lingserve/ling"
	"github.com/lingserve/lingserve/tool"
	"github.com/lingserve/lingserve/tube"
	"github.com/lingserve/lingserve/turn"
)

// agentRun is a run that is a turn of an agent: a prepared one of the kernel, whose reply is the run's tube. It is the lifespan of the turn's
// envelope: the turn begins when the run is ready to show it.
//
// startAgent gives the message to the kernel, which calls dispatch in the goroutine of the turn. Dispatch submits the message to the lane of its
// session. If the turn of another run takes the message, that run's followUp decides at its end whether begin starts a run for it, and closes ready.
// Otherwise dispatch calls begin, and then waits for the end of the run.
type agentRun struct {
	s        *Service
	name     string
	policy   turn.Policy
	answer   *workflow.Answer // of a workflow, which writes to the tube itself; nil for an agent
	envelope *turn.Envelope
	spec     *spec

	cancel context.CancelCauseFunc // ends the turn
	ticket *turn.Ticket

	taken chan struct{} // closed when it is known which run takes the message, or err
	host  *Run          // whose turn took it; nil is its own
	err   error

	ready  chan struct{} // closed when the members below are set
	ownRun *Run          // nil: it could not be started, or another turn has used the message
	m      *ling.Manager // of the run
	out    *transcript

	mu      sync.Mutex  // held while a message is given to the turn, which stores where its key leads
	open    bool        // messages can be given to the turn
	steered []*agentRun // those that were
}

var (
	// errRefused is why a turn ends whose run could not be started.
	errRefused = errors.New("the run was not started")
	// errInterrupted is what the end of a run says that a later message has ended.
	errInterrupted = errors.New("interrupted")
	// errErased is why the turns of a session end that is erased.
	errErased = errors.New("the session was erased")
)

// startAgent starts a run of an agent, or returns the run whose turn takes its message. The turn goes on behind it.
func (s *Service) startAgent(sp *spec) (r, host *Run, err error) {
	a := sp.agent
	ctx, cancel := context.WithCancelCause(s.runContext(sp))
	a.cancel = cancel
	m := &webchannel.Message{
		Principal: sp.owner, Role: sp.Role, Session: sp.Session, Run: sp.ID, Key: sp.request.Key, Agent: cmp.Or(sp.Of.Agent, a.name), Text: a.envelope.Content,
		Workflow: a.answer != nil, Dispatch: a.dispatch,
	}
	s.turns.Enter()
	go func() { // ends with the turn, and the server waits for it
		defer s.turns.Leave()
		result, err := webchannel.Run(ctx, s.o.Kernel, m)
		select {
		case <-a.taken:
		default: // it did not come to the lane
			a.err = s.refused(result, err)
			close(a.taken)
		}
		cancel(err)
		a.endSpan()
	}()
	if <-a.taken; a.host != nil || a.err != nil {
		return nil, a.host, a.err
	}
	return a.ownRun, nil, nil
}

// dispatch gives the turn to the lane of its session, and shows it by a run. It returns when both have ended, so that nothing goes on
// behind the kernel's back.
func (a *agentRun) dispatch(ctx context.Context, t *channel.Turn) (channel.DispatchResult, error) {
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
	if policy == turn.Steer && a.answer != nil {
		policy = turn.Queue // a workflow cannot be steered
	}
	a.spec.queued = a.spec.queued || a.s.activeIn(a.spec.Lane()) != nil
	ticket, err := a.s.o.Turns.Submit(ctx, e, turn.WithID(a.spec.ID), turn.WithPolicy(policy), turn.WithSink(a.onEvent), turn.WithWaiting(a.waits))
	if err != nil {
		return channel.DispatchResult{}, err
	}
	a.ticket = ticket
	var host *agentRun
	if e := ticket.Host(); e != nil {
		host, _ = e.Life.(*agentRun) // other channels have turns without a run: then a run of the message's own shows the answer
	}
	if host != nil && host.steer(a) {
		a.host = host.ownRun
		t.Queued()
		close(a.taken)
		<-a.ready // by the end of the host's turn
	} else {
		if a.err = a.begin(); a.err == nil {
			t.Queued()
		}
		close(a.taken)
	}
	if a.ownRun != nil {
		a.finish()
	}
	_, err = ticket.Wait(context.Background())
	switch {
	case a.err != nil:
		return channel.DispatchResult{}, ofLane(a.err)
	case a.ownRun != nil: // it is what is visible of the turn
		return channel.DispatchResult{Sent: true}, err
	case ticket.Host() == nil:
		return channel.DispatchResult{}, errRefused // it came too late, and there could be no run for it
	}
	return channel.DispatchResult{Deferred: true}, nil // the run that takes it says what came of it
}

// begin starts the run that shows the turn. If it cannot start, the turn ends.
func (a *agentRun) begin() error {
	defer close(a.ready)
	sp := a.spec
	sp.queued = sp.queued || sp.resumed != nil || a.inQueue()
	r, err := a.s.start(sp)
	if err != nil {
		a.cancel(errRefused)
		return err
	}
	if sp.steered { // its key leads to the host's run until now
		a.s.moveKey(sp, r.ID)
	}
	a.ownRun, a.m, a.open = r, r.manager.Load(), true
	a.write()
	return nil
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

// steer gives a message to this run's turn. It returns false if the turn takes no messages.
func (a *agentRun) steer(late *agentRun) bool {
	<-a.ready // its turn may be there a moment before it
	late.spec.queued = true
	if a.s.storeStart(late.spec) != nil { // a crash would lose it; its own run says why it cannot be stored
		late.spec.queued = false
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.open {
		return false
	}
	late.spec.steered = true
	a.steered = append(a.steered, late)
	a.s.moveKey(late.spec, a.spec.ID) // until its own run has it
	return true
}

// followUp is called at the end of the turn. The messages that the turn has not used have become turns, which come next or run already.
// followUp starts the run of each, and sends its id.
func (a *agentRun) followUp() {
	a.mu.Lock()
	list := a.steered
	a.steered, a.open = nil, false
	a.mu.Unlock()
	for _, late := range list {
		code := ""
		if late.ticket.Host() != nil {
			if r, err := late.ticket.Wait(context.Background()); err != nil && r.TurnID == late.spec.ID && errors.Is(err, turn.ErrDraining) {
				code = codeDraining
			}
			a.s.forgetSteered(late.spec.ID, 1)
			close(late.ready)
			late.cancel(nil)
		} else if err := late.begin(); err != nil {
			code = codeOf(err)
		} else {
			_ = a.m.SendEvent("follow_up", map[string]string{"run": late.spec.ID}) // the tube is open until this returns
		}
		if code != "" {
			message := "a message arrived too late for this run and got no answer: " + turn.Sentence(code)
			a.m.Report("", &bot.Failure{Code: code, Message: message, Retryable: turn.Retryable(code, nil)})
		}
	}
}

// answering waits until it is clear which run answers a message that was steered: nil for the one that it was given to, or where
// ctx has ended.
func (a *agentRun) answering(ctx context.Context) *Run {
	select {
	case <-a.ready:
		return a.ownRun
	case <-ctx.Done():
		return nil
	}
}

// isReady reports whether the run is there.
func (a *agentRun) isReady() bool {
	select {
	case <-a.ready:
		return a.ownRun != nil
	default:
		return false
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
	detail := "the server cannot accept the message; find the cause in its log under this id"
	return s.internal(context.Background(), detail, "cannot accept a message", "error", err)
}

// Enter waits until the run is there.
func (a *agentRun) Enter(ctx context.Context) error {
	if t := turn.FromContext(ctx); a.answer != nil && t != nil && t.Inbox() != nil {
		t.Inbox().CloseIfEmpty() // a workflow reads no steering, so messages had better wait
	}
	r := a.answering(ctx)
	switch {
	case r != nil:
		return a.s.leaveQueue(ctx, r)
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return errRefused
}

// Exit has nothing to do: the run waits for the whole turn.
func (a *agentRun) Exit(context.Context, error) error { return nil }

// finish waits for the turn, which reports what happens to onEvent, and ends its run.
func (a *agentRun) finish() {
	ctx := a.m.Context()
	unbind := context.AfterFunc(ctx, func() { a.cancel(context.Cause(ctx)) })
	if err := a.awaitTurn(ctx); err != nil {
		_ = a.m.Go(func(context.Context) error { return err }) // it is the run's error, unless the run was canceled
	}
	unbind()
	a.s.finish(a.ownRun, a.m, a.m.Close())
}

// write makes the writer of what happens in the turn, and sends the position in the queue.
func (a *agentRun) write() {
	if a.inQueue() {
		_ = a.m.SendEvent("queued", map[string]int{"position": a.ticket.Status().Position}) // the run may have been canceled
	}
	a.out = &transcript{
		manager: a.m, agent: a.name, maxBytes: a.s.o.MaxResult, tooLarge: func() { a.cancel(errTooMuch) }, storeMedia: a.s.keepFiles(a.spec.owner),
	}
	if so := a.spec.resumed; so != nil && a.answer == nil && so.told.Begun {
		a.out.resume(&so.told)
	}
}

// awaitTurn waits for the turn, and tells what came of it.
func (a *agentRun) awaitTurn(ctx context.Context) error {
	result, err := a.ticket.Wait(context.Background())
	a.followUp()
	switch {
	case a.stop(err), a.answer != nil && a.answer.Told(err):
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case a.out.full:
		return &bot.Failure{Code: codeTooLarge, Message: fmt.Sprintf("the run's result exceeds the limit of %d bytes", a.s.o.MaxResult)}
	case err != nil:
		return a.failure(err)
	}
	if a.answer != nil {
		return nil
	}
	if !a.out.hasText { // a command that was answered beside the lane
		for _, e := range result.Outbound {
			a.out.writeText(e.Content)
		}
	}
	if a.spec.request.Done {
		a.out.send(tube.Event{Kind: tube.Done}) // the values are complete
	}
	return nil
}

// waits tells that the turn waits, and how long.
func (a *agentRun) waits(w turn.Waiting) {
	if !a.isReady() {
		return
	}
	_ = a.m.SendEvent("waiting", struct { // the run may have been canceled
		Position int           `json:"position"`
		For      turn.WaitsFor `json:"for,omitempty"`
		Expected int           `json:"expected,omitempty"`
	}{w.Position, w.For, int(math.Ceil(w.Expected.Seconds()))})
}

// stop cancels the run if a person or a limit ended its turn. It returns false for any other err.
func (a *agentRun) stop(err error) bool {
	switch {
	case errors.Is(err, turn.ErrInterrupted):
		a.m.Stop(errInterrupted)
	case errors.Is(err, turn.ErrStopped):
		a.m.Stop(ErrAsked)
	case errors.Is(err, errErased):
		a.m.Stop(errErased)
	case errors.Is(err, turn.ErrTimeout):
		a.m.Stop(fmt.Errorf("the turn took longer than %s", a.s.o.Turns.Timeout()))
	default:
		return false
	}
	return true
}

// failure is what the run failed of, as users may read it.
func (a *agentRun) failure(err error) error {
	if _, known := bot.Describe(err); known && !IsOverloaded(err) {
		return err
	}
	if disk.Failed(err) {
		a.s.o.Pressure.DiskFailed()
	}
	code := a.s.o.Turns.Code(err)
	message, again := turn.SentenceOf(code, err), turn.Retryable(code, err)
	switch {
	case errors.Is(err, turn.ErrLeaseLost):
		again = true
		message = "the server lost the session during the answer, because the server or its store did not respond for too long; send the message again"
	case code == codeInternal: // the turn has told the log already
		message = "internal error; find it in the server's log as turn " + a.spec.ID
	}
	return &bot.Failure{Code: code, Message: message, Retryable: again, Cause: err}
}

// errTooMuch ends a turn that writes more than a run may.
var errTooMuch = errors.New("the run's result is too large")

// onEvent writes what happens in the turn to the run's tube. It is called by the turn, one event after the other.
func (a *agentRun) onEvent(e turn.Event, err error) {
	if err != nil || a.answer != nil || !a.isReady() {
		return // the turn's end has its error, and a workflow writes to the tube itself
	}
	var q agent.Question
	isQuestion := e.Kind == agent.ApprovalRequiredEvent && json.Unmarshal(e.Value, &q) == nil
	if so := a.spec.resumed; !isQuestion || so == nil || !so.questions[q.ID] { // else readers know it from before
		a.out.write(e)
	}
	r := a.ownRun
	r.track(e, &q)
	switch {
	case e.Kind == turn.ToolResultEvent:
		r.step.Store(true)
	case e.Kind == turn.FinalEvent:
		r.step.Store(true)
		if e.Final.Reason == adapter.FinishLength {
			r.cut.Store(true)
		}
	case isQuestion && a.spec.Unattended: // no person can answer it (AG-40): the caller gets the document after the end
		_ = a.s.o.Agents.Answer(context.Background(), agent.Answer{ // an answer that came before is as good
			Turn: a.spec.ID, ID: q.ID, NoPerson: true, Role: tool.Admin,
		})
	}
}
