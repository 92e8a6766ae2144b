package postgres

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"strings"
	"sync"

	"github.com/lingserve/lingserve/internal/backoff"
	"github.com/lingserve/lingserve/store"
	"github.com/lingserve/lingserve/store/postgres/database"
)

// watcher is one call of Watch.
type watcher struct {
	prefix string

	// Of the caller's goroutine:
	known map[string]uint64 // revisions of the records that were yielded
	from  uint64            // changes up to this revision are in known

	mu      sync.Mutex
	pending map[string]store.Change // by key, the last one alone
	compare bool                    // all records have to be compared before
	wake    chan struct{}
}

// tell adds changes to those that wait. With compare, the records are read instead.
func (w *watcher) tell(changes []store.Change, compare bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if compare {
		w.compare = true
		clear(w.pending)
		changes = nil
	}
	for _, c := range changes {
		if strings.HasPrefix(c.Key, w.prefix) {
			w.pending[c.Key] = c
		}
	}
	if w.compare || len(w.pending) > 0 {
		select {
		case w.wake <- struct{}{}:
		default:
		}
	}
}

// take returns the changes that wait, in the order of revisions.
func (w *watcher) take() (changes []store.Change, compare bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.compare {
		w.compare = false
		return nil, true
	}
	for _, c := range w.pending {
		changes = append(changes, c)
	}
	clear(w.pending)
	sortByRev(changes)
	return changes, false
}

func sortByRev(changes []store.Change) {
	slices.SortFunc(changes, func(a, b store.Change) int { return cmp.Compare(a.Rev, b.Rev) })
}

// Watch implements [store.Table].
func (t *Table) Watch(ctx context.Context, prefix string) iter.Seq2[store.Change, error] {
	return func(yield func(store.Change, error) bool) {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		stop := context.AfterFunc(t.e.end, func() { cancel(store.ErrClosed) })
		defer stop()
		w := &watcher{prefix: prefix, known: map[string]uint64{}, pending: map[string]store.Change{}, wake: make(chan struct{}, 1)}
		ready, err := t.watch(w)
		if err != nil {
			yield(store.Change{}, err)
			return
		}
		defer t.unwatch(w)
		for c, err := range t.follow(ctx, w, ready) {
			if !yield(c, err) {
				return
			}
		}
	}
}

// follow yields what a watcher is to be told, and waits as long as the database is away.
func (t *Table) follow(ctx context.Context, w *watcher, ready <-chan struct{}) iter.Seq2[store.Change, error] {
	return func(yield func(store.Change, error) bool) {
		select {
		case <-ready:
		case <-ctx.Done():
			yield(store.Change{}, context.Cause(ctx))
			return
		}
		live, compared := false, true
		changes, err := t.compare(ctx, w, true)
		for {
			if err != nil {
				yield(store.Change{}, err)
				return
			}
			for _, c := range changes {
				if w.learn(c, compared) && !yield(c, nil) {
					return
				}
			}
			if !live && !yield(store.Change{Live: true}, nil) {
				return
			}
			live = true
			select {
			case <-w.wake:
			case <-ctx.Done():
				yield(store.Change{}, context.Cause(ctx))
				return
			}
			if changes, compared = w.take(); compared {
				changes, err = t.compare(ctx, w, false)
			} else {
				changes = slices.DeleteFunc(changes, func(c store.Change) bool { return c.Rev <= w.from })
			}
		}
	}
}

// learn records a change that is yielded. It reports false if there is nothing to tell: the first reading has perhaps found a later state
// than its revision. If records were compared, what they are now counts, also if it is earlier.
func (w *watcher) learn(c store.Change, compared bool) bool {
	rev, known := w.known[c.Key]
	switch {
	case known && rev >= c.Rev && !compared:
		return false
	case c.Gone:
		delete(w.known, c.Key)
		return known
	}
	w.known[c.Key] = c.Rev
	return true
}

// compare reads all records, and returns what is other than known. It tries until ctx ends, whose cause is the only error.
func (t *Table) compare(ctx context.Context, w *watcher, first bool) ([]store.Change, error) {
	for pauses := database.NewPauses(); ; {
		changes, from, err := t.difference(ctx, w, first)
		if err == nil {
			w.from = from
			return changes, nil
		}
		if err := backoff.Sleep(ctx, pauses.NextBackOff()); err != nil {
			return nil, err
		}
	}
}

// difference returns what is other than known, up to a revision: later changes come from the feed. Only the first reading also returns records
// that have changed later, because all records have to be yielded before Live.
func (t *Table) difference(ctx context.Context, w *watcher, first bool) (changes []store.Change, from uint64, err error) {
	h, err := t.head(ctx)
	if err != nil {
		return nil, 0, err
	}
	there := map[string]bool{}
	for r, err := range t.Range(ctx, w.prefix, false) {
		if err != nil {
			return nil, 0, err
		}
		there[r.Key] = true
		if (first || r.Rev <= h.rev) && w.known[r.Key] != r.Rev {
			changes = append(changes, store.Change{Record: r})
		}
	}
	for key := range w.known {
		if !there[key] {
			changes = append(changes, store.Change{Record: store.Record{Key: key, Rev: h.rev}, Gone: true})
		}
	}
	sortByRev(changes)
	return changes, h.rev, nil
}
