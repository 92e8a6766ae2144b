package turns

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/agent"
	"github.com/lingserve/lingserve/store/db"
	"github.com/lingserve/lingserve/tape"
	"github.com/lingserve/lingserve/tape/tapetest"
	"github.com/lingserve/lingserve/turn"
)

// answerer is a model that has its answer ready: what is measured is everything else.
type answerer struct{}

func (answerer) Model(string) (adapter.Model, error) { return answerer{}, nil }

func (answerer) Stream(context.Context, adapter.Request) iter.Seq2[adapter.Chunk, error] {
	return func(yield func(adapter.Chunk, error) bool) {
		_ = yield(adapter.Chunk{Text: "an answer"}, nil) && yield(adapter.Chunk{Finish: adapter.FinishStop}, nil)
	}
}

// silent is a plugin that answers in place of the agent's loop.
type silent struct{}

func (silent) RunModel(context.Context, turn.Prompt, turn.SessionID, turn.State) (string, bool, error) {
	return "an answer", true, nil
}

// framework has the built-in plugin on a store, and other plugins above it.
func framework(tb testing.TB, store tape.Store, above ...any) *turn.Framework {
	tb.Helper()
	builtin, err := agent.New(agent.Options{Models: answerer{}, Model: "test:m", Store: store})
	if err != nil {
		tb.Fatal(err)
	}
	f := turn.New(turn.Options{Workspace: tb.TempDir()})
	for i, plugin := range append([]any{builtin}, above...) {
		if err := f.Register(fmt.Sprintf("%s%d", agent.Name, i), plugin); err != nil {
			tb.Fatal(err)
		}
	}
	return f
}

func message(session string) *turn.Envelope {
	return &turn.Envelope{SessionID: session, Channel: "test", ChatID: "1", Content: "a question"}
}

func process(tb testing.TB, f *turn.Framework, session string) {
	tb.Helper()
	if _, err := f.Process(tb.Context(), message(session)); err != nil {
		tb.Fatal(err)
	}
}

// One turn with the built-in plugin as it is, above it a model that does nothing, and a store in memory.
//
// Target: 50 µs and 100 allocations.
func BenchmarkTurn(b *testing.B) {
	f := framework(b, tapetest.NewMemory(nil), silent{})
	b.ReportAllocs()
	for b.Loop() {
		process(b, f, "s")
	}
}

// TestAllocationsOfATurn holds the part of the target that is the same on every machine.
func TestAllocationsOfATurn(t *testing.T) {
	f := framework(t, tapetest.NewMemory(nil), silent{})
	if n := testing.AllocsPerRun(100, func() { process(t, f, "s") }); n > 100 {
		t.Errorf("%v allocations, 100 at most", n)
	}
}

// Sessions that have each had a turn, on files, and do nothing any more.
//
// Target: 20 MB for 10 000.
func BenchmarkIdleSessions(b *testing.B) {
	sessions := 10_000
	if testing.Short() {
		sessions = 100
	}
	for b.Loop() {
		store, err := openStore(b.TempDir())
		if err != nil {
			b.Fatal(err)
		}
		f := framework(b, store)
		process(b, f, "first") // what there is once, for all sessions
		before := heap()
		for i := range sessions {
			k, err := f.Submit(b.Context(), message(fmt.Sprint("s", i)))
			if err == nil {
				_, err = k.Wait(b.Context())
			}
			if err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(heap()-before)/1e6, "MB-heap")
		b.ReportMetric(float64(runtime.NumGoroutine()), "goroutines")
		if err := store.Close(); err != nil {
			b.Fatal(err)
		}
		runtime.KeepAlive(f)
	}
}

func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// A tape of a million entries: the last anchor is 50 entries before the end, and one word lies at the beginning alone.
//
// There is no target but that of a cold context: within twice that of a tape of 100.
func BenchmarkMillionEntries(b *testing.B) {
	entries := 1_000_000
	if testing.Short() {
		entries = 10_000
	}
	dir, workspace := b.TempDir(), b.TempDir()
	store, err := openStore(dir)
	if err != nil {
		b.Fatal(err)
	}
	t, err := tape.Open(b.Context(), store, workspace, "s")
	if err != nil {
		b.Fatal(err)
	}
	begun := time.Now()
	text := strings.Repeat("words of an answer ", 5)
	batch := []tape.Entry{tape.NewMessage("user", "where is the needle?")}
	for i := 2; i <= entries-51; i++ {
		batch = append(batch, tape.NewMessage("assistant", text))
		if len(batch) == 1000 || i == entries-51 {
			if _, err := t.Append(b.Context(), batch...); err != nil {
				b.Fatal(err)
			}
			batch = batch[:0]
		}
	}
	for range 50 {
		batch = append(batch, tape.NewMessage("user", text))
	}
	if _, err := t.Handoff(b.Context(), "phase", "summary", batch...); err != nil {
		b.Fatal(err)
	}
	info, err := t.Info(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	b.Logf("%d entries, %d MB, written in %v", info.Entries, info.Bytes>>20, time.Since(begun).Round(time.Millisecond))
	if err := store.Close(); err != nil {
		b.Fatal(err)
	}

	cold := func(b *testing.B, do func(*tape.Tape) error) {
		b.ReportAllocs()
		for b.Loop() {
			store, err := openStore(dir)
			if err != nil {
				b.Fatal(err)
			}
			t, err := tape.Open(b.Context(), store, workspace, "s")
			if err == nil {
				err = do(t)
			}
			if err != nil {
				b.Fatal(err)
			}
			if err := store.Close(); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.Run("open cold", func(b *testing.B) {
		cold(b, func(*tape.Tape) error { return nil })
	})
	b.Run("context cold", func(b *testing.B) {
		cold(b, func(t *tape.Tape) error {
			v, err := t.View(b.Context(), nil)
			if err == nil && len(v.Messages) != 51 {
				err = fmt.Errorf("%d messages", len(v.Messages))
			}
			return err
		})
	})
	search := func(words string, hits int) func(*tape.Tape) error {
		return func(t *tape.Tape) error {
			n := 0
			for _, err := range t.Search(b.Context(), tape.Query{Text: words}) {
				if err != nil {
					return err
				}
				n++
			}
			if n != hits {
				return fmt.Errorf("%d hits", n)
			}
			return nil
		}
	}
	b.Run("search, found at the end", func(b *testing.B) { cold(b, search("answer", 20)) })
	b.Run("search, found at the beginning alone", func(b *testing.B) {
		cold(b, search("needle", 1))
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		b.ReportMetric(float64(m.Sys)/1e6, "MB-process")
	})
}

// stored are tapes in a database of their own.
type stored struct {
	*db.Tapes
	d *db.DB
}

func (s stored) Close() error { return errors.Join(s.Tapes.Close(), s.d.Close()) }

func openStore(dir string) (stored, error) {
	d, err := db.Open(context.Background(), "sqlite:"+filepath.Join(dir, "lingserve.db"), nil)
	if err != nil {
		return stored{}, err
	}
	return stored{d.Tapes(nil), d}, nil
}
