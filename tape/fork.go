package tape

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Fork is a tape of its own that begins where its parent was: it sees the parent's entries up to At, then its own. The
// parent sees nothing of it before it is merged.
type Fork struct {
	*Tape
	At int64 // last id of the parent when the fork began; the fork's own ids go on from there
}

// forkState is what a Tape has that is a fork. Its own entries are a tape in the store, named
// parent.At-id; it exists from the first append on.
type forkState struct {
	parent *Tape
	at     int64
	id     string // meta.fork of what is merged
	base   Info   // the parent when the fork began

	mu    sync.Mutex
	made  bool      // the tape exists
	born  time.Time // date of its first entry
	ended bool      // merged or dropped
}

// mergeTime bounds a merge, which goes on when its turn was canceled.
const mergeTime = 10 * time.Second

// WithFork calls fn with a fork of t. When fn ends, the fork's entries go to t as one batch, or with mergeBack
// false away. An error of fn, its panic, or the end of ctx makes no difference to that: the error is returned,
// joined with that of the merge; the panic goes on.
func WithFork(ctx context.Context, t *Tape, mergeBack bool, fn func(ctx context.Context, f *Fork) error) (err error) {
	f, err := t.Fork(ctx)
	if err != nil {
		return err
	}
	defer func() {
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), mergeTime)
		defer cancel()
		if mergeBack {
			err = errors.Join(err, f.Merge(end))
		} else {
			err = errors.Join(err, f.Drop(end))
		}
	}()
	return fn(ctx, f)
}

// Fork begins a fork that ends with Merge or Drop. WithFork does both.
func (t *Tape) Fork(ctx context.Context) (*Fork, error) {
	info, err := t.Info(ctx)
	if err != nil {
		return nil, err
	}
	var random [8]byte
	_, _ = rand.Read(random[:]) // never fails
	id := hex.EncodeToString(random[:])
	name := t.name + forkMark + strconv.FormatInt(info.LastID, 10) + "-" + id
	if err := CheckName(name); err != nil {
		return nil, fmt.Errorf("forks are nested too deeply: %w", err)
	}
	return t.newFork(name, info.LastID, id, info), nil
}

func (t *Tape) newFork(name string, at int64, id string, base Info) *Fork {
	return &Fork{At: at, Tape: &Tape{
		store: t.store, name: name, session: t.session, workspace: t.workspace, born: t.born,
		fork: &forkState{parent: t, at: at, id: id, base: base},
	}}
}

// OpenFork returns a fork that was begun before, perhaps by a process that died: its Merge or Drop ends it, once, however
// often it is tried. A fork that has ended already, or that has no entries, is one without entries.
func (t *Tape) OpenFork(ctx context.Context, name string) (*Fork, error) {
	rest, ours := strings.CutPrefix(name, t.name+forkMark)
	number, id, ok := strings.Cut(rest, "-")
	at, err := strconv.ParseInt(number, 10, 64)
	if !ours || !ok || err != nil || CheckName(name) != nil || strings.Contains(id, forkMark) {
		return nil, fmt.Errorf("%w: %.80q is not the name of a fork of %s", ErrInvalid, name, t.name)
	}
	// What the parent was then is not written anywhere but in its entries.
	var base Info
	for e, err := range t.Read(ctx, Query{Before: at + 1}) {
		if err != nil {
			return nil, err
		}
		base.Add(e)
	}
	f := t.newFork(name, at, id, base)
	own, err := t.store.Info(ctx, name)
	switch {
	case err == nil:
		f.fork.made, f.fork.born = true, own.Created
	case !errors.Is(err, ErrNotFound):
		return nil, err
	}
	return f, nil
}

// ID is what meta.fork of the entries is after the merge.
func (f *Fork) ID() string { return f.fork.id }

// Merge appends the fork's entries to the parent as one batch, under new ids; meta.refs and meta.source that point into
// the fork are changed with them. The fork is over then. After an error it is not, and Merge can be tried again.
func (f *Fork) Merge(ctx context.Context) error {
	s := f.fork
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return nil
	}
	if s.made {
		var own []Entry
		for e, err := range f.store.Read(ctx, f.name, Query{}) {
			if err != nil {
				return fmt.Errorf("merge fork: %w", gone(err))
			}
			own = append(own, e.With(Meta{Fork: s.id}))
		}
		if len(own) > 0 {
			if _, err := s.parent.append(ctx, Batch{Entries: own, Fork: s.id, ForkAt: s.at}); err != nil {
				return fmt.Errorf("merge fork: %w", err)
			}
		}
	}
	return f.end(ctx)
}

// Drop erases the fork.
func (f *Fork) Drop(ctx context.Context) error { return f.dropFork(ctx) }

func (t *Tape) dropFork(ctx context.Context) error {
	t.fork.mu.Lock()
	defer t.fork.mu.Unlock()
	if t.fork.ended {
		return nil
	}
	return t.end(ctx)
}

