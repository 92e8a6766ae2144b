package kernel

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/internal/backoff"
	"github.com/lingserve/lingserve/internal/disk"
	"github.com/lingserve/lingserve/store"
	"github.com/lingserve/lingserve/turn"
)

// Store keeps events and replies; *db.Events is one.
type Store interface {
	Accept(context.Context, []store.Event) (isNew []bool, err error)
	Claim(_ context.Context, c store.EventClaim, held []string) (events []store.Event, next time.Time, err error)
	Note(_ context.Context, key, replica string, n store.EventNote) error
	Release(context.Context, store.EventRelease) error
	End(context.Context, store.EventEnd) (id int64, first bool, err error)
	Parked(_ context.Context, login string) (names []string, err error)
	Unpark(_ context.Context, login, name string, drop bool) error
	EraseOf(_ context.Context, session string, lanes []string) error
	Pending(context.Context) (events, replies map[string]int, err error)
	ClaimReplies(context.Context, store.EventClaim) (replies []store.Reply, next time.Time, err error)
	PostponeReply(_ context.Context, id int64, replica string, due time.Time, unsure bool) error
	ReplaceReply(_ context.Context, id int64, replica string, block []byte) error
	EndReply(_ context.Context, id int64, replica string) error
}

// QueueOptions are for [NewQueue]. Replica is required.
type QueueOptions struct {
	Replica string          // the name of this process; it has another one after a restart
	Alive   func() []string // the replicas that share the store, this one among them; nil: there are no others
	// Only lets one of the replicas poll a platform; nil: there are no others.
	Only channel.Exclusive
	Log  *slog.Logger // nil is silent
}

// Queue runs the events of channels: [Queue.Accept] stores an event, the platform gets its confirmation, and then it runs.
//
// The events of a conversation and thread start in the order of their arrival, the next one when the last has its place in the lane of its session.
// They run at one replica at a time. An event whose turn has failed for a reason that may pass runs again after 1, 5 and 30 s. What a replica leaves
// goes on at another one, or at the next start.
type Queue struct {
	o      QueueOptions
	kernel *Kernel

	mu       sync.Mutex
	handlers map[string]*handler // by login
	held     map[string]*Claimed // events that run here, by key
	arrived  time.Time           // the last event
	closed   bool

	wake    chan struct{} // for events
	replies chan struct{} // likewise, for replies
	sends   atomic.Int32  // replies that are being sent, without those of turns
	stop    context.CancelFunc
	ctx     context.Context // of the loops
	wg      sync.WaitGroup  // of the loops
}

// Handler runs the events of a channel, or of one account of it.
type Handler struct {
	Channel, Account string
	Run              func(context.Context, *Claimed, Meta) (channel.Result, error)
	Sender           Sender
	Grace            time.Duration // how long turns may go on when the channel ends: 20 s
}

// handler serves.
type handler struct {
	Handler
	turns  context.Context
	cancel context.CancelCauseFunc
	wg     sync.WaitGroup // of turns, and of replies that are sent later
}

const (
	maxRunning   = 256 // turns at a time, those included that wait in their lanes
	defaultGrace = 20 * time.Second

	// lookEvery is between looks for what other replicas have left. A process that is alone knows what is to be done, but for replies whose claim was lost.
	lookEvery, aloneEvery = time.Second, time.Minute
	// pairedEvery is between looks whether senders were paired whose messages wait for that. People approve a code by hand.
	pairedEvery = 2 * time.Second
	// maxCrashes is how many processes die in a row while an event runs, until it is given up.
	maxCrashes = 3
	// noteFor is how long it is tried to store what is about to be sent.
	noteFor = time.Minute
	// endFor is how long it is tried to store what became of an event.
	endFor = 24 * time.Hour
)

// errEnding ends turns that go on in another process, or after the next start.
var errEnding = fmt.Errorf("%w: %w", channel.ErrDraining, turn.ErrHandedOver)

// NewQueue returns a queue of the events of a kernel, which has a Store, and starts it. The caller calls Close.
func NewQueue(k *Kernel, o QueueOptions) *Queue {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	q := &Queue{
		o: o, kernel: k, handlers: map[string]*handler{}, held: map[string]*Claimed{}, wake: make(chan struct{}, 1), replies: make(chan struct{}, 1),
	}
	q.ctx, q.stop = context.WithCancel(context.Background())
	k.init()
	q.wg.Go(func() { q.loop(q.wake, q.startEvents) })
	q.wg.Go(func() { q.loop(q.replies, q.startReplies) })
	q.wg.Go(func() { q.loop(nil, q.unparkAll) })
	return q
}

