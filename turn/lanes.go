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
