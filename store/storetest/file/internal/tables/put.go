package tables

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"time"

	"github.com/lingserve/lingserve/internal/vfs"
	"github.com/lingserve/lingserve/store"
)

// call is what one caller puts.
type call struct {
	puts    []store.Put
	records []store.Record
	errs    []error
	number  uint64 // of the write that is to be durable before the caller is answered; 0: none
	err     error  // of the write
	done    bool

	// Of a call with one put.
	record [1]store.Record
	failed [1]error
}

// write collects the frames of the calls that are written at once.
type write struct {
	t       *Table
	now     time.Time
	rev     uint64
	frames  []staged
	last    map[place]int // the last frame of a key
	records int64         // what the calls add
	bytes   int64
	oldest  int64
}

type staged struct {
	frame
	off int64
}

// Put implements [store.Table].
func (t *Table) Put(ctx context.Context, puts ...store.Put) ([]store.Record, []error) {
	c := &call{puts: puts}
	if c.records, c.errs = c.record[:], c.failed[:]; len(puts) != 1 {
		c.records, c.errs = make([]store.Record, len(puts)), make([]error, len(puts))
	}
	err := context.Cause(ctx)
	if err == nil {
		err = t.put(ctx, c)
	}
	if err == nil && c.number > 0 && t.o.Durability == store.Synced {
		if err = t.sync(c.number); err != nil {
			err = fmt.Errorf("%w: %w", store.ErrUnsure, err)
		}
	}
	for i := range puts {
		if err != nil && (c.errs[i] == nil || errors.Is(c.errs[i], store.ErrNotFound)) { // the removal of before may not be durable
			c.records[i], c.errs[i] = store.Record{}, err
		}
	}
	return c.records, c.errs
}

// put writes what a call changes, together with the calls that wait meanwhile.
func (t *Table) put(ctx context.Context, c *call) error {
	t.waiting.Lock()
	t.calls = append(t.calls, c)
	t.waiting.Unlock()
	t.mu.Lock()
	defer t.mu.Unlock()
	if c.done {
		return c.err
	}
	unlock, err := func() {}, t.closed()
	if err == nil {
		unlock, err = t.lockFile(ctx)
	}
	if err == nil {
		for !c.done {
			t.writeCalls()
		}
		unlock()
	}
	if !c.done {
		t.waiting.Lock()
		t.calls = slices.DeleteFunc(t.calls, func(other *call) bool { return other == c })
		t.waiting.Unlock()
		if ctx.Err() == nil && !errors.Is(err, store.ErrClosed) {
			err = fmt.Errorf("%w: %w", store.ErrAway, err)
		}
		return err
	}
	return c.err
}

// mostAtOnce is how many bytes are written at once for several calls.
const mostAtOnce = 1 << 20

// nextCall takes the call that waits for longest.
func (t *Table) nextCall() *call {
	t.waiting.Lock()
	defer t.waiting.Unlock()
	if len(t.calls) == 0 || len(t.buf) > mostAtOnce {
		return nil
	}
	c := t.calls[0]
	t.calls = slices.Delete(t.calls, 0, 1)
	return c
}

// writeCalls writes what the calls that wait change.
func (t *Table) writeCalls() {
	w := &t.write
	clear(w.last)
	*w = write{t: t, now: time.Now(), rev: t.rev, frames: w.frames[:0], last: w.last, oldest: t.oldest}
	t.buf = t.buf[:0]
	err := t.unusable()
	if err != nil {
		err = fmt.Errorf("%w: %w", store.ErrAway, err)
	}
	var calls []*call
	next := t.syncs.written.Load() + 1 // the number of this write
	for c := t.nextCall(); c != nil; c = t.nextCall() {
		calls = append(calls, c)
		if err == nil {
			w.call(c, next)
		}
	}
	if err == nil && len(w.frames) > 0 {
		if err = t.append(); err == nil {
			w.apply()
		}
	}
	for _, c := range calls {
		c.err, c.done = err, true
		for i := range c.puts {
			if err != nil && c.puts[i].Check() == nil { // what it was refused for, was perhaps not written
				c.errs[i] = nil
			}
		}
	}
}

// call adds the frames of a call, which gets the number of its write if its caller waits for a sync.
func (w *write) call(c *call, next uint64) {
	before, lazy, there := len(w.frames), true, false
	for i := range c.puts {
		if c.errs[i] = c.puts[i].Check(); c.errs[i] == nil {
			var changed bool
			c.records[i], changed, c.errs[i] = w.add(&c.puts[i])
			lazy = lazy && (c.puts[i].Lazy || !changed)
			there = there || c.errs[i] == nil || errors.Is(c.errs[i], store.ErrNotFound)
		}
	}
	switch {
	case len(w.frames) > before && !lazy, len(w.frames) == before && there && before > 0:
		c.number = next
	case len(w.frames) == before && there: // of an attempt before, which may not be durable yet
		c.number = next - 1
	}
}

// apply takes the frames that were written.
func (w *write) apply() {
	t := w.t
	t.oldest = w.oldest
	for i := range w.frames {
		f := &w.frames[i]
		t.apply(&f.frame, f.off)
		if f.kind == kindPut && len(f.meta) < headRead {
			if len(t.recent) == mostRecent {
				clear(t.recent)
			}
			t.recent[t.placeOf(string(f.key))] = *f
		}
	}
	t.size += int64(len(t.buf))
	if cap(t.buf) > mostAtOnce {
		t.buf, w.frames = nil, nil
	}
	t.behind = 0
	t.syncs.written.Add(1)
	t.keep()
}

