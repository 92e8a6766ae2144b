// Package outbox keeps the blocks of an outbox in a table until they are sent.
//
// Each block has a record with a random key. The revision that has made the record is the block's id, so ids have the order in which
// blocks were put in, by all processes that share the table. The meta has the steps that the block takes, the body is the block. The last
// record of a block says for a minute what it came to, so that other processes learn of it.
//
// # Guarantees
//   - A block belongs to the process that has stored its last step. When that has died or ended, another process may store the next one.
//     Each step is stored only at the revision that its writer has seen: so no two processes send a block, unless its receiver knows it
//     again.
//   - When Put returns, all blocks are known that are before it for the same target, at any process.
//   - If it is not known whether a block was stored, it is stored that the block has gone, before another one is put in.
//   - What waits is bounded, in blocks by [channel.Outbox] and in bytes here. What goes can always go.
package outbox

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/owner"
	"github.com/lingserve/lingserve/store"
)

// Options of an outbox. The zero value has the defaults.
type Options struct {
	Owners owner.Owners // nil: no other process uses the table
	Bytes  int64        // of what waits, beyond which no block is taken: 128 MiB
	Log    *slog.Logger // nil is nowhere
}

const (
	defaultBytes = 128 << 20
	room         = 2 // the table has room for the steps of blocks, too: what cannot be sent would make none

	// blockLife is longer than any outbox keeps a block.
	blockLife = 48 * time.Hour
	goneLife  = time.Minute // of a record that says that a block has gone
	// hearWait is how long a new block waits until it is known which are before it.
	hearWait = 2 * time.Second
)

// Outbox is a [channel.OutboxStore].
type Outbox struct {
	o Options
	r *owner.Records

	mu      sync.Mutex
	closed  bool
	tell    func(channel.BlockNews) // nil before Start
	blocks  map[string]*block       // those that wait, by key
	ids     map[uint64]*block
	bytes   int64 // of the blocks
	late    map[string]*late
	heard   uint64        // the last revision that was heard of
	hearing chan struct{} // closed, and another one made, when more was heard
}

// block is one that waits. Its fields are guarded by the outbox's mu.
type block struct {
	key    string
	id     uint64
	record record
	rev    uint64 // the last that was seen
	own    bool   // this process has stored it
}

// late is the end of a block that is still to be stored.
type late struct {
	id     [16]byte // of the put
	record record
	last   uint64
}

var _ channel.OutboxStore = (*Outbox)(nil)

// Table is the table of outboxes, without its bound.
var Table = store.TableOptions{Name: "outbox", Durability: store.Synced}

// Open opens the outbox of an engine, and returns when it is known what waits. The caller closes the outbox before the engine.
func Open(ctx context.Context, e store.Engine, o Options) (*Outbox, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	b := &Outbox{o: o, blocks: map[string]*block{}, ids: map[uint64]*block{}, late: map[string]*late{}, hearing: make(chan struct{})}
	table := Table
	b.o.Bytes = cmp.Or(max(o.Bytes, 0), defaultBytes)
	table.MaxBytes = room * b.o.Bytes
	var err error
	if b.r, err = owner.Open(ctx, e, table, o.Owners); err == nil {
		err = b.r.Start(ctx, owner.Hooks{Changed: b.changed, Others: b.owners, Died: b.died, Renewed: b.renewed, Retry: b.retry})
	}
	if err != nil {
		return nil, fmt.Errorf("open the outbox: %w", err)
	}
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
		o.tell(b.record.news(b.id, !o.r.Dead(b.record.Owner)))
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
	o.r.Stop()
	err := o.finishAll(context.Background())
	o.r.Release()
	if err != nil {
		return fmt.Errorf("close the outbox: %w", err)
	}
	return nil
}

// errClosed is the error of calls after Close.
var errClosed = errors.New("channel: the outbox is closed")

