package channel

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/lingserve/lingserve/turn"
)

// outlive is a context that the end of ctx does not end, but a limit does.
func outlive(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), limit)
}

// finish ends the turn, whatever came before: it sends the notices, settles the event and tells the door.
func (p *pass) finish(ctx context.Context) {
	p.result.Outcome = p.outcome()
	limit := finalizeTimeout
	p.notifyOutside(ctx)
	p.notifyStop(ctx)
	if p.result.Outcome == "" { // the event was nothing, or could not even be read: only its claim is there to settle
		p.join(StageIngest, p.settle(ctx, limit))
	} else {
		p.finalize(ctx, limit)
	}
	p.acknowledge(ctx)
	p.queued(ctx)
	p.beside.Wait()
}

// join puts an error behind the turn's first one.
func (p *pass) join(s Stage, err error) {
	if err == nil {
		return
	}
	err = &StageError{Stage: s, Err: err}
	if p.err == nil {
		p.err = err
		return
	}
	p.err = errors.Join(p.err, err)
}

// outcome is what became of the turn; "" where there was none, since there was no input.
func (p *pass) outcome() Outcome {
	r, t := &p.result, &p.tally
	switch {
	case p.in == nil && p.event != nil:
		return ""
	case p.err == nil && r.Admission.Reason == ReasonMerged:
		return OutcomeMerged
	case p.err == nil && r.Admission.Stops():
		return OutcomeBlocked
	case p.err == nil && p.observing():
		return OutcomeObserved
	case p.err == nil && t.Queued:
		return OutcomeQueued
	case p.err == nil && t.Visible:
		return OutcomeVisible
	case p.err == nil && r.Dispatch.Deferred:
		return OutcomeDeferred
	case p.err != nil && t.Visible:
		return OutcomePartial
	case t.Unknown:
		return OutcomeUnknown
	case p.canceled:
		return OutcomeCanceled
	case p.err != nil:
		return OutcomeFailed
	default:
		return OutcomeSilent
	}
}

// finalize settles the turn, and then tells the plan and the adapter. Each part has its own time, and runs whatever came of the
// ones before; all see the same result.
func (p *pass) finalize(ctx context.Context, limit time.Duration) {
	r := p.result
	p.started = p.tell(ctx, Trace{Stage: StageFinalize, Phase: PhaseStart})
	inside, end := p.span(ctx, string(StageFinalize))
	var errs []error
	part := func(limit time.Duration, f func(context.Context) error) {
		ctx, cancel := outlive(inside, limit)
		defer cancel()
		if err := p.guard(ctx, func() error { return f(ctx) }); err != nil {
			errs = append(errs, err)
		}
	}
	if keep := p.history(); keep != nil {
		part(limit+LoaderTimeout, keep)
	}
	if err := p.settle(inside, limit); err != nil {
		errs = append(errs, err)
	}
	if p.plan != nil && p.plan.OnFinalize != nil {
		part(limit, func(ctx context.Context) error { return p.plan.OnFinalize(ctx, r) })
	}
	if f, ok := p.adapter.(Finalizer); ok {
		part(limit, func(ctx context.Context) error { return f.Finalize(ctx, r) })
	}
	err := errors.Join(errs...)
	end(err)
	t := Trace{Stage: StageFinalize, Phase: PhaseDone, Outcome: r.Outcome}
	if err != nil {
		t.Phase, t.Err = PhaseError, err
	}
	p.tell(ctx, t)
	p.join(StageFinalize, err)
}

// fate is what becomes of an event's claim.
type fate uint8

const (
	leave   fate = iota // it is somebody else's
	commit              // it is over
	release             // it may run again
)

// fate says what becomes of the claim.
func (p *pass) fate() fate {
	a := p.result.Admission
	switch {
	case p.err == nil && (a.Reason == ReasonMerged || a.Reason == ReasonDedupe):
		return leave
	case p.err == nil && (a.Reason == ReasonOverloaded || a.Reason == ReasonDraining):
		return release
	case p.err == nil, p.tally.Visible, p.tally.Unknown, p.tally.Queued:
		return commit
	case p.draining:
		return release
	case p.canceled, p.tally.Permanent, p.permanent, turn.Lasting(p.err):
		return commit
	default:
		return release
	}
}

// settle commits or releases the event, and those that were merged to it.
func (p *pass) settle(ctx context.Context, limit time.Duration) error {
	fate := p.fate()
	if p.claim == nil || fate == leave {
		return nil
	}
	if parked, err := p.park(ctx); parked {
		return err
	}
	outcome := p.result.Outcome
	if outcome == "" {
		outcome = OutcomeBlocked
	}
	ctx, cancel := outlive(ctx, limit)
	defer cancel()
	var errs []error
	for i := -1; i < len(p.others); i++ {
		claim := p.claim
		if i >= 0 {
			claim = p.others[i]
		}
		err := p.guard(ctx, func() error {
			if fate == commit {
				return claim.Commit(ctx, outcome)
			}
			return claim.Release(ctx, cmp.Or(p.err, p.why))
		})
		if err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// again says whether the event will run another time: then nobody is told that it has failed.
func (p *pass) again() bool {
	r, ok := p.claim.(Repeater)
	return ok && p.fate() == release && r.Again()
}

// acknowledge tells the door what to answer its platform, once.
func (p *pass) acknowledge(ctx context.Context) {
	if p.acked {
		return
	}
	p.acked = true
	if p.meta.Ack == nil {
		return
	}
	ctx = context.WithoutCancel(ctx)
	if err := p.guard(ctx, func() error { p.meta.Ack(ctx, p.result); return nil }); err != nil {
		p.log(ctx, slog.LevelWarn, "cannot acknowledge an event", slog.Any("error", err))
	}
}
