package channel

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/lingserve/lingserve/internal/backoff"
	"github.com/lingserve/lingserve/internal/vfs"
)

// Door runs the events of a transport that delivers at least once: [Door.Accept] makes them durable, then the platform is answered,
// then they run. It is what a poller and a webhook have in common.
//
// # Guarantees
//   - What was accepted and not settled when the process ended runs first, the oldest before all others.
//   - The events of one conversation and thread start in the order of their arrival, the next one when the kernel calls Queued; of
//     several conversations that may go on, the one whose event is the oldest does.
//   - An event whose turn was released runs again after the pauses of [RetryAfter]. What came behind it does not wait for that.
//   - An event in which the process died as often as one may be tried is given up, and its conversation told.
//   - Where several processes share the journal (it is an [Heir]), what another one has left runs as soon as that is known, behind what
//     has arrived here; with Together, so does what another one has taken of a conversation that is answered here.
//   - Serve returns when nothing runs any more. What waits then is left to the journal and the next start.
type Door struct {
	o       DoorOptions
	journal Journal
	outbox  *Outbox // nil for none
	kernel  *Kernel
	hold    func(bytes int64) (release func(), ok bool)

	mu       sync.Mutex
	closed   bool
	started  bool // what was left by the process before is in line
	arrived  uint64
	items    map[EventKey]*doorItem // that wait, run, or are to run again
	lines    map[lineKey]*doorLine
	ready    []*doorLine // those whose first may start, by when that arrived
	running  int
	parked   map[*doorItem]func(context.Context) ParkState // that wait for their senders to be paired
	turns    context.Context                               // of what runs
	stopTurn context.CancelCauseFunc
	wg       sync.WaitGroup

	parkedMore chan struct{} // an event more waits
}

// DoorOptions of a door. Run is required.
type DoorOptions struct {
	Channel, Account string // whose events are replayed

	// Run runs the turn of an event, with [Run] and this Meta, which has the event's claim.
	Run func(ctx context.Context, e JournalEntry, m Meta) (Result, error)
	// Incomplete tells a conversation once that an answer may be incomplete: a crash has cut it off when some of it may have been
	// seen, or crashes have whenever it was begun. nil tells nobody.
	Incomplete func(context.Context, JournalEntry) error
	// Clear removes the sign of work that a crash may have left at an event, before it is settled or runs again. nil where signs go by
	// themselves.
	Clear func(context.Context, JournalEntry) error

	// Together has the events of a conversation run where one of them does, of several processes that share a journal that is a [Giver]: so
	// that what runs can be stopped, approved, or told something. What is answered to the platform must not depend on the turn then, or
	// on where it runs: [Arrival.Given].
	Together bool

	// Parks says that the event of a sender who asks to be paired waits for that, because it can still be answered then.
	Parks bool

	Running int           // turns at a time: 64
	Waiting int           // events in line, beyond which Accept takes none: 1 000
	Grace   time.Duration // how long turns may go on when the door closes: 20 s
	Log     *slog.Logger  // nil is silent
}

const (
	defaultDoorRunning = 64
	defaultDoorWaiting = 1000
	defaultDoorGrace   = 20 * time.Second

	// lineRunning bounds the turns of one conversation at a time, all but one of which wait in their lane or in a burst: an album
	// has up to ten parts.
	lineRunning = 32
)

// Arrival is an event that has come.
type Arrival struct {
	Key EventKey
	Raw []byte
	Ack func(context.Context, Result) // of its first turn; nil
	// Given is called when it is another process that runs the event, or somebody has erased it, before it can come back: what Ack was to
	// tell is not told here. It may be called more than once, also after Ack; nil.
	Given func()
}

type lineKey struct{ conversation, thread string }

// doorLine is the events of one conversation. Its fields are guarded by the door's mu.
type doorLine struct {
	key      lineKey
	waiting  []*doorItem // in the order of arrival
	starting bool        // the one before has no place in its lane yet
	running  int
	ready    uint64 // the order of the first, by which the line is among those that are ready; 0 is not
}

type doorItem struct {
	entry JournalEntry
	order uint64
	line  *doorLine
	ack   func(context.Context, Result)
	given func()
	again *time.Timer
	began bool   // a turn of the event may have begun: in an earlier process, or before it was released
	free  func() // gives back the memory of the event; nil where none is counted
}

