package channel

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"time"
)

// Outbox holds blocks until they are sent, in order for each target, and where it has a folder across restarts.
//
// A block walks from prepared to sending to sent, partial, not_sent or unknown, and each step is on disk before the next begins. So
// after a crash a block that was only prepared goes out, and one that was being sent does not: whether it was seen is not known. It
// is asked for where the sender is a [Reconciler], and sent again where it is [Idempotent].
//
// The first attempt is made by the turn that brings the block, all others by the outbox's own goroutine, between Start and Close.
type Outbox struct {
	o     OutboxOptions
	root  *os.Root // nil: in memory
	allow func(context.Context, Outbound) error
	echo  echoMarks

	disk sync.Mutex // held from a line's writing until mu has what it says; taken before mu
	log  *lineLog

	mu      sync.Mutex
	senders map[string]Sender
	blocks  map[uint64]*parcel
	queues  map[string][]*parcel // by target, in order
	done    map[string]bool      // events that an earlier process has put blocks in for, and that are answered
	bytes   int64
	last    uint64
	active  int  // sends of the goroutine that are under way
	started bool // the goroutine runs
	closed  bool

	wake   chan struct{}
	sends  sync.WaitGroup // of turns and of the goroutine
	loop   sync.WaitGroup
	life   context.Context // of sends; ends when Close does not wait any longer
	cancel context.CancelFunc
}

// OutboxOptions are for [OpenOutbox]. Zero values are the defaults.
type OutboxOptions struct {
	Dir       string        // where blocks are kept; "" is in memory. One process at a time uses it
	MaxBlocks int           // that wait: 10 000
	MaxBytes  int64         // of their texts: 64 MiB
	Attempts  int           // 10
	MaxAge    time.Duration // after which a block is given up: 24 h
	Send      time.Duration // what one attempt may take: 2 min, which is more than platforms ask to wait
	Log       *slog.Logger  // nil is silent
}

const (
	outboxFile = "outbox.jsonl"
	// outboxSends bounds what the goroutine sends at one time, to different targets.
	outboxSends = 4
	backoffFrom = 2 * time.Second
	backoffTo   = 30 * time.Minute
	// senderless is how often it is looked whether a channel is there again.
	senderless = time.Minute
)

// parcel is a block in the outbox.
type parcel struct {
	id      uint64
	out     Outbound
	at      time.Time // when it was put in
	due     time.Time
	size    int64
	busy    bool // somebody is about to send it, or does
	orphan  bool // it waits for its sender to be registered
	sending bool // an attempt has begun of which it is not known what it came to
	before  bool // an earlier process has put it in
	doubt   bool // and has ended while it was sending it
	erased  bool // with its session, while it was being sent: it is on no disk, and goes when the attempt is over
}

// outboxLine is a line of the file: a block that is new, or a step that one has taken.
type outboxLine struct {
	ID      uint64    `json:"id"`
	At      time.Time `json:"at,omitzero"`
	Block   *Outbound `json:"block,omitempty"`
	Step    string    `json:"step,omitempty"`
	Attempt int       `json:"attempt,omitempty"`
}

// The steps of a block as they are written. A block without one is prepared; any other but these two is its end.
const (
	stepPrepared = "prepared" // again, after an attempt that came to nothing
	stepSending  = "sending"
)

var (
	errOutboxFull   = errors.New("channel: the outbox is full; the channel's platform has been away for too long")
	errOutboxClosed = errors.New("channel: the outbox is closed")
)

// OpenOutbox opens an outbox; nil are the defaults. Nothing is sent before Start.
func OpenOutbox(options *OutboxOptions) (*Outbox, error) {
	o := &Outbox{
		senders: map[string]Sender{}, blocks: map[uint64]*parcel{}, queues: map[string][]*parcel{},
		done: map[string]bool{}, wake: make(chan struct{}, 1),
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
	o.life, o.cancel = context.WithCancel(context.Background())
	if o.o.Dir == "" {
		return o, nil
	}
	if err := o.open(); err != nil {
		o.cancel()
		return nil, fmt.Errorf("open the outbox in %s: %w", o.o.Dir, err)
	}
	return o, nil
}

func (o *Outbox) open() (err error) {
	if err := os.MkdirAll(o.o.Dir, 0o700); err != nil {
		return err
	}
	if o.root, err = os.OpenRoot(o.o.Dir); err != nil {
		return err
	}
	var bad int
	o.log, bad, err = openLineLog(o.root, outboxFile, o.replay)
	if err != nil {
		return errors.Join(err, o.root.Close())
	}
	if bad > 0 {
		o.tell(slog.LevelError, "the outbox has lines that cannot be read; what they said is lost", nil, slog.Int("lines", bad))
	}
	return nil
}

// replay takes a line of the file.
func (o *Outbox) replay(line []byte) {
	var l outboxLine
	if json.Unmarshal(line, &l) != nil || l.ID == 0 {
		o.tell(slog.LevelError, "the outbox has a line of another form; what it said is lost", nil)
		return
	}
	o.last = max(o.last, l.ID)
	if l.Block != nil {
		if o.blocks[l.ID] == nil {
			o.addLocked(&parcel{id: l.ID, out: *l.Block, at: l.At, size: int64(len(line)), before: true})
		}
		if l.Step == "" {
			return
		}
	}
	p := o.blocks[l.ID]
	if p == nil {
		return
	}
	switch l.Step {
	case stepSending:
		p.sending, p.doubt, p.out.Attempt = true, true, l.Attempt
	case stepPrepared:
		p.sending, p.doubt, p.out.Attempt = false, false, l.Attempt
	default:
		o.removeLocked(p)
	}
}

// bind gives the outbox what it needs of the kernel: the gates, which are asked before a block is tried again (CH-61), and what is told of sends.
// Both may be nil.
func (o *Outbox) bind(allow func(context.Context, Outbound) error, echo echoMarks) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.allow, o.echo = allow, echo
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
// the next start, if there is a folder.
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
	err := o.log.close()
	if o.root != nil {
		err = errors.Join(err, o.root.Close())
	}
	return err
}

