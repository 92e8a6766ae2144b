package nats

import (
	"cmp"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingserve/lingserve/store"
	"github.com/lingserve/lingserve/store/internal/recent"
)

// manyLogs are heads as logs have them.
func manyLogs(n int) func(yield func(name string, h *logHead) bool) {
	return func(yield func(string, *logHead) bool) {
		for i := range n {
			h := &logHead{label: fmt.Sprintf("owner-%d#", i%500), updated: int64(i*7919%n) * 1e6, seq: uint64(i + 1)}
			if !yield(fmt.Sprintf("%016x__%016x", 7, i), h) {
				return
			}
		}
	}
}

func heapNow() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// ST-29: a log takes a row.
func TestManyLogsTakeLittleMemory(t *testing.T) { // CL-12
	const logs, most = 100_000, 17 << 20
	var d directory
	before := heapNow()
	for name, h := range manyLogs(logs) {
		d.put(name, h)
	}
	for name, h := range manyLogs(logs) { // each goes on
		h.seq += logs
		d.put(name, h)
	}
	d.rows.Page(&store.Listing{}, 20)
	for name, h := range manyLogs(logs) { // and is used while there are listings
		h.seq += 2 * logs
		if h.updated++; h.seq%7 == 0 {
			d.put(name, h)
		}
	}
	size := heapNow() - before
	t.Logf("%d logs take %.1f MiB", d.rows.Len(), float64(size)/(1<<20))
	if d.rows.Len() != logs || size > most {
		t.Errorf("%d logs take %d bytes, want %d logs in at most %d", d.rows.Len(), size, logs, most)
	}
	// A page of them is found without sorting them all, and pages are whole.
	var last store.Info
	var got []recent.Row[uint64]
	for range 10 {
		page := d.rows.Page(&store.Listing{After: last}, 20)
		got = append(got, page...)
		last = page[19].After()
	}
	all := d.rows.Page(&store.Listing{}, 0)
	if len(all) != logs || !slices.Equal(got, all[:200]) {
		t.Error("pages are not the beginning of the whole list")
	}
	if !slices.IsSortedFunc(all, func(a, b recent.Row[uint64]) int {
		return cmp.Or(cmp.Compare(b.Updated, a.Updated), strings.Compare(a.Name, b.Name))
	}) {
		t.Error("the list is not in order")
	}
	runtime.KeepAlive(&d)
}

func TestALogOfAnotherLabelTakesTheRowsPlace(t *testing.T) {
	var d directory
	put := func(label string, state, seq uint64) { d.put("a/b", &logHead{label: label, state: state, seq: seq}) }
	want := func(label string) {
		t.Helper()
		page := d.rows.Page(&store.Listing{Prefix: "a/"}, 0)
		if label == "" && len(page) > 0 || label != "" && (len(page) != 1 || page[0].Label != label) {
			t.Errorf("the list is %+v, want %q", page, label)
		}
		if label != "" && len(d.rows.Page(&store.Listing{Prefix: "a/", Label: label}, 0)) != 1 {
			t.Errorf("the list of %q lacks it", label)
		}
	}
	put("s", stateLives, 2)
	want("s")
	put("old", stateLives, 1)
	want("s")
	put("longer", stateLives, 3)
	want("longer")
	put("", stateDeleted, 4)
	want("")
	put("again", stateLives, 5)
	want("again")
	d.drop("a/b", 4) // of a listing that has seen an older one
	want("again")
	d.put("a", &logHead{state: stateDeleted, seq: 5}) // which was written since
	want("again")
	d.put("a", &logHead{state: stateDeleted, seq: 6})
	want("")
	put("once more", stateLives, 7)
	d.drop("a/b", 7)
	want("")
}

// CL-13: a replica that has just come may take longer to learn of all logs than servers may take to answer. It waits as long as it learns
// of more, and no longer.
func TestAListingWaitsAsLongAsLogsCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const longest = patience + attemptWait
		var d directory
		const all = 10
		go func() {
			for range all {
				time.Sleep(longest / 2)
				d.mu.Lock()
				d.position++
				d.tell()
				d.mu.Unlock()
			}
		}()
		began := time.Now()
		if err := d.wait(t.Context(), func() bool { return d.position == all }); err != nil {
			t.Fatalf("after %v: %v", time.Since(began), err)
		}
		began = time.Now()
		err := d.wait(t.Context(), func() bool { return d.position > all })
		if !errors.Is(err, store.ErrAway) || time.Since(began) != longest {
			t.Errorf("nothing comes: after %v, %v", time.Since(began), err)
		}
	})
}
