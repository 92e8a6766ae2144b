// Package memory keeps tapes in memory: for tests and for sessions that may be lost. Its results are those of every other
// store, its size is bounded, and nothing is left at the end.
package memory

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"iter"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lingserve/lingserve/tape"
	"github.com/lingserve/lingserve/tape/internal/recent"
)

// Options of a store. The zero value has the defaults.
type Options struct {
	MaxBytes int64         // of all entries and blobs; 0 is 256 MiB. An append beyond it is tape.ErrTooLarge.
	Observer tape.Observer // is told what is appended, to count it; nil is nobody
}

const defaultBytes = 256 << 20

// cost is what an entry takes beside its payload and meta.
const cost = 128

// Store is a tape.Store with blobs and leases.
type Store struct {
	max      int64
	observer tape.Observer // nil is nobody

	mu     sync.RWMutex
	tapes  map[string]*strip
	recent recent.Index[struct{}]   // of the tapes, without forks
	leases map[string]chan struct{} // closed when the lease is free again
	size   int64
	closed bool
}

var (
	_ tape.Store    = (*Store)(nil)
	_ tape.Blobs    = (*Store)(nil)
	_ tape.Leaser   = (*Store)(nil)
	_ tape.Importer = (*Store)(nil)
)

// New returns an empty store. opts may be nil.
func New(opts *Options) *Store {
	s := &Store{max: defaultBytes, tapes: map[string]*strip{}, leases: map[string]chan struct{}{}}
	if opts != nil {
		s.observer = opts.Observer
		if opts.MaxBytes > 0 {
			s.max = opts.MaxBytes
		}
	}
	return s
}

// strip is one tape. Its slices only grow, so a reader goes on with the ones it took.
type strip struct {
	info    tape.Info
	entries []tape.Entry
	anchors []tape.AnchorRef
	blobs   map[string][]byte
	size    int64
	erased  atomic.Bool
}

// Append implements tape.Store.
func (s *Store) Append(ctx context.Context, name string, b tape.Batch) (int64, error) {
	if err := tape.CheckName(name); err != nil {
		return 0, err
	}
	entries, err := b.Check()
	if err != nil {
		return 0, err
	}
	for i := range entries {
		entries[i].Payload = bytes.Clone(entries[i].Payload)
		entries[i].Meta = bytes.Clone(entries[i].Meta)
	}
	if err := context.Cause(ctx); err != nil {
		return 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return 0, tape.ErrClosed
	}
	t := s.tapes[name]
	if t == nil {
		t = &strip{info: tape.Info{Tape: name}}
	}
	written, err := b.Number(entries, t.info, time.Now(), func(after int64) iter.Seq2[tape.Entry, error] {
		return t.snapshot().Entries(after, t.info.LastID+1, false)
	})
	if err != nil || written > 0 {
		return written, err
	}
	before := t.info.Bytes
	err = s.add(t, b, entries)
	if s.observer != nil {
		s.observer.Appended(len(entries), t.info.Bytes-before, err)
	}
	if err != nil {
		return 0, err
	}
	s.tapes[name] = t
	return entries[0].ID, nil
}

// add appends what is numbered; mu is held.
func (s *Store) add(t *strip, b tape.Batch, entries []tape.Entry) error {
	var size int64
	for _, e := range entries {
		size += int64(len(e.Payload) + len(e.Meta) + cost)
	}
	if err := s.take(t, size); err != nil {
		return err
	}
	t.entries = append(t.entries, entries...)
	for _, e := range entries {
		if e.Kind == tape.KindAnchor {
			t.anchors = append(t.anchors, tape.AnchorOf(e))
		}
	}
	t.info.AddBatch(b, entries)
	t.info.Bytes += size
	if i := t.info; !tape.IsFork(i.Tape) {
		s.recent.Put(recent.Session[struct{}]{Tape: i.Tape, Session: i.Session, Workspace: i.Workspace, Updated: i.Updated.UnixMicro()})
	}
	return nil
}

// take makes size bytes the tape's, if there are as many; mu is held.
func (s *Store) take(t *strip, size int64) error {
	if s.size+size > s.max {
		return fmt.Errorf("%w: the store holds %d bytes at most and has %d; no space for %d more", tape.ErrTooLarge, s.max, s.size, size)
	}
	s.size += size
	t.size += size
	return nil
}

// Import implements tape.Importer.
func (s *Store) Import(ctx context.Context, name, session, workspace string, entries iter.Seq2[tape.Entry, error]) error {
	b := tape.Batch{Create: true, KeepIDs: true, Session: session, Workspace: workspace}
	var size int64
	for e, err := range entries {
		if err != nil {
			return err
		}
		e.Payload, e.Meta = bytes.Clone(e.Payload), bytes.Clone(e.Meta)
		if size += int64(len(e.Payload) + len(e.Meta) + cost); size > s.max {
			return fmt.Errorf("%w: the store holds %d bytes at most", tape.ErrTooLarge, s.max)
		}
		b.Entries = append(b.Entries, e)
	}
	_, err := s.Append(ctx, name, b)
	return err
}

// get returns a tape that exists.
func (s *Store) get(name string) (*strip, error) {
	switch t := s.tapes[name]; {
	case s.closed:
		return nil, tape.ErrClosed
	case t == nil:
		return nil, fmt.Errorf("%w: unknown tape %.80q", tape.ErrNotFound, name)
	default:
		return t, nil
	}
}

// Read implements tape.Store.
func (s *Store) Read(ctx context.Context, name string, q tape.Query) iter.Seq2[tape.Entry, error] {
	return func(yield func(tape.Entry, error) bool) {
		s.mu.RLock()
		t, err := s.get(name)
		var src snapshot
		if err == nil {
			src = t.snapshot()
		}
		s.mu.RUnlock()
		if err != nil {
			yield(tape.Entry{}, err)
			return
		}
		tape.Select(ctx, src, q)(yield)
	}
}