// NewDoor returns a door to a kernel, whose journal it uses.
func NewDoor(k *Kernel, o DoorOptions) *Door {
	if o.Run == nil {
		panic("channel: a door needs a Run")
	}
	k.Init()
	o.Running = cmp.Or(max(o.Running, 0), defaultDoorRunning)
	o.Waiting = cmp.Or(max(o.Waiting, 0), defaultDoorWaiting)
	o.Grace = cmp.Or(max(o.Grace, 0), defaultDoorGrace)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Door{
		o: o, journal: k.state.journal, outbox: k.Outbox, kernel: k, hold: k.Hold,
		items: map[EventKey]*doorItem{}, lines: map[lineKey]*doorLine{},
		parked: map[*doorItem]func(context.Context) ParkState{}, parkedMore: make(chan struct{}, 1),
	}
}

// Accept makes events durable and gets them in line. When it returns without an error, the platform may be told that they have
// come. isNew is false for those that were known, which run no second time. An error is of all of them: the platform is to send
// them again, after a pause.
func (d *Door) Accept(ctx context.Context, events ...Arrival) (isNew []bool, err error) {
	d.mu.Lock()
	closed, full := d.closed, len(d.items)+len(events) > max(d.o.Waiting, len(events))
	d.mu.Unlock()
	switch {
	case closed:
		return nil, ErrDraining
	case full:
		return nil, ErrJournalFull
	}
	isNew = make([]bool, len(events))
	free, ok := d.holdAll(events)
	if !ok {
		return nil, ErrJournalFull
	}
	defer func() { // what is not in line
		for _, f := range free {
			if f != nil {
				f()
			}
		}
	}()
	if all, ok := d.journal.(BatchAccepter); ok && len(events) > 1 {
		entries := make([]JournalEntry, len(events))
		for i, e := range events {
			entries[i] = JournalEntry{Key: e.Key, Raw: e.Raw}
		}
		if isNew, err = all.AcceptAll(ctx, entries); err != nil {
			return nil, d.notKept(ctx, fmt.Errorf("accept events: %w", err))
		}
	} else {
		for i, e := range events {
			// What was accepted before one that was not runs, and is known when it comes again.
			if isNew[i], err = d.journal.Accept(ctx, e.Key, e.Raw); err != nil {
				d.line(events[:i], isNew, free)
				return nil, d.notKept(ctx, fmt.Errorf("accept an event: %w", err))
			}
		}
	}
	d.line(events, isNew, free)
	return isNew, nil
}

// notKept reports a disk that cannot keep an event, and returns its error.
func (d *Door) notKept(ctx context.Context, err error) error {
	if vfs.Failed(err) {
		d.o.Log.ErrorContext(ctx, "refused an event: disk failed", "channel", d.o.Channel, "error", err)
		if d.kernel.DiskFailed != nil {
			d.kernel.DiskFailed()
		}
	}
	return err
}

// holdAll holds memory for events; ok is false where there is not enough for all. Without counting the functions are nil.
func (d *Door) holdAll(events []Arrival) (free []func(), ok bool) {
	free = make([]func(), len(events))
	if d.hold == nil {
		return free, true
	}
	for i, e := range events {
		if free[i], ok = d.hold(int64(len(e.Raw))); !ok {
			for _, f := range free[:i] {
				f()
			}
			return nil, false
		}
	}
	return free, true
}

// line gets accepted events in line, with the memory that is held for them.
func (d *Door) line(events []Arrival, isNew []bool, free []func()) {
	now := time.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	for i, e := range events {
		if isNew[i] {
			if d.addLocked(JournalEntry{Key: e.Key, Raw: e.Raw, At: now}, e.Ack, e.Given, free[i]) {
				free[i] = nil
			}
		}
	}
	d.startLocked()
}

// addLocked gets an event in line, unless it is there. Memory for one that was accepted before is counted as far as there is any.
func (d *Door) addLocked(e JournalEntry, ack func(context.Context, Result), given func(), free func()) bool {
	if d.items[plainKey(e.Key)] != nil || d.closed {
		return false
	}
	if free == nil && d.hold != nil {
		free, _ = d.hold(int64(len(e.Raw)))
	}
	key := lineKey{e.Key.Conversation, e.Key.Thread}
	l := d.lines[key]
	if l == nil {
		l = &doorLine{key: key}
		d.lines[key] = l
	}
	d.arrived++
	item := &doorItem{entry: e, order: d.arrived, line: l, ack: ack, given: given, free: free}
	d.items[plainKey(e.Key)] = item
	d.waitLocked(item)
	return true
}

