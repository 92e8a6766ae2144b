package channel

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/lingserve/lingserve/internal/backoff"
)

// Outbox holds blocks until they are sent, in order for each target, and with a store across restarts.
//
// A block walks from prepared to sending to sent, partial, not_sent or unknown, and each step is stored before the next begins. So
// after a crash a block that was only prepared goes out, and one that was being sent does not: whether it was seen is not known. It
// is asked for where the sender is a [Reconciler], and sent again where it is [Idempotent].
//
// Where processes share a store, each sends its own blocks, and those of one that has died; the order of a target is that of all. One that
// was taken for dead and goes on sends nothing that another has taken over: its next step is refused.
//
// The first attempt is made by the turn that brings the block, all others by the outbox's own goroutine, between Start and Close.
type Outbox struct {
	o     OutboxOptions
	store OutboxStore
	allow func(context.Context, Outbound) error
	echo  echoMarks
	gave  func(Outbound) // is told of a block that is not tried again and may not have been seen

	mu       sync.Mutex
	senders  map[string]Sender
	blocks   map[uint64]*parcel
	queues   map[string][]*parcel // by target, in order
	answered answered             // events that an earlier process has put blocks in for, and that are answered
	bytes    int64
	coming   int  // blocks that are being stored
	active   int  // sends of the goroutine that are under way
	started  bool // the goroutine runs
	closed   bool

	wake   chan struct{}
	sends  sync.WaitGroup // of turns and of the goroutine
	loop   sync.WaitGroup
	life   context.Context // of sends; ends when Close does not wait any longer
	cancel context.CancelFunc
}

// OutboxOptions are for [OpenOutbox]. Zero values are the defaults.
type OutboxOptions struct {
	Store     OutboxStore   // where blocks are kept; nil is in memory. The outbox closes it
	MaxBlocks int           // that wait, of all processes: 10 000
	MaxBytes  int64         // of their texts: 64 MiB
	Attempts  int           // 10
	MaxAge    time.Duration // after which a block is given up: 24 h
	Send      time.Duration // what one attempt may take: 2 min, which is more than platforms ask to wait
	Log       *slog.Logger  // nil is silent
}

const (
	// outboxSends bounds what the goroutine sends at one time, to different targets.
	outboxSends = 4
	backoffFrom = 2 * time.Second
	backoffTo   = 30 * time.Minute
	// senderless is how often it is looked whether a channel is there again.
	senderless = time.Minute
	// storeless is how long a block waits that could not be read or stored.
	storeless = 5 * time.Second
)

// parcel is a block in the outbox.
type parcel struct {
	id      uint64
	out     Outbound
	target  string
	at      time.Time // when it was put in
	due     time.Time
	size    int64
	busy    bool // somebody is about to send it, or does
	orphan  bool // it waits for its sender to be registered
	sending bool // an attempt has begun of which it is not known what it came to
	before  bool // an earlier process has put it in, or another one
	doubt   bool // and has ended while it was sending it
	erased  bool // with its session, while it was being sent: it is stored no more, and goes when the attempt is over
	unread  bool // it is still to be loaded
	away    bool // another process has it: here it only keeps its place
	taken   bool // another process has changed what is stored of it while this one was about to send it
}

// answered remembers events, the last maxAnswered of them.
type answered struct {
	events map[string]bool
	order  []string
}

const maxAnswered = 10_000

func (a *answered) add(event string) {
	if event == "" || a.events[event] {
		return
	}
	if a.events == nil {
		a.events = map[string]bool{}
	}
	if len(a.order) == maxAnswered {
		delete(a.events, a.order[0])
		a.order = append(a.order[:0], a.order[1:]...)
	}
	a.events[event] = true
	a.order = append(a.order, event)
}

var errOutboxClosed = errors.New("channel: the outbox is closed")

