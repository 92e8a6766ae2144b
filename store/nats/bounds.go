package nats

import (
	"context"
	"crypto/rand"
	"math"
	"sync"
	"time"

	"github.com/lingserve/lingserve/cluster"
	"github.com/lingserve/lingserve/store"
)

// bounds keeps a table within its bounds. While the table is far from them it looks each second how many messages the stream has. Then it
// follows the table for good, and has a row for each record, of some 150 bytes.
//
// What other servers create at the same moment is not known yet: together they may exceed a bound by that much, which the next create repairs
// if the oldest records go.
type bounds struct {
	t *Table

	mu       sync.Mutex
	checked  time.Time // when the stream was looked at
	left     size      // that this process may add until it looks again
	on       bool      // it follows
	complete bool      // rows has all that was there when it began
	rows     rows
	order    []ordered // by revision; records that have changed since are in it again
	bytes    int64     // of the rows
	seen     uint64    // all messages up to it are in rows
	acked    uint64    // the last message that this process has stored
	news     chan struct{}
	admitted map[*admission]bool // that are not in rows
}

type ordered struct {
	rev uint64
	key string
}

// size is how large a table is, or how much larger it becomes.
type size struct{ records, bytes int64 }

// admission is a change that is on its way.
type admission struct {
	size
	seq uint64 // of its message, once that is known
}

// A table with smaller bounds is followed from the first put on.
const (
	fewRecords = 4096
	fewBytes   = 16 << 20
	checkEvery = time.Second
	// A process looks again when it has added this part of what is missing to half of a bound: others add, too.
	checkPart = 8
)

// admit waits until there is room for the next message of a key, and makes room if the oldest records go. The caller says which sequence the
// message has got, or 0 if it was not stored.
func (b *bounds) admit(ctx context.Context, next, before *message, lives bool) (stored func(seq uint64), err error) {
	o := &b.t.o
	if o.MaxRecords <= 0 && o.MaxBytes <= 0 {
		return func(uint64) {}, nil
	}
	a := &admission{size: size{1, next.bytes()}}
	if lives {
		a.records, a.bytes = 0, a.bytes-before.bytes()
	}
	if next.Deleted > 0 {
		a.records, a.bytes = 0, 0
	} else if on, err := b.follow(ctx, a.size); err != nil {
		return nil, err
	} else if on {
		if err := b.room(ctx, a, next.key); err != nil {
			return nil, err
		}
	}
	return func(seq uint64) { b.landed(a, seq) }, nil
}

// follow reports whether the table is followed, and begins to if it is near its bounds.
func (b *bounds) follow(ctx context.Context, more size) (on bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.on {
		return true, nil
	}
	if near, err := b.near(ctx, more); err != nil || !near {
		return false, err
	}
	b.news, b.admitted = make(chan struct{}), map[*admission]bool{}
	f := &follower{t: b.t, begin: b.begin, change: b.change, live: b.live, tick: b.tick}
	if b.on = b.t.e.start(func() { _ = f.follow(b.t.e.end) }); !b.on { // it ends with the engine
		return false, store.ErrClosed
	}
	return true, nil
}

// near reports whether the table may come near its bounds before this process looks again.
func (b *bounds) near(ctx context.Context, more size) (bool, error) {
	o := &b.t.o
	if o.MaxRecords > 0 && o.MaxRecords < fewRecords || o.MaxBytes > 0 && o.MaxBytes < fewBytes {
		return true, nil
	}
	b.left.records -= max(more.records, 0)
	b.left.bytes -= max(more.bytes, 0)
	if time.Since(b.checked) < checkEvery && b.left.records >= 0 && b.left.bytes >= 0 {
		return false, nil
	}
	info, err := (*b.t.stream.Load()).Info(ctx)
	if err != nil {
		return false, err
	}
	b.checked, b.left = time.Now(), size{math.MaxInt64, math.MaxInt64}
	if o.MaxRecords > 0 {
		b.left.records = (o.MaxRecords/2 - int64(info.State.Msgs)) / checkPart
	}
	if o.MaxBytes > 0 {
		b.left.bytes = (o.MaxBytes/2 - int64(info.State.Bytes)) / checkPart
	}
	return b.left.records <= 0 || b.left.bytes <= 0, nil
}