// inheritLocked gets an event in line that another process has left.
func (d *Door) inheritLocked(e JournalEntry) {
	if d.addLocked(e, nil, nil, nil) {
		d.items[plainKey(e.Key)].began = true
	}
}

// waitLocked gets an item in its line: one that runs again comes before those that arrived later.
func (d *Door) waitLocked(item *doorItem) {
	l := item.line
	at, _ := slices.BinarySearchFunc(l.waiting, item, func(a, b *doorItem) int { return cmp.Compare(a.order, b.order) })
	l.waiting = slices.Insert(l.waiting, at, item)
	d.readyLocked(l)
}

// readyLocked notes that the first of a line may start, or forgets a line that is empty.
func (d *Door) readyLocked(l *doorLine) {
	order := func(l *doorLine, order uint64) int { return cmp.Compare(l.ready, order) }
	if l.ready != 0 {
		at, _ := slices.BinarySearchFunc(d.ready, l.ready, order)
		d.ready = slices.Delete(d.ready, at, at+1)
		l.ready = 0
	}
	if len(l.waiting) > 0 && !l.starting && l.running < lineRunning {
		first := l.waiting[0].order
		at, _ := slices.BinarySearchFunc(d.ready, first, order)
		d.ready = slices.Insert(d.ready, at, l)
		l.ready = first
	}
	if len(l.waiting) == 0 && l.running == 0 && d.lines[l.key] == l {
		delete(d.lines, l.key)
	}
}

// startLocked starts what may start.
func (d *Door) startLocked() {
	for d.started && !d.closed && d.running < d.o.Running && len(d.ready) > 0 {
		l := d.ready[0]
		d.ready = slices.Delete(d.ready, 0, 1)
		l.ready = 0
		item := l.waiting[0]
		l.waiting = slices.Delete(l.waiting, 0, 1)
		l.starting = true
		l.running++
		d.running++
		ctx := d.turns
		d.wg.Go(func() { d.run(ctx, item) })
	}
}

// run runs the turn of one event.
func (d *Door) run(ctx context.Context, item *doorItem) {
	queued := sync.OnceFunc(func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		item.line.starting = false
		d.readyLocked(item.line)
		d.startLocked()
	})
	d.turn(ctx, item, queued)
	queued()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.running--
	item.line.running--
	d.readyLocked(item.line)
	d.startLocked()
}

func (d *Door) turn(ctx context.Context, item *doorItem, queued func()) {
	if giver, ok := d.journal.(Giver); ok && d.o.Together && giver.Give(ctx, item.entry.Key) {
		d.gone(item)
		return
	}
	claim, _, err := d.journal.Claim(ctx, item.entry.Key)
	if err != nil {
		d.o.Log.WarnContext(ctx, "cannot claim an event; retrying", "channel", d.o.Channel, "error", err)
		d.runAgain(item, retries[len(retries)-1])
		return
	}
	if claim == nil { // erased, or somebody else's
		d.gone(item)
		return
	}
	held := &doorClaim{Claim: claim, door: d, item: item}
	m := Meta{
		Channel: d.o.Channel, Account: d.o.Account, Claim: held, Queued: queued, Ack: item.ack,
		Repeated: item.began || item.entry.Attempt > 0,
	}
	item.ack, item.began = nil, true // it was answered
	entry := item.entry
	if m.Account == "" {
		m.Account = entry.Key.Account
	}
	if entry.Attempt > 0 {
		d.clear(ctx, entry)
	}
	r, err := safely(func() (Result, error) { return d.o.Run(ctx, entry, m) })
	if r.Outcome == OutcomeMerged && err == nil {
		return // it settles with the turn that took it
	}
	if held.over() {
		return
	}
	if err == nil {
		err = errors.New("the turn has ended without an outcome")
	}
	if err := held.Release(context.WithoutCancel(ctx), err); err != nil {
		d.o.Log.WarnContext(ctx, "cannot release an event", "channel", d.o.Channel, "error", err)
	}
}

// clear removes the sign of work that a crash may have left.
func (d *Door) clear(ctx context.Context, e JournalEntry) {
	if d.o.Clear == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, abandonIn)
	defer cancel()
	if _, err := safely(func() (struct{}, error) { return struct{}{}, d.o.Clear(ctx, e) }); err != nil {
		d.o.Log.WarnContext(ctx, "cannot remove a crashed turn's reaction", "channel", d.o.Channel, "error", err)
	}
}

// gone forgets an event that does not run here, and says so.
func (d *Door) gone(item *doorItem) {
	defer d.done(item)
	if item.given != nil {
		item.given()
	}
}

