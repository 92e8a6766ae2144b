package nats

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/cluster"
)

// OutboxOptions of the blocks of an outbox. The zero value has the defaults.
type OutboxOptions struct {
	Bytes int64        // of what waits, with its steps, beyond which no block is taken: 128 MiB. The servers set twice as much aside
	Log   *slog.Logger // what is wrong with what is stored; nil is nowhere
}

const (
	defaultOutboxBytes = 128 << 20

	outboxStream = "OUTBOX"
	outboxSpace  = "outbox"
	outboxLeases = "outbox"

	// blockLife is longer than any outbox keeps a block.
	blockLife = 48 * time.Hour
	// checkEvery is how often it is looked whether a block is there of which nothing is heard: that it has gone can be missed, for the
	// message that says so is there for the time of slack.
	checkEvery = time.Minute
	checkMost  = 50 // blocks at a time
	// hearWait is how long a new block waits until it is known which are before it.
	hearWait = 2 * time.Second
)

// Outbox is a channel.OutboxStore that replicas share.
type Outbox struct {
	o      OutboxOptions
	c      *cluster.Cluster
	log    *log
	owners owners
	locks  locks // by token, held while a step is stored

	end     context.Context
	stop    context.CancelFunc
	running sync.WaitGroup

	mu      sync.Mutex
	closed  bool
	tell    func(channel.BlockNews) // nil before Start
	owner   string                  // this replica's name as an owner; another one after its lease was lost
	names   map[string]bool         // all that it has had
	lost    <-chan struct{}
	release func()
	blocks  map[string]*block // those that wait, by token
	ids     map[uint64]*block
	dead    map[string]bool // owners that do not come back
	late    map[string]*late
	heard   uint64        // the last message that was heard of
	hearing chan struct{} // closed, and another one made, when more was heard
}

// block is one that waits. Its fields are guarded by the outbox's mu.
type block struct {
	token  string
	record blockRecord
	seq    uint64 // the last step that was seen
	own    bool   // this replica has stored it
	looked time.Time
}

// late is the end of a block that is still to be stored.
type late struct {
	step   string // its id
	record blockRecord
	last   uint64
}

var _ channel.OutboxStore = (*Outbox)(nil)

// OpenOutbox opens the blocks of an installation, and returns when it is known what waits. Whoever is given it closes it, before the
// cluster.
func OpenOutbox(ctx context.Context, c *cluster.Cluster, o OutboxOptions) (*Outbox, error) {
	leases, err := c.Leases(ctx, outboxLeases)
	if err != nil {
		return nil, fmt.Errorf("open the outbox: %w", err)
	}
	return openOutbox(ctx, c, leased{leases}, o)
}

func openOutbox(ctx context.Context, c *cluster.Cluster, who owners, o OutboxOptions) (*Outbox, error) {
	o.Bytes = cmp.Or(max(o.Bytes, 0), defaultOutboxBytes)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	stream, err := c.Stream(ctx, jetstream.StreamConfig{
		Name: outboxStream, Subjects: []string{c.Subject(outboxSpace, "*")}, Description: "replies of channels that wait to be sent",
		MaxBytes: room * o.Bytes, MaxAge: blockLife, Discard: jetstream.DiscardNew, AllowRollup: true, AllowMsgTTL: true,
	})
	if err != nil {
		return nil, fmt.Errorf("open the outbox: %w", err)
	}
	b := &Outbox{
		o: o, c: c, owners: who, log: &log{c: c, stream: stream, publish: c.JetStream().PublishMsg}, names: map[string]bool{},
		blocks: map[string]*block{}, ids: map[uint64]*block{}, dead: map[string]bool{}, late: map[string]*late{}, hearing: make(chan struct{}),
	}
	if b.owner, b.lost, b.release, err = who.begin(ctx); err != nil {
		return nil, fmt.Errorf("open the outbox: %w", err)
	}
	b.names[b.owner] = true
	b.end, b.stop = context.WithCancel(context.WithoutCancel(ctx))
	caught := make(chan struct{})
	b.running.Go(func() { b.follow(sync.OnceFunc(func() { close(caught) })) })
	select {
	case <-caught:
	case <-ctx.Done():
		b.stop()
		b.running.Wait()
		b.release()
		return nil, fmt.Errorf("open the outbox: %w", context.Cause(ctx))
	}
	b.look(ctx)
	b.running.Go(b.watch)
	return b, nil
}