// Close ends the queue. The caller has ended all calls of Serve. It waits for what is being stored, which the database bounds by some seconds.
func (q *Queue) Close() {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	q.stop()
	q.wg.Wait()
}

// loop calls act when something has changed, when act has said, and now and then.
func (q *Queue) loop(wake <-chan struct{}, act func() (next time.Time)) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for q.ctx.Err() == nil {
		wait := aloneEvery
		if q.o.Alive != nil {
			wait = lookEvery
		}
		if next := act(); !next.IsZero() {
			wait = min(wait, max(time.Until(next), time.Millisecond))
		}
		timer.Reset(wait)
		select {
		case <-wake:
		case <-timer.C:
		case <-q.ctx.Done():
		}
	}
}

func signal(wake chan struct{}) {
	select {
	case wake <- struct{}{}:
	default: // it has not looked since the last time
	}
}

// Login is the name that the events of a channel, or of one account of it, are stored under.
func Login(name, account string) string {
	if account == "" {
		return name
	}
	return name + "@" + account
}

// Serve runs the events of a channel, and with them receive, which may be nil, until ctx ends or receive returns. It returns when all turns and sends have
// ended; those that are not done within the grace period are left to another process, or to the next start.
func (q *Queue) Serve(ctx context.Context, h Handler, receive func(context.Context) error) error {
	own := &handler{Handler: h}
	own.turns, own.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	defer own.cancel(nil)
	login := Login(h.Channel, h.Account)
	q.mu.Lock()
	if q.closed || q.handlers[login] != nil {
		q.mu.Unlock()
		return errors.New("channel: the channel serves already, or the server ends")
	}
	q.handlers[login] = own
	q.mu.Unlock()
	signal(q.wake)
	signal(q.replies)
	var err error
	if receive != nil {
		err = receive(ctx)
	} else {
		<-ctx.Done()
	}
	q.mu.Lock()
	delete(q.handlers, login)
	q.mu.Unlock()
	late := time.AfterFunc(cmp.Or(max(h.Grace, 0), defaultGrace), func() { own.cancel(errEnding) })
	defer late.Stop()
	own.wg.Wait()
	if ctx.Err() != nil && (errors.Is(err, ctx.Err()) || errors.Is(err, context.Cause(ctx))) {
		err = nil
	}
	return err
}

// Arrival is an event that has come.
type Arrival struct {
	Key channel.EventKey
	Raw []byte
	// Bundle names what the event is a part of, such as an album; "": it is alone. The events of a bundle that come within Wait of each other are one
	// turn.
	Bundle string
	Wait   time.Duration
}

// TurnID returns the id of the first turn of the event, if it is no part of a bundle.
func (a *Arrival) TurnID() string { return turnID(a.Key.String(), 0) }

// Accept stores events. When it returns without an error, the platform may be told that they have come. isNew is false for those that are known. An error is
// of all of them: the platform is to send them again later.
func (q *Queue) Accept(ctx context.Context, list ...Arrival) (isNew []bool, err error) {
	q.mu.Lock()
	if q.closed {
		q.mu.Unlock()
		return nil, channel.ErrDraining
	}
	now := time.Now()
	if !now.After(q.arrived) { // the order is that of the calls, even if the clock is set back
		now = q.arrived.Add(time.Microsecond)
	}
	q.arrived = now.Add(time.Duration(len(list)) * time.Microsecond)
	q.mu.Unlock()
	events := make([]store.Event, len(list))
	for i, a := range list {
		lane := channel.EventKey{Channel: a.Key.Channel, Account: a.Key.Account, Conversation: a.Key.Conversation, Thread: a.Key.Thread}
		events[i] = store.Event{
			Key: a.Key.String(), Login: Login(a.Key.Channel, a.Key.Account), Lane: lane.String(), Bundle: a.Bundle, Raw: a.Raw,
			Arrived: now.Add(time.Duration(i) * time.Microsecond), Due: time.Now().Add(a.Wait),
		}
	}
	if isNew, err = q.kernel.Store.Accept(ctx, events); err != nil {
		if disk.Failed(err) {
			q.o.Log.ErrorContext(ctx, "refused an event: disk failed", "channel", list[0].Key.Channel, "error", err)
			if q.kernel.DiskFailed != nil {
				q.kernel.DiskFailed()
			}
		}
		return nil, fmt.Errorf("accept events: %w", err)
	}
	signal(q.wake)
	return isNew, nil
}

