package turn

import (
	"context"
	"log/slog"
	"runtime/debug"

	"github.com/lingserve/lingserve/tape"
)

// Submit resolves the session and gives the turn to its lane. It does not wait for it: see [Ticket.Wait]. ctx is the turn's
// life: ending it ends the turn, or the waiting for it. Errors: what resolve_session failed of, [ErrBusy], [ErrQueueFull],
// [ErrDraining], and an unknown policy. A command that a plugin answers without the lane is answered when Submit returns, also
// while a turn runs and while the server drains.
func (f *Framework) Submit(ctx context.Context, e *Envelope, opts ...Option) (*Ticket, error) {
	t, ctx, err := f.begin(ctx, e, opts)
	if err != nil {
		return nil, err
	}
	policy := t.options.policy
	switch policy {
	case "":
		policy = Queue
	case Queue, Reject, Interrupt, Steer:
	default:
		return nil, invalidf("turn: expected the policy queue, reject, interrupt or steer, got %q", policy)
	}
	if e.IsCommand() {
		if k := f.aside(ctx, t); k != nil {
			return k, nil
		}
		if policy == Steer {
			policy = Queue
		}
	}
	k := f.ticket(ctx, t.outcome.Session)
	k.turn = t
	t.inbox = &k.inbox
	if err := f.lanes.submit(k, policy); err != nil {
		return nil, err
	}
	return k, nil
}

// aside lets a plugin answer a command. It returns nil where none does.
func (f *Framework) aside(ctx context.Context, t *Turn) *Ticket {
	var taken bool
	err := t.step(ctx, func(ctx context.Context) (err error) {
		t.outbound, _, taken, err = first(ctx, t, StageAside, func(h Asider) ([]*Envelope, bool, error) {
			return h.AnswerAside(ctx, t.outcome.Envelope, t.outcome.Session)
		})
		return err
	})
	if err == nil && !taken {
		return nil
	}
	if err == nil {
		err = t.step(ctx, t.dispatch)
	}
	t.report(ctx, err, nil)
	k := &Ticket{lanes: &f.lanes, turn: t, done: make(chan struct{}), phase: Done, result: t.result(), err: err}
	close(k.done)
	return k
}

// Alone runs fn in the lane of a session and waits for it: no turn of the session runs meanwhile. It is for those who change a
// session from outside. With the policy Interrupt a running turn is ended before, its save_state included.
// ctx ends the waiting, and fn's context with it. Errors: fn's, and those of Submit.
func (f *Framework) Alone(ctx context.Context, session SessionID, p Policy, fn func(context.Context) error) error {
	if err := tape.CheckSession(session); err != nil {
		return &invalidError{err}
	}
	k := f.ticket(ctx, session)
	k.fn = fn
	if p == Steer {
		p = Queue
	}
	if err := f.lanes.submit(k, p); err != nil {
		return err
	}
	<-k.done
	return k.err
}

// Stop cancels the running turn of a session, with this cause, and ends what waits there with the same; nil is [ErrStopped].
// It says how many turns that were, and does not wait for them.
func (f *Framework) Stop(session SessionID, cause error) int {
	if cause == nil {
		cause = ErrStopped
	}
	return f.lanes.stop(session, cause)
}

// work runs submissions, one after the other, for as long as a lane wants a slot.
func (f *Framework) work(k *Ticket) {
	for k != nil {
		r, err := f.runTicket(k)
		k = f.lanes.ended(k, r, err)
	}
}

// runTicket runs a submission while it holds the session's lease.
func (f *Framework) runTicket(k *Ticket) (*Result, error) {
	k.endWait()
	release, err := f.lease(k)
	if err != nil {
		if k.turn == nil {
			return nil, err
		}
		k.turn.cut = k.ctx.Err() != nil
		k.turn.report(k.ctx, err, nil)
		return k.turn.result(), err
	}
	defer release()
	if k.turn == nil {
		return nil, k.alone(f.log)
	}
	ctx := k.ctx
	if within := f.options.Within; within != nil {
		var end func()
		ctx, end = within(ctx)
		defer end()
	}
	return k.turn.run(ctx)
}

func (k *Ticket) alone(log *slog.Logger) (err error) {
	defer func() {
		if p := recover(); p != nil {
			log.LogAttrs(k.ctx, slog.LevelError, "panic in a session's queue", slog.String("session", k.session),
				slog.Any("panic", p), slog.String("stack", string(debug.Stack())))
			err = &PanicError{p}
		}
	}()
	if k.ctx.Err() != nil {
		return context.Cause(k.ctx)
	}
	return k.fn(k.ctx)
}

// lease takes the session's lease. Losing it cancels the submission.
func (f *Framework) lease(k *Ticket) (release func(), err error) {
	store, err := f.Store(k.ctx)
	if err != nil {
		return nil, err
	}
	if store == nil {
		return func() {}, nil
	}
	lease, err := store.Lease(k.ctx, tape.Name(f.options.Workspace, k.session), true)
	if err != nil {
		if k.ctx.Err() != nil {
			err = context.Cause(k.ctx)
		}
		return nil, err
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() { // ends with the submission
		defer close(stopped)
		select {
		case <-lease.Lost():
			k.cancel(ErrLeaseLost)
		case <-stop:
		}
	}()
	return func() {
		close(stop)
		<-stopped
		lease.Release()
	}, nil
}