// end erases the fork's own tape; mu is held.
func (t *Tape) end(ctx context.Context) error {
	if t.fork.made {
		if err := t.store.Delete(ctx, t.name); err != nil {
			return fmt.Errorf("remove fork: %w", err)
		}
	}
	t.fork.ended = true
	return nil
}

// over is the error of a fork that has ended.
func (s *forkState) over() error {
	if s.ended {
		return fmt.Errorf("%w: the fork has ended", ErrDeleted)
	}
	return nil
}

func (t *Tape) appendFork(ctx context.Context, b Batch) (int64, error) {
	s := t.fork
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.over(); err != nil {
		return 0, err
	}
	if s.made {
		b.Born = s.born
		if b.IfLast == s.at { // others have appended since
			b.IfLast = -1
		}
		first, err := t.store.Append(ctx, t.name, b)
		return first, gone(err)
	}
	// The session may have been erased, and with it its forks: this one must not come back.
	if _, err := s.parent.Info(ctx); err != nil {
		return 0, err
	}
	if b.IfLast != 0 && b.IfLast != s.at {
		return 0, fmt.Errorf("%w: the last id is %d, not %d", ErrMoved, s.at, b.IfLast)
	}
	entries := make([]Entry, len(b.Entries))
	for i, e := range b.Entries {
		e.ID = s.at + 1 + int64(i)
		if e.Date.IsZero() {
			e.Date = now()
		}
		entries[i] = e
	}
	b.Entries, b.Create, b.KeepIDs, b.IfLast = entries, true, true, 0
	first, err := t.store.Append(ctx, t.name, b)
	if err == nil {
		s.made, s.born = true, entries[0].Date.UTC().Truncate(time.Microsecond)
	}
	return first, err
}

// own tells about the fork's own entries; made is false when there are none.
func (t *Tape) own(ctx context.Context) (info Info, made bool, err error) {
	s := t.fork
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.over(); err != nil {
		return Info{}, false, err
	}
	if !s.made {
		_, err := s.parent.Info(ctx) // erased with its session?
		return Info{}, false, err
	}
	info, err = t.store.Info(ctx, t.name)
	if err == nil && !info.Created.Equal(s.born) {
		err = ErrNotFound
	}
	return info, true, gone(err)
}

func (t *Tape) forkInfo(ctx context.Context) (Info, error) {
	own, made, err := t.own(ctx)
	if err != nil {
		return Info{}, err
	}
	info := t.fork.base
	info.Tape = t.name
	if !made {
		return info, nil
	}
	info.Entries += own.Entries
	info.Anchors += own.Anchors
	info.Bytes += own.Bytes
	info.Unreadable += own.Unreadable
	info.LastID, info.Updated = own.LastID, own.Updated
	if own.Anchors > 0 {
		info.LastAnchor = own.LastAnchor
	}
	if info.Title == "" {
		info.Title = own.Title
	}
	info.Agent = cmp.Or(own.Agent, info.Agent)
	return info, nil
}

func (t *Tape) readFork(ctx context.Context, q Query) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		own, made, err := t.own(ctx)
		if err != nil {
			yield(Entry{}, err)
			return
		}
		src := forkSource{ctx: ctx, t: t, last: t.fork.at}
		if made {
			src.last = own.LastID
		}
		Select(ctx, src, q)(yield)
	}
}

// forkSource is a fork as it was when a read began.
type forkSource struct {
	ctx  context.Context
	t    *Tape
	last int64 // at, when it had no entries of its own
}

func (s forkSource) Entries(after, before int64, newest bool) iter.Seq2[Entry, error] {
	at := s.t.fork.at
	parts := []iter.Seq2[Entry, error]{
		func(yield func(Entry, error) bool) {
			if after < at {
				s.t.fork.parent.Read(s.ctx, Query{After: after, Before: min(before, at+1), Newest: newest})(yield)
			}
		},
		func(yield func(Entry, error) bool) {
			if at < s.last && at+1 < before {
				s.t.store.Read(s.ctx, s.t.name, Query{After: max(after, at), Before: min(before, s.last+1), Newest: newest})(yield)
			}
		},
	}
	if newest {
		parts[0], parts[1] = parts[1], parts[0]
	}
	return concat(parts)
}

func (s forkSource) Anchors() iter.Seq2[AnchorRef, error] {
	return func(yield func(AnchorRef, error) bool) {
		q := Query{Kinds: []Kind{KindAnchor}, Newest: true}
		own, parent := q, q
		own.Before, parent.Before = s.last+1, s.t.fork.at+1
		parts := []iter.Seq2[Entry, error]{s.t.fork.parent.Read(s.ctx, parent)}
		if s.t.fork.at < s.last {
			parts = []iter.Seq2[Entry, error]{s.t.store.Read(s.ctx, s.t.name, own), parts[0]}
		}
		for e, err := range concat(parts) {
			if !yield(AnchorOf(e), err) || err != nil {
				return
			}
		}
	}
}

// concat yields one after another, up to an error.
func concat(parts []iter.Seq2[Entry, error]) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		for _, part := range parts {
			for e, err := range part {
				if !yield(e, gone(err)) || err != nil {
					return
				}
			}
		}
	}
}
