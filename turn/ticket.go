package turn

import (
	"context"
	"sync"
	"time"
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

// Status is what a ticket tells.
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
	unwatch func() bool   // ends the watching over the submitter's context
	done    chan struct{} // closed when it is done

	// Under the lanes' lock, the last two until done is closed.
	gone       error // why the submitter did not want it any more before it had a place
	lane       *lane
	phase      Phase
	interrupt  bool      // it comes before those that only wait
	host       *Ticket   // of Steered
	used       []*Ticket // whose messages this turn has taken
	inbox      inbox     // of Running
	since      time.Time // when it began to wait; zero if it has no callback for that
	notified   Waiting   // what it was told last
	notifiedAt time.Time
	result     *Result
	err        error

	notifying sync.Mutex // held during its callback
	hasWaited bool       // the callback was called
	begun     bool
}

func (f *Framework) ticket(ctx context.Context, session SessionID) *Ticket {
	k := &Ticket{lanes: &f.lanes, session: session, done: make(chan struct{}), phase: Queued}
	k.inbox.host = k
	k.unwatch = context.AfterFunc(ctx, func() { f.lanes.leave(k, context.Cause(ctx)) })
	k.ctx, k.cancel = context.WithCancelCause(ctx)
	return k
}

// Status tells how far the submission is.
func (k *Ticket) Status() Status {
	k.lanes.mu.Lock()
	defer k.lanes.mu.Unlock()
	s := Status{Phase: k.phase}
	turn := k.turn
	if k.host != nil {
		turn = k.host.turn
	}
	s.Turn = turn.outcome.TurnID
	if k.phase == Queued {
		s.Slot = k.lane.ready != nil && k.lane.waiting[0] == k
		for i, other := range k.lane.waiting {
			if other == k {
				s.Position = i + 1
			}
		}
	}
	return s
}

// Host is the message of the turn that this one was given to, where it was steered; nil for one with a separate turn. So it
// is nil again for one that came too late to be read.
func (k *Ticket) Host() *Envelope {
	k.lanes.mu.Lock()
	defer k.lanes.mu.Unlock()
	if k.host == nil {
		return nil
	}
	return k.host.turn.outcome.Envelope
}

// Wait waits for the end of the turn that used the message and returns what it came to. When ctx ends before, Wait returns the
// cause, and the turn goes on.
func (k *Ticket) Wait(ctx context.Context) (*Result, error) {
	select {
	case <-k.done:
		return k.result, k.err
	default:
	}
	select {
	case <-k.done:
		return k.result, k.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}
