package turn

import (
	"context"
	"slices"
)

// Phase is how far a submission is.
type Phase string

// The phases.
const (
	Queued  Phase = "queued"
	Running Phase = "running"
	Steered Phase = "steered" // given to the turn that runs
	Done    Phase = "done"
)

// Status is how far a submission is, and its position.
type Status struct {
	Phase    Phase
	Position int    // of Queued, in its lane: 1 is next
	Slot     bool   // of Queued: nothing of its session is before it, and it waits for a slot
	Turn     string // the id of the turn; of Steered that of the one that has the message
}

// Ticket stands for a submission. It is safe for concurrent use.
type Ticket struct {
	lanes   *lanes
	session SessionID
	turn    *Turn                       // nil for Alone
	fn      func(context.Context) error // of Alone
	ctx     context.Context
	cancel  context.CancelCauseFunc
	done    chan struct{} // closed when it is done

	// Under the lanes' lock, the last two until done is closed.
	unwatch   func() bool // ends the watching over ctx
	lane      *lane
	phase     Phase
	interrupt bool    // it comes before those that only wait
	host      *Ticket // of Steered
	inbox     inbox   // of Running
	wait      wait
	result    *Result
	err       error
}

// newTicket returns a ticket for a turn, or for fn.
func (f *Framework) newTicket(ctx context.Context, session SessionID, t *Turn, fn func(context.Context) error) *Ticket {
	k := &Ticket{lanes: &f.lanes, session: session, turn: t, fn: fn, done: make(chan struct{}), phase: Queued}
	k.inbox.host, k.inbox.closed = k, t == nil
	k.ctx, k.cancel = context.WithCancelCause(ctx)
	return k
}

// Status returns how far the submission is.
func (k *Ticket) Status() Status {
	k.lanes.mu.Lock()
	defer k.lanes.mu.Unlock()
	s := Status{Phase: k.phase, Turn: k.turn.result.TurnID}
	if k.host != nil {
		s.Turn = k.host.turn.result.TurnID
	}
	if k.phase == Queued {
		s.Position = slices.Index(k.lane.waiting, k) + 1
		s.Slot = k.lane.ready != nil && s.Position == 1
	}
	return s
}

// Host is the message of the turn that this one was given to, if it was steered; nil for one with a separate turn. So it
// is nil again for one that came too late to be read.
func (k *Ticket) Host() *Envelope {
	k.lanes.mu.Lock()
	defer k.lanes.mu.Unlock()
	if k.host == nil {
		return nil
	}
	return k.host.turn.result.Envelope
}

// Wait waits for the end of the turn that used the message and returns its result. If ctx ends before, Wait returns the
// cause, and the turn goes on.
func (k *Ticket) Wait(ctx context.Context) (*Result, error) {
	select {
	case <-k.done:
	default:
		select {
		case <-k.done:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	return k.result, k.err
}
