package turn

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/lingserve/lingserve/internal/fair"
)

// lanes are the sessions with work. One lock is over all of them: what it guards takes a microsecond, a turn takes seconds.
//
// A lane is in one of three states: a turn of it runs; it waits for a slot, in ready; or it is not there. Submissions wait in it
// without a goroutine: the one that has run a turn takes the next from the lane whose turn it is. See [fair.Queue].
type lanes struct {
	options Options
	work    func(*Ticket) // runs submissions, in a new goroutine

	mu       sync.Mutex
	lanes    map[SessionID]*lane
	ready    fair.Queue[*lane] // lanes that want a slot
	running  int               // slots that are taken
	waiting  int               // submissions that wait, in all lanes
	draining bool              // nothing is taken any more
	held     bool              // no turns begin; see Framework.Hold
	refused  Refusals
	idle     chan struct{} // while draining: closed when nothing runs
	watched  watch
}

// lane is a session with work.
type lane struct {
	session SessionID
	running *Ticket
	waiting []*Ticket          // the next first: interrupting ones, then those left over from an inbox, then as they came
	ready   *fair.Place[*lane] // nil while it runs
}

func (l *lanes) init(o Options, work func(*Ticket)) {
	l.options, l.work = o, work
	l.lanes = map[SessionID]*lane{}
}

// submit gives a ticket its place.
func (l *lanes) submit(k *Ticket, policy Policy) (err error) {
	var interrupted *Ticket
	l.mu.Lock()
	defer func() {
		l.refused.count(err)
		l.mu.Unlock()
		if err != nil {
			k.unwatch()
			k.cancel(err)
		}
		if interrupted != nil {
			interrupted.cancel(ErrInterrupted)
		}
	}()
	if l.draining {
		return ErrDraining
	}
	if k.gone != nil {
		return k.gone
	}
	ln := l.lanes[k.session]
	if ln == nil {
		return l.open(k)
	}
	switch policy {
	case Reject:
		return ErrBusy
	case Steer:
		if ln.running != nil && ln.running.turn != nil && ln.running.inbox.put(k) {
			k.lane = ln
			return nil
		}
	case Interrupt:
		k.interrupt = true
		if err := l.queue(ln, k); err != nil {
			return err
		}
		interrupted = ln.running
		return nil
	}
	return l.queue(ln, k)
}

// open makes a lane for a ticket, which runs at once if there is a slot.
func (l *lanes) open(k *Ticket) error {
	free := l.running < l.options.Concurrency && l.mayBegin(k)
	if !free && l.waiting >= l.options.QueueTotal {
		return ErrQueueFull
	}
	ln := &lane{session: k.session}
	l.lanes[k.session] = ln
	if !free {
		l.wait(ln, k, 0)
		ln.ready = l.ready.Push(l.callerOf(ln), ln)
		return nil
	}
	l.running++
	l.start(ln, k)
	go l.work(k) // until no lane wants its slot; Drain waits for it
	return nil
}

// queue lets a ticket wait in a busy lane: behind the others or, one that interrupts, before them. Those that interrupt are
// counted separately, so that a full queue does not prevent stopping a turn.
func (l *lanes) queue(ln *lane, k *Ticket) error {
	interrupting := ln.interrupting()
	alike, at := len(ln.waiting)-interrupting, len(ln.waiting)
	if k.interrupt {
		alike, at = interrupting, 0
	}
	if l.waiting >= l.options.QueueTotal || alike >= l.options.Queue {
		return ErrQueueFull
	}
	l.wait(ln, k, at)
	return nil
}

// interrupting counts those at the front that interrupt.
func (ln *lane) interrupting() int {
	i := slices.IndexFunc(ln.waiting, func(k *Ticket) bool { return !k.interrupt })
	if i < 0 {
		return len(ln.waiting)
	}
	return i
}

// wait lets a ticket wait at a place of its lane.
func (l *lanes) wait(ln *lane, k *Ticket, at int) {
	k.lane, k.phase, k.host = ln, Queued, nil
	ln.waiting = slices.Insert(ln.waiting, at, k)
	l.waiting++
	l.watch(k)
}

// start makes a ticket the running one of its lane.
func (l *lanes) start(ln *lane, k *Ticket) {
	k.lane, k.phase = ln, Running
	ln.running = k
}