// Start implements [channel.OutboxStore].
func (o *Outbox) Start(tell func(channel.BlockNews)) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.tell = tell
	for _, id := range slices.Sorted(maps.Keys(o.ids)) {
		o.tellLocked(o.ids[id])
	}
	return nil
}

func (o *Outbox) tellLocked(b *block) {
	if o.tell != nil {
		o.tell(b.record.news(!o.dead[b.record.Owner]))
	}
}

// Close implements [channel.OutboxStore].
func (o *Outbox) Close() error {
	o.mu.Lock()
	if o.closed {
		o.mu.Unlock()
		return nil
	}
	o.closed = true
	o.mu.Unlock()
	o.stop()
	o.running.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	err := o.finishAll(ctx)
	o.release()
	if err != nil {
		return fmt.Errorf("close the outbox: %w", err)
	}
	return nil
}

func (o *Outbox) subject(token string) string { return o.c.Subject(outboxSpace, token) }

// Put implements [channel.OutboxStore].
func (o *Outbox) Put(ctx context.Context, p channel.StoredBlock) (uint64, error) {
	text, err := json.Marshal(p.Block)
	if err != nil {
		return 0, err
	}
	data, packed, err := pack(text, o.log.largest())
	if err != nil {
		return 0, fmt.Errorf("%w: a block of %d bytes is too large for the servers that the replicas share", channel.ErrOutboxFull, len(text))
	}
	// A block of which it is not known whether it was stored is put in again by a turn that runs again.
	if err := o.finishAll(ctx); err != nil {
		return 0, err
	}
	o.mu.Lock()
	if o.closed {
		o.mu.Unlock()
		return 0, errClosed
	}
	b := &block{token: newID(), own: true, record: blockRecord{
		State: prepared, Owner: o.owner, At: p.At.UnixNano(), Size: p.Size, Packed: packed, Target: p.Target, Channel: p.Block.Channel, Sender: p.Block.Sender,
		Event: p.Block.Event, Session: token(p.Block.Session), Bytes: int64(len(data)),
	}}
	crowded := b.record.bytes()
	for _, other := range o.blocks {
		crowded += other.record.bytes()
	}
	o.mu.Unlock()
	if crowded > o.o.Bytes {
		return 0, channel.ErrOutboxFull
	}
	defer o.locks.lock(b.token)()
	seq, known, err := o.log.put(ctx, step{subject: o.subject(b.token), id: newID(), header: b.record.header(), data: data})
	if err != nil {
		if !known {
			// What says that it has gone is stored, too, where nothing is: it could still arrive.
			o.setLate(b.token, &late{newID(), b.ended(channel.NotSent), 0})
		}
		if cluster.Full(err) {
			return 0, fmt.Errorf("%w: %w", channel.ErrOutboxFull, err)
		}
		return 0, err
	}
	b.seq, b.record.ID = seq, seq
	o.mu.Lock()
	if o.blocks[b.token] == nil { // else another replica has it by now
		o.blocks[b.token], o.ids[seq] = b, b
	}
	o.mu.Unlock()
	if err := o.hears(ctx, seq); err != nil {
		_ = o.endIt(ctx, b, channel.NotSent) // it is tried again
		return 0, err
	}
	return seq, nil
}

// errClosed says that the outbox was closed.
var errClosed = errors.New("channel: the outbox is closed")

