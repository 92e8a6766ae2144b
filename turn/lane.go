package turn

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/lingserve/lingserve/internal/fair"
	"github.com/lingserve/lingserve/internal/gate"
)

// lanes are the sessions with work. One lock is over all of them: what it guards takes a microsecond, a turn takes seconds.
//
// In a lane one submission runs, or the lane waits for a slot in ready. The others of the session wait in it, without a goroutine.
type lanes struct {
	options Options
	run     func(*Ticket) // runs a submission and then calls ended
	slots   gate.Gate     // one for each submission that runs

	mu       sync.Mutex
	lanes    map[SessionID]*lane
	ready    fair.Queue[*lane] // lanes that wait for a slot
	waiting  int               // submissions that wait, in all lanes
	draining bool              // submissions are refused
	held     bool              // no turns begin; see Framework.Hold
	refused  Refusals
	watch    watch
}

// lane is a session with work.
type lane struct {
	session SessionID
	running *Ticket
	waiting []*Ticket          // the next first: interrupting ones, then those that an inbox had at its end, then as they came
	ready   *fair.Place[*lane] // nil while one runs
}

// submit starts a ticket, steers it, or lets it wait.
func (l *lanes) submit(k *Ticket, policy Policy) (err error) {
	var interrupted *Ticket
	l.mu.Lock()
	switch ln := l.lanes[k.session]; {
	case l.draining:
		err = ErrDraining
		l.refused.Draining++
	case ln == nil:
		err = l.open(k)
	case policy == Reject:
		err = ErrBusy
		l.refused.Busy++
	case policy == Steer && k.turn != nil && ln.running != nil && ln.running.inbox.put(k):
	default:
		if k.interrupt = policy == Interrupt; k.interrupt {
			interrupted = ln.running
		}
		err = l.queue(ln, k)
	}
	if err == nil {
		k.unwatch = context.AfterFunc(k.ctx, func() { l.leave(k, context.Cause(k.ctx)) })
	}
	if errors.Is(err, ErrQueueFull) {
		l.refused.Full++
	}
	l.mu.Unlock()
	switch {
	case err != nil:
		k.cancel(err)
	case interrupted != nil:
		interrupted.cancel(ErrInterrupted)
	}
	return err
}

// open makes a lane for a ticket, which runs at once if there is a slot.
func (l *lanes) open(k *Ticket) error {
	ln := &lane{session: k.session}
	switch {
	case l.hasSlot() && l.mayBegin(k):
		l.start(ln, k)
	case l.waiting >= l.options.QueueTotal:
		return ErrQueueFull
	default:
		l.wait(ln, k, 0)
		l.makeReady(ln)
	}
	l.lanes[k.session] = ln
	return nil
}

// queue lets a ticket wait in a busy lane: behind the others or, if it interrupts, before them. Those that interrupt are
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

// interrupting counts the submissions at the front that interrupt.
func (ln *lane) interrupting() int {
	if i := slices.IndexFunc(ln.waiting, func(k *Ticket) bool { return !k.interrupt }); i >= 0 {
		return i
	}
	return len(ln.waiting)
}

// wait inserts a ticket into the queue of its lane.
func (l *lanes) wait(ln *lane, k *Ticket, at int) {
	k.lane, k.phase, k.host = ln, Queued, nil
	ln.waiting = slices.Insert(ln.waiting, at, k)
	l.waiting++
	l.watchTicket(k)
}

// makeReady lets a lane wait for a slot.
func (l *lanes) makeReady(ln *lane) {
	caller := ""
	if l.options.Caller != nil {
		caller = l.options.Caller(ln.session)
	}
	ln.ready = l.ready.Push(caller, ln)
}

// start starts a ticket.
func (l *lanes) start(ln *lane, k *Ticket) {
	k.lane, k.phase = ln, Running
	ln.running = k
	l.slots.Enter()
	go l.run(k) // Drain waits for it
}

func (l *lanes) hasSlot() bool { return l.slots.Count() < l.options.Concurrency }

// mayBegin reports whether a submission may run now. What is no turn takes little memory, and may free some.
func (l *lanes) mayBegin(k *Ticket) bool { return !l.held || k.turn == nil }

