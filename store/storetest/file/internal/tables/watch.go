package tables

import (
	"context"
	"iter"
	"strings"
	"sync"

	"github.com/lingserve/lingserve/store"
)

// watcher is one call of Watch.
type watcher struct {
	prefix string
	known  map[place]string // keys that were yielded, or will be; with the table's write lock

	mu      sync.Mutex
	pending map[string]store.Change
	wake    chan struct{}
}

// tell tells all watchers of a frame. The write lock is held.
func (t *Table) tell(f *frame) {
	if len(t.watchers) == 0 {
		return
	}
	c := store.Change{Record: f.record()}
	if f.kind == kindDelete {
		c = store.Change{Record: store.Record{Key: string(f.key), Rev: f.rev}, Gone: true}
	}
	at := t.placeOf(c.Key)
	for w := range t.watchers {
		w.tell(at, c)
	}
}

// tellGone tells all watchers that a record is no more. The write lock is held.
func (t *Table) tellGone(at place, rev uint64) {
	for w := range t.watchers {
		w.tell(at, store.Change{Record: store.Record{Key: w.known[at], Rev: rev}, Gone: true})
	}
}

// tell puts a change behind those that wait, and drops an earlier one of its key. The table's write lock is held.
func (w *watcher) tell(at place, c store.Change) {
	_, known := w.known[at]
	switch {
	case c.Gone && !known, !strings.HasPrefix(c.Key, w.prefix):
		return
	case c.Gone:
		delete(w.known, at)
	default:
		w.known[at] = c.Key
	}
	w.mu.Lock()
	w.pending[c.Key] = c
	w.mu.Unlock()
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// take returns the changes that wait.
func (w *watcher) take() []store.Change {
	w.mu.Lock()
	defer w.mu.Unlock()
	changes := make([]store.Change, 0, len(w.pending))
	for _, c := range w.pending {
		changes = append(changes, c)
	}
	clear(w.pending)
	sortByRev(changes)
	return changes
}

// Watch implements [store.Table].
func (t *Table) Watch(ctx context.Context, prefix string) iter.Seq2[store.Change, error] {
	return func(yield func(store.Change, error) bool) {
		w := &watcher{prefix: prefix, known: map[place]string{}, pending: map[string]store.Change{}, wake: make(chan struct{}, 1)}
		t.mu.Lock()
		records, err := t.list(prefix)
		if err == nil {
			for _, r := range records {
				w.known[t.placeOf(r.Key)] = r.Key
			}
			t.watchers[w] = true
			t.keep()
		}
		t.mu.Unlock()
		if err != nil {
			yield(store.Change{}, err)
			return
		}
		defer func() {
			t.mu.Lock()
			defer t.mu.Unlock()
			delete(t.watchers, w)
		}()
		for _, r := range records {
			if !yield(store.Change{Record: r}, nil) {
				return
			}
		}
		if !yield(store.Change{Live: true}, nil) {
			return
		}
		for {
			select {
			case <-w.wake:
			case <-ctx.Done():
				yield(store.Change{}, context.Cause(ctx))
				return
			case <-t.end.Done():
				yield(store.Change{}, context.Cause(t.end))
				return
			}
			for _, c := range w.take() {
				if !yield(c, nil) {
					return
				}
			}
		}
	}
}
