package tube

import (
	"iter"
	"slices"
)

// Reader is one client's cursor into a tube. It is used from one goroutine.
type Reader struct {
	tube *Tube
	next uint64 // number of the next event to look at
	at   cursor
	lost bool // at is to be found from next
	all  bool // hidden events are yielded
	over bool // nothing can come any more

	snapshot bool    // is to begin with one
	fallen   int     // how often it fell out of the log
	group    []Event // what is left of a snapshot

	more    chan struct{} // holds one wake-up
	waiting bool          // is in the tube's list; guarded by the tube's lock
}

// Waiting yields the visible events that are in the log now and moves the cursor over each; it does not wait.
// A reader that has fallen out of the log first gets a snapshot: see the package comment.
func (r *Reader) Waiting() iter.Seq[Event] {
	return func(yield func(Event) bool) { r.yield(yield) }
}

func (r *Reader) yield(yield func(Event) bool) {
	for {
		for len(r.group) > 0 {
			e := r.group[0]
			if r.group = r.group[1:]; len(r.group) == 0 {
				r.group = nil
			}
			if !yield(e) {
				return
			}
		}
		shown := r.tube.sent.Load()
		if r.over || !r.snapshot && r.next >= shown {
			return
		}
		data, fallen := r.view()
		if fallen {
			r.tube.regroup(r)
			continue
		}
		if data == nil {
			return
		}
		for r.at.off < len(data) && r.at.n < shown { // data may have more by now, or more than is shown
			e, terminal := r.at.read(data)
			if e.N < r.next {
				continue
			}
			r.next, r.over = e.N+1, terminal
			if e.Hidden && !r.all {
				continue
			}
			if !yield(e) {
				return
			}
		}
	}
}

// view returns the records of the block that the cursor is in, nil when it has seen all, and whether what it would see next
// has left the log.
func (r *Reader) view() (data []byte, fallen bool) {
	t := r.tube
	t.mu.Lock()
	defer t.mu.Unlock()
	if r.snapshot {
		r.snapshot = false
		return nil, true
	}
	if !r.lost {
		data, ok := t.log.view(&r.at)
		if ok {
			return data, false
		}
	}
	if r.next < t.log.begin() {
		r.fallen++
		return nil, true
	}
	t.log.find(&r.at, r.next)
	r.lost = false
	data, _ = t.log.view(&r.at)
	return data, false
}

// More returns a channel that receives when there may be more than the reader has seen. The same channel is used again; a
// caller waits on it together with its contexts and timers, after Waiting has yielded all.
func (r *Reader) More() <-chan struct{} {
	t := r.tube
	t.mu.Lock()
	defer t.mu.Unlock()
	if r.snapshot || len(r.group) > 0 || r.next < t.sent.Load() || t.ended && t.sent.Load() > t.terminal {
		r.wake()
	} else if !r.waiting {
		r.waiting = true
		t.waiting = append(t.waiting, r)
	}
	return r.more
}

func (r *Reader) wake() {
	select {
	case r.more <- struct{}{}:
	default: // one wake-up is enough
	}
}

// Leave forgets the wake-up that More has asked for. Only a reader that gives up before the end of the run has a use for
// it: it is forgotten at once, not with the next event.
func (r *Reader) Leave() {
	t := r.tube
	t.mu.Lock()
	defer t.mu.Unlock()
	if r.waiting {
		r.waiting = false
		t.waiting = slices.DeleteFunc(t.waiting, func(x *Reader) bool { return x == r })
	}
}

// Wake makes More's channel receive although there may be nothing new, so that its reader can check something
// else. It may be called from any goroutine.
func (r *Reader) Wake() { r.wake() }

// Ended says that the cursor has passed the terminal event.
func (r *Reader) Ended() bool {
	if r.over {
		return true
	}
	if r.snapshot || len(r.group) > 0 || r.next < r.tube.sent.Load() {
		return false
	}
	// It has passed all that was sent: a cursor that began beyond the end of the run has, too.
	select {
	case <-r.tube.done:
		return r.next >= r.tube.sent.Load()
	default:
		return false
	}
}

// Snapshots says how often the cursor fell out of the log and went on from a snapshot. One that it was to begin with does not count.
func (r *Reader) Snapshots() int { return r.fallen }

// Next returns the number of the next event that the cursor will look at.
func (r *Reader) Next() uint64 { return r.next }