// Put implements [channel.OutboxStore].
func (o *Outbox) Put(ctx context.Context, p channel.StoredBlock) (uint64, error) {
	text, err := json.Marshal(p.Block)
	if err != nil {
		return 0, err
	}
	// A block of which it is not known whether it was stored is put in again by a turn that runs again.
	if err := o.finishAll(ctx); err != nil {
		return 0, err
	}
	b := &block{key: rand.Text(), own: true, record: record{
		State: prepared, Owner: o.r.Self(), At: p.At.UnixNano(), Size: p.Size, Target: p.Target, Channel: p.Block.Channel, Sender: p.Block.Sender,
		Event: p.Block.Event, Session: owner.Token(p.Block.Session), Bytes: int64(len(text)),
	}}
	o.mu.Lock()
	closed, full := o.closed, o.bytes+b.record.bytes() > o.o.Bytes
	o.mu.Unlock()
	switch {
	case closed:
		return 0, errClosed
	case full:
		return 0, channel.ErrOutboxFull
	}
	records, errs := o.r.Put(ctx, store.Put{Key: b.key, ID: owner.NewID(), Meta: owner.Meta(&b.record), Body: text, Life: blockLife})
	switch err := errs[0]; {
	case errors.Is(err, store.ErrFull), errors.Is(err, store.ErrTooLarge):
		return 0, fmt.Errorf("%w: %w", channel.ErrOutboxFull, err)
	case errors.Is(err, store.ErrUnsure):
		// That it has gone is stored even if it was not: it could still arrive.
		o.setLate(b.key, &late{owner.NewID(), b.ended(channel.NotSent), 0})
		return 0, owner.Explain(err)
	case err != nil:
		return 0, owner.Explain(err)
	}
	b.id, b.rev = records[0].Made, records[0].Rev
	o.mu.Lock()
	if o.blocks[b.key] == nil { // else another process has it by now
		o.addLocked(b)
	}
	o.mu.Unlock()
	if err := o.hears(ctx, b.id); err != nil {
		defer o.r.Lock(b.key)()
		_ = o.endIt(ctx, b, channel.NotSent) // it is tried again
		return 0, err
	}
	return b.id, nil
}

