package tape

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
	"sync/atomic"
)

// Memory is a store whose tapes end with the process, for tests and examples.
type Memory struct {
	observer Observer

	mu     sync.Mutex
	closed bool
	tapes  map[string]*memoryTape
	leases map[string]chan struct{} // by tape; closed on release
}

// memoryTape is a tape. Entries and anchors are only appended to, so that readers may keep what they have.
type memoryTape struct {
	info    Info
	entries []Entry
	anchors []AnchorRef
	blobs   map[string][]byte
	erased  atomic.Bool
}

// NewMemory returns an empty store. The observer may be nil.
func NewMemory(observer Observer) *Memory {
	return &Memory{observer: observer, tapes: map[string]*memoryTape{}, leases: map[string]chan struct{}{}}
}

// check returns what keeps a call from beginning. The caller has the lock.
func (m *Memory) check(ctx context.Context, name string) error {
	if m.closed {
		return ErrClosed
	}
	if err := context.Cause(ctx); err != nil {
		return err
	}
	return CheckName(name)
}

// tape returns a tape that exists. The caller has the lock.
func (m *Memory) tape(ctx context.Context, name string) (*memoryTape, error) {
	if err := m.check(ctx, name); err != nil {
		return nil, err
	}
	t := m.tapes[name]
	if t == nil {
		return nil, fmt.Errorf("%w: the tape does not exist", ErrNotFound)
	}
	return t, nil
}

// Append implements [Store].
func (m *Memory) Append(ctx context.Context, name string, b Batch) (first int64, err error) {
	var size int64
	defer func() {
		if m.observer != nil {
			m.observer.Appended(len(b.Entries), size, err)
		}
	}()
	entries, err := b.Check()
	if err != nil {
		return 0, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.check(ctx, name); err != nil {
		return 0, err
	}
	t := m.tapes[name]
	if t == nil {
		t = &memoryTape{info: Info{Tape: name}, blobs: map[string][]byte{}}
	}
	written, err := b.Number(entries, t.info, now(), func(after int64) iter.Seq2[Entry, error] { return t.source().Entries(after, 1<<62, false) })
	if err != nil || written != 0 {
		return written, err
	}
	for _, e := range entries {
		e.Payload, e.Meta = bytes.Clone(e.Payload), bytes.Clone(e.Meta)
		t.entries = append(t.entries, e)
		if e.Kind == KindAnchor {
			t.anchors = append(t.anchors, AnchorOf(e))
		}
		size += int64(len(e.AppendJSON(nil))) + 1
	}
	t.info.AddBatch(b, entries)
	t.info.Bytes += size
	m.tapes[name] = t
	return entries[0].ID, nil
}

// Import implements [Importer].
func (m *Memory) Import(ctx context.Context, name, session, workspace string, entries iter.Seq2[Entry, error]) error {
	b := Batch{Create: true, KeepIDs: true, Session: session, Workspace: workspace}
	for e, err := range entries {
		if err != nil {
			return err
		}
		e.Payload, e.Meta = bytes.Clone(e.Payload), bytes.Clone(e.Meta) // the next one may be read into their memory
		b.Entries = append(b.Entries, e)
	}
	_, err := m.Append(ctx, name, b)
	return err
}

// memorySource is a tape as it was at one moment.
type memorySource struct {
	tape    *memoryTape
	entries []Entry
	anchors []AnchorRef
}

func (t *memoryTape) source() memorySource { return memorySource{t, t.entries, t.anchors} }

// Entries implements [Source].
func (s memorySource) Entries(after, before int64, newest bool) iter.Seq2[Entry, error] {
	find := func(id int64) int {
		i, _ := slices.BinarySearchFunc(s.entries, id, func(e Entry, id int64) int { return cmp.Compare(e.ID, id) })
		return i
	}
	list := s.entries[find(after+1):max(find(after+1), find(before))]
	return func(yield func(Entry, error) bool) {
		for i := range list {
			if newest {
				i = len(list) - 1 - i
			}
			if s.tape.erased.Load() {
				yield(Entry{}, fmt.Errorf("%w: during the reading", ErrDeleted))
				return
			}
			if !yield(list[i], nil) {
				return
			}
		}
	}
}

// Anchors implements [Source].
func (s memorySource) Anchors() iter.Seq2[AnchorRef, error] {
	return func(yield func(AnchorRef, error) bool) {
		for _, a := range slices.Backward(s.anchors) {
			if !yield(a, nil) {
				return
			}
		}
	}
}

// Read implements [Store].
func (m *Memory) Read(ctx context.Context, name string, q Query) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		m.mu.Lock()
		t, err := m.tape(ctx, name)
		var s memorySource
		if err == nil {
			s = t.source()
		}
		m.mu.Unlock()
		if err != nil {
			yield(Entry{}, err)
			return
		}
		Select(ctx, s, q)(yield)
	}
}