// OpenOutbox opens an outbox; nil are the defaults. Nothing is sent before Start.
func OpenOutbox(options *OutboxOptions) (*Outbox, error) {
	o := &Outbox{
		senders: map[string]Sender{}, blocks: map[uint64]*parcel{}, queues: map[string][]*parcel{}, wake: make(chan struct{}, 1),
	}
	if options != nil {
		o.o = *options
	}
	if o.o.MaxBlocks <= 0 {
		o.o.MaxBlocks = 10_000
	}
	if o.o.MaxBytes <= 0 {
		o.o.MaxBytes = 64 << 20
	}
	if o.o.Attempts <= 0 {
		o.o.Attempts = 10
	}
	if o.o.MaxAge <= 0 {
		o.o.MaxAge = 24 * time.Hour
	}
	if o.o.Send <= 0 {
		o.o.Send = 2 * time.Minute
	}
	if o.store = o.o.Store; o.store == nil {
		o.store = new(unstored)
	}
	if err := o.store.Start(o.told); err != nil {
		return nil, fmt.Errorf("open the outbox: %w", errors.Join(err, o.store.Close()))
	}
	o.life, o.cancel = context.WithCancel(context.Background())
	return o, nil
}

// told takes what the store tells of a block.
func (o *Outbox) told(n BlockNews) {
	o.mu.Lock()
	defer o.mu.Unlock()
	defer o.wakeLocked()
	p := o.blocks[n.ID]
	if n.Gone {
		if n.Left && (n.Came.Seen() || n.Came == Suppressed) {
			o.answered.add(n.Event)
		}
		if p != nil {
			p.taken, p.erased = true, p.erased || n.Came == Suppressed
			o.removeLocked(p)
		}
		return
	}
	if p == nil {
		p = &parcel{id: n.ID, at: n.At, size: n.Size, target: n.Target, unread: n.Block == nil}
		if n.Block != nil {
			p.out = *n.Block
		} else {
			p.out = Outbound{Channel: n.Channel, Sender: n.Sender, Event: n.Event}
		}
		o.addLocked(p)
	}
	p.away = n.Alive
	p.taken = p.taken || p.busy
	p.before = p.before || n.Left
	p.sending, p.doubt, p.out.Attempt = n.Sending, n.Sending && !n.Alive, n.Attempt
	if !p.busy {
		p.due = time.Time{}
	}
}

// bind gives the outbox what it needs of the kernel: the gates, which are asked before a block is tried again (CH-61), and what is told of sends
// and of blocks that may be lost. All may be nil.
func (o *Outbox) bind(allow func(context.Context, Outbound) error, echo echoMarks, lost func(Outbound)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.allow, o.echo, o.gave = allow, echo, lost
}

// Register makes a sender known by the name that blocks have it under: channel, or channel@account. A nil one takes it away.
func (o *Outbox) Register(name string, s Sender) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if s == nil {
		delete(o.senders, name)
		return
	}
	o.senders[name] = s
	for _, p := range o.blocks {
		if p.out.Sender == name && p.orphan && !p.busy {
			p.due = time.Time{}
		}
	}
	o.wakeLocked()
}

// Start begins to send what waits. Whoever calls it calls Close, and [Kernel.Init] before it: what an earlier process has left goes out
// only where the gates still let it (CH-61).
func (o *Outbox) Start() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.started || o.closed {
		return
	}
	o.started = true
	o.loop.Go(o.run)
}

// Close ends the outbox: nothing more is begun, and what is being sent is waited for until ctx ends. What waits is sent after
// the next start, if there is a store.
func (o *Outbox) Close(ctx context.Context) error {
	o.mu.Lock()
	if o.closed {
		o.mu.Unlock()
		return nil
	}
	o.closed = true
	o.wakeLocked()
	o.mu.Unlock()
	stop := context.AfterFunc(ctx, o.cancel)
	o.loop.Wait()
	o.sends.Wait()
	stop()
	o.cancel()
	return o.store.Close()
}

// Holds says whether the answer to an event is the outbox's to send, or was sent after an earlier process had left it: then the
// event's turn is not run again. It does not hold what was being sent when that process ended, unless the platform can settle
// it: nobody can say more of that than the ledger does.
func (o *Outbox) Holds(event string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.answered.events[event] {
		return true
	}
	for _, p := range o.blocks {
		if p.out.Event == event && !(p.doubt && !settles(o.senders[p.out.Sender])) {
			return true
		}
	}
	return false
}

