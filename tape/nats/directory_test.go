package nats

import (
	"cmp"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/lingserve/lingserve/tape"
)

// manySessions are records as sessions have them.
func manySessions(n int) func(yield func(*record, uint64) bool) {
	return func(yield func(*record, uint64) bool) {
		for i := range n {
			session := fmt.Sprintf("telegram:%d", 100_000_000+i)
			r := &record{
				Tape: fmt.Sprintf("%016x__%016x", 7, i), Session: session, Workspace: "/srv/lingserve", Title: "what is the weather like today?",
				Created: 1, Updated: int64(i*7919%n) * 1e6, Entries: 10, LastID: 10, Messages: 1,
			}
			if !yield(r, uint64(i+1)) {
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

func TestManySessionsTakeLittleMemory(t *testing.T) { // CL-12
	const sessions, most = 100_000, 20 << 20
	var d directory
	before := heapNow()
	for r, seq := range manySessions(sessions) {
		d.put(r, seq)
	}
	for r, seq := range manySessions(sessions) { // each goes on
		d.put(r, sessions+seq)
	}
	d.page(tape.SessionQuery{}, tape.Info{}, 20)
	for r, seq := range manySessions(sessions) { // and is used while there are listings
		if r.Updated++; seq%7 == 0 {
			d.put(r, 2*sessions+seq)
		}
	}
	size := heapNow() - before
	t.Logf("%d sessions take %.1f MiB", d.rows.Len(), float64(size)/(1<<20))
	if d.rows.Len() != sessions || size > most {
		t.Errorf("%d sessions take %d bytes, want %d sessions in at most %d", d.rows.Len(), size, sessions, most)
	}
	// A page of them is found without sorting them all, and pages are whole.
	var last tape.Info
	var got []row
	began := time.Now()
	for range 10 {
		page := d.page(tape.SessionQuery{}, last, 20)
		got = append(got, page...)
		last = tape.Info{Tape: page[19].Tape, Updated: time.UnixMicro(page[19].Updated)}
	}
	t.Logf("a page takes %v", time.Since(began)/10)
	all := d.page(tape.SessionQuery{}, tape.Info{}, 0)
	if len(all) != sessions || !slices.Equal(got, all[:200]) {
		t.Error("pages are not the beginning of the whole list")
	}
	if !slices.IsSortedFunc(all, func(a, b row) int { return cmp.Compare(b.Updated, a.Updated) }) {
		t.Error("the list is not in order")
	}
	runtime.KeepAlive(&d)
}

func TestASessionOfAnotherNameTakesTheRowsPlace(t *testing.T) {
	var d directory
	put := func(session, state string, seq uint64) {
		d.put(&record{Tape: "t", Session: session, State: state}, seq)
	}
	want := func(session string) {
		t.Helper()
		if page := d.page(tape.SessionQuery{}, tape.Info{}, 0); session == "" && len(page) > 0 || session != "" && (len(page) != 1 || page[0].Session != session) {
			t.Errorf("the list is %+v, want %q", page, session)
		}
	}
	put("", "", 1)
	put("s", "", 2)
	want("s")
	put("old", "", 1)
	want("s")
	put("longer", "", 3)
	want("longer")
	put("", stateErased, 4)
	want("")
	put("again", "", 5)
	want("again")
	d.drop("t", 4) // of a listing that has seen an older one
	want("again")
	d.drop("t", 5)
	want("")
}