// claim is what this replica can take of the store.
func (q *Queue) claim(limit int) store.EventClaim {
	q.mu.Lock()
	defer q.mu.Unlock()
	c := store.EventClaim{Replica: q.o.Replica, Alive: []string{q.o.Replica}, Logins: slices.Sorted(maps.Keys(q.handlers)), Limit: limit}
	if q.o.Alive != nil {
		c.Alive = append(c.Alive, q.o.Alive()...)
	}
	return c
}

// claimFailed logs that the store cannot be read, and returns when it is read again.
func (q *Queue) claimFailed(err error) time.Time {
	if q.ctx.Err() == nil {
		q.o.Log.WarnContext(q.ctx, "cannot read the events of channels; retrying", "error", err)
	}
	return time.Now().Add(lookEvery)
}

// start runs f for a login that is served. started is false if its channel has ended.
func (q *Queue) start(login string, f func(*handler)) (started bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	h := q.handlers[login]
	if h != nil {
		h.wg.Go(func() { f(h) })
	}
	return h != nil
}

// startEvents claims events and starts them.
func (q *Queue) startEvents() (next time.Time) {
	q.mu.Lock()
	free, held, busy := maxRunning-len(q.held), slices.Sorted(maps.Keys(q.held)), []string(nil)
	for _, c := range q.held {
		if c.starting {
			busy = append(busy, c.Lane)
		}
	}
	q.mu.Unlock()
	c := q.claim(free)
	c.Busy = busy
	if free <= 0 || len(c.Logins) == 0 {
		return time.Time{}
	}
	events, next, err := q.kernel.Store.Claim(q.ctx, c, held)
	if err != nil {
		return q.claimFailed(err)
	}
	for _, e := range events {
		q.startEvent(e)
	}
	if len(events) == free { // there may be more
		signal(q.wake)
	}
	return next
}

func (q *Queue) startEvent(e store.Event) {
	c := &Claimed{Event: e, queue: q, starting: true}
	if e.Begun && len(e.Progress) > 0 {
		_ = json.Unmarshal(e.Progress, &c.progress)                 // this program has written it
		c.progress.Unsure = c.progress.Unsure || c.progress.Sending // when the process died
		c.progress.Sending = false
	}
	q.mu.Lock()
	q.held[e.Key] = c
	q.mu.Unlock()
	end := func() {
		q.mu.Lock()
		delete(q.held, e.Key)
		q.mu.Unlock()
		signal(q.wake)
	}
	started := q.start(e.Login, func(h *handler) {
		c.handler = h
		q.run(c)
		end()
	})
	if !started {
		c.release(store.EventRelease{})
		_ = c.result(q.ctx)
		end()
	}
}

// run runs the turn of an event, and stores what became of the event.
func (q *Queue) run(c *Claimed) {
	h := c.handler
	ctx := h.turns
	m := Meta{Channel: h.Channel, Account: h.Account, TurnID: turnID(c.Key, c.Attempts), Event: c, Queued: func() {
		q.mu.Lock()
		c.starting = false
		q.mu.Unlock()
		signal(q.wake)
	}}
	log := q.o.Log.With("channel", h.Channel, "account", h.Account, "event", c.Key)
	if c.Crashes >= maxCrashes {
		log.ErrorContext(ctx, "gave up an event that crashed the server", "crashes", c.Crashes)
	}
	var err error
	if c.Crashes <= maxCrashes { // with so many crashes, its sender gets a notice
		err = q.kernel.guard(ctx, func() error {
			_, err := h.Run(ctx, c, m)
			return err
		})
	}
	if c.over {
		return
	}
	if c.result == nil {
		log.WarnContext(ctx, "an event has no outcome", "error", err)
		c.finish(channel.OutcomeFailed)
	}
	if err := persist(ctx, endFor, c.result); err != nil && !errors.Is(err, store.ErrMoved) { // it goes on after the next start
		log.WarnContext(ctx, "cannot end an event", "error", err)
	}
}

// unparkAll starts the messages of senders who are paired now, and ends those whose codes have expired.
func (q *Queue) unparkAll() (next time.Time) {
	q.mu.Lock()
	handlers := slices.Collect(maps.Values(q.handlers))
	q.mu.Unlock()
	var err error // that of one channel does not stop the others
	for _, h := range handlers {
		err = errors.Join(err, q.unpark(h))
	}
	if err != nil {
		return q.claimFailed(err)
	}
	return time.Now().Add(pairedEvery)
}