// done forgets an event that is settled.
func (d *Door) done(item *doorItem) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if item.again != nil {
		item.again.Stop()
	}
	delete(d.parked, item)
	if key := plainKey(item.entry.Key); d.items[key] == item {
		delete(d.items, key)
		if item.free != nil {
			item.free()
		}
	}
}

// runAgain gets an event in line once more, after a pause.
func (d *Door) runAgain(item *doorItem, pause time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return
	}
	item.again = time.AfterFunc(pause, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.closed || d.items[plainKey(item.entry.Key)] != item {
			return
		}
		item.again = nil
		if d.lines[item.line.key] == nil {
			d.lines[item.line.key] = item.line
		}
		item.line = d.lines[item.line.key]
		d.waitLocked(item)
		d.startLocked()
	})
}

// doorClaim is a claim whose event runs again when it is released, by whomever: a turn may settle the events of others that were
// merged to its own.
type doorClaim struct {
	Claim
	door *Door
	item *doorItem

	mu    sync.Mutex
	ended bool
}

func (c *doorClaim) over() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ended
}

// end is true for the first who asks.
func (c *doorClaim) end() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	first := !c.ended
	c.ended = true
	return first
}

// Commit implements [Claim].
func (c *doorClaim) Commit(ctx context.Context, o Outcome) error {
	if !c.end() {
		return nil
	}
	err := c.Claim.Commit(ctx, o)
	c.door.done(c.item)
	return err
}

// Release implements [Claim].
func (c *doorClaim) Release(ctx context.Context, cause error) error {
	if !c.end() {
		return nil
	}
	err := c.Claim.Release(ctx, cause)
	if !ReleaseCounts(cause) {
		c.door.runAgain(c.item, retries[0]) // where the door stays open, it was the agent's part of the server that went down
		return err
	}
	c.item.entry.Attempt++
	if pause, ok := RetryAfter(c.item.entry.Attempt); ok {
		c.door.runAgain(c.item, pause)
	} else {
		c.door.done(c.item)
	}
	return err
}

// Again implements [Repeater].
func (c *doorClaim) Again() bool {
	r, ok := c.Claim.(Repeater)
	return ok && !c.over() && r.Again()
}

// Key implements [KeyedClaim].
func (c *doorClaim) Key() EventKey { return c.item.entry.Key }

// Serve gets what an earlier process has left in line, then lets events run, and with them calls receive, which may be nil, until
// ctx ends or receive has failed. It returns when all turns have ended: those that are not done within the grace period are
// canceled with [ErrDraining].
func (d *Door) Serve(ctx context.Context, receive func(context.Context) error) error {
	turns, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	defer stop(nil)
	d.mu.Lock()
	if d.closed || d.turns != nil {
		d.mu.Unlock()
		return errors.New("channel: a door serves once")
	}
	d.turns, d.stopTurn = turns, stop
	d.mu.Unlock()
	err := d.replay(ctx)
	if err == nil {
		d.mu.Lock()
		d.started = true
		d.startLocked()
		d.mu.Unlock()
		stop := d.inherit(ctx)
		watching, stopWatch := context.WithCancel(ctx)
		var watch sync.WaitGroup
		watch.Go(func() { d.watchParked(watching) })
		if receive != nil {
			err = receive(ctx)
		} else {
			<-ctx.Done()
		}
		stop()
		stopWatch()
		watch.Wait()
	}
	d.drain()
	if ctx.Err() != nil && (errors.Is(err, ctx.Err()) || errors.Is(err, context.Cause(ctx))) {
		err = nil
	}
	return err
}

// drain lets what runs end, and cancels what takes too long.
func (d *Door) drain() {
	d.mu.Lock()
	d.closed = true
	for _, item := range d.items {
		if item.again != nil {
			item.again.Stop()
		}
	}
	d.mu.Unlock()
	late := time.AfterFunc(d.o.Grace, func() { d.stopTurn(ErrDraining) })
	defer late.Stop()
	d.wg.Wait()
}