// settles says whether a block may be sent whose fate is not known: its platform can be asked, or takes a second send for the first.
func settles(s Sender) bool {
	_, ok := s.(Reconciler)
	return ok || honours(s)
}

// Pending counts the blocks that wait, by channel; those of all processes that share them.
func (o *Outbox) Pending() map[string]int {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := map[string]int{}
	for _, p := range o.blocks {
		n[p.out.Channel]++
	}
	return n
}

// can says whether the sender of a block is there and has what the block needs.
func (o *Outbox) can(d *Durable) (bool, error) {
	o.mu.Lock()
	s := o.senders[d.Sender]
	o.mu.Unlock()
	if s == nil {
		return false, nil
	}
	can := false
	err := caught(o.life, o.o.Log, "Can", func() (err error) {
		can, err = s.Can(d.Needs)
		return err
	})
	return can, err
}

// put takes a block; it is stored when put returns.
func (o *Outbox) put(ctx context.Context, out Outbound) (uint64, error) {
	size := BlockSize(&out)
	o.mu.Lock()
	closed, full := o.closed, len(o.blocks)+o.coming >= o.o.MaxBlocks || o.bytes+size > o.o.MaxBytes
	if closed || full {
		o.mu.Unlock()
		if closed {
			return 0, errOutboxClosed
		}
		return 0, ErrOutboxFull
	}
	o.coming++
	o.bytes += size
	o.mu.Unlock()
	b := StoredBlock{At: time.Now(), Size: size, Target: TargetName(&out), Block: out}
	id, err := o.store.Put(context.WithoutCancel(ctx), b)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.coming--
	o.bytes -= size
	switch {
	case errors.Is(err, ErrOutboxFull):
		return 0, err
	case err != nil:
		return 0, fmt.Errorf("the outbox cannot write: %w", err)
	case o.blocks[id] == nil: // else another process has taken this one for dead, and has it already
		// Busy until its turn has made the first attempt, or has seen that another block is before it.
		o.addLocked(&parcel{id: id, out: out, target: b.Target, at: b.At, size: size, busy: true})
	}
	return id, nil
}

// first makes the first attempt to send a block, unless another waits for the same target. held says that the outbox has it still.
func (o *Outbox) first(ctx context.Context, id uint64) (r Receipt, held bool, err error) {
	o.mu.Lock()
	p := o.blocks[id]
	if p == nil || p.away || !p.busy || o.queues[p.target][0] != p || o.closed {
		if p != nil {
			p.busy = false
			o.wakeLocked()
		}
		o.mu.Unlock()
		return Receipt{State: NotSent}, p != nil, nil
	}
	o.sends.Add(1)
	o.mu.Unlock()
	defer o.sends.Done()
	return o.attempt(ctx, p, true)
}

// drop gives a block up of which no attempt was made.
func (o *Outbox) drop(id uint64, err error) {
	o.mu.Lock()
	p := o.blocks[id]
	o.mu.Unlock()
	if p != nil {
		o.settle(p, NotSent, err)
	}
}

