package nats

import (
	"context"
	"errors"
	"iter"
	"slices"
	"time"

	"github.com/lingserve/lingserve/store"
)

// watcher is one call of Watch.
type watcher struct {
	yield func(store.Change, error) bool
	known rows // that were yielded
	ever  bool // it was live
}

// errLeft says that the caller of an iterator has enough.
var errLeft = errors.New("the caller has left")

// Watch implements [store.Table].
func (t *Table) Watch(ctx context.Context, prefix string) iter.Seq2[store.Change, error] {
	return func(yield func(store.Change, error) bool) {
		ctx, cancel := t.e.whileOpen(ctx)
		defer cancel()
		w := &watcher{yield: yield}
		f := &follower{t: t, prefix: prefix, begin: w.known.begin, change: w.change, live: w.live, tick: w.tick}
		if err := f.follow(ctx); !errors.Is(err, errLeft) {
			yield(store.Change{}, err)
		}
	}
}

func (w *watcher) tell(c store.Change) error {
	if !w.yield(c, nil) {
		return errLeft
	}
	return nil
}

func (w *watcher) change(m *message) error {
	switch {
	case m.damaged:
		return nil
	case !m.lives(time.Now()):
		return w.gone(m.seq, m.key)
	case !w.known.set(m):
		return nil // it was told before an interruption
	}
	return w.tell(store.Change{Record: m.record()})
}

// gone tells that records are no more.
func (w *watcher) gone(rev uint64, keys ...string) error {
	slices.Sort(keys)
	for _, key := range keys {
		if _, ok := w.known.of[key]; !ok {
			continue
		}
		delete(w.known.of, key)
		if err := w.tell(store.Change{Record: store.Record{Key: key, Rev: rev}, Gone: true}); err != nil {
			return err
		}
	}
	return nil
}

// live tells what has vanished while nothing was heard.
func (w *watcher) live() error {
	if err := w.gone(0, w.known.vanished()...); err != nil || w.ever {
		return err
	}
	w.ever = true
	return w.tell(store.Change{Live: true})
}

func (w *watcher) tick(uint64) error { return w.gone(0, w.known.ended()...) }