// replay gets what was accepted and not settled in line, before everything that has been accepted since the process began.
func (d *Door) replay(ctx context.Context) error {
	var all []JournalEntry
	over := map[Outcome][]JournalEntry{}
	for e, err := range d.journal.Pending(ctx) {
		if err != nil {
			return fmt.Errorf("read the events that an earlier process has left: %w", err)
		}
		if !d.wants(e.Key) {
			continue
		}
		outcome, err := d.left(ctx, e)
		switch {
		case err != nil:
			return err
		case outcome != "":
			over[outcome] = append(over[outcome], e)
		default:
			all = append(all, e)
		}
	}
	for outcome, events := range over {
		for _, e := range events {
			if err := d.settle(ctx, e, outcome); err != nil {
				d.o.Log.WarnContext(ctx, "cannot settle an event of an earlier process", "channel", d.o.Channel, "error", err)
			}
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	// Before those that have come while this was read: they keep their order behind these.
	newer := slices.SortedFunc(maps.Values(d.items), func(a, b *doorItem) int { return cmp.Compare(a.order, b.order) })
	clear(d.lines)
	d.ready = nil
	clear(d.items)
	d.arrived = 0
	for _, e := range all {
		d.inheritLocked(e)
	}
	for _, item := range newer {
		if !d.addLocked(item.entry, item.ack, item.given, item.free) && item.free != nil {
			item.free() // it was among those that were read, or the door is closed
		}
	}
	return nil
}

// wants says whether an event is this door's, and is not in line.
func (d *Door) wants(k EventKey) bool {
	if k.Channel != d.o.Channel || d.o.Account != "" && k.Account != d.o.Account {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.items[plainKey(k)] == nil // else accepted by this process
}

// left is what becomes of an event that another process has left; "" is that it runs.
func (d *Door) left(ctx context.Context, e JournalEntry) (Outcome, error) {
	seen, event := NotSent, e.Key.String()
	if ledger, ok := d.journal.(Ledger); ok {
		var err error
		if seen, err = ledger.Seen(ctx, event); err != nil {
			return "", fmt.Errorf("read what an earlier process has sent: %w", err)
		}
	}
	switch {
	case d.outbox != nil && d.outbox.Holds(event):
		return OutcomeQueued, nil
	case seen != NotSent && seen != Suppressed:
		return OutcomeUnknown, nil
	case e.Attempt > len(retries): // a release that is the last settles it: the process has died in it
		d.o.Log.ErrorContext(ctx, "dropped an event that crashed the server", "channel", d.o.Channel,
			"account", e.Key.Account, "conversation", e.Key.Conversation, "message", e.Key.ID, "attempts", e.Attempt)
		return OutcomeFailed, nil
	}
	return "", nil
}

// inherit runs what other processes leave while this one serves, where they share the journal, until stop is called, which waits for
// it.
func (d *Door) inherit(ctx context.Context) (stop func()) {
	heir, ok := d.journal.(Heir)
	if !ok {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		for e, err := range heir.Inherit(ctx) {
			if err == nil && d.wants(e.Key) {
				d.take(ctx, e)
			}
		}
	})
	return func() {
		cancel()
		wg.Wait()
	}
}

// take runs an event that another process has left, or settles it. It does not give up before ctx ends: nobody brings the event again.
func (d *Door) take(ctx context.Context, e JournalEntry) {
	for {
		outcome, err := d.left(ctx, e)
		if err == nil && outcome == "" {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.inheritLocked(e)
			d.startLocked()
			return
		}
		if err == nil {
			err = d.settle(ctx, e, outcome)
		}
		if err == nil || ctx.Err() != nil {
			return
		}
		d.o.Log.WarnContext(ctx, "cannot take over an event of another process; retrying", "channel", d.o.Channel, "error", err)
		if backoff.Sleep(ctx, retries[0]) != nil {
			return
		}
	}
}

// settle ends an event whose answer is on its way, or may have been seen in part, or that is given up. Of the latter two its
// conversation is told, at most once: so the journal is told before. One that somebody else has claimed is theirs.
func (d *Door) settle(ctx context.Context, e JournalEntry, o Outcome) error {
	claim, _, err := d.journal.Claim(ctx, e.Key)
	if err == nil && claim != nil {
		if o == OutcomeUnknown {
			d.kernel.keepShown(ctx, e.Key.String(), d.o.Log) // before it is forgotten
		}
		err = claim.Commit(ctx, o)
	}
	if err == nil && claim != nil {
		d.clear(ctx, e)
	}
	if err != nil || claim == nil || o == OutcomeQueued || d.o.Incomplete == nil {
		return err
	}
	if _, err := safely(func() (struct{}, error) { return struct{}{}, d.o.Incomplete(ctx, e) }); err != nil {
		d.o.Log.WarnContext(ctx, "cannot send the notice about an incomplete answer", "channel", d.o.Channel, "error", err)
		return nil
	}
	d.kernel.toldIncomplete(e.Key.String())
	return nil
}