// attempt sends a block that is busy, or finds out whether it was sent. ctx gives values alone: what the outbox has begun does not end
// with the turn.
func (o *Outbox) attempt(ctx context.Context, p *parcel, first bool) (r Receipt, held bool, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), o.o.Send)
	defer cancel()
	defer context.AfterFunc(o.life, cancel)()

	o.mu.Lock()
	s, allow := o.senders[p.out.Sender], o.allow
	if p.taken {
		o.mu.Unlock()
		return o.lost(p)
	}
	if p.erased {
		o.mu.Unlock()
		o.settle(p, Suppressed, errErased)
		return Receipt{State: Suppressed}, false, errErased
	}
	unsure, tooOld := p.sending, time.Since(p.at) > o.o.MaxAge
	if p.orphan = s == nil; p.orphan && !tooOld {
		p.busy, p.due = false, time.Now().Add(senderless)
		o.wakeLocked()
		o.mu.Unlock()
		return Receipt{State: NotSent}, true, nil
	}
	unread := p.unread
	o.mu.Unlock()
	if unread {
		if err := o.load(ctx, p); err != nil {
			o.tell(slog.LevelError, "cannot read a waiting reply; retrying", p, slog.Any("error", err))
			o.postpone(p, storeless)
			return Receipt{State: NotSent}, true, nil
		}
		o.mu.Lock()
		gone := p.taken
		o.mu.Unlock()
		if gone {
			return o.lost(p)
		}
	}
	if unsure {
		r, again, err := o.ask(ctx, s, p)
		if !again {
			return r, o.later(s, p, r.State, err, tooOld), err
		}
		// It was not sent, or a second time does no harm.
	}
	if tooOld {
		err = &NotSentError{Err: errTooOld}
		o.settle(p, NotSent, err)
		return Receipt{State: NotSent}, false, err
	}
	if !first && allow != nil {
		if err := caught(ctx, o.o.Log, "Allow", func() error { return allow(ctx, p.out) }); err != nil {
			o.settle(p, Suppressed, err)
			return Receipt{State: Suppressed}, false, err
		}
	}
	switch err := o.step(p, true); {
	case errors.Is(err, ErrBlockTaken):
		return o.lost(p)
	case err != nil:
		err = &NotSentError{Err: fmt.Errorf("the outbox cannot write: %w", err), Retryable: true}
		return Receipt{State: NotSent}, o.later(s, p, NotSent, err, false), err
	}
	var unsent func()
	if o.echo != nil && !first && p.out.Block.Text != "" { // the first is marked by its turn
		unsent = o.echo.sending(p.out.Channel, p.out.Account, p.out.Origin.Conversation.ID, p.out.Block.Text)
	}
	err = caught(ctx, o.o.Log, "Send", func() (err error) {
		r, err = s.Send(ctx, p.out)
		return err
	})
	r, err = ReceiptOf(r, err)
	switch {
	case unsent != nil && r.State == NotSent:
		unsent()
	case o.echo != nil && !first && len(r.MessageIDs) > 0:
		o.echo.sent(p.out.Channel, p.out.Account, p.out.Origin.Conversation.ID, r.MessageIDs...)
	}
	return r, o.later(s, p, r.State, err, false), err
}

// lost lets go a block that is another process's to send, or nobody's, or of which something else is known by now.
func (o *Outbox) lost(p *parcel) (Receipt, bool, error) {
	o.mu.Lock()
	if !p.taken { // nobody has told of it: it has gone
		o.removeLocked(p)
	}
	p.busy, p.taken, p.due = false, false, time.Time{}
	erased := p.erased
	o.wakeLocked()
	o.mu.Unlock()
	if erased {
		o.settle(p, Suppressed, errErased)
		return Receipt{State: Suppressed}, false, errErased
	}
	return Receipt{State: NotSent}, true, nil
}

// load reads a block that another process has left.
func (o *Outbox) load(ctx context.Context, p *parcel) error {
	out, err := o.store.Load(ctx, p.id)
	if err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if out == nil {
		p.taken = true
		o.removeLocked(p)
		return nil
	}
	attempt := p.out.Attempt
	p.out, p.unread = *out, false
	p.out.Attempt = attempt
	return nil
}

// postpone lets a block wait.
func (o *Outbox) postpone(p *parcel, wait time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	p.busy, p.due = false, time.Now().Add(wait)
	o.wakeLocked()
}

var errTooOld = errors.New("channel: all attempts to send it failed")

// ask finds out what became of a send that was cut off. again says that the block may be sent once more.
func (o *Outbox) ask(ctx context.Context, s Sender, p *parcel) (r Receipt, again bool, err error) {
	if honours(s) {
		return r, true, nil
	}
	rec, ok := s.(Reconciler)
	if !ok {
		return Receipt{State: UnknownWhether}, false, errUnknown
	}
	o.mu.Lock()
	p.out.Attempt++
	o.mu.Unlock()
	err = caught(ctx, o.o.Log, "Reconcile", func() (err error) {
		r, err = rec.Reconcile(ctx, p.out)
		return err
	})
	if err != nil {
		return Receipt{State: UnknownWhether}, false, err
	}
	r, err = ReceiptOf(r, nil)
	if r.State == NotSent {
		return r, true, nil
	}
	return r, false, err
}