// ended ends a submission that has run. What its inbox still has waits in its lane, before the others, and its slot goes to the next lane.
func (l *lanes) ended(k *Ticket, r *Result, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	ln := k.lane
	ln.running = nil
	unread := k.inbox.take()
	for _, used := range append(k.inbox.used, k) {
		l.finish(used, r, err)
	}
	at := ln.interrupting()
	for i, late := range unread {
		if l.draining {
			l.finish(late, nil, ErrDraining)
		} else {
			l.wait(ln, late, at+i)
		}
	}
	if len(ln.waiting) > 0 {
		l.makeReady(ln)
	} else {
		delete(l.lanes, ln.session)
	}
	l.slots.Leave()
	l.fill()
}

// fill starts submissions that wait, while there are slots.
func (l *lanes) fill() {
	for l.hasSlot() && l.startNext() {
		l.watch.given++
	}
}

// startNext starts the next submission. It returns false if none may begin.
func (l *lanes) startNext() bool {
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
		l.start(ln, k)
		return true
	}
	return false
}

// finish makes a ticket done.
func (l *lanes) finish(k *Ticket, r *Result, err error) {
	if r == nil && k.turn != nil {
		r = &k.turn.result
	}
	k.phase, k.result, k.err = Done, r, err
	k.unwatch()
	k.cancel(nil)
	close(k.done)
}

// leave removes a ticket that waits, in its lane or in an inbox, because its context has ended.
func (l *lanes) leave(k *Ticket, cause error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
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

// drop removes a lane if it has no work.
func (l *lanes) drop(ln *lane) {
	if ln.running != nil || len(ln.waiting) > 0 {
		return
	}
	l.ready.Remove(ln.ready)
	delete(l.lanes, ln.session)
}

// flush ends all submissions that wait in a lane.
func (l *lanes) flush(ln *lane, cause error) (n int) {
	list := ln.waiting
	ln.waiting = nil
	l.waiting -= len(list)
	for _, k := range list {
		l.finish(k, nil, cause)
	}
	l.drop(ln)
	return len(list)
}

// Stop cancels the running turn of a session, with this cause, and ends what waits there with the same; nil is [ErrStopped].
// It returns how many turns that were, and does not wait for them.
func (f *Framework) Stop(session SessionID, cause error) (n int) {
	if cause == nil {
		cause = ErrStopped
	}
	l := &f.lanes
	l.mu.Lock()
	defer l.mu.Unlock()
	ln := l.lanes[session]
	if ln == nil {
		return 0
	}
	n = l.flush(ln, cause)
	if k := ln.running; k != nil {
		steered := k.inbox.take()
		for _, late := range steered {
			l.finish(late, nil, cause)
		}
		k.cancel(cause)
		n += 1 + len(steered)
	}
	return n
}

// Waits reports whether messages wait in a session for the end of its running turn, or were steered into it and not used yet.
func (f *Framework) Waits(session SessionID) bool {
	l := &f.lanes
	l.mu.Lock()
	defer l.mu.Unlock()
	ln := l.lanes[session]
	return ln != nil && (len(ln.waiting) > 0 || ln.running != nil && len(ln.running.inbox.list) > 0)
}

// Hold says that turns take more memory than there is: those that have not begun wait in their lanes, as far as the queues go, until it is
// called with false. Turns that run go on, and so does what is no turn (see [Framework.Alone]).
func (f *Framework) Hold(is bool) {
	l := &f.lanes
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held = is
	l.fill()
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
	l.watch.stop()
	defer l.watch.loop.Wait()
	l.mu.Unlock()

	l.slots.Wait(ctx.Done())
	l.mu.Lock()
	n := len(l.lanes)
	for _, ln := range l.lanes {
		ln.running.cancel(ErrDraining)
	}
	l.mu.Unlock()
	l.slots.Wait(nil)
	if n == 0 {
		return nil
	}
	return fmt.Errorf("turn: %d turns were canceled because they did not end in time: %w", n, context.Cause(ctx))
}

// Lanes is what goes on in the lanes of sessions.
type Lanes struct {
	Running int // turns
	Waiting int // submissions that wait for their session, or for a slot
	Refused Refusals
}

// Refusals counts the refused submissions since the framework was made.
type Refusals struct {
	Busy     uint64 // by the policy reject
	Full     uint64 // too many waited
	Draining uint64
}

// Lanes returns what goes on now.
func (f *Framework) Lanes() Lanes {
	l := &f.lanes
	l.mu.Lock()
	defer l.mu.Unlock()
	return Lanes{Running: l.slots.Count(), Waiting: l.waiting, Refused: l.refused}
}