// Info implements [Store].
func (m *Memory) Info(ctx context.Context, name string) (Info, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	t, err := m.tape(ctx, name)
	if err != nil {
		return Info{}, err
	}
	return t.info, nil
}

// Sessions implements [Store].
func (m *Memory) Sessions(ctx context.Context, q SessionQuery) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		last, err := q.Last()
		var list []Info
		m.mu.Lock()
		if err == nil {
			err = m.check(ctx, "a")
		}
		for name, t := range m.tapes {
			if !IsFork(name) && (q.Workspace == "" || t.info.Workspace == q.Workspace) && strings.HasPrefix(t.info.Session, q.Prefix) {
				list = append(list, t.info)
			}
		}
		m.mu.Unlock()
		if err != nil {
			yield(Info{}, err)
			return
		}
		order := func(a, b Info) int { return cmp.Or(b.Updated.Compare(a.Updated), cmp.Compare(a.Tape, b.Tape)) }
		slices.SortFunc(list, order)
		n := 0
		for _, in := range list {
			switch {
			case q.After != "" && order(last, in) >= 0:
				continue
			case ctx.Err() != nil:
				yield(Info{}, context.Cause(ctx))
				return
			case !yield(in, nil):
				return
			}
			if n++; n == q.Limit {
				return
			}
		}
	}
}

// Count implements [Counter].
func (m *Memory) Count(ctx context.Context) (n int, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for name := range m.tapes {
		if !IsFork(name) {
			n++
		}
	}
	return n, m.check(ctx, "a")
}

// CountOf implements [Counter].
func (m *Memory) CountOf(ctx context.Context, session string) (n int, err error) {
	owner, _, owned := strings.Cut(session, "#")
	m.mu.Lock()
	defer m.mu.Unlock()
	for name, t := range m.tapes {
		other, _, has := strings.Cut(t.info.Session, "#")
		if !IsFork(name) && has == owned && (!owned || other == owner) {
			n++
		}
	}
	return n, m.check(ctx, "a")
}

// Delete implements [Store].
func (m *Memory) Delete(ctx context.Context, name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.check(ctx, name); err != nil {
		return err
	}
	for other, t := range m.tapes {
		if other == name || strings.HasPrefix(other, name+forkMark) {
			t.erased.Store(true)
			delete(m.tapes, other)
		}
	}
	return nil
}

// PutBlob implements [Blobs].
func (m *Memory) PutBlob(ctx context.Context, name string, data []byte) (handle string, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	t, err := m.tape(ctx, name)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(data)
	handle = hex.EncodeToString(sum[:])
	t.blobs[handle] = bytes.Clone(data)
	return handle, nil
}

// ReadBlob implements [Blobs].
func (m *Memory) ReadBlob(ctx context.Context, name, handle string, offset, limit int64) (data []byte, size int64, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	t, err := m.tape(ctx, name)
	if err != nil {
		return nil, 0, err
	}
	blob, ok := t.blobs[handle]
	if !ok {
		return nil, 0, fmt.Errorf("%w: the tape has no such blob", ErrNotFound)
	}
	size = int64(len(blob))
	from := min(offset, size)
	return bytes.Clone(blob[from : from+min(limit, size-from)]), size, nil
}

// Lease implements [Leaser].
func (m *Memory) Lease(ctx context.Context, name string, wait bool) (Lease, error) {
	for {
		m.mu.Lock()
		if err := m.check(ctx, name); err != nil {
			m.mu.Unlock()
			return nil, err
		}
		held := m.leases[name]
		if held == nil {
			l := &memoryLease{m: m, name: name, held: make(chan struct{})}
			m.leases[name] = l.held
			m.mu.Unlock()
			return l, nil
		}
		m.mu.Unlock()
		if !wait {
			return nil, fmt.Errorf("%w: %s", ErrLeased, name)
		}
		select {
		case <-held:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

type memoryLease struct {
	m    *Memory
	name string
	held chan struct{}
	once sync.Once
}

// Lost implements [Lease]: a lease in the process is never lost.
func (l *memoryLease) Lost() <-chan struct{} { return nil }

// Release implements [Lease].
func (l *memoryLease) Release() {
	l.once.Do(func() {
		l.m.mu.Lock()
		defer l.m.mu.Unlock()
		delete(l.m.leases, l.name)
		close(l.held)
	})
}

// Close implements [Store].
func (m *Memory) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	return nil
}
