package db

import (
	"context"
	"crypto/rand"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/lingserve/lingserve/internal/longtest"
	"github.com/lingserve/lingserve/store"
)

// watched is what a watcher knows: the revision of each record.
type watched struct {
	mu      sync.Mutex
	revs    map[string]uint64
	deleted map[string]bool
	live    bool
}

func (w *watched) has(key string, rev uint64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.live && w.revs[key] == rev
}

func (w *watched) hasDeleted(key string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.deleted[key]
}

func (w *watched) apply(t testing.TB, c store.Change) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case c.Live:
		w.live = true
	case c.Rev <= w.revs[c.Key]:
		t.Errorf("%s has revision %d after %d", c.Key, c.Rev, w.revs[c.Key])
	case c.Gone:
		delete(w.revs, c.Key)
		w.deleted[c.Key] = true
	default:
		w.revs[c.Key] = c.Rev
	}
}

// openTable opens a table in a process.
func openTable(t testing.TB, db *DB) store.Table {
	t.Helper()
	e := db.Tables()
	t.Cleanup(func() { _ = e.Close() })
	table, err := e.Table(t.Context(), store.TableOptions{Name: "things"})
	must(t, err)
	return table
}

func watchTable(t testing.TB, table store.Table) *watched {
	w := &watched{revs: map[string]uint64{}, deleted: map[string]bool{}}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var wg sync.WaitGroup
	t.Cleanup(func() { cancel(); wg.Wait() })
	wg.Go(func() {
		for c, err := range table.Watch(ctx, "") {
			if err != nil {
				if ctx.Err() == nil {
					t.Errorf("the watcher ended: %v", err)
				}
				return
			}
			w.apply(t, c)
		}
	})
	return w
}

func put(t testing.TB, table store.Table, p store.Put) uint64 {
	t.Helper()
	rand.Read(p.ID[:])
	records, errs := table.Put(t.Context(), p)
	must(t, errs[0])
	return records[0].Rev
}

// testWatchOfAnotherProcess changes a table in a process, and watches it in another one.
func testWatchOfAnotherProcess(t *testing.T, changing, watching *DB) {
	table := openTable(t, changing)
	old := put(t, table, store.Put{Key: "old"})
	other := openTable(t, watching)
	one, two := watchTable(t, other), watchTable(t, other)
	wait := func(what string, done func(w *watched) bool) {
		t.Helper()
		longtest.Wait(t, what, func() bool { return done(one) && done(two) })
	}
	wait("what there was", func(w *watched) bool { return w.has("old", old) })
	last := map[string]uint64{}
	for i := range 300 { // more than a page
		key := fmt.Sprint("key", i)
		last[key] = put(t, table, store.Put{Key: key})
	}
	last["old"] = put(t, table, store.Put{Key: "old", After: old})
	put(t, table, store.Put{Key: "ends", Life: time.Millisecond})
	put(t, table, store.Put{Key: "key7", After: store.AnyRev, Delete: true})
	delete(last, "key7")
	for key, rev := range last {
		wait(key, func(w *watched) bool { return w.has(key, rev) })
	}
	for _, key := range []string{"key7", "ends"} {
		wait("the end of "+key, func(w *watched) bool { return w.hasDeleted(key) })
	}
	rev := put(t, other, store.Put{Key: "here"})
	wait("a change of the process itself", func(w *watched) bool { return w.has("here", rev) })
}

func TestWatchOfAnotherProcess(t *testing.T) {
	t.Parallel()
	url := "sqlite:" + filepath.Join(t.TempDir(), "x.db")
	open := func(beside bool) *DB {
		db, err := Open(t.Context(), url, &Options{Beside: beside})
		must(t, err)
		t.Cleanup(func() { _ = db.Close() })
		return db
	}
	testWatchOfAnotherProcess(t, open(false), open(true))
}
