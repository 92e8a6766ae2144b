package storetest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lingserve/lingserve/store"
)

// MemoryTables is a [store.Engine] in memory, in the plainest way, for tests of what uses tables. It uses no time but the test's.
type MemoryTables struct {
	data *tablesData
	done chan struct{}
	end  sync.Once
}

type tablesData struct {
	mu      sync.Mutex
	tables  map[string]*tableData
	changed chan struct{} // closed at the next change
}

type tableData struct {
	o       store.TableOptions
	rev     uint64
	records map[string]*tableRecord // the deleted ones, too
}

type tableRecord struct {
	store.Record
	changed   uint64   // the revision of the last change or of the deletion
	id, maker [16]byte // of the put that made the last change, and that created it
	deleted   bool
}

func (r *tableRecord) size() int64 { return int64(len(r.Key) + len(r.Meta) + len(r.Body)) }

// NewTables returns an engine without tables.
func NewTables() *MemoryTables {
	return (&MemoryTables{data: &tablesData{tables: map[string]*tableData{}, changed: make(chan struct{})}}).Again()
}

// Again returns an engine that has the same tables, like that of another process.
func (m *MemoryTables) Again() *MemoryTables {
	return &MemoryTables{data: m.data, done: make(chan struct{})}
}

// Table implements [store.Engine].
func (m *MemoryTables) Table(ctx context.Context, o store.TableOptions) (store.Table, error) {
	if err := errors.Join(store.CheckKey(o.Name), m.check(ctx)); err != nil {
		return nil, err
	}
	m.data.mu.Lock()
	defer m.data.mu.Unlock()
	t := m.data.tables[o.Name]
	if t == nil {
		t = &tableData{o: o, records: map[string]*tableRecord{}}
		m.data.tables[o.Name] = t
	}
	return &memoryTable{m, t}, nil
}

// Close implements [store.Engine].
func (m *MemoryTables) Close() error {
	m.end.Do(func() { close(m.done) })
	return nil
}

func (m *MemoryTables) check(ctx context.Context) error {
	select {
	case <-m.done:
		return store.ErrClosed
	default:
		return context.Cause(ctx)
	}
}

type memoryTable struct {
	m *MemoryTables
	t *tableData
}

// lock locks the tables for a call, and removes what has expired.
func (t *memoryTable) lock(ctx context.Context) (unlock func(), err error) {
	if err := t.m.check(ctx); err != nil {
		return nil, err
	}
	t.m.data.mu.Lock()
	for _, r := range t.t.records {
		if !r.deleted && !r.Expires.IsZero() && !r.Expires.After(time.Now()) {
			t.remove(r, [16]byte{})
		}
	}
	return t.m.data.mu.Unlock, nil
}

// change announces a change and returns its revision.
func (t *memoryTable) change() uint64 {
	close(t.m.data.changed)
	t.m.data.changed = make(chan struct{})
	t.t.rev++
	return t.t.rev
}

func (t *memoryTable) remove(r *tableRecord, id [16]byte) {
	r.changed, r.id, r.deleted, r.Body = t.change(), id, true, nil
}

// Get implements [store.Table].
func (t *memoryTable) Get(ctx context.Context, key string) (store.Record, error) {
	if err := store.CheckKey(key); err != nil {
		return store.Record{}, err
	}
	unlock, err := t.lock(ctx)
	if err != nil {
		return store.Record{}, err
	}
	defer unlock()
	r := t.t.records[key]
	if r == nil || r.deleted {
		return store.Record{}, store.ErrNotFound
	}
	return r.Record, nil
}

// Peek implements [store.Table].
func (t *memoryTable) Peek(ctx context.Context, key string) (store.Record, error) {
	return t.Get(ctx, key)
}

// Put implements [store.Table].
func (t *memoryTable) Put(ctx context.Context, puts ...store.Put) ([]store.Record, []error) {
	records, errs := make([]store.Record, len(puts)), make([]error, len(puts))
	for i := range puts {
		if errs[i] = puts[i].Check(); errs[i] == nil {
			records[i], errs[i] = t.put(ctx, &puts[i])
		}
	}
	return records, errs
}

