package turn

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"sync"

	"github.com/lingserve/lingserve/tape"
)

// Submit resolves the session and gives the turn to its lane. It does not wait for it: see [Ticket.Wait]. ctx is the turn's
// life: ending it ends the turn, or the waiting for it. Errors: those of resolve_session, [ErrBusy], [ErrQueueFull],
// [ErrDraining], and an unknown policy. A command that a plugin answers without the lane is answered when Submit returns, also
// while a turn runs and while the server drains.
func (f *Framework) Submit(ctx context.Context, e *Envelope, opts ...Option) (*Ticket, error) {
	t, ctx, err := f.begin(ctx, e, opts)
	if err != nil {
		return nil, err
	}
	policy := t.options.policy
	if !slices.Contains([]Policy{"", Queue, Reject, Interrupt, Steer}, policy) {
		return nil, Invalid(fmt.Errorf("turn: expected the policy queue, reject, interrupt or steer, got %q", policy))
	}
	if e.IsCommand() {
		if k := f.aside(ctx, t); k != nil {
			return k, nil
		}
		if policy == Steer {
			policy = Queue
		}
	}
	k := f.newTicket(ctx, t.result.Session, t, nil)
	t.inbox = &k.inbox
	if err := f.lanes.submit(k, policy); err != nil {
		return nil, err
	}
	return k, nil
}

// aside lets a plugin answer a command. It returns nil if no plugin does.
func (f *Framework) aside(ctx context.Context, t *Turn) *Ticket {
	var answered bool
	err := t.step(ctx, func(ctx context.Context) (err error) {
		t.result.Outbound, _, answered, err = first(ctx, t, StageAside, func(h Asider) ([]*Envelope, bool, error) {
			return h.AnswerAside(ctx, t.result.Envelope, t.result.Session)
		})
		return err
	})
	switch {
	case err == nil && !answered:
		return nil
	case err == nil:
		err = t.step(ctx, t.dispatch)
	}
	t.report(ctx, err, nil)
	k := f.newTicket(ctx, t.result.Session, t, nil)
	k.cancel(nil)
	k.phase, k.result, k.err = Done, &t.result, err
	close(k.done)
	return k
}

// Alone runs fn in the lane of a session and waits for it: no turn of the session runs meanwhile. It is for those who change a
// session from outside. With the policy Interrupt a running turn is ended before, its save_state included.
// ctx ends the waiting, and fn's context with it. Errors: fn's, and those of Submit.
func (f *Framework) Alone(ctx context.Context, session SessionID, p Policy, fn func(context.Context) error) error {
	if err := tape.CheckSession(session); err != nil {
		return Invalid(err)
	}
	k := f.newTicket(ctx, session, nil, fn)
	if err := f.lanes.submit(k, p); err != nil {
		return err
	}
	<-k.done
	return k.err
}

// work runs a submission that has a slot.
func (f *Framework) work(k *Ticket) {
	k.notify(Waiting{})
	r, err := f.runTicket(k)
	f.lanes.ended(k, r, err)
}

// runTicket runs a submission while it holds the session's lease.
func (f *Framework) runTicket(k *Ticket) (*Result, error) {
	release, err := f.lease(k)
	if err != nil {
		if k.turn == nil {
			return nil, err
		}
		k.turn.cut = k.ctx.Err() != nil
		k.turn.report(k.ctx, err, nil)
		return &k.turn.result, err
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

// alone runs the function of a ticket of Alone.
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

// lease acquires the session's lease. Losing it cancels the submission.
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
	var watcher sync.WaitGroup
	released := make(chan struct{})
	watcher.Go(func() {
		select {
		case <-lease.Lost():
			k.cancel(ErrLeaseLost)
		case <-released:
		}
	})
	return func() {
		close(released)
		watcher.Wait()
		lease.Release()
	}, nil
}
