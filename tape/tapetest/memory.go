package tapetest

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lingserve/lingserve/tape"
)

// list is a tape in memory. Its entries are only appended to: a copy is the tape as it was.
type list struct {
	info    tape.Info
	entries []tape.Entry
}

func (l *list) append(b tape.Batch) (first int64, err error) {
	entries, err := b.Check()
	if err == nil {
		err = b.Number(entries, l.info, time.Now().UTC().Truncate(time.Microsecond))
	}
	if err != nil {
		return 0, err
	}
	for i, e := range entries {
		entries[i].Payload, entries[i].Meta = bytes.Clone(e.Payload), bytes.Clone(e.Meta)
		l.info.Bytes += int64(len(e.AppendJSON(nil))) + 1
	}
	l.entries = append(l.entries, entries...)
	l.info.AddBatch(b, entries)
	return entries[0].ID, nil
}

// Info implements [tape.Source].
func (l list) Info() tape.Info { return l.info }

// Entries implements [tape.Source].
func (l list) Entries(after, before int64, newest, anchors bool) iter.Seq2[tape.Entry, error] {
	find := func(id int64) int {
		i, _ := slices.BinarySearchFunc(l.entries, id, func(e tape.Entry, id int64) int { return cmp.Compare(e.ID, id) })
		return i
	}
	selected := l.entries[find(after+1):max(find(after+1), find(before))]
	return func(yield func(tape.Entry, error) bool) {
		for i := range selected {
			if newest {
				i = len(selected) - 1 - i
			}
			if (!anchors || selected[i].Kind == tape.KindAnchor) && !yield(selected[i], nil) {
				return
			}
		}
	}
}

// Memory is a store whose tapes end with the process, for tests and examples.
type Memory struct {
	observer tape.Observer
	leases   tape.Leases

	mu     sync.Mutex
	closed bool
	tapes  map[string]*memoryTape
}

type memoryTape struct {
	list
	blobs  map[string][]byte
	erased bool
}

// NewMemory returns an empty store. The observer may be nil.
func NewMemory(observer tape.Observer) *Memory {
	return &Memory{observer: observer, tapes: map[string]*memoryTape{}}
}

// do calls f with a tape, under the lock. If the tape does not exist, f gets nil if mayMiss is true, else the error is ErrNotFound.
func (m *Memory) do(ctx context.Context, name string, mayMiss bool, f func(t *memoryTape) error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.tapes[name]
	switch {
	case m.closed:
		return tape.ErrClosed
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case t == nil && !mayMiss:
		return fmt.Errorf("%w: the tape does not exist", tape.ErrNotFound)
	}
	if err := tape.CheckName(name); err != nil {
		return err
	}
	return f(t)
}

// Append implements [tape.Store].
func (m *Memory) Append(ctx context.Context, name string, b tape.Batch) (first int64, err error) {
	var size int64
	err = m.do(ctx, name, true, func(t *memoryTape) (err error) {
		if t == nil {
			t = &memoryTape{list: list{info: tape.Info{Tape: name}}, blobs: map[string][]byte{}}
		}
		before := t.info.Bytes
		if first, err = t.append(b); err == nil {
			m.tapes[name] = t
			size = t.info.Bytes - before
		}
		return err
	})
	if m.observer != nil {
		m.observer.Appended(len(b.Entries), size, err)
	}
	return first, err
}

// Import implements [tape.Store].
func (m *Memory) Import(ctx context.Context, name, session, workspace string, entries iter.Seq2[tape.Entry, error]) error {
	t := &memoryTape{list: list{info: tape.Info{Tape: name}}, blobs: map[string][]byte{}}
	for e, err := range entries {
		if err == nil {
			_, err = t.append(tape.Batch{Create: len(t.entries) == 0, KeepIDs: true, Session: session, Workspace: workspace, Entries: []tape.Entry{e}})
		}
		if err != nil {
			return err
		}
	}
	if len(t.entries) == 0 {
		return fmt.Errorf("%w: the import has no entries", tape.ErrInvalid)
	}
	return m.do(ctx, name, true, func(other *memoryTape) error {
		if other != nil {
			return fmt.Errorf("%w: the tape exists", tape.ErrNotEmpty)
		}
		m.tapes[name] = t
		return nil
	})
}