// append writes the frames behind all others. What failed leaves nothing behind.
func (t *Table) append() error {
	if t.behind > 0 { // of a write that was cut off
		if err := t.f.Truncate(t.size); err != nil {
			return fmt.Errorf("%w: %w", store.ErrAway, vfs.Explain(err))
		}
	}
	if _, err := t.f.WriteAt(t.buf, t.size); err != nil {
		err = vfs.Explain(err)
		if again := t.f.Truncate(t.size); again != nil {
			t.broken = vfs.Explain(again)
			t.keep()
			return fmt.Errorf("%w: %w", store.ErrUnsure, err)
		}
		return fmt.Errorf("%w: %w", store.ErrAway, err)
	}
	return nil
}

// unusable is why puts are refused until the file has been rewritten. A lock is held.
func (t *Table) unusable() error {
	t.syncs.mu.Lock()
	defer t.syncs.mu.Unlock()
	return cmp.Or(t.broken, t.syncs.failed)
}

// find returns what a key has behind the frames so far.
func (w *write) find(key string) (f frame, ok bool, err error) {
	if i, ok := w.last[w.t.placeOf(key)]; ok {
		return w.frames[i].frame, w.frames[i].kind == kindPut, nil
	}
	f, _, ok, err = w.t.find(key)
	return f, ok, err
}

// add adds the frames of a put.
func (w *write) add(p *store.Put) (r store.Record, changed bool, err error) {
	old, had, err := w.find(p.Key)
	if err != nil {
		return r, false, fmt.Errorf("%w: %w", store.ErrAway, err)
	}
	if had && old.id == p.ID {
		return old.record(), false, nil
	}
	if d := w.t.deleted.byID[p.ID]; d != nil {
		if d.id == p.ID {
			return store.Record{Key: p.Key, Made: d.made, Rev: uint64(d.bodyAt)}, false, nil
		}
		return r, false, &store.Moved{Record: store.Record{Key: p.Key}} // it was written, and then deleted
	}
	if p.After != store.AnyRev && (had && old.rev != p.After || !had && p.After != 0) {
		moved := &store.Moved{Record: store.Record{Key: p.Key}}
		if had {
			moved.Record = old.record()
		}
		return r, false, moved
	}
	if p.Delete {
		if !had {
			return r, false, store.ErrNotFound
		}
		w.delete(&old, p.ID)
		return old.record(), true, nil
	}
	f := frame{kind: kindPut, key: []byte(p.Key), meta: p.Meta, id: p.ID, at: w.now.UnixMilli()}
	if p.Life > 0 {
		f.expires = w.now.Add(p.Life).UnixMilli()
	}
	var before int64
	f.made = w.rev + 1
	if had {
		before, f.made = old.size(), old.made
		f.bodyAt, f.bodyLen, f.bodyCRC = old.bodyAt, old.bodyLen, old.bodyCRC
	}
	inline := p.Body != nil || !had
	if inline {
		f.bodyLen, f.bodyCRC = uint32(len(p.Body)), crc32.Checksum(p.Body, castagnoli)
	}
	if err := w.room(p.Key, had, f.size()-before); err != nil {
		return r, false, err
	}
	if !had {
		f.made = w.rev + 1 // room may have taken revisions
		w.records++
	}
	w.bytes += f.size() - before
	w.stage(&f, inline)
	if inline {
		w.t.buf = append(w.t.buf, p.Body...)
	}
	r = f.recordOf(p.Key, p.Meta)
	return r, true, nil
}

// stage gives a frame its revision and place, and adds its head.
func (w *write) stage(f *frame, inline bool) {
	w.rev++
	f.rev = w.rev
	off := w.t.size + int64(len(w.t.buf))
	if inline {
		f.bodyAt = off + f.headLen()
	}
	w.t.buf = f.appendHead(w.t.buf, off)
	w.last[w.t.placeOf(string(f.key))] = len(w.frames)
	w.frames = append(w.frames, staged{*f, off})
}

func (w *write) delete(old *frame, id [16]byte) {
	w.stage(&frame{
		kind: kindDelete, key: old.key, meta: bytes.Clone(old.id[:]), made: old.made, bodyAt: int64(old.rev), at: w.now.UnixMilli(), id: id,
	}, false)
	w.records--
	w.bytes -= old.size()
}

// room makes room for a record, or returns [store.ErrFull].
func (w *write) room(key string, had bool, more int64) error {
	t := w.t
	over := func() bool {
		return t.o.MaxRecords > 0 && !had && int64(len(t.index))+w.records+1 > t.o.MaxRecords ||
			t.o.MaxBytes > 0 && more > 0 && t.bytes+w.bytes+more > t.o.MaxBytes
	}
	if !over() {
		return nil
	}
	if w.now.Sub(t.swept) >= time.Second {
		t.sweep(w.now)
	}
	for over() {
		if !t.o.Oldest {
			return store.ErrFull
		}
		f, ok, err := w.takeOldest(key)
		if err != nil {
			return fmt.Errorf("%w: %w", store.ErrAway, err)
		}
		if !ok {
			return store.ErrFull // the one record is too large
		}
		w.delete(&f, [16]byte{})
	}
	return nil
}

// takeOldest returns the record that was changed longest ago, but for a key and those of this call.
func (w *write) takeOldest(but string) (found frame, ok bool, err error) {
	first := true
	_, _, err = w.t.scan(w.oldest, true, func(f *frame, off int64) bool {
		if off >= w.t.size {
			return false
		}
		if !w.t.lives(f, off) {
			return true
		}
		if first {
			w.oldest, first = off, false
		}
		if _, changed := w.last[w.t.placeOf(string(f.key))]; changed || string(f.key) == but {
			return true
		}
		found, ok = *f, true
		found.key = bytes.Clone(f.key)
		return false
	})
	return found, ok, err
}
