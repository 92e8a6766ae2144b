package turn

import (
	"sync"
	"time"
)

// WaitsFor is what a turn waits for.
type WaitsFor string

// What turns wait for.
const (
	WaitsForSession WaitsFor = "session" // an earlier turn of its session
	WaitsForSlot    WaitsFor = "slot"    // one of the turns of other sessions that run, see Options.Concurrency
)

// Waiting is how long a turn still waits. The zero value says that the turn begins.
type Waiting struct {
	For      WaitsFor
	Position int           // in the session, or among all that wait for a slot; 1 is the next
	Expected time.Duration // until a slot is free; 0 where it is unknown
}

const (
	// waitPeriod is how often the queue is checked. A turn that begins within this time gets no notice.
	waitPeriod = 500 * time.Millisecond
	// minNotify is the shortest time between two notices of a turn, and waitShare a share of its wait: a turn that waits for an hour
	// gets about fifty notices.
	minNotify = 2 * time.Second
	waitShare = 10
	// waitEach for each waiting turn is added to the time between two notices: so all get less than 500 calls a second.
	waitEach = 2 * time.Millisecond
	// rateWindow is how far back the rate of slots is measured, at least.
	rateWindow = 30 * time.Second
)

// watch tells turns how long they wait (DO-08). It has one timer for the whole queue, and none while no turn waits.
// Its fields are under the lock of the lanes.
type watch struct {
	timer *time.Timer
	calls sync.WaitGroup // a timer, or its call; Drain waits for it
	given int            // slots that waiting lanes got since then
	since time.Time
}

// watch begins the wait of a ticket. mu is held.
func (l *lanes) watch(k *Ticket) {
	if k.turn == nil || k.turn.options.waiting == nil {
		return
	}
	k.since = time.Now()
	if w := &l.watched; w.timer == nil {
		w.since, w.given = k.since, 0
		l.scheduleWatch()
	}
}

func (l *lanes) scheduleWatch() {
	w := &l.watched
	w.calls.Add(1)
	w.timer = time.AfterFunc(waitPeriod, func() {
		defer w.calls.Done()
		l.notifyDue()
	})
}

// stopWatch stops the timer. mu is held, nothing waits, and nothing will.
func (l *lanes) stopWatch() {
	if w := &l.watched; w.timer != nil && w.timer.Stop() {
		w.timer = nil
		w.calls.Done()
	}
}

// notifyDue notifies the waiting tickets whose position has changed.
func (l *lanes) notifyDue() {
	l.mu.Lock()
	due, more := l.dueTickets(time.Now())
	if !more {
		l.watched.timer = nil
	}
	l.mu.Unlock()
	if !more {
		return
	}
	for _, d := range due {
		d.ticket.notifyWaiting(d.waiting)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.watched.timer = nil; !l.draining {
		l.scheduleWatch()
	}
}

type dueTicket struct {
	ticket  *Ticket
	waiting Waiting
}

// dueTickets returns the tickets that get a notice now. more is false if no waiting ticket has a callback. mu is held.
func (l *lanes) dueTickets(now time.Time) (due []dueTicket, more bool) {
	pause := max(minNotify, time.Duration(l.waiting)*waitEach)
	see := func(k *Ticket, w Waiting) {
		if k.since.IsZero() {
			return
		}
		more = true
		waited := now.Sub(k.since)
		moved := k.notified.For != w.For || k.notified.Position != w.Position
		if waited < waitPeriod || !moved || k.notified.Position > 0 && now.Sub(k.notifiedAt) < max(pause, waited/waitShare) {
			return
		}
		k.notified, k.notifiedAt = w, now
		due = append(due, dueTicket{k, w})
	}
	each := l.timePerSlot(now)
	position := 0
	for ln := range l.ready.InOrder() {
		position++
		see(ln.waiting[0], Waiting{WaitsForSlot, position, time.Duration(position) * each})
	}
	for _, ln := range l.lanes {
		for i, k := range ln.waiting {
			if i > 0 || ln.ready == nil {
				see(k, Waiting{For: WaitsForSession, Position: i + 1})
			}
		}
	}
	return due, more
}

// timePerSlot measures how often a waiting lane gets a slot; 0 where none has got one lately.
func (l *lanes) timePerSlot(now time.Time) time.Duration {
	w := &l.watched
	elapsed := now.Sub(w.since)
	if elapsed > 2*rateWindow { // only the newer half counts
		elapsed /= 2
		w.since, w.given = now.Add(-elapsed), w.given/2
	}
	if w.given == 0 {
		return 0
	}
	return elapsed / time.Duration(w.given)
}

// notifyWaiting tells a turn that it waits, unless it has begun.
func (k *Ticket) notifyWaiting(w Waiting) {
	k.notifying.Lock()
	defer k.notifying.Unlock()
	if !k.begun {
		k.hasWaited = true
		k.turn.options.waiting(w)
	}
}

// endWait notifies a turn that has waited that it begins. It is the last notice.
func (k *Ticket) endWait() {
	if k.since.IsZero() {
		return
	}
	k.notifying.Lock()
	defer k.notifying.Unlock()
	if k.begun = true; k.hasWaited {
		k.turn.options.waiting(Waiting{})
	}
}
