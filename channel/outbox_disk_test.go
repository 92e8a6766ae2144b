package channel

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"sync"
	"time"
)

// disk keeps the blocks of an outbox over the end of its process.
type disk struct {
	mu     sync.Mutex
	last   uint64
	blocks map[uint64]diskBlock
}

type diskBlock struct {
	at      time.Time
	size    int64
	text    []byte
	attempt int
	sending bool
}

func newDisk() *disk { return &disk{blocks: map[uint64]diskBlock{}} }

// crash is the end of a process: nothing is closed in order. It returns what the disk has then.
func crash(d *disk) *disk {
	d.mu.Lock()
	defer d.mu.Unlock()
	return &disk{last: d.last, blocks: maps.Clone(d.blocks)}
}

// on is all that the disk has.
func (d *disk) on() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var all bytes.Buffer
	for _, b := range d.blocks {
		all.Write(b.text)
	}
	return all.String()
}

func (b *diskBlock) out() *Outbound {
	out := new(Outbound)
	if err := json.Unmarshal(b.text, out); err != nil {
		panic(err)
	}
	return out
}

// Start implements [OutboxStore].
func (d *disk) Start(tell func(BlockNews)) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(d.blocks)) {
		b := d.blocks[id]
		tell(BlockNews{ID: id, At: b.at, Size: b.size, Target: targetOf(b.out()), Block: b.out(), Attempt: b.attempt, Sending: b.sending, Left: true})
	}
	return nil
}

// Put implements [OutboxStore].
func (d *disk) Put(_ context.Context, p StoredBlock) (uint64, error) {
	text, err := json.Marshal(p.Block)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.last++
	d.blocks[d.last] = diskBlock{at: p.At.Round(0), size: p.Size, text: text}
	return d.last, err
}

// Load implements [OutboxStore].
func (d *disk) Load(_ context.Context, id uint64) (*Outbound, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if b, ok := d.blocks[id]; ok {
		return b.out(), nil
	}
	return nil, nil
}

// Step implements [OutboxStore].
func (d *disk) Step(_ context.Context, id uint64, sending bool, attempt int) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	b, ok := d.blocks[id]
	if !ok {
		return ErrBlockTaken
	}
	b.sending, b.attempt = sending, attempt
	d.blocks[id] = b
	return nil
}

// End implements [OutboxStore].
func (d *disk) End(_ context.Context, id uint64, _ ReceiptState) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.blocks, id)
	return nil
}

// Erase implements [OutboxStore].
func (d *disk) Erase(_ context.Context, session string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	maps.DeleteFunc(d.blocks, func(_ uint64, b diskBlock) bool { return b.out().Session == session })
	return nil
}

// Close implements [OutboxStore].
func (*disk) Close() error { return nil }
