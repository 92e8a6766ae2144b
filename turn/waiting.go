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
	Expected time.Duration // until a slot is free; 0 if it is unknown
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

// watch notifies turns that wait (DO-08), by one goroutine for all. Its fields but loop are under the lock of the lanes.
type watch struct {
	loop  sync.WaitGroup // the goroutine, which Drain waits for
	ended chan struct{}  // ends the goroutine; nil while there is none
	given int            // slots that waiting lanes got since then
	since time.Time
}

// stop ends the goroutine. The lock of the lanes is held, and no ticket waits any more.
func (w *watch) stop() {
	if w.ended != nil {
		close(w.ended)
		w.ended = nil
	}
}

// wait is how long a ticket with a callback has waited, and its notices.
type wait struct {
	since time.Time // zero if it has no callback
	last  Waiting   // notice
	sent  time.Time // when

	calling  sync.Mutex // held during the callback
	notified bool       // the callback was called
	over     bool       // the turn has begun
}

// watchTicket begins the wait of a ticket. The lock is held.
func (l *lanes) watchTicket(k *Ticket) {
	if k.turn == nil || k.turn.options.waiting == nil {
		return
	}
	k.wait.since = time.Now()
	if w := &l.watch; w.ended == nil {
		ended := make(chan struct{})
		w.ended, w.since, w.given = ended, k.wait.since, 0
		w.loop.Go(func() { l.notifyLoop(ended) })
	}
}

// notifyLoop notifies turns until none waits.
func (l *lanes) notifyLoop(ended <-chan struct{}) {
	for {
		select {
		case <-time.After(waitPeriod):
		case <-ended:
			return
		}
		l.mu.Lock()
		due, more := l.dueNotices(time.Now())
		if !more {
			l.watch.stop()
		}
		l.mu.Unlock()
		for _, n := range due {
			n.ticket.notify(n.waiting)
		}
	}
}

type notice struct {
	ticket  *Ticket
	waiting Waiting
}

// dueNotices returns the notices of tickets whose position has changed. more is false if no waiting ticket has a callback. The lock is held.
func (l *lanes) dueNotices(now time.Time) (due []notice, more bool) {
	pause := max(minNotify, time.Duration(l.waiting)*waitEach)
	check := func(k *Ticket, w Waiting) {
		if k.wait.since.IsZero() {
			return
		}
		more = true
		last, waited := &k.wait.last, now.Sub(k.wait.since)
		moved := last.For != w.For || last.Position != w.Position
		if waited >= waitPeriod && moved && (last.Position == 0 || now.Sub(k.wait.sent) >= max(pause, waited/waitShare)) {
			*last, k.wait.sent = w, now
			due = append(due, notice{k, w})
		}
	}
	each := l.timePerSlot(now)
	position := 0
	for ln := range l.ready.InOrder() {
		position++
		check(ln.waiting[0], Waiting{WaitsForSlot, position, time.Duration(position) * each})
	}
	for _, ln := range l.lanes {
		for i, k := range ln.waiting {
			if i > 0 || ln.ready == nil {
				check(k, Waiting{For: WaitsForSession, Position: i + 1})
			}
		}
	}
	return due, more
}

// timePerSlot measures how often a waiting lane gets a slot; 0 if none got one lately.
func (l *lanes) timePerSlot(now time.Time) time.Duration {
	w := &l.watch
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

// notify calls the callback of a turn that waits. When the turn begins, it is called with the zero value, unless it was never called.
func (k *Ticket) notify(w Waiting) {
	if k.wait.since.IsZero() {
		return
	}
	k.wait.calling.Lock()
	defer k.wait.calling.Unlock()
	if k.wait.over {
		return
	}
	k.wait.over = w == (Waiting{})
	if !k.wait.over || k.wait.notified {
		k.wait.notified = true
		k.turn.options.waiting(w)
	}
}
