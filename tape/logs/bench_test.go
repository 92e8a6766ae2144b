package logs

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/lingserve/lingserve/tape"
	"github.com/lingserve/lingserve/tape/tapetest"
)

// long makes a tape whose last anchor is followed by 50 entries and preceded by the others.
func long(tb testing.TB, s *Store, name string, entries int) {
	tb.Helper()
	text := strings.Repeat("x", 90)
	b := tape.Batch{Create: true}
	for i := range entries {
		switch {
		case i == 0:
			b.Entries = append(b.Entries, tape.NewAnchor(tape.AnchorStart, nil))
		case i == entries-51:
			b.Entries = append(b.Entries, tape.NewAnchor("phase", "summary"))
		default:
			b.Entries = append(b.Entries, message(text))
		}
		if len(b.Entries) == 1000 || i == entries-52 || i == entries-1 {
			if _, err := s.Append(tb.Context(), name, b); err != nil {
				tb.Fatal(err)
			}
			b = tape.Batch{}
		}
	}
}

// cpu is what the process has used, the kernel's work for it included, where the system tells.
var cpu = func() time.Duration { return 0 }

// Target: 10 µs of CPU.
func BenchmarkAppend200Bytes(b *testing.B) {
	for name, sync := range map[string]Sync{"none": SyncNone, "interval": SyncInterval} {
		b.Run(name, func(b *testing.B) {
			s := open(b, b.TempDir(), FolderOptions{Sync: sync})
			create(b, s, "a")
			batch := tape.Batch{Entries: []tape.Entry{message(strings.Repeat("x", 200))}}
			b.ReportAllocs()
			before := cpu()
			for b.Loop() {
				if _, err := s.Append(b.Context(), "a", batch); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(cpu()-before)/float64(b.N)/1e3, "cpu-µs/op")
		})
	}
}

// Target: the second within twice the first.
func BenchmarkContextOf50EntriesOpenedCold(b *testing.B) {
	for _, n := range []int{100, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			dir := b.TempDir()
			s := open(b, dir, FolderOptions{Sync: SyncNone})
			long(b, s, "a", n)
			b.ReportAllocs()
			for b.Loop() {
				s, err := OpenFolder(dir, FolderOptions{Sync: SyncNone})
				if err != nil {
					b.Fatal(err)
				}
				got := 0
				for _, err := range s.Read(b.Context(), "a", tape.Query{FromLast: true}) {
					if got++; err != nil {
						b.Fatal(err)
					}
				}
				if got != 51 {
					b.Fatalf("%d entries", got)
				}
				if err := s.Close(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// Target: 20 MB for 10 000.
func BenchmarkIdleSessions(b *testing.B) {
	const sessions = 10_000
	s := open(b, b.TempDir(), FolderOptions{Sync: SyncNone})
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for b.Loop() {
		for i := range sessions {
			long(b, s, fmt.Sprintf("s%d-%d", b.N, i), 60)
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	b.ReportMetric(float64(int64(after.HeapAlloc)-int64(before.HeapAlloc))/1e6, "MB-heap")
	start := time.Now()
	for _, err := range s.Sessions(b.Context(), tape.SessionQuery{Limit: 20}) {
		if err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(time.Since(start).Milliseconds()), "ms-list")
}

// BenchmarkPageOfSessions times pages of 100 000 sessions, or of 1000 with -short.
func BenchmarkPageOfSessions(b *testing.B) {
	s := open(b, b.TempDir(), FolderOptions{Sync: SyncNone})
	tapetest.FillSessions(b, s)
	tapetest.BenchmarkPages(b, s)
}