// honours says whether the platform takes a second send for the first.
func honours(s Sender) bool {
	key, ok := s.(Idempotent)
	return ok && key.HonoursKey()
}

// later says whether the outbox keeps a block after an attempt; if not, it is settled.
func (o *Outbox) later(s Sender, p *parcel, state ReceiptState, err error, last bool) (held bool) {
	var wait time.Duration
	keep := false
	switch state {
	case NotSent:
		var not *NotSentError
		if not, keep = retryable(err); keep {
			wait = not.RetryAfter
		}
	case UnknownWhether:
		keep = settles(s)
	}
	o.mu.Lock()
	if p.taken { // whoever has it does what is to be done
		p.busy, p.taken, p.due = false, false, time.Time{}
		o.wakeLocked()
		o.mu.Unlock()
		return state == NotSent && keep && !p.erased
	}
	keep = keep && !p.erased
	o.mu.Unlock()
	if !keep || last || p.out.Attempt >= o.o.Attempts {
		o.settle(p, state, err)
		return false
	}
	if state == NotSent {
		// Where this cannot be written, the block counts as being sent: after a restart it is not known whether it was.
		if err := o.step(p, false); err != nil && !errors.Is(err, ErrBlockTaken) {
			o.tell(slog.LevelError, "cannot write the outbox", p, slog.Any("error", err))
		}
	}
	o.postpone(p, max(wait, backoff.After(max(p.out.Attempt, 1), backoffFrom, backoffTo)))
	return true
}

// step stores that a block takes a step.
func (o *Outbox) step(p *parcel, sending bool) error {
	o.mu.Lock()
	if p.taken {
		o.mu.Unlock()
		return ErrBlockTaken
	}
	was, attempt := p.sending, p.out.Attempt
	if sending {
		attempt++
	}
	o.mu.Unlock()
	err := o.store.Step(context.WithoutCancel(o.life), p.id, sending, attempt)
	o.mu.Lock()
	defer o.mu.Unlock()
	if p.taken {
		return ErrBlockTaken
	}
	p.sending = sending
	if p.out.Attempt = attempt; err != nil {
		p.sending = was
	}
	return err
}

// settle lets a block go, whatever it came to. That it has gone need not wait for the store: a block that seems to be on its way after a
// crash is not sent again.
func (o *Outbox) settle(p *parcel, state ReceiptState, err error) {
	o.mu.Lock()
	o.removeLocked(p)
	if p.before && (state.Seen() || state == Suppressed) {
		o.answered.add(p.out.Event)
	}
	o.wakeLocked()
	gave := o.gave
	o.mu.Unlock()
	if gave != nil && (state == UnknownWhether || state == NotSent && !permanent(err)) {
		gave(p.out)
	}
	failure := o.store.End(context.WithoutCancel(o.life), p.id, state)
	switch {
	case failure != nil:
		o.tell(slog.LevelError, "cannot write the outbox", p, slog.Any("error", failure))
	case state == Sent:
	case state == UnknownWhether:
		o.tell(slog.LevelWarn, "unknown whether a reply was sent", p, slog.Any("error", err))
	case state == Suppressed:
		o.tell(slog.LevelInfo, "dropped a waiting reply", p, slog.Any("error", err))
	default:
		o.tell(slog.LevelError, "gave up a reply", p, slog.String("state", state.String()), slog.Any("error", err))
	}
}

var errErased = errors.New("channel: the session was erased")