func (q *Queue) unpark(h *handler) error {
	login := Login(h.Channel, h.Account)
	senders, err := q.kernel.Store.Parked(q.ctx, login)
	for _, sender := range senders {
		paired, requested, failed := q.kernel.Pairing.State(q.ctx, h.Channel, h.Account, sender)
		if failed == nil && !requested {
			failed = q.kernel.Store.Unpark(q.ctx, login, sender, paired != channel.Yes)
			signal(q.wake)
		}
		err = errors.Join(err, failed)
	}
	return err
}

// Claimed is an event that runs in this process. Its turn alone uses it.
type Claimed struct {
	store.Event
	queue    *Queue
	handler  *handler
	starting bool     // guarded by the queue's mu: its turn has no place yet
	progress progress // of its turn

	result  func(context.Context) error // stores what became of the event, after its turn; nil: it has not ended
	outcome bool                        // that is an outcome: the event does not run again
	over    bool                        // the store has it already, or another replica has the event
}

// Raws returns what came: several for a bundle.
func (c *Claimed) Raws() [][]byte {
	if len(c.Parts) > 0 {
		return c.Parts
	}
	return [][]byte{c.Raw}
}

// turnID returns the id of the turn, which has the form of [turn.NewID]. It is the same whenever this attempt of the event runs.
func turnID(key string, attempts int) string {
	sum := sha256.Sum256([]byte("turn " + strconv.Itoa(attempts) + " " + key))
	return "t-" + base64.RawURLEncoding.EncodeToString(sum[:16])
}

// Ended reports whether a turn has given the event its outcome: it does not run again. It is known when the turn is finalized.
func (c *Claimed) Ended() bool { return c.outcome }

// note stores the progress of the turn; advanced means that more of the answer was sent. The error is [store.ErrMoved] if the event is another replica's by now.
func (c *Claimed) note(ctx context.Context, session string, advanced bool) error {
	if c.over {
		return nil
	}
	data, err := json.Marshal(c.progress)
	if err != nil {
		return err
	}
	err = persist(ctx, noteFor, func(ctx context.Context) error {
		return c.queue.kernel.Store.Note(ctx, c.Key, c.queue.o.Replica, store.EventNote{Session: session, Progress: data, Advanced: advanced})
	})
	c.over = errors.Is(err, store.ErrMoved)
	return err
}

// persist tries a write again while the database is away, until ctx ends. Its end does not end the write.
func persist(ctx context.Context, limit time.Duration, write func(context.Context) error) error {
	pauses := backoff.New(100*time.Millisecond, 5*time.Second)
	for end := time.Now().Add(limit); ; {
		err := write(context.WithoutCancel(ctx))
		if !errors.Is(err, store.ErrAway) && !errors.Is(err, store.ErrUnsure) || time.Now().After(end) || backoff.Sleep(ctx, pauses.NextBackOff()) != nil {
			return err
		}
	}
}

// finish ends the event after its turn.
func (c *Claimed) finish(o channel.Outcome) {
	c.outcome = true
	c.result = func(ctx context.Context) error {
		_, _, err := c.queue.kernel.Store.End(ctx, store.EventEnd{Key: c.Key, Replica: c.queue.o.Replica, Outcome: string(o)})
		return err
	}
}

// release gives the event back after its turn: to be claimed again, here or by another process, or after its sender is paired.
func (c *Claimed) release(r store.EventRelease) {
	r.Key, r.Replica = c.Key, c.queue.o.Replica
	c.result = func(ctx context.Context) error { return c.queue.kernel.Store.Release(ctx, r) }
}

// finishWith ends the event now, with a reply that is still to be sent. first reports that it can be sent now.
func (c *Claimed) finishWith(ctx context.Context, o channel.Outcome, out *channel.Outbound) (id int64, first bool, err error) {
	block, err := json.Marshal(out)
	if err != nil {
		return 0, false, err
	}
	end := store.EventEnd{
		Key: c.Key, Replica: c.queue.o.Replica, Outcome: string(o),
		Reply: &store.Reply{Login: c.Login, Target: channel.TargetName(out), Session: out.Session, Block: block},
	}
	err = persist(ctx, noteFor, func(ctx context.Context) (err error) {
		id, first, err = c.queue.kernel.Store.End(ctx, end)
		return err
	})
	c.outcome = err == nil
	c.over = err == nil || errors.Is(err, store.ErrMoved)
	return id, first, err
}

// retries are the pauses before an event runs again whose turn has failed once, twice, and so on.
var retries = [...]time.Duration{time.Second, 5 * time.Second, 30 * time.Second}

// Kernel is the kernel whose events these are.
func (q *Queue) Kernel() *Kernel { return q.kernel }

// Exclusive lets one of the replicas poll a platform; nil: there are no others.
func (q *Queue) Exclusive() channel.Exclusive { return q.o.Only }