// hears waits until all was heard that was stored before a revision.
func (o *Outbox) hears(ctx context.Context, rev uint64) error {
	if !o.r.Shared() {
		return nil
	}
	timer := time.NewTimer(hearWait)
	defer timer.Stop()
	for {
		o.mu.Lock()
		heard, more := o.heard, o.hearing
		o.mu.Unlock()
		if heard >= rev {
			return nil
		}
		select {
		case <-more:
		case <-timer.C:
			return owner.Explain(fmt.Errorf("%w: what was stored is not heard", store.ErrAway))
		case <-o.r.End.Done():
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
	o.mu.Unlock()
	if b == nil {
		return nil, nil
	}
	rec, err := o.r.Get(ctx, b.key)
	damaged := errors.Is(err, store.ErrDamaged)
	if err != nil && !damaged {
		return nil, fmt.Errorf("read a block: %w", owner.Explain(err))
	}
	out := new(channel.Outbound)
	if !damaged {
		r, err := recordOf(rec)
		if err == nil && r.over() {
			o.take(rec, false)
			return nil, nil
		}
		damaged = err != nil || json.Unmarshal(rec.Body, out) != nil
	}
	if damaged {
		o.mu.Lock()
		name := b.record.Channel
		o.mu.Unlock()
		o.o.Log.ErrorContext(ctx, "dropped an unreadable reply", "channel", name, "error", errDamaged)
		return nil, o.End(ctx, id, channel.UnknownWhether)
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
	defer o.r.Lock(b.key)()
	self := o.r.Self()
	o.mu.Lock()
	if o.closed || !o.mayLocked(b) {
		err := channel.ErrBlockTaken
		if o.closed {
			err = errClosed
		}
		o.mu.Unlock()
		return err
	}
	next, last := b.record, b.rev
	next.Owner, next.Left, next.Attempt, next.State = self, next.Left || !b.own, attempt, prepared
	if sends {
		next.State = sending
	}
	o.mu.Unlock()
	p := store.Put{Key: b.key, ID: owner.NewID(), After: last, Meta: owner.Meta(&next), Life: next.left()}
	for range owner.Tries {
		rec, moved, err := o.r.PutOne(ctx, p)
		if err != nil {
			return owner.Explain(err)
		}
		if moved != nil {
			o.take(*moved, false)
			o.mu.Lock()
			ours := o.ids[id] == b && b.own && b.rev == moved.Rev // a step whose answer did not come
			o.mu.Unlock()
			if !ours { // though its owner may be dead: the outbox does not know yet what it has done
				return channel.ErrBlockTaken
			}
			p.After = moved.Rev
			continue
		}
		o.mu.Lock()
		defer o.mu.Unlock()
		if b.rev < rec.Rev { // else it was heard that another process was faster, and has it
			b.record, b.rev, b.own = next, rec.Rev, true
		}
		if !o.mayLocked(b) {
			return channel.ErrBlockTaken
		}
		return nil
	}
	return owner.ErrBusy
}

// left is how long the record of a waiting block still lives.
func (r *record) left() time.Duration {
	return max(time.Until(time.Unix(0, r.At).Add(blockLife)), goneLife)
}

// mayLocked reports whether this process may store the next step of a block.
func (o *Outbox) mayLocked(b *block) bool {
	return o.ids[b.id] == b && (b.own || o.r.Dead(b.record.Owner))
}

// End implements [channel.OutboxStore].
func (o *Outbox) End(ctx context.Context, id uint64, came channel.ReceiptState) error {
	o.mu.Lock()
	b := o.ids[id]
	o.mu.Unlock()
	if b == nil {
		return nil
	}
	defer o.r.Lock(b.key)()
	return o.endIt(ctx, b, came)
}

// endIt ends a block whose lock the caller has.
func (o *Outbox) endIt(ctx context.Context, b *block, came channel.ReceiptState) error {
	o.mu.Lock()
	if o.closed || !o.mayLocked(b) {
		o.mu.Unlock()
		return nil
	}
	l := &late{owner.NewID(), b.ended(came), b.rev}
	o.removeLocked(b)
	o.late[b.key] = l
	o.mu.Unlock()
	if err := o.finish(ctx, b.key, l); err != nil {
		o.r.Wake()
		return fmt.Errorf("that a block was sent is not stored; it is tried again: %w", err)
	}
	return nil
}

// ended is the last record of a block: its event alone is kept.
func (b *block) ended(came channel.ReceiptState) record {
	return record{State: gone, Event: b.record.Event, Left: b.record.Left || !b.own, Came: came.String()}
}

func (o *Outbox) addLocked(b *block) {
	o.blocks[b.key], o.ids[b.id] = b, b
	o.bytes += b.record.bytes()
}

func (o *Outbox) removeLocked(b *block) {
	if o.blocks[b.key] == b {
		o.bytes -= b.record.bytes()
		delete(o.blocks, b.key)
		delete(o.ids, b.id)
	}
}

func (o *Outbox) setLate(key string, l *late) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if l == nil {
		delete(o.late, key)
		return
	}
	o.late[key] = l
	o.r.Wake()
}

// finish stores the end of a block, unless another process has taken it over. The caller has the lock.
func (o *Outbox) finish(ctx context.Context, key string, l *late) error {
	p := store.Put{Key: key, ID: l.id, After: l.last, Meta: owner.Meta(&l.record), Body: []byte{}, Life: goneLife, Lazy: true}
	for range owner.Tries {
		_, moved, err := o.r.PutOne(ctx, p)
		if err != nil {
			return owner.Explain(err)
		}
		if moved == nil {
			o.setLate(key, nil)
			return nil
		}
		r, err := recordOf(*moved)
		if err != nil || r.over() || !o.r.Mine(r.Owner) { // it has gone, or is heard of as another's
			o.setLate(key, nil)
			o.take(*moved, false)
			return nil
		}
		p.After = moved.Rev
	}
	return owner.ErrBusy
}

// retry stores the ends that could not be stored.
func (o *Outbox) retry(ctx context.Context) (more bool) { return o.finishAll(ctx) != nil }

func (o *Outbox) finishAll(ctx context.Context) error {
	o.mu.Lock()
	keys := slices.Collect(maps.Keys(o.late))
	o.mu.Unlock()
	for _, key := range keys {
		if err := o.finishOne(ctx, key); err != nil {
			return err
		}
	}
	return nil
}

func (o *Outbox) finishOne(ctx context.Context, key string) error {
	defer o.r.Lock(key)()
	o.mu.Lock()
	l := o.late[key]
	o.mu.Unlock()
	if l == nil {
		return nil
	}
	return o.finish(ctx, key, l)
}

// Erase implements [channel.OutboxStore]. Within a minute nothing of the blocks is left.
func (o *Outbox) Erase(ctx context.Context, session string) error {
	err := o.r.Erase(ctx, func(rec store.Record) bool {
		r, err := recordOf(rec)
		return err == nil && r.Session == owner.Token(session)
	}, o.erase)
	if err != nil {
		return fmt.Errorf("erase blocks: %w", err)
	}
	return nil
}

func (o *Outbox) erase(ctx context.Context, key string) error {
	defer o.r.Lock(key)()
	if err := o.r.Remove(ctx, key); err != nil {
		return err
	}
	o.setLate(key, nil)
	o.take(store.Record{Key: key}, false)
	return nil
}
