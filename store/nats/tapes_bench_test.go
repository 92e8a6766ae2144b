package nats_test

import (
	"strings"
	"testing"
	"time"

	"github.com/lingserve/lingserve/cluster/clustertest"
	"github.com/lingserve/lingserve/tape"
	"github.com/lingserve/lingserve/tape/tapetest"
)

// stores are those that are compared: run all of one benchmark, and the figures are of the same machine in the same minutes.
var stores = []struct {
	name string
	open func(b *testing.B) tape.Store
}{
	{"one", func(b *testing.B) tape.Store {
		return openTapes(b, tapesAt{oneProcess(b), clustertest.Prefix()})
	}},
	{"three", func(b *testing.B) tape.Store {
		return openTapes(b, tapesAt{clustertest.ThreeCrashing(b).URL(), clustertest.Prefix()})
	}},
}

func BenchmarkAppend200Bytes(b *testing.B) {
	for _, row := range stores {
		b.Run(row.name, func(b *testing.B) {
			s := row.open(b)
			if _, err := s.Append(b.Context(), "a", tape.Batch{Create: true, Entries: say("start")}); err != nil {
				b.Fatal(err)
			}
			batch := tape.Batch{Entries: say(strings.Repeat("x", 200))}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := s.Append(b.Context(), "a", batch); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// long makes a tape of batches of two entries, with an anchor 25 batches before its end.
func long(b *testing.B, s tape.Store, batches int) {
	b.Helper()
	for i := range batches {
		entries := say(strings.Repeat("x", 200), strings.Repeat("y", 200))
		if i == batches-25 {
			entries = []tape.Entry{tape.NewAnchor("phase", "summary")}
		}
		if _, err := s.Append(b.Context(), "a", tape.Batch{Create: i == 0, Entries: entries}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkContextOf50Entries(b *testing.B) {
	for _, row := range stores {
		b.Run(row.name, func(b *testing.B) {
			s := row.open(b)
			long(b, s, 1000)
			b.ReportAllocs()
			for b.Loop() {
				n := 0
				for _, err := range s.Read(b.Context(), "a", tape.Query{FromLast: true}) {
					if n++; err != nil {
						b.Fatal(err)
					}
				}
				if n != 49 {
					b.Fatalf("%d entries", n)
				}
			}
		})
	}
}

func BenchmarkReadOf2000Entries(b *testing.B) {
	for _, row := range stores {
		b.Run(row.name, func(b *testing.B) {
			s := row.open(b)
			long(b, s, 1000)
			b.ReportAllocs()
			for b.Loop() {
				if all, err := collect(s.Read(b.Context(), "a", tape.Query{})); err != nil || len(all) != 1999 {
					b.Fatalf("%d entries, %v", len(all), err)
				}
			}
		})
	}
}

func BenchmarkInfo(b *testing.B) {
	for _, row := range stores {
		b.Run(row.name, func(b *testing.B) {
			s := row.open(b)
			long(b, s, 100)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := s.Info(b.Context(), "a"); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkTurn is a lease, four appends and a view, as a turn has them.
func BenchmarkTurn(b *testing.B) {
	for _, row := range stores {
		b.Run(row.name, func(b *testing.B) {
			s := row.open(b).(tape.Whole)
			long(b, s, 100)
			for b.Loop() {
				l, err := s.Lease(b.Context(), "a", true)
				if err != nil {
					b.Fatal(err)
				}
				for range 4 {
					if _, err := s.Append(b.Context(), "a", tape.Batch{Entries: say("turn")}); err != nil {
						b.Fatal(err)
					}
				}
				if _, err := collect(s.Read(b.Context(), "a", tape.Query{Newest: true, Limit: 50})); err != nil {
					b.Fatal(err)
				}
				l.Release()
			}
		})
	}
}

// BenchmarkPageOfSessions times pages of 100 000 sessions, or of 1000 with -short: CL-12. It logs how much memory the replica has for them,
// how long a replica takes that has just started, and how long the list of all takes.
func BenchmarkPageOfSessions(b *testing.B) {
	p := tapesAt{oneProcess(b), clustertest.Prefix()}
	writer := openTapes(b, p)
	sessions := tapetest.FillSessions(b, writer)
	if err := writer.Close(); err != nil {
		b.Fatal(err)
	}
	s := openTapes(b, p)
	before := heap()
	began := time.Now()
	if n, err := s.Count(b.Context()); err != nil || n != sessions {
		b.Fatal(n, err)
	}
	started := time.Since(began)
	size := heap() - before
	if s.Rows() != sessions {
		b.Fatalf("%d sessions are there", s.Rows())
	}
	began = time.Now()
	if all, err := collect(s.Sessions(b.Context(), tape.SessionQuery{})); err != nil || len(all) != sessions {
		b.Fatalf("%d sessions, %v", len(all), err)
	}
	b.Logf("%.1f MiB of heap; started in %v; all listed in %v", float64(size)/(1<<20), started.Round(time.Millisecond), time.Since(began).Round(time.Millisecond))
	tapetest.BenchmarkPages(b, s)
}
