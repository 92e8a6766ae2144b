package tape

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"
)

// Fork is a tape that begins where its parent was: it sees the parent's entries up to At, then its own. The parent sees nothing of it before
// it is merged. The fork's own entries are in memory, so a process that dies leaves nothing of it.
type Fork struct {
	*Tape
	At    int64 // last id of the parent when the fork began; the fork's own ids go on from there
	store *forkStore
}

// forkStore is the store of the handles of a fork: it has the entries of their tape, and all else is the parent's.
type forkStore struct {
	Store
	id string // meta.fork of what is merged

	mu sync.Mutex
	forkState
	ended bool // merged or dropped
}

// forkState is what a fork has at one moment.
type forkState struct {
	parent *Tape
	at     int64
	own    []Entry // with ids from at+1 on, without gaps
	info   Info    // of the parent's entries up to at, and the own ones
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
			err = errors.Join(err, f.store.Delete(ctx, f.name))
			return
		}
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), mergeTime)
		defer cancel()
		err = errors.Join(err, f.Merge(end))
	}()
	return fn(ctx, f)
}

// Fork begins a fork that ends with Merge or Delete. WithFork does both.
func (t *Tape) Fork(ctx context.Context) (*Fork, error) {
	info, err := t.Info(ctx)
	if err != nil {
		return nil, err
	}
	store := &forkStore{Store: t.store, id: rand.Text(), forkState: forkState{parent: t, at: info.LastID, info: info}}
	fork := *t
	fork.store = store
	return &Fork{Tape: &fork, At: info.LastID, store: store}, nil
}

// ID is what meta.fork of the entries is after the merge.
func (f *Fork) ID() string { return f.store.id }

// Merge appends the fork's entries to the parent as one batch, under new ids; meta.refs and meta.source that point into the fork are changed
// with them. The fork has ended then. After an error it has not, and Merge can be tried again.
func (f *Fork) Merge(ctx context.Context) error {
	s := f.store
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
func (s *forkStore) merge(ctx context.Context) error {
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
func (s *forkStore) shift(ids []int64, by int64) {
	for i := range ids {
		if ids[i] > s.at {
			ids[i] += by
		}
	}
}

// Delete implements [Store]: it ends the fork without a merge.
func (s *forkStore) Delete(context.Context, string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.own, s.ended = nil, true
	return nil
}

// check returns why the fork cannot be used: it has ended, or its session was erased. The caller has the lock.
func (s *forkStore) check(ctx context.Context) error {
	if s.ended {
		return fmt.Errorf("%w: the fork has ended", ErrDeleted)
	}
	_, err := s.parent.Info(ctx)
	return err
}

// Append implements [Store].
func (s *forkStore) Append(ctx context.Context, _ string, b Batch) (first int64, err error) {
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

// Info implements [Store].
func (s *forkStore) Info(ctx context.Context, _ string) (Info, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.info, s.check(ctx)
}

// Read implements [Store].
func (s *forkStore) Read(ctx context.Context, _ string, q Query) iter.Seq2[Entry, error] {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Select(ctx, forkSource{ctx, s.forkState}, q)
}

// forkSource is a fork as it was when a read began.
type forkSource struct {
	ctx context.Context
	forkState
}

// Info implements [Source].
func (s forkSource) Info() Info { return s.info }

// Entries implements [Source]: the parent's, and the fork's own behind them.
func (s forkSource) Entries(after, before int64, newest, anchors bool) iter.Seq2[Entry, error] {
	q := Query{After: after, Before: min(before, s.at+1), Newest: newest}
	if anchors {
		q.Kinds = []Kind{KindAnchor}
	}
	own := slices.DeleteFunc(slices.Clone(s.own), func(e Entry) bool { return e.ID <= after || e.ID >= before || anchors && e.Kind != KindAnchor })
	if newest {
		slices.Reverse(own)
		return concat(entriesOf(own...), s.parent.Read(s.ctx, q))
	}
	return concat(s.parent.Read(s.ctx, q), entriesOf(own...))
}

func entriesOf(entries ...Entry) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		for _, e := range entries {
			if !yield(e, nil) {
				return
			}
		}
	}
}

func concat(all ...iter.Seq2[Entry, error]) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		for _, entries := range all {
			for e, err := range entries {
				if !yield(e, err) || err != nil {
					return
				}
			}
		}
	}
}