// Erase removes the blocks of a session, and from where they are kept those that were sent before, too. One that is being sent at this
// moment is not tried again.
func (o *Outbox) Erase(session string) error {
	o.mu.Lock()
	if o.closed {
		o.mu.Unlock()
		return errOutboxClosed
	}
	for _, p := range o.blocks {
		switch {
		case p.unread || p.away || p.out.Session != session: // of those that are not read the store tells
		case p.busy:
			p.erased = true
		default:
			o.removeLocked(p)
		}
	}
	o.wakeLocked()
	o.mu.Unlock()
	return o.store.Erase(context.WithoutCancel(o.life), session)
}

// run is the goroutine that sends what waits.
func (o *Outbox) run() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		p, wait, done := o.pick()
		switch {
		case done:
			return
		case p != nil:
			go func() {
				defer o.sends.Done()
				defer func() {
					o.mu.Lock()
					defer o.mu.Unlock()
					o.active--
					o.wakeLocked()
				}()
				_, _, _ = o.attempt(context.Background(), p, false)
			}()
			continue
		case wait < 0:
			<-o.wake
		default:
			timer.Reset(wait)
			select {
			case <-o.wake:
			case <-timer.C:
			}
		}
	}
}

// pick returns a block that is due, and counts it as being sent; else how long to wait for the next, negative for until something changes.
func (o *Outbox) pick() (p *parcel, wait time.Duration, done bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return nil, 0, true
	}
	if o.active >= outboxSends {
		return nil, -1, false
	}
	now := time.Now()
	wait = -1
	for _, q := range o.queues {
		first := q[0]
		if first.busy || first.away {
			continue
		}
		if !now.Before(first.due) {
			if p == nil || first.id < p.id { // the oldest first
				p = first
			}
		} else if left := first.due.Sub(now); wait < 0 || left < wait {
			wait = left
		}
	}
	if p != nil {
		p.busy, p.taken = true, false
		o.active++
		o.sends.Add(1)
	}
	return p, wait, false
}

func (o *Outbox) wakeLocked() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

func (o *Outbox) addLocked(p *parcel) {
	o.blocks[p.id] = p
	o.bytes += p.size
	q := o.queues[p.target]
	at, _ := slices.BinarySearchFunc(q, p.id, func(q *parcel, id uint64) int { return cmp.Compare(q.id, id) })
	o.queues[p.target] = slices.Insert(q, at, p)
}

func (o *Outbox) removeLocked(p *parcel) {
	if p == nil || o.blocks[p.id] != p {
		return
	}
	delete(o.blocks, p.id)
	o.bytes -= p.size
	t := p.target
	q := o.queues[t]
	if i := slices.Index(q, p); i >= 0 {
		q = slices.Delete(q, i, i+1)
	}
	if len(q) == 0 {
		delete(o.queues, t)
		return
	}
	o.queues[t] = q
}

// TargetName names where a block goes, as [StoredBlock.Target] has it, for the order of what goes there. A thread has an order of its own.
func TargetName(out *Outbound) string {
	thread, _ := out.Block.Target.MessageThreadID.Get()
	name := make([]byte, 0, 96)
	for _, part := range [...]string{out.Sender, out.Channel, out.Account, out.Block.Target.Target(), thread} {
		name = fmt.Appendf(name, "%d:%s", len(part), part)
	}
	return string(name)
}

// tell logs, without a word of what anybody wrote.
func (o *Outbox) tell(level slog.Level, what string, p *parcel, attrs ...slog.Attr) {
	if o.o.Log == nil {
		return
	}
	if p != nil {
		attrs = append(attrs, slog.String("turn", p.out.TurnID), slog.String("channel", p.out.Channel),
			slog.Int("attempts", p.out.Attempt))
	}
	o.o.Log.LogAttrs(context.Background(), level, what, attrs...)
}

// MarshalJSON writes what is unset as null, and none as "".
func (o Opt) MarshalJSON() ([]byte, error) {
	if !o.set {
		return []byte("null"), nil
	}
	return json.Marshal(o.value)
}

// UnmarshalJSON reads what MarshalJSON writes.
func (o *Opt) UnmarshalJSON(data []byte) error {
	*o = Opt{}
	if string(data) == "null" {
		return nil
	}
	o.set = true
	return json.Unmarshal(data, &o.value)
}
