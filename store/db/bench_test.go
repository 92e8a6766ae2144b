package db

import (
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/lingserve/lingserve/tape"
	"github.com/lingserve/lingserve/tape/tapetest"
)

// The figures of bench/STORE.md.

func openBench(b *testing.B) *DB { return open(b, filepath.Join(b.TempDir(), "test.db"), nil) }

const benchText = "what is the weather like today in this city?"

func BenchmarkAppend(b *testing.B) { benchmarkAppend(b, openBench(b).Tapes(nil)) }

// benchmarkAppend times appends one after another.
func benchmarkAppend(b *testing.B, s tape.Store) {
	b.Helper()
	create(b, s, "a")
	var took []time.Duration
	for b.Loop() {
		began := time.Now()
		if _, err := s.Append(b.Context(), "a", say(benchText)); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
}

// BenchmarkAppendAtOnce has 100 sessions that append at the same time.
func BenchmarkAppendAtOnce(b *testing.B) { benchmarkAppendAtOnce(b, openBench(b).Tapes(nil)) }

func benchmarkAppendAtOnce(b *testing.B, s tape.Store) {
	b.Helper()
	const sessions, each = 100, 20
	for i := range sessions {
		create(b, s, fmt.Sprint("s", i))
	}
	entries := 0
	before := processorTime(b)
	for b.Loop() {
		var wg sync.WaitGroup
		for i := range sessions {
			wg.Go(func() {
				for range each {
					if _, err := s.Append(b.Context(), fmt.Sprint("s", i), say(benchText)); err != nil {
						b.Error(err)
					}
				}
			})
		}
		wg.Wait()
		entries += sessions * each
	}
	b.ReportMetric(float64((processorTime(b)-before).Microseconds())/float64(entries), "cpu-µs/entry")
}

// analyze collects PostgreSQL's statistics of a table, as it does by itself within a minute.
func analyze(b *testing.B, db *DB, table string) {
	b.Helper()
	must(b, db.Update(b.Context(), func(tx *Tx) { tx.exec("ANALYZE " + table) }))
}

// processorTime is what this process has used.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkContext reads what is behind the last anchor of a short tape and of a long one.
func BenchmarkContext(b *testing.B) {
	for _, entries := range []int{100, 100_000} {
		b.Run(fmt.Sprint(entries), func(b *testing.B) {
			s := openBench(b).Tapes(nil)
			create(b, s, "a")
			var batch tape.Batch
			for range entries {
				batch.Entries = append(batch.Entries, say(benchText).Entries...)
				if len(batch.Entries) >= 1000 {
					if _, err := s.Append(b.Context(), "a", batch); err != nil {
						b.Fatal(err)
					}
					batch.Entries = nil
				}
			}
			batch.Entries = append(batch.Entries, tape.NewAnchor("here", nil))
			for range 20 {
				batch.Entries = append(batch.Entries, say(benchText).Entries...)
			}
			if _, err := s.Append(b.Context(), "a", batch); err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				n := 0
				for _, err := range s.Read(b.Context(), "a", tape.Query{FromLast: true}) {
					if err != nil {
						b.Fatal(err)
					}
					n++
				}
				if n != 21 {
					b.Fatalf("%d entries, want 21", n)
				}
			}
		})
	}
}

func BenchmarkPageOfSessions(b *testing.B) { tapetest.BenchmarkPages(b, openBench(b).Tapes(nil), nil) }

// BenchmarkOpen opens a database with 100 000 sessions.
func BenchmarkOpen(b *testing.B) {
	path := filepath.Join(b.TempDir(), "test.db")
	db := open(b, path, nil)
	for i := range 100_000 / 250 {
		var wg sync.WaitGroup
		for j := range 250 {
			wg.Go(func() { create(b, db.Tapes(nil), fmt.Sprint("s", i, "x", j)) })
		}
		wg.Wait()
	}
	if err := db.Close(); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		again, err := Open(b.Context(), "sqlite:"+path, nil)
		if err == nil {
			err = again.Close()
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}