// snapshot is a tape as it was at one moment.
type snapshot struct {
	entries []tape.Entry
	anchors []tape.AnchorRef
	erased  *atomic.Bool
}

func (t *strip) snapshot() snapshot { return snapshot{t.entries, t.anchors, &t.erased} }

// Entries implements tape.Source.
func (s snapshot) Entries(after, before int64, newest bool) iter.Seq2[tape.Entry, error] {
	return func(yield func(tape.Entry, error) bool) {
		from, _ := slices.BinarySearchFunc(s.entries, after+1, byID)
		to, _ := slices.BinarySearchFunc(s.entries, before, byID)
		for n := range to - from {
			i := from + n
			if newest {
				i = to - 1 - n
			}
			if s.erased.Load() {
				yield(tape.Entry{}, fmt.Errorf("%w: the session was erased while it was read", tape.ErrDeleted))
				return
			}
			if !yield(s.entries[i], nil) {
				return
			}
		}
	}
}

func byID(e tape.Entry, id int64) int {
	switch {
	case e.ID < id:
		return -1
	case e.ID > id:
		return 1
	}
	return 0
}

// Anchors implements tape.Source.
func (s snapshot) Anchors() iter.Seq2[tape.AnchorRef, error] {
	return func(yield func(tape.AnchorRef, error) bool) {
		for _, a := range slices.Backward(s.anchors) {
			if !yield(a, nil) {
				return
			}
		}
	}
}

// Info implements tape.Store.
func (s *Store) Info(_ context.Context, name string) (tape.Info, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	t, err := s.get(name)
	if err != nil {
		return tape.Info{}, err
	}
	return t.info, nil
}

// Sessions implements tape.Store.
func (s *Store) Sessions(_ context.Context, q tape.SessionQuery) iter.Seq2[tape.Info, error] {
	return func(yield func(tape.Info, error) bool) {
		last, err := q.Last()
		if err != nil {
			yield(tape.Info{}, err)
			return
		}
		s.mu.Lock()
		closed := s.closed
		page := s.recent.Page(q, last, q.Limit)
		infos := make([]tape.Info, len(page))
		for i, at := range page {
			infos[i] = s.tapes[at.Tape].info
		}
		s.mu.Unlock()
		if closed {
			yield(tape.Info{}, tape.ErrClosed)
			return
		}
		for _, info := range infos {
			if !yield(info, nil) {
				return
			}
		}
	}
}

// Count implements [tape.Counter].
func (s *Store) Count(context.Context) (int, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return 0, tape.ErrClosed
	}
	return s.recent.Len(), nil
}

// Delete implements tape.Store.
func (s *Store) Delete(_ context.Context, name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return tape.ErrClosed
	}
	for other, t := range s.tapes {
		if other == name || tape.ForkOf(other, name) {
			t.erased.Store(true)
			s.size -= t.size
			delete(s.tapes, other)
			s.recent.Delete(other)
		}
	}
	return nil
}

// PutBlob implements tape.Blobs.
func (s *Store) PutBlob(_ context.Context, name string, data []byte) (string, error) {
	sum := sha256.Sum256(data)
	handle := hex.EncodeToString(sum[:])
	s.mu.Lock()
	defer s.mu.Unlock()
	t, err := s.get(name)
	if err != nil {
		return "", err
	}
	if _, ok := t.blobs[handle]; ok {
		return handle, nil
	}
	if err := s.take(t, int64(len(data)+cost)); err != nil {
		return "", err
	}
	if t.blobs == nil {
		t.blobs = map[string][]byte{}
	}
	t.blobs[handle] = bytes.Clone(data)
	return handle, nil
}

// ReadBlob implements tape.Blobs.
func (s *Store) ReadBlob(_ context.Context, name, handle string, offset, limit int64) ([]byte, int64, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	t, err := s.get(name)
	if err != nil {
		return nil, 0, err
	}
	data, ok := t.blobs[handle]
	if !ok {
		return nil, 0, fmt.Errorf("%w: the session has no blob %.80q", tape.ErrNotFound, handle)
	}
	size := int64(len(data))
	offset = min(offset, size)
	return bytes.Clone(data[offset:min(size, offset+min(limit, size))]), size, nil
}

// Lease implements tape.Leaser, for callers in this process.
func (s *Store) Lease(ctx context.Context, name string, wait bool) (tape.Lease, error) {
	for {
		s.mu.Lock()
		if s.closed {
			s.mu.Unlock()
			return nil, tape.ErrClosed
		}
		busy := s.leases[name]
		if busy == nil {
			l := &lease{s: s, name: name, free: make(chan struct{})}
			s.leases[name] = l.free
			s.mu.Unlock()
			return l, nil
		}
		s.mu.Unlock()
		if !wait {
			return nil, tape.ErrLeased
		}
		select {
		case <-busy:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

type lease struct {
	s    *Store
	name string
	free chan struct{}
	once sync.Once
}

// Lost implements tape.Lease: a lease in memory is never lost.
func (*lease) Lost() <-chan struct{} { return nil }

// Release implements tape.Lease.
func (l *lease) Release() {
	l.once.Do(func() {
		l.s.mu.Lock()
		delete(l.s.leases, l.name)
		l.s.mu.Unlock()
		close(l.free)
	})
}

// Close implements tape.Store.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for _, t := range s.tapes {
		t.erased.Store(true) // readers end
	}
	s.tapes, s.recent = nil, recent.Index[struct{}]{}
	return nil
}
