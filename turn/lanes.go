package turn

import "errors"

// Lanes is what goes on in the lanes of sessions.
type Lanes struct {
	Running int // turns
	Waiting int // submissions that wait for their session, or for a slot
	Refused Refusals
}

// Refusals are submissions that were not taken, since the framework was made.
type Refusals struct {
	Busy     uint64 // by the policy reject
	Full     uint64 // too many waited
	Draining uint64
}

// Hold says that turns take more than there is: those that have not begun wait in their lanes, as far as the queues go, until it is
// called with false. What runs goes on, and so does what is no turn (see [Framework.Alone]).
func (f *Framework) Hold(is bool) { f.lanes.hold(is) }

// Lanes tells what goes on now.
func (f *Framework) Lanes() Lanes {
	l := &f.lanes
	l.mu.Lock()
	defer l.mu.Unlock()
	return Lanes{Running: l.running, Waiting: l.waiting, Refused: l.refused}
}

// count counts a submission that was not taken; mu is held.
func (r *Refusals) count(err error) {
	switch {
	case errors.Is(err, ErrBusy):
		r.Busy++
	case errors.Is(err, ErrQueueFull):
		r.Full++
	case errors.Is(err, ErrDraining):
		r.Draining++
	}
}