// ended ends a submission that has run, and returns the next one that gets its slot; nil where no lane wants it.
func (l *lanes) ended(k *Ticket, r *Result, err error) (next *Ticket) {
	l.mu.Lock()
	defer l.mu.Unlock()
	ln := k.lane
	ln.running = nil
	left := k.inbox.close()
	for _, used := range k.used {
		l.finish(used, r, err)
	}
	k.used = nil
	l.finish(k, r, err)
	at := ln.interrupting()
	for _, follow := range left {
		if l.draining {
			l.finish(follow, nil, ErrDraining)
		} else {
			l.wait(ln, follow, at)
			at++
		}
	}
	if len(ln.waiting) > 0 {
		ln.ready = l.ready.Push(l.callerOf(ln), ln)
	} else {
		delete(l.lanes, ln.session)
	}
	if next = l.next(); next == nil {
		l.running--
		l.signalIdle()
	}
	return next
}

// next starts the next submission; nil if none may run.
func (l *lanes) next() *Ticket {
	for place := range l.ready.All() {
		ln := place.Value
		k := ln.waiting[0]
		if !l.mayBegin(k) {
			continue
		}
		l.ready.Take(place)
		ln.ready = nil
		ln.waiting = slices.Delete(ln.waiting, 0, 1)
		l.waiting--
		l.watched.given++
		l.start(ln, k)
		return k
	}
	return nil
}

// callerOf names the caller whose lane it is.
func (l *lanes) callerOf(ln *lane) string {
	if l.options.Caller == nil {
		return ""
	}
	return l.options.Caller(ln.session)
}

// mayBegin says whether a submission may run now. What is no turn takes little, and may make room.
func (l *lanes) mayBegin(k *Ticket) bool { return !l.held || k.turn == nil }

// hold holds turns back, or lets begin those that wait.
func (l *lanes) hold(is bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held = is
	for l.running < l.options.Concurrency {
		k := l.next()
		if k == nil {
			return
		}
		l.running++
		go l.work(k) // as in open
	}
}

// finish makes a ticket done.
func (l *lanes) finish(k *Ticket, r *Result, err error) {
	if r == nil && k.turn != nil {
		r = k.turn.result()
	}
	k.phase, k.result, k.err = Done, r, err
	k.unwatch()
	k.cancel(nil)
	close(k.done)
}

// signalIdle ends the waiting of Drain if nothing runs.
func (l *lanes) signalIdle() {
	if l.running == 0 && l.idle != nil {
		close(l.idle)
		l.idle = nil
	}
}

// leave takes a ticket out that waits, in its lane or in an inbox, because its submitter does not want it any more.
func (l *lanes) leave(k *Ticket, cause error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case k.lane == nil: // submit comes later
		k.gone = cause
	case k.phase == Queued:
		ln := k.lane
		ln.waiting = slices.DeleteFunc(ln.waiting, func(other *Ticket) bool { return other == k })
		l.waiting--
		l.finish(k, nil, cause)
		l.drop(ln)
	case k.phase == Steered && k.host.inbox.remove(k):
		l.finish(k, nil, cause)
	}
}

// drop forgets a lane without work.
func (l *lanes) drop(ln *lane) {
	if ln.running != nil || len(ln.waiting) > 0 {
		return
	}
	if ln.ready != nil {
		l.ready.Remove(ln.ready)
		ln.ready = nil
	}
	delete(l.lanes, ln.session)
}

// flush ends all that wait in a lane.
func (l *lanes) flush(ln *lane, cause error) (n int) {
	n = len(ln.waiting)
	for _, k := range ln.waiting {
		l.finish(k, nil, cause)
	}
	l.waiting -= n
	ln.waiting = nil
	l.drop(ln)
	return n
}

func (l *lanes) stop(session SessionID, cause error) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	ln := l.lanes[session]
	if ln == nil {
		return 0
	}
	n = l.flush(ln, cause)
	if k := ln.running; k != nil {
		n++
		for _, steered := range k.inbox.drain() {
			l.finish(steered, nil, cause)
			n++
		}
		k.cancel(cause)
	}
	return n
}

// Drain refuses new submissions and ends those that wait, with [ErrDraining]. It waits for the turns that run; when ctx ends it
// cancels them, waits for their save_state all the same, and returns an error that says how many there were.
func (f *Framework) Drain(ctx context.Context) error {
	l := &f.lanes
	l.mu.Lock()
	l.draining = true
	for _, ln := range l.lanes {
		l.flush(ln, ErrDraining)
	}
	l.stopWatch()
	defer l.watched.calls.Wait()
	if l.idle == nil {
		l.idle = make(chan struct{})
	}
	idle := l.idle
	l.signalIdle()
	l.mu.Unlock()

	select {
	case <-idle:
		return nil
	case <-ctx.Done():
	}
	l.mu.Lock()
	n := l.running
	for _, ln := range l.lanes {
		ln.running.cancel(ErrDraining)
	}
	l.mu.Unlock()
	<-idle
	if n == 0 {
		return nil
	}
	return fmt.Errorf("turn: %d turns were canceled because they did not end in time: %w", n, context.Cause(ctx))
}