// room waits until an admission fits.
func (b *bounds) room(ctx context.Context, a *admission, key string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for {
		if b.complete && b.over(a) {
			b.remove(b.rows.ended())
		}
		switch {
		case b.complete && !b.over(a):
			b.admitted[a] = true
			return nil
		case !b.complete || b.seen < b.acked: // else it is not known what there is
			if err := b.wait(ctx); err != nil {
				return err
			}
			continue
		case !b.t.o.Oldest:
			return store.ErrFull
		}
		oldest, ok := b.oldest(key)
		if !ok {
			return store.ErrFull // the one record is too large
		}
		b.mu.Unlock()
		seq, err := b.t.evict(ctx, oldest)
		b.mu.Lock()
		if err != nil {
			return err
		}
		b.acked = max(b.acked, seq)
	}
}

// wait waits for the next message. The mutex is held but while it waits.
func (b *bounds) wait(ctx context.Context) error {
	news := b.news
	b.mu.Unlock()
	defer b.mu.Lock()
	select {
	case <-news:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// over reports whether the table would be larger than it may be.
func (b *bounds) over(a *admission) bool {
	o := &b.t.o
	records, bytes := int64(len(b.rows.of))+a.records, b.bytes+a.bytes
	for other := range b.admitted {
		records, bytes = records+other.records, bytes+other.bytes
	}
	return o.MaxRecords > 0 && a.records > 0 && records > o.MaxRecords || o.MaxBytes > 0 && a.bytes > 0 && bytes > o.MaxBytes
}

// oldest takes the record that was changed longest ago, but for one key.
func (b *bounds) oldest(but string) (ordered, bool) {
	for i, o := range b.order {
		if row, ok := b.rows.of[o.key]; !ok || row.rev != o.rev {
			continue
		}
		if o.key == but {
			continue
		}
		b.order = b.order[i:]
		return o, true
	}
	return ordered{}, false
}

// landed takes note of what became of a message.
func (b *bounds) landed(a *admission, seq uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.acked = max(b.acked, seq)
	if a.seq = seq; seq <= b.seen {
		delete(b.admitted, a)
	}
}

// evict removes a record that has not changed. The sequence is 0 if it has.
func (t *Table) evict(ctx context.Context, o ordered) (seq uint64, err error) {
	p := store.Put{Key: o.key, Delete: true}
	rand.Read(p.ID[:])
	w := &write{t: t, p: &p, before: message{seq: o.rev, key: o.key}}
	next, _, err := w.compose(ctx)
	if err != nil {
		return 0, err
	}
	next.evicted = true
	ack, err := t.send(ctx, next, o.rev, nil)
	if cluster.WrongSequence(err) {
		return 0, nil // what it has become will be heard
	}
	if err != nil {
		return 0, err
	}
	t.known.remove(o.key)
	return ack.Sequence, nil
}

func (b *bounds) begin() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rows.begin()
}

func (b *bounds) change(m *message) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.bytes -= b.rows.of[m.key].bytes
	if m.lives(time.Now()) {
		if b.rows.set(m) {
			b.order = append(b.order, ordered{m.seq, m.key})
		}
		b.bytes += m.bytes()
	} else {
		delete(b.rows.of, m.key)
	}
	if len(b.order) > 2*len(b.rows.of)+fewRecords {
		kept := make([]ordered, 0, len(b.rows.of))
		for _, o := range b.order {
			if b.rows.of[o.key].rev == o.rev {
				kept = append(kept, o)
			}
		}
		b.order = kept
	}
	return nil
}

// saw takes note that all messages up to a sequence are in the rows.
func (b *bounds) saw(seq uint64) {
	b.seen = max(b.seen, seq)
	for a := range b.admitted {
		if a.seq > 0 && a.seq <= b.seen {
			delete(b.admitted, a)
		}
	}
	close(b.news)
	b.news = make(chan struct{})
}

func (b *bounds) remove(keys []string) {
	for _, key := range keys {
		b.bytes -= b.rows.of[key].bytes
		delete(b.rows.of, key)
	}
}

func (b *bounds) live() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.remove(b.rows.vanished())
	b.complete = true
	return nil
}

func (b *bounds) tick(seq uint64) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.remove(b.rows.ended())
	b.saw(seq)
	return nil
}