// Read implements [tape.Store].
func (m *Memory) Read(ctx context.Context, name string, q tape.Query) iter.Seq2[tape.Entry, error] {
	return func(yield func(tape.Entry, error) bool) {
		var t *memoryTape
		var was list
		err := m.do(ctx, name, false, func(found *memoryTape) error {
			t, was = found, found.list
			return nil
		})
		if err != nil {
			yield(tape.Entry{}, err)
			return
		}
		for e, err := range tape.Select(ctx, was, q) {
			m.mu.Lock()
			if t.erased {
				e, err = tape.Entry{}, fmt.Errorf("%w: during the reading", tape.ErrDeleted)
			}
			m.mu.Unlock()
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}

// Info implements [tape.Store].
func (m *Memory) Info(ctx context.Context, name string) (info tape.Info, err error) {
	err = m.do(ctx, name, false, func(t *memoryTape) error {
		info = t.info
		return nil
	})
	return info, err
}

// Sessions implements [tape.Store].
func (m *Memory) Sessions(ctx context.Context, q tape.SessionQuery) iter.Seq2[tape.Info, error] {
	return func(yield func(tape.Info, error) bool) {
		last, err := q.Last()
		found, failed := m.find(ctx, func(in tape.Info) bool {
			return (q.Workspace == "" || in.Workspace == q.Workspace) && strings.HasPrefix(in.Session, q.Prefix) && (q.After == "" || newer(last, in) < 0)
		})
		if err == nil {
			err = failed
		}
		if err != nil {
			yield(tape.Info{}, err)
			return
		}
		for i, in := range found {
			if q.Limit > 0 && i == q.Limit || !yield(in, context.Cause(ctx)) {
				return
			}
		}
	}
}

// newer orders sessions, the one with the newest entry first.
func newer(a, b tape.Info) int {
	return cmp.Or(b.Updated.Compare(a.Updated), cmp.Compare(a.Tape, b.Tape))
}

// find returns the tapes that are selected, the one with the newest entry first.
func (m *Memory) find(ctx context.Context, selects func(tape.Info) bool) (found []tape.Info, err error) {
	err = m.do(ctx, "any", true, func(*memoryTape) error {
		for _, t := range m.tapes {
			if selects(t.info) {
				found = append(found, t.info)
			}
		}
		return nil
	})
	slices.SortFunc(found, newer)
	return found, err
}

// Count implements [tape.Store].
func (m *Memory) Count(ctx context.Context, owner string) (int, error) {
	all, err := m.find(ctx, func(in tape.Info) bool { return owner == "" || tape.OwnerOf(in.Session) == owner })
	return len(all), err
}

// Unused implements [tape.Store]. Each session counts as named.
func (m *Memory) Unused(ctx context.Context, before time.Time, unnamed bool, limit int) ([]tape.Info, error) {
	all, err := m.find(ctx, func(in tape.Info) bool { return !unnamed && in.Updated.Before(before) })
	slices.Reverse(all)
	return all[:min(limit, len(all))], err
}

// Delete implements [tape.Store].
func (m *Memory) Delete(ctx context.Context, name string) error {
	return m.do(ctx, name, true, func(t *memoryTape) error {
		if t != nil {
			t.erased = true
			delete(m.tapes, name)
		}
		return nil
	})
}

// PutBlob implements [tape.Store].
func (m *Memory) PutBlob(ctx context.Context, name string, data []byte) (handle string, err error) {
	sum := sha256.Sum256(data)
	handle = hex.EncodeToString(sum[:])
	return handle, m.do(ctx, name, false, func(t *memoryTape) error {
		t.blobs[handle] = bytes.Clone(data)
		return nil
	})
}

// ReadBlob implements [tape.Store].
func (m *Memory) ReadBlob(ctx context.Context, name, handle string, offset, limit int64) (data []byte, size int64, err error) {
	err = m.do(ctx, name, false, func(t *memoryTape) error {
		blob, ok := t.blobs[handle]
		if !ok {
			return fmt.Errorf("%w: the tape has no such blob", tape.ErrNotFound)
		}
		size = int64(len(blob))
		from := min(offset, size)
		data = bytes.Clone(blob[from : from+min(limit, size-from)])
		return nil
	})
	return data, size, err
}

// Lease implements [tape.Store].
func (m *Memory) Lease(ctx context.Context, name string, wait bool) (tape.Lease, error) {
	if err := m.do(ctx, name, true, func(*memoryTape) error { return nil }); err != nil {
		return nil, err
	}
	return m.leases.Lease(ctx, name, wait)
}

// Close implements [tape.Store].
func (m *Memory) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	return nil
}