// Holds says whether the answer to an event is the outbox's to send, or was sent after an earlier process had left it: then the
// event's turn is not run again. It does not hold what was being sent when that process ended, unless the platform can settle
// it: nobody can say more of that than the ledger does.
func (o *Outbox) Holds(event string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.done[event] {
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

// Pending counts the blocks that wait, by channel.
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

// put takes a block; it is on disk when put returns.
func (o *Outbox) put(_ context.Context, out Outbound) (uint64, error) {
	size := int64(len(out.Block.Text)) + 512
	o.disk.Lock()
	o.mu.Lock()
	closed, full := o.closed, len(o.blocks) >= o.o.MaxBlocks || o.bytes+size > o.o.MaxBytes
	o.last++
	id, now := o.last, time.Now()
	o.mu.Unlock()
	if closed || full {
		o.disk.Unlock()
		if closed {
			return 0, errOutboxClosed
		}
		return 0, errOutboxFull
	}
	at, err := o.log.append(outboxLine{ID: id, At: now.Round(0), Block: &out})
	if err == nil {
		o.mu.Lock()
		// Busy until its turn has made the first attempt, or has seen that another block is before it.
		o.addLocked(&parcel{id: id, out: out, at: now, size: size, busy: true})
		o.mu.Unlock()
	}
	o.disk.Unlock()
	if err == nil {
		if err = o.log.wait(at); err != nil {
			o.mu.Lock()
			o.removeLocked(o.blocks[id])
			o.mu.Unlock()
		}
	}
	if err != nil {
		return 0, fmt.Errorf("the outbox cannot write: %w", err)
	}
	return id, nil
}

// first makes the first attempt to send a block, unless another waits for the same target. held says that the outbox has it still.
func (o *Outbox) first(ctx context.Context, id uint64) (r Receipt, held bool, err error) {
	o.mu.Lock()
	p := o.blocks[id]
	if p == nil || o.queues[targetOf(&p.out)][0] != p || o.closed {
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
	over := false
	defer func() {
		if !over { // a sender has called runtime.Goexit
			o.settle(p, UnknownWhether, errGoexit)
		}
	}()
	r, held, err = o.try(ctx, p, first)
	over = true
	return r, held, err
}

func (o *Outbox) try(ctx context.Context, p *parcel, first bool) (r Receipt, held bool, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), o.o.Send)
	defer cancel()
	defer context.AfterFunc(o.life, cancel)()

	o.mu.Lock()
	s, allow := o.senders[p.out.Sender], o.allow
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
	o.mu.Unlock()
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
	if err := o.step(p, stepSending); err != nil {
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
	r, err = receiptOf(r, err)
	switch {
	case unsent != nil && r.State == NotSent:
		unsent()
	case o.echo != nil && !first && len(r.MessageIDs) > 0:
		o.echo.sent(p.out.Channel, p.out.Account, p.out.Origin.Conversation.ID, r.MessageIDs...)
	}
	return r, o.later(s, p, r.State, err, false), err
}

var errTooOld = errors.New("channel: it could not be sent for too long")

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
	r, err = receiptOf(r, nil)
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
	keep = keep && !p.erased
	o.mu.Unlock()
	if !keep || last || p.out.Attempt >= o.o.Attempts {
		o.settle(p, state, err)
		return false
	}
	if state == NotSent {
		// Where this cannot be written, the block counts as being sent: after a restart it is not known whether it was.
		if err := o.step(p, stepPrepared); err != nil {
			o.tell(slog.LevelError, "the outbox cannot write", p, slog.Any("error", err))
		}
	}
	wait = max(wait, backoff(max(p.out.Attempt, 1)))
	o.mu.Lock()
	defer o.mu.Unlock()
	p.busy, p.due = false, time.Now().Add(wait)
	o.wakeLocked()
	return true
}

// backoff is how long to wait after the n-th attempt: at most twice as long each time, and all of it by chance (full jitter), so
// that what has failed together is not tried together.
func backoff(n int) time.Duration {
	d := backoffTo
	if n <= 10 {
		d = min(d, backoffFrom<<(n-1))
	}
	return rand.N(d + 1)
}

// step writes that a block takes a step. What the block is changes before the line is there: if the file is written anew right after
// it, it has the step, too.
func (o *Outbox) step(p *parcel, step string) error {
	o.disk.Lock()
	o.mu.Lock()
	was := p.sending
	p.sending = step == stepSending
	if p.sending {
		p.out.Attempt++
	}
	line := outboxLine{ID: p.id, Step: step, Attempt: p.out.Attempt}
	o.mu.Unlock()
	at, err := o.log.append(line)
	o.disk.Unlock()
	if err == nil {
		err = o.log.wait(at)
	}
	if err != nil {
		o.mu.Lock()
		p.sending = was
		o.mu.Unlock()
	}
	return err
}

// settle lets a block go, whatever it came to. That it has gone need not wait for the disk: a block that seems to be on its way after a
// crash is not sent again.
func (o *Outbox) settle(p *parcel, state ReceiptState, err error) {
	o.disk.Lock()
	defer o.disk.Unlock()
	o.mu.Lock()
	o.removeLocked(p)
	if p.before && (state.seen() || state == Suppressed) {
		o.done[p.out.Event] = true
	}
	o.wakeLocked()
	var used int64
	for _, q := range o.blocks {
		used += q.size
	}
	o.mu.Unlock()
	failure := o.tidyDisk(p, state, used)
	switch {
	case failure != nil:
		o.tell(slog.LevelError, "the outbox cannot write", p, slog.Any("error", failure))
	case state == Sent:
	case state == UnknownWhether:
		o.tell(slog.LevelWarn, "it is not known whether a reply was sent", p, slog.Any("error", err))
	case state == Suppressed:
		o.tell(slog.LevelInfo, "a reply that waited is not sent any more", p, slog.Any("error", err))
	default:
		o.tell(slog.LevelError, "a reply was given up", p, slog.String("state", state.String()), slog.Any("error", err))
	}
}

// tidyDisk writes the end of a block, or all that is left where that is little of the file.
func (o *Outbox) tidyDisk(p *parcel, state ReceiptState, used int64) error {
	if !o.log.old(used) {
		_, err := o.log.append(outboxLine{ID: p.id, Step: state.String()})
		return err
	}
	return o.anew()
}

// anew writes the file with what waits alone. The caller holds disk.
func (o *Outbox) anew() error {
	o.mu.Lock()
	var left []any
	for _, id := range sortedIDs(o.blocks) {
		q := o.blocks[id]
		if q.erased {
			continue
		}
		out := q.out
		l := outboxLine{ID: id, At: q.at.Round(0), Block: &out, Attempt: q.out.Attempt}
		if q.sending {
			l.Step = stepSending
		} else if q.out.Attempt > 0 {
			l.Step = stepPrepared
		}
		left = append(left, l)
	}
	o.mu.Unlock()
	return o.log.rewrite(left)
}

var errErased = errors.New("channel: the session was erased")

// Erase removes the blocks of a session, and from the disk those that were sent before, too. One that is being sent at this moment
// is not tried again.
func (o *Outbox) Erase(session string) error {
	o.disk.Lock()
	defer o.disk.Unlock()
	o.mu.Lock()
	if o.closed {
		o.mu.Unlock()
		return errOutboxClosed
	}
	for _, p := range o.blocks {
		switch {
		case p.out.Session != session:
		case p.busy:
			p.erased = true
		default:
			o.removeLocked(p)
		}
	}
	o.wakeLocked()
	o.mu.Unlock()
	if o.log == nil {
		return nil
	}
	if err := o.anew(); err != nil {
		return fmt.Errorf("the outbox cannot be written: %w", err)
	}
	return nil
}

func sortedIDs(m map[uint64]*parcel) []uint64 {
	ids := make([]uint64, 0, len(m))
	for id := range m {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
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
		if first.busy {
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
		p.busy = true
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
	t := targetOf(&p.out)
	o.queues[t] = append(o.queues[t], p)
}

func (o *Outbox) removeLocked(p *parcel) {
	if p == nil || o.blocks[p.id] != p {
		return
	}
	delete(o.blocks, p.id)
	o.bytes -= p.size
	t := targetOf(&p.out)
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

// targetOf names where a block goes, for the order of what goes there. A thread has an order of its own.
func targetOf(out *Outbound) string {
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
