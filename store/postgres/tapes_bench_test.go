package postgres

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/lingserve/lingserve/tape"
	"github.com/lingserve/lingserve/tape/tapetest"
)

func BenchmarkTapeAppend200Bytes(b *testing.B) {
	batch := tape.Batch{Entries: []tape.Entry{tape.NewMessage("user", strings.Repeat("x", 200))}}
	for name, url := range map[string]string{"synced": "", "async": need(b).URL() + "&synchronous_commit=off"} {
		b.Run(name, func(b *testing.B) {
			s := tapesOf(b, Options{Connections: 16, URL: url})
			create(b, s, "a")
			for b.Loop() {
				if _, err := s.Append(b.Context(), "a", batch); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// Sessions at once share what a commit costs.
func BenchmarkTapeAppend200BytesIn16Sessions(b *testing.B) {
	batch := tape.Batch{Entries: []tape.Entry{tape.NewMessage("user", strings.Repeat("x", 200))}}
	s := tapesOf(b, Options{Connections: 16})
	var n atomic.Int64
	b.SetParallelism(8) // of two processors
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		name := fmt.Sprint("s", n.Add(1))
		create(b, s, name)
		for pb.Next() {
			if _, err := s.Append(b.Context(), name, batch); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

func count(tb testing.TB, s tape.Store, q tape.Query) (n int) {
	tb.Helper()
	for _, err := range s.Read(tb.Context(), "a", q) {
		if n++; err != nil {
			tb.Fatal(err)
		}
	}
	return n
}

func BenchmarkTapeRead1000Entries(b *testing.B) {
	s := tapesOf(b, Options{})
	var entries []tape.Entry
	for range 999 {
		entries = append(entries, tape.NewMessage("user", strings.Repeat("x", 200)))
	}
	create(b, s, "a", entries...)
	for b.Loop() {
		if n := count(b, s, tape.Query{}); n != 1000 {
			b.Fatalf("%d entries", n)
		}
	}
}

// What a view costs: the entries from the last anchor on, of a tape with many before it.
func BenchmarkTapeContextOf50Entries(b *testing.B) {
	s := tapesOf(b, Options{})
	if err := s.Import(b.Context(), "a", "s", "/w", func(yield func(tape.Entry, error) bool) {
		for i := range int64(20_000) {
			e := tape.NewMessage("user", strings.Repeat("x", 90))
			if i == 20_000-50 {
				e = tape.NewAnchor("phase", "summary")
			}
			e.ID = i + 1
			if !yield(e, nil) {
				return
			}
		}
	}); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if n := count(b, s, tape.Query{FromLast: true}); n != 50 {
			b.Fatalf("%d entries", n)
		}
	}
}

// BenchmarkPageOfSessions times pages of 100 000 sessions, or of 1000 with -short (DO-03).
func BenchmarkPageOfSessions(b *testing.B) {
	s := tapesOf(b, Options{Connections: 16, URL: need(b).URL() + "&synchronous_commit=off"})
	tapetest.FillSessions(b, s)
	tapetest.BenchmarkPages(b, s)
}
