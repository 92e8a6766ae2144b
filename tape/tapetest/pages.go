package tapetest

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/lingserve/lingserve/tape"
)

// PagesWorkspace is the workspace of the sessions that [FillSessions] creates.
const PagesWorkspace = "/srv/lingserve"

const pagesWriters = 64

var pagesBegin = time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)

// FillSessions creates the sessions for [BenchmarkPages], 100 000, or 1000 with -short, and returns their number. One owner has half of them; 500
// owners share the others. The order of use is not the order of the names.
func FillSessions(b *testing.B, s tape.Store) int {
	b.Helper()
	n := pagesSessions()
	began := time.Now()
	var writers sync.WaitGroup
	for w := range pagesWriters {
		writers.Go(func() {
			for i := w; i < n; i += pagesWriters {
				owner := "many"
				if i%2 == 1 {
					owner = fmt.Sprintf("owner-%d", i/2%500)
				}
				e := tape.NewMessage("user", "what is the weather like today in this city?")
				e.Date = pagesBegin.Add(time.Duration(i*7919%n) * time.Second)
				if _, err := s.Append(b.Context(), pagesTape(i), tape.Batch{
					Create: true, Session: fmt.Sprintf("web:%s#%d", owner, i), Workspace: PagesWorkspace, Entries: []tape.Entry{e},
				}); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	writers.Wait()
	if b.Failed() {
		b.FailNow()
	}
	b.Logf("%d sessions created in %v", n, time.Since(began).Round(time.Second))
	return n
}

func pagesSessions() int {
	if testing.Short() {
		return 1000
	}
	return 100_000
}

func pagesTape(i int) string { return fmt.Sprintf("%016x__%016x", 7, i) }

// BenchmarkPages times pages of the sessions that [FillSessions] creates, with the filters that GET /v1/sessions uses. DO-03: a page takes at most
// 5 ms. filled is called between, if it is not nil.
func BenchmarkPages(b *testing.B, s tape.Store, filled func()) {
	b.Helper()
	n := FillSessions(b, s)
	if filled != nil {
		filled()
	}
	half := tape.Info{Tape: "0", Updated: pagesBegin.Add(time.Duration(n/2) * time.Second)}.Cursor()
	last := tape.Info{Tape: "0", Updated: pagesBegin.Add(time.Duration(n/500) * time.Second)}.Cursor()
	for _, row := range []struct {
		name          string
		prefix, after string
		limit, want   int
	}{
		{"first 1", "", "", 1, 1},
		{"first 50", "", "", 50, 50},
		{"first 100", "", "", 100, 100},
		{"middle 50", "", half, 50, 50},
		{"middle 100", "", half, 100, 100},
		{"last 100", "", last, 100, n/500 + 1},
		{"owner of half, first 100", "web:many#", "", 100, 100},
		{"owner of half, middle 100", "web:many#", half, 100, 100},
		{"owner of few, first 100", "web:owner-7#", "", 100, n / 1000},
		{"owner of few, middle 50", "web:owner-7#", half, 50, -1},
		{"owner of none", "web:nobody#", "", 100, 0},
	} {
		q := tape.SessionQuery{Workspace: PagesWorkspace, Prefix: row.prefix, After: row.after, Limit: row.limit}
		want := min(row.want, row.limit)
		b.Run(row.name, func(b *testing.B) {
			var took durations
			for b.Loop() {
				took.page(b, s, q, want)
			}
			took.report(b)
		})
	}
	b.Run("first 50, a session used before each", func(b *testing.B) {
		var took durations
		for i := 0; b.Loop(); i++ {
			b.StopTimer()
			if _, err := s.Append(b.Context(), pagesTape(i%n), tape.Batch{Entries: []tape.Entry{tape.NewMessage("user", "again")}}); err != nil {
				b.Fatal(err)
			}
			b.StartTimer()
			took.page(b, s, tape.SessionQuery{Workspace: PagesWorkspace, Limit: 50}, 50)
		}
		took.report(b)
	})
}

type durations []time.Duration

// page reads a page and checks its length; a negative one is not known.
func (d *durations) page(b *testing.B, s tape.Store, q tape.SessionQuery, want int) {
	began := time.Now()
	page, err := collect(s.Sessions(b.Context(), q))
	*d = append(*d, time.Since(began))
	if err != nil || want >= 0 && len(page) != want {
		b.Fatalf("%d sessions, %v; want %d", len(page), err, want)
	}
}

// report reports the median, and the time that 99 of 100 pages take at most.
func (d durations) report(b *testing.B) {
	slices.Sort(d)
	for _, p := range [...]int{50, 99} {
		b.ReportMetric(float64(d[len(d)*p/100].Microseconds()), fmt.Sprintf("p%d-µs", p))
	}
}
