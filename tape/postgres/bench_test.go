package postgres

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/lingserve/lingserve/store/postgres/database"
	"github.com/lingserve/lingserve/tape"
	"github.com/lingserve/lingserve/tape/file"
	"github.com/lingserve/lingserve/tape/tapetest"
)

// searched is how many entries TestSearchesOfALongTape searches; README.md has its figures.
var searched = flag.Int("search", 0, "time searches of a tape with so many entries, with the index and without")

// stores are those that the benchmarks have side by side.
var stores = []struct {
	name string
	open func(b *testing.B) tape.Whole
}{
	{"file/interval", func(b *testing.B) tape.Whole { return folder(b, file.SyncInterval) }},
	{"file/always", func(b *testing.B) tape.Whole { return folder(b, file.SyncAlways) }},
	{"postgres", func(b *testing.B) tape.Whole { return open(b, Options{Connections: 16, Schema: fresh(b)}) }},
	{"postgres/async", func(b *testing.B) tape.Whole {
		return open(b, Options{Connections: 16, Schema: fresh(b), URL: url(b) + "&synchronous_commit=off"})
	}},
}

// fresh is a schema that nobody has: a benchmark is run several times.
func fresh(b *testing.B) string { return schema(fmt.Sprint(b.Name(), token())) }

func folder(b *testing.B, sync file.Sync) tape.Whole {
	s, err := file.Open(b.TempDir(), file.Options{Sync: sync})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = s.Close() })
	return s
}