// hears waits until all was heard that was stored before a message.
func (o *Outbox) hears(ctx context.Context, seq uint64) error {
	timer := time.NewTimer(hearWait)
	defer timer.Stop()
	for {
		o.mu.Lock()
		heard, more := o.heard, o.hearing
		o.mu.Unlock()
		if heard >= seq {
			return nil
		}
		select {
		case <-more:
		case <-timer.C:
			return &Error{textAway, errors.New("it is not heard what was stored")}
		case <-o.end.Done():
			return errClosed
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Load implements [channel.OutboxStore].
func (o *Outbox) Load(ctx context.Context, id uint64) (*channel.Outbound, error) {
	o.mu.Lock()
	b := o.ids[id]
	if b == nil {
		o.mu.Unlock()
		return nil, nil
	}
	record := b.record
	o.mu.Unlock()
	m, err := o.log.at(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("read a block: %w", err)
	}
	if m.seq == 0 { // it has gone, or has waited for longer than anything does
		last, err := o.log.last(ctx, o.subject(b.token))
		if err != nil {
			return nil, fmt.Errorf("read a block: %w", err)
		}
		o.take(b.token, last, false)
		return nil, nil
	}
	out, err := outboundOf(m, record.Packed)
	if err != nil {
		o.o.Log.ErrorContext(ctx, "dropped an unreadable reply", "channel", record.Channel, "error", err)
		return nil, o.End(ctx, id, channel.UnknownWhether)
	}
	return out, nil
}

func outboundOf(m message, packed bool) (*channel.Outbound, error) {
	text := m.data
	if packed {
		var err error
		if text, err = unpack(text); err != nil {
			return nil, err
		}
	}
	out := new(channel.Outbound)
	if json.Unmarshal(text, out) != nil {
		return nil, errDamaged
	}
	return out, nil
}

// Step implements [channel.OutboxStore].
func (o *Outbox) Step(ctx context.Context, id uint64, sends bool, attempt int) error {
	o.mu.Lock()
	b := o.ids[id]
	if b == nil && o.tell != nil { // it has gone before its outbox has known it
		o.tell(channel.BlockNews{ID: id, Gone: true, Came: channel.UnknownWhether})
	}
	o.mu.Unlock()
	if b == nil {
		return channel.ErrBlockTaken
	}
	defer o.locks.lock(b.token)()
	for range tries {
		o.mu.Lock()
		if o.closed || !o.mayLocked(b) {
			err := channel.ErrBlockTaken
			if o.closed {
				err = errClosed
			}
			o.mu.Unlock()
			return err
		}
		next, last := b.record, b.seq
		next.Owner, next.Left, next.Attempt, next.State = o.owner, next.Left || !b.own, attempt, prepared
		if sends {
			next.State = sending
		}
		o.mu.Unlock()
		seq, _, err := o.log.put(ctx, step{subject: o.subject(b.token), id: newID(), header: next.header(), last: last})
		if errors.Is(err, errMoved) {
			ours, err := o.reread(ctx, b)
			if err != nil {
				return err
			}
			if !ours { // though its owner may be dead: the outbox does not know yet what it has done
				return channel.ErrBlockTaken
			}
			continue
		}
		if err != nil {
			return err
		}
		o.mu.Lock()
		defer o.mu.Unlock()
		if b.seq < seq { // else it was heard that another replica was faster, and has it
			b.record, b.seq, b.own = next, seq, true
		}
		if !o.mayLocked(b) {
			return channel.ErrBlockTaken
		}
		return nil
	}
	return &Error{textBusy, errMoved}
}

// mayLocked says whether this replica may store the next step of a block.
func (o *Outbox) mayLocked(b *block) bool {
	return o.ids[b.record.ID] == b && (b.own || o.dead[b.record.Owner])
}

// reread takes the last step of a block, behind which nothing could be stored. ours says that it is one of this replica, whose answer did
// not come.
func (o *Outbox) reread(ctx context.Context, b *block) (ours bool, err error) {
	m, err := o.log.last(ctx, o.subject(b.token))
	if err != nil {
		return false, err
	}
	o.take(b.token, m, false)
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.ids[b.record.ID] == b && b.own && b.seq == m.seq, nil
}

// End implements [channel.OutboxStore].
func (o *Outbox) End(ctx context.Context, id uint64, came channel.ReceiptState) error {
	o.mu.Lock()
	b := o.ids[id]
	o.mu.Unlock()
	if b == nil {
		return nil
	}
	defer o.locks.lock(b.token)()
	return o.endIt(ctx, b, came)
}

// endIt ends a block whose lock the caller has.
func (o *Outbox) endIt(ctx context.Context, b *block, came channel.ReceiptState) error {
	o.mu.Lock()
	if o.closed || !o.mayLocked(b) {
		o.mu.Unlock()
		return nil
	}
	l := &late{newID(), b.ended(came), b.seq}
	o.removeLocked(b)
	o.late[b.token] = l
	o.mu.Unlock()
	if err := o.finish(ctx, b.token, l); err != nil {
		return fmt.Errorf("that a block was sent is not stored; it is tried again: %w", err)
	}
	return nil
}

// ended is the last step of a block: its event alone is kept.
func (b *block) ended(came channel.ReceiptState) blockRecord {
	return blockRecord{State: settled, ID: b.record.ID, Event: b.record.Event, Left: b.record.Left || !b.own, Came: came.String()}
}

func (o *Outbox) removeLocked(b *block) {
	if o.blocks[b.token] == b {
		delete(o.blocks, b.token)
		delete(o.ids, b.record.ID)
	}
}

func (o *Outbox) setLate(token string, l *late) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if l == nil {
		delete(o.late, token)
		return
	}
	o.late[token] = l
}

// finish stores the end of a block, unless another replica has taken it over. The caller has the token's lock.
func (o *Outbox) finish(ctx context.Context, token string, l *late) error {
	s := step{subject: o.subject(token), id: l.step, header: l.record.header(), last: l.last, alone: true, life: slack}
	for range tries {
		_, _, err := o.log.put(ctx, s)
		if err == nil {
			o.setLate(token, nil)
		}
		crowded := cluster.Full(err)
		if !errors.Is(err, errMoved) && !crowded {
			return err
		}
		m, err := o.log.last(ctx, s.subject)
		if err != nil {
			return err
		}
		r, err := blockOf(m)
		o.mu.Lock()
		ours := err == nil && !r.over() && (o.names[r.Owner] || m.seq == s.last) // nobody has stored anything since
		o.mu.Unlock()
		if !ours { // it has gone, or will be heard of as another's
			o.setLate(token, nil)
			o.take(token, m, false)
			return nil
		}
		if s.last = m.seq; crowded { // what goes makes room
			if err := o.log.purge(ctx, s.subject); err != nil {
				return err
			}
			s.last = 0
		}
	}
	return &Error{textBusy, errMoved}
}

// finishAll stores the ends that could not be stored.
func (o *Outbox) finishAll(ctx context.Context) error {
	o.mu.Lock()
	tokens := slices.Collect(maps.Keys(o.late))
	o.mu.Unlock()
	for _, token := range tokens {
		if err := o.finishOne(ctx, token); err != nil {
			return err
		}
	}
	return nil
}

func (o *Outbox) finishOne(ctx context.Context, token string) error {
	defer o.locks.lock(token)()
	o.mu.Lock()
	l := o.late[token]
	o.mu.Unlock()
	if l == nil {
		return nil
	}
	return o.finish(ctx, token, l)
}

// Erase implements [channel.OutboxStore].
func (o *Outbox) Erase(ctx context.Context, session string) error {
	if err := o.log.erase(ctx, o.subject("*"), func(m message) bool {
		r, err := blockOf(m)
		return err == nil && !r.over() && r.Session == token(session)
	}, o.erase); err != nil {
		return fmt.Errorf("erase blocks: %w", err)
	}
	return nil
}

func (o *Outbox) erase(ctx context.Context, token string) error {
	defer o.locks.lock(token)()
	m, err := o.log.change(ctx, o.subject(token), func(last message) (*step, error) {
		r, err := blockOf(last)
		if err != nil || r.over() {
			return nil, err
		}
		gone := blockRecord{State: erased, ID: r.ID}
		return &step{header: gone.header(), alone: true, life: slack}, nil
	})
	if err != nil {
		return err
	}
	o.setLate(token, nil)
	o.take(token, m, false)
	return nil
}