func (t *memoryTable) put(ctx context.Context, p *store.Put) (store.Record, error) {
	unlock, err := t.lock(ctx)
	if err != nil {
		return store.Record{}, err
	}
	defer unlock()
	was := t.t.records[p.Key]
	if was != nil && was.id == p.ID && was.deleted == p.Delete { // it was sent before
		return bare(was.Record), nil
	}
	live := was != nil && !was.deleted
	switch {
	case p.After != store.AnyRev && ((p.After != 0) != live || live && p.After != was.Rev), was != nil && !live && was.maker == p.ID:
		moved := &store.Moved{Record: store.Record{Key: p.Key}}
		if live {
			moved.Record = bare(was.Record)
		}
		return store.Record{}, moved
	case p.Delete && !live:
		return store.Record{}, store.ErrNotFound
	case p.Delete:
		t.remove(was, p.ID)
		return bare(was.Record), nil
	}
	next := &tableRecord{id: p.ID, maker: p.ID, Record: store.Record{
		Key: p.Key, Meta: bytes.Clone(p.Meta), Body: append([]byte{}, p.Body...), At: time.Now().Truncate(time.Microsecond),
	}}
	if live && p.Body == nil {
		next.Body = was.Body
	}
	if p.Life > 0 {
		next.Expires = next.At.Add(p.Life)
	}
	if err := t.fit(next); err != nil {
		return store.Record{}, err
	}
	next.changed = t.change()
	next.Rev, next.Made = next.changed, next.changed
	if live {
		next.Made, next.maker = was.Made, was.maker
	}
	t.t.records[p.Key] = next
	return bare(next.Record), nil
}

func bare(r store.Record) store.Record {
	r.Body = nil
	return r
}

// fit makes room for a record, or refuses it.
func (t *memoryTable) fit(next *tableRecord) error {
	for {
		records, size := int64(1), next.size()
		var oldest *tableRecord
		for _, r := range t.t.records {
			if r.deleted || r.Key == next.Key {
				continue
			}
			records++
			size += r.size()
			if oldest == nil || r.changed < oldest.changed {
				oldest = r
			}
		}
		switch o := t.t.o; {
		case (o.MaxRecords == 0 || records <= o.MaxRecords) && (o.MaxBytes == 0 || size <= o.MaxBytes):
			return nil
		case !o.Oldest || oldest == nil:
			return fmt.Errorf("%w: %s has room for %d records and %d bytes", store.ErrFull, o.Name, o.MaxRecords, o.MaxBytes)
		}
		t.remove(oldest, [16]byte{})
	}
}

// list returns what has a prefix, in an order.
func (t *memoryTable) list(ctx context.Context, prefix string, order func(a, b *tableRecord) int) (list []*tableRecord, changed <-chan struct{}, err error) {
	unlock, err := t.lock(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer unlock()
	for _, r := range slices.SortedFunc(maps.Values(t.t.records), order) {
		if strings.HasPrefix(r.Key, prefix) {
			copied := *r
			list = append(list, &copied)
		}
	}
	return list, t.m.data.changed, nil
}

// Range implements [store.Table].
func (t *memoryTable) Range(ctx context.Context, prefix string, bodies bool) iter.Seq2[store.Record, error] {
	return func(yield func(store.Record, error) bool) {
		list, _, err := t.list(ctx, prefix, func(a, b *tableRecord) int { return cmp.Compare(a.Key, b.Key) })
		if err != nil {
			yield(store.Record{}, err)
			return
		}
		for _, r := range list {
			if !bodies {
				r.Body = nil
			}
			if !r.deleted && !yield(r.Record, t.m.check(ctx)) {
				return
			}
		}
	}
}

// Watch implements [store.Table].
func (t *memoryTable) Watch(ctx context.Context, prefix string) iter.Seq2[store.Change, error] {
	return func(yield func(store.Change, error) bool) {
		live, seen := false, uint64(0)
		for {
			list, changed, err := t.list(ctx, prefix, func(a, b *tableRecord) int { return cmp.Compare(a.changed, b.changed) })
			if err != nil {
				yield(store.Change{}, err)
				return
			}
			soon := time.Now().Add(time.Hour)
			for _, r := range list {
				if !r.deleted && !r.Expires.IsZero() && r.Expires.Before(soon) {
					soon = r.Expires
				}
				c := store.Change{Record: bare(r.Record)}
				if r.deleted {
					c = store.Change{Record: store.Record{Key: r.Key, Rev: r.changed}, Gone: true}
				}
				if r.changed > seen && (live || !r.deleted) && !yield(c, nil) {
					return
				}
				seen = max(seen, r.changed)
			}
			if !live && !yield(store.Change{Live: true}, nil) {
				return
			}
			live = true
			timer := time.NewTimer(time.Until(soon) + time.Millisecond)
			select {
			case <-changed:
			case <-timer.C:
			case <-ctx.Done():
			case <-t.m.done:
			}
			timer.Stop()
		}
	}
}