func BenchmarkAppend200Bytes(b *testing.B) {
	batch := tape.Batch{Entries: []tape.Entry{tape.NewMessage("user", strings.Repeat("x", 200))}}
	for _, store := range stores {
		b.Run(store.name, func(b *testing.B) {
			s := store.open(b)
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
func BenchmarkAppend200BytesIn16Sessions(b *testing.B) {
	batch := tape.Batch{Entries: []tape.Entry{tape.NewMessage("user", strings.Repeat("x", 200))}}
	for _, store := range stores {
		b.Run(store.name, func(b *testing.B) {
			s := store.open(b)
			var n atomic.Int64
			b.SetParallelism(8) // of two processors
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
		})
	}
}

func BenchmarkRead1000Entries(b *testing.B) {
	for _, store := range stores[1:3] {
		b.Run(store.name, func(b *testing.B) {
			s := store.open(b)
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
		})
	}
}

// What a view costs: the entries from the last anchor on, of a tape with many before it.
func BenchmarkContextOf50Entries(b *testing.B) {
	for _, store := range stores[1:3] {
		b.Run(store.name, func(b *testing.B) {
			s := store.open(b)
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
		})
	}
}

// BenchmarkPageOfSessions times pages of 100 000 sessions, or of 1000 with -short (DO-03).
func BenchmarkPageOfSessions(b *testing.B) {
	s := open(b, Options{Connections: 16, Schema: fresh(b), URL: url(b) + "&synchronous_commit=off"})
	tapetest.FillSessions(b, s)
	tapetest.BenchmarkPages(b, s)
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

func BenchmarkLease(b *testing.B) {
	s := open(b, Options{})
	for b.Loop() {
		l, err := s.Lease(b.Context(), "a", true)
		if err != nil {
			b.Fatal(err)
		}
		l.Release()
	}
}

// prose makes sentences of words that are as unequally frequent as words are.
type prose struct {
	r          *rand.Rand
	latin, han *rand.Zipf
}

func newProse() *prose {
	r := rand.New(rand.NewPCG(3, 4))
	return &prose{r, rand.NewZipf(r, 1.1, 5, 20_000), rand.NewZipf(r, 1.2, 20, 3_000)}
}

func (p *prose) sentence() string {
	var b strings.Builder
	if p.r.IntN(2) == 0 {
		for range 20 + p.r.IntN(40) {
			b.WriteRune(rune(0x4e00 + p.han.Uint64()))
		}
		return b.String()
	}
	for range 10 + p.r.IntN(20) {
		n := p.latin.Uint64()
		for range 2 + n%7 {
			b.WriteByte("etaoinshrdlucmfwypvbgkjqxz"[n%26])
			n = n*31 + 7
		}
		b.WriteByte(' ')
	}
	return b.String()
}

// TestSearchesOfALongTape prints how long searches take.
func TestSearchesOfALongTape(t *testing.T) {
	if *searched == 0 {
		t.Skip("only with -search N: go test ./tape/postgres -run LongTape -v -timeout 0 -args -search 1000000")
	}
	total := *searched
	// Under a locale that knows letters beyond ASCII, without which pg_trgm knows none either; and with some memory, as one would have it.
	server := start(t, "shared_buffers=1GB", "max_wal_size=8GB", "fsync=off")
	admin, err := pgx.Connect(t.Context(), server.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close(context.Background())
	if _, err := admin.Exec(t.Context(), `CREATE DATABASE wide ENCODING 'UTF8' LC_COLLATE 'C' LC_CTYPE 'C.UTF-8' TEMPLATE template0`); err != nil {
		t.Fatal(err)
	}
	s := open(t, Options{URL: strings.Replace(server.URL(), "/postgres?", "/wide?", 1) + "&statement_timeout=0"})
	p := newProse()
	began := time.Now()
	rare := map[int]string{total / 10: " heliotrope 紫水晶 龘", total / 2: " heliotrope 紫水晶"}
	err = s.Import(t.Context(), "a", "s", "/w", func(yield func(tape.Entry, error) bool) {
		for i := range total {
			e := tape.NewMessage([]string{"user", "assistant"}[i%2], p.sentence()+rare[i])
			e.ID = int64(i + 1)
			if !yield(e, nil) {
				return
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	imported := time.Since(began)
	began = time.Now()
	s.indexer.rest()
	t.Logf("%d entries: imported in %v, indexed in %v", total, imported.Round(time.Second), time.Since(began).Round(time.Second))
	if _, err := s.db.Pool.Exec(t.Context(), `ANALYZE entries`); err != nil {
		t.Fatal(err)
	}
	for _, relation := range []string{"entries", "blocks", "blocks_grams"} {
		var size string
		if err := s.db.Pool.QueryRow(t.Context(), `SELECT pg_size_pretty(pg_total_relation_size($1::text::regclass))`, relation).Scan(&size); err != nil {
			t.Fatal(err)
		}
		t.Logf("%-14s %s", relation, size)
	}
	row, err := s.load(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	search := func(indexed bool, text string) (hits int, took time.Duration) {
		r := row
		if !indexed {
			r.indexed = 0
		}
		q := tape.Query{Text: text, Newest: true, Limit: 20}
		best := time.Hour
		for range 3 {
			began := time.Now()
			hits = 0
			for _, err := range tape.Select(t.Context(), s.source(context.Background(), r, q), q) {
				if hits++; err != nil {
					t.Fatal(err)
				}
			}
			if best = min(best, time.Since(began)); best > 2*time.Second {
				break
			}
		}
		return hits, best
	}
	t.Logf("%-16s %5s %12s %12s", "word", "hits", "index", "none")
	for i, text := range []string{"紫水晶", "水晶", "龘", "heliotrope", "never said", "从不说的", "helio", "heliotrope 紫水", string([]rune{0x4e00, 0x4e01})} {
		hits, with := search(true, text)
		line := fmt.Sprintf("%-16s %5d %12v", text, hits, with.Round(10*time.Microsecond))
		if i%4 == 0 { // they take long, and all alike but for what is found at once
			_, without := search(false, text)
			line += fmt.Sprintf(" %12v", without.Round(10*time.Microsecond))
		}
		t.Log(line)
	}
	// What pg_trgm would do, on the same text.
	if _, err := s.db.Pool.Exec(t.Context(), `CREATE EXTENSION IF NOT EXISTS pg_trgm SCHEMA `+s.db.Schema); err != nil {
		t.Logf("there is no pg_trgm: %v", err)
		return
	}
	ctx := database.Long(t.Context(), time.Hour)
	conn, err := s.db.Pool.Acquire(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	began = time.Now()
	for _, sql := range []string{`CREATE TABLE said AS SELECT id, lower(payload::json->>'content') AS text FROM entries`, `CREATE INDEX said_text ON said USING gin (text gin_trgm_ops)`, `ANALYZE said`} {
		if _, err := conn.Exec(ctx, sql); err != nil {
			t.Fatal(err)
		}
	}
	var size string
	if err := conn.QueryRow(ctx, `SELECT pg_size_pretty(pg_total_relation_size('said')) || ', of which the index ' || pg_size_pretty(pg_relation_size('said_text'))`).Scan(&size); err != nil {
		t.Fatal(err)
	}
	t.Logf("pg_trgm: made in %v, %s", time.Since(began).Round(time.Second), size)
	for _, text := range []string{"紫水晶", "水晶", "heliotrope", "never said"} {
		var plan strings.Builder
		rows, err := conn.Query(ctx, `EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY) SELECT id FROM said WHERE text LIKE '%`+text+`%' ORDER BY id DESC LIMIT 20`)
		if err != nil {
			t.Fatal(err)
		}
		for rows.Next() {
			var line string
			if err := rows.Scan(&line); err != nil {
				t.Fatal(err)
			}
			if line = strings.TrimSpace(line); strings.Contains(line, "Scan") || strings.Contains(line, "Execution") || strings.Contains(line, "Removed") {
				plan.WriteString(line + "; ")
			}
		}
		rows.Close()
		t.Logf("pg_trgm %-12s %s", text, plan.String())
	}
}
