package postgres

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/lingserve/lingserve/store"
)

// patience is how long a test waits for what must happen, on a busy machine.
const patience = time.Hour

// step pauses a test that looks for something again and again.
func step(t testing.TB) {
	t.Helper()
	select {
	case <-time.After(2 * time.Millisecond):
	case <-t.Context().Done():
		t.Fatal(context.Cause(t.Context()))
	}
}

// watch is what a watcher is told.
type watch struct {
	t       testing.TB
	changes chan store.Change
	seen    map[string]store.Change // the last of each key
}

// startWatch watches a table until the test ends.
func startWatch(t testing.TB, tab *Table, prefix string) *watch {
	t.Helper()
	w := &watch{t: t, changes: make(chan store.Change, 1000), seen: map[string]store.Change{}}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for c, err := range tab.Watch(ctx, prefix) {
			if err != nil {
				if ctx.Err() == nil && !errors.Is(err, store.ErrClosed) {
					t.Errorf("watch: %v", err)
				}
				return
			}
			select {
			case w.changes <- c:
			case <-ctx.Done():
			}
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return w
}

func (w *watch) next() store.Change {
	w.t.Helper()
	select {
	case c := <-w.changes:
		w.seen[c.Key] = c
		return c
	case <-time.After(patience):
		w.t.Fatal("the watcher is told nothing")
		return store.Change{}
	}
}

// live reads up to the change that is Live.
func (w *watch) live() {
	w.t.Helper()
	for !w.next().Live {
	}
}

// until reads until a key has a revision.
func (w *watch) until(key string, rev uint64) {
	w.t.Helper()
	for w.seen[key].Rev != rev {
		w.next()
	}
}

// ST-23: watchers compare all records if single changes cannot be read any more, or may have been lost.
func TestWatchersCompareAfterAnOutage(t *testing.T) {
	schema := newSchema()
	e, other := open(t, Options{Schema: schema}), open(t, Options{Schema: schema})
	tab := table(t, e, store.TableOptions{})
	w := startWatch(t, tab, "in/")
	var revs []uint64
	for _, key := range []string{"in/deleted", "in/kept", "in/changed", "out/x"} {
		revs = append(revs, put(t, tab, store.Put{Key: key}).Rev)
	}
	w.until("in/changed", revs[2])
	away := table(t, other, store.TableOptions{})
	outages := map[string]func(){
		"removals are forgotten": func() {
			execute(t, e, `BEGIN; DELETE FROM records WHERE key = 'in/deleted'; UPDATE records SET rev = rev + 10 WHERE key = 'in/changed';
				DELETE FROM removed; UPDATE tables SET rev = rev + 20, forgotten = rev + 20, records = records - 1; COMMIT`)
		},
		"the server has lost changes": func() {
			execute(t, e, `BEGIN; DELETE FROM records WHERE key = 'in/deleted'; UPDATE records SET rev = rev - 1000000 WHERE key = 'in/changed';
				UPDATE tables SET rev = rev - 1000000; COMMIT`)
		},
		"the connection that listens was lost": func() {
			execute(t, e, `DELETE FROM records WHERE key = 'in/deleted'`) // as if a change had not outlasted a crash
			execute(t, e, `UPDATE records SET rev = rev - 1000000 WHERE key = 'in/changed'`)
			execute(t, e, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN ' || $1`, e.channel)
		},
	}
	for name, outage := range outages {
		t.Run(name, func(t *testing.T) {
			if r, err := away.Get(t.Context(), "in/deleted"); errors.Is(err, store.ErrNotFound) {
				r = put(t, away, store.Put{Key: "in/deleted"})
				w.until("in/deleted", r.Rev)
			}
			outage()
			for !w.seen["in/deleted"].Gone {
				w.next()
			}
			changed, err := away.Get(t.Context(), "in/changed")
			if err != nil {
				t.Fatal(err)
			}
			w.until("in/changed", changed.Rev)
			if _, told := w.seen["out/x"]; told {
				t.Error("a key outside of the prefix")
			}
			r := put(t, away, store.Put{Key: "in/kept", After: store.AnyRev})
			w.until("in/kept", r.Rev)
			execute(t, e, `UPDATE tables SET records = (SELECT count(*) FROM records), bytes = (SELECT sum(size) FROM records)`)
		})
	}
}
