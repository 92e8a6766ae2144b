package tape

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"
)

// Fork is a tape that begins where its parent was: it sees the parent's entries up to At, then its own. The parent sees nothing of it before
// it is merged. The fork's own entries are in memory, so a process that dies leaves nothing of it.
type Fork struct {
	*Tape
	At int64 // last id of the parent when the fork began; the fork's own ids go on from there
}

// forkState is what a Tape has that is a fork.
type forkState struct {
	parent *Tape
	at     int64
	id     string // meta.fork of what is merged

	mu    sync.Mutex
	own   list // its info counts the parent's entries up to at, too
	ended bool // merged or dropped
}

// mergeTime bounds a merge, which goes on when its turn was canceled.
const mergeTime = 10 * time.Second

// WithFork calls fn with a fork of t. When fn ends, the fork's entries go to t as one batch, or with mergeBack false away. An error of fn, its
// panic, or the end of ctx makes no difference to that: the error is returned, joined with that of the merge; the panic goes on.
func WithFork(ctx context.Context, t *Tape, mergeBack bool, fn func(ctx context.Context, f *Fork) error) (err error) {
	f, err := t.Fork(ctx)
	if err != nil {
		return err
	}
	defer func() {
		if !mergeBack {
			f.Drop()
			return
		}
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), mergeTime)
		defer cancel()
		err = errors.Join(err, f.Merge(end))
	}()
	return fn(ctx, f)
}

// Fork begins a fork that ends with Merge or Drop. WithFork does both.
func (t *Tape) Fork(ctx context.Context) (*Fork, error) {
	info, err := t.Info(ctx)
	if err != nil {
		return nil, err
	}
	var id [8]byte
	_, _ = rand.Read(id[:]) // never fails
	fork := *t
	fork.fork = &forkState{parent: t, at: info.LastID, id: hex.EncodeToString(id[:]), own: list{info: info}}
	return &Fork{Tape: &fork, At: info.LastID}, nil
}

// ID is what meta.fork of the entries is after the merge.
func (f *Fork) ID() string { return f.fork.id }

// Merge appends the fork's entries to the parent as one batch, under new ids; meta.refs and meta.source that point into the fork are changed
// with them. The fork has ended then. After an error it has not, and Merge can be tried again.
func (f *Fork) Merge(ctx context.Context) error {
	s := f.fork
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return nil
	}
	if err := s.merge(ctx); err != nil {
		return fmt.Errorf("merge fork: %w", err)
	}
	s.ended = true
	return nil
}

// merge merges the fork's entries, unless an earlier attempt has whose answer was lost. The caller has the lock.
func (s *forkState) merge(ctx context.Context) error {
	for len(s.own.entries) > 0 {
		info, err := s.parent.Info(ctx)
		if err != nil {
			return err
		}
		for e, err := range s.parent.Read(ctx, Query{After: s.at}) {
			if err != nil {
				return err
			}
			if MetaOf(e).Fork == s.id {
				return nil
			}
		}
		batch := Batch{IfLast: info.LastID}
		for _, e := range s.own.entries {
			m := MetaOf(e)
			s.shift(m.Refs, info.LastID-s.at)
			s.shift(m.Source, info.LastID-s.at)
			batch.Entries = append(batch.Entries, e.With(Meta{Fork: s.id, Refs: m.Refs, Source: m.Source}))
		}
		if _, err := s.parent.append(ctx, batch); !errors.Is(err, ErrMoved) {
			return err
		}
	}
	return nil
}

// shift adds by to the ids that point into the fork.
func (s *forkState) shift(ids []int64, by int64) {
	for i := range ids {
		if ids[i] > s.at {
			ids[i] += by
		}
	}
}

// Drop ends the fork without a merge.
func (f *Fork) Drop() { f.fork.drop() }

func (s *forkState) drop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.own, s.ended = list{}, true
}

// check returns why the fork cannot be used: it has ended, or its session was erased. The caller has the lock.
func (s *forkState) check(ctx context.Context) error {
	if s.ended {
		return fmt.Errorf("%w: the fork has ended", ErrDeleted)
	}
	_, err := s.parent.Info(ctx)
	return err
}

func (s *forkState) append(ctx context.Context, b Batch) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.check(ctx); err != nil {
		return 0, err
	}
	return s.own.append(b)
}

// snapshot returns the fork's own entries, and its info.
func (s *forkState) snapshot(ctx context.Context) (list, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.own, s.check(ctx)
}

func (s *forkState) read(ctx context.Context, q Query) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		own, err := s.snapshot(ctx)
		if err != nil {
			yield(Entry{}, err)
			return
		}
		Select(ctx, forkSource{ctx, s, own}, q)(yield)
	}
}

// forkSource is a fork as it was when a read began.
type forkSource struct {
	ctx context.Context
	*forkState
	own list
}

// Entries implements [Source].
func (s forkSource) Entries(after, before int64, newest bool) iter.Seq2[Entry, error] {
	parent := s.parent.Read(s.ctx, Query{After: after, Before: min(before, s.at+1), Newest: newest})
	own := s.own.Entries(after, before, newest)
	switch {
	case after >= s.at:
		return own
	case newest:
		return concat(own, parent)
	}
	return concat(parent, own)
}

// Anchors implements [Source].
func (s forkSource) Anchors() iter.Seq2[AnchorRef, error] {
	return concat(s.own.Anchors(), anchorsOf(s.parent.Read(s.ctx, Query{Kinds: []Kind{KindAnchor}, Newest: true, Before: s.at + 1})))
}

// concat yields one sequence after another, up to an error.
func concat[T any](parts ...iter.Seq2[T, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for _, part := range parts {
			for v, err := range part {
				if !yield(v, err) || err != nil {
					return
				}
			}
		}
	}
}
