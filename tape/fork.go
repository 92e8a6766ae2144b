package tape

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
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
	own   []Entry // with ids from at+1 on, without gaps
	info  Info    // of the parent's entries up to at, and the own ones
	ended bool    // merged or dropped
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
	fork.fork = &forkState{parent: t, at: info.LastID, id: hex.EncodeToString(id[:]), info: info}
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
	for len(s.own) > 0 {
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
		for _, e := range s.own {
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
	s.own, s.ended = nil, true
}

// check returns why the fork cannot be used: it has ended, or its session was erased. The caller has the lock.
func (s *forkState) check(ctx context.Context) error {
	if s.ended {
		return fmt.Errorf("%w: the fork has ended", ErrDeleted)
	}
	_, err := s.parent.Info(ctx)
	return err
}

func (s *forkState) append(ctx context.Context, b Batch) (first int64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.check(ctx); err != nil {
		return 0, err
	}
	entries, err := b.Check()
	if err == nil {
		err = b.Number(entries, s.info, now())
	}
	if err != nil {
		return 0, err
	}
	for i, e := range entries {
		entries[i].Payload, entries[i].Meta = bytes.Clone(e.Payload), bytes.Clone(e.Meta)
	}
	s.own = append(s.own, entries...)
	s.info.AddBatch(b, entries)
	return entries[0].ID, nil
}

// snapshot returns the fork's own entries, and its info.
func (s *forkState) snapshot(ctx context.Context) ([]Entry, Info, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.own, s.info, s.check(ctx)
}

func (s *forkState) read(ctx context.Context, q Query) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		own, _, err := s.snapshot(ctx)
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
	own []Entry
}

// Entries implements [Source].
func (s forkSource) Entries(after, before int64, newest bool) iter.Seq2[Entry, error] {
	return s.read(Query{After: after, Before: before, Newest: newest})
}

// Anchors implements [Source].
func (s forkSource) Anchors() iter.Seq2[AnchorRef, error] {
	return anchorsOf(s.read(Query{Before: math.MaxInt64, Newest: true, Kinds: []Kind{KindAnchor}}))
}

// read yields the entries that q selects by ids and kinds: the parent's, and the fork's own behind them.
func (s forkSource) read(q Query) iter.Seq2[Entry, error] {
	own := slices.DeleteFunc(slices.Clone(s.own), func(e Entry) bool {
		return e.ID <= q.After || e.ID >= q.Before || q.Kinds != nil && !slices.Contains(q.Kinds, e.Kind)
	})
	q.Before = min(q.Before, s.at+1)
	return func(yield func(Entry, error) bool) {
		yieldOwn := func() bool {
			for _, e := range own {
				if !yield(e, nil) {
					return false
				}
			}
			return true
		}
		if q.Newest {
			if slices.Reverse(own); !yieldOwn() {
				return
			}
		}
		for e, err := range s.parent.Read(s.ctx, q) {
			if !yield(e, err) || err != nil {
				return
			}
		}
		if !q.Newest {
			yieldOwn()
		}
	}
}
