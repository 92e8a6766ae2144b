package turn_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"

	"github.com/lingserve/lingserve/tape"
	"github.com/lingserve/lingserve/tape/tapetest"
	"github.com/lingserve/lingserve/turn"
)

// builtin has every hook that the built-in agent has, and a model that does nothing; with a store, its turns lie on tapes.
type builtin struct{ store tape.Store }

const keyTape = "tape"

func (b *builtin) ResolveSession(_ context.Context, e *turn.Envelope) (turn.SessionID, bool, error) {
	return e.SessionID, e.SessionID != "", nil
}

func (b *builtin) LoadState(ctx context.Context, _ *turn.Envelope, session turn.SessionID) (turn.State, error) {
	s := turn.State{"session_id": session}
	if b.store != nil {
		t, err := tape.Open(ctx, b.store, "/", session)
		if err != nil {
			return nil, err
		}
		s[keyTape] = t
	}
	return s, nil
}

func (b *builtin) BuildPrompt(_ context.Context, e *turn.Envelope, _ turn.SessionID, _ turn.State) (turn.Prompt, bool, error) {
	return turn.Prompt{Text: e.Content}, true, nil
}

func (b *builtin) RunModelStream(ctx context.Context, p turn.Prompt, _ turn.SessionID, s turn.State) (turn.Stream, bool, error) {
	return func(yield func(turn.Event, error) bool) {
		if t, ok := s[keyTape].(*tape.Tape); ok {
			if _, err := t.Append(ctx, tape.NewEvent("turn.start", nil), tape.NewMessage("user", p.Text)); err != nil {
				yield(turn.Event{}, err)
				return
			}
		}
		if yield(turn.Text("ok"), nil) {
			yield(turn.Event{Kind: turn.FinalEvent, Final: &turn.Final{OK: true, Text: "ok"}}, nil)
		}
	}, true, nil
}

func (b *builtin) SaveState(ctx context.Context, o *turn.Outcome) error {
	if t, ok := o.State[keyTape].(*tape.Tape); ok {
		_, err := t.Append(ctx, tape.NewEvent("turn.end", nil))
		return err
	}
	return nil
}

func (b *builtin) RenderOutbound(_ context.Context, o *turn.Outcome) ([]*turn.Envelope, error) {
	return []*turn.Envelope{o.Envelope.Reply(o.Output)}, nil
}

func (b *builtin) DispatchOutbound(context.Context, *turn.Envelope) (bool, error) { return true, nil }

func (b *builtin) OnError(context.Context, turn.Stage, error, *turn.Envelope) {}

func (b *builtin) SystemPrompt(context.Context, turn.Prompt, turn.State) (string, error) {
	return "", nil
}

func (b *builtin) ProvideTapeStore(context.Context) (tape.Store, bool, error) {
	return b.store, b.store != nil, nil
}

func benchmark(b *testing.B, store tape.Store, run func(context.Context, *turn.Framework, *turn.Envelope) error) {
	f := build(b, &builtin{store})
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		n++
		e := &turn.Envelope{SessionID: fmt.Sprint("s", n/1000), Content: "hello"}
		if err := run(b.Context(), f, e); err != nil {
			b.Fatal(err)
		}
		if store != nil && n%1000 == 0 { // memory is bounded
			b.StopTimer()
			if err := store.Delete(b.Context(), tape.Name("/", e.SessionID)); err != nil {
				b.Fatal(err)
			}
			b.StartTimer()
		}
	}
}

func process(ctx context.Context, f *turn.Framework, e *turn.Envelope) error {
	_, err := f.Process(ctx, e)
	return err
}

func submit(ctx context.Context, f *turn.Framework, e *turn.Envelope) error {
	k, err := f.Submit(ctx, e)
	if err != nil {
		return err
	}
	_, err = k.Wait(ctx)
	return err
}

// One turn with all hooks of the built-in agent and a model that does nothing: at most 50 µs and 100 allocations.
func BenchmarkTurn(b *testing.B) { benchmark(b, nil, process) }

// The same with its entries on a tape in memory.
func BenchmarkTurnOnMemory(b *testing.B) { benchmark(b, tapetest.NewMemory(nil), process) }

// A turn in an idle lane: at most 5 µs more than BenchmarkTurn.
func BenchmarkSubmit(b *testing.B) { benchmark(b, nil, submit) }

// 10 000 sessions that have had a turn each: at most 20 MB of heap stay.
func BenchmarkIdleSessions(b *testing.B) {
	store := tapetest.NewMemory(nil)
	f := build(b, &builtin{store})
	heap := func() float64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return float64(m.HeapAlloc) / 1e6
	}
	before, rounds := heap(), 0
	for b.Loop() {
		rounds++
		for i := range 10_000 {
			if err := submit(b.Context(), f, &turn.Envelope{SessionID: fmt.Sprint(rounds, "-", i), Content: "hello"}); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(heap()-before, "MB-heap")
	runtime.KeepAlive(f)
}

// events is a model that says n words.
type events int

func (n events) RunModelStream(context.Context, turn.Prompt, turn.SessionID, turn.State) (turn.Stream, bool, error) {
	return func(yield func(turn.Event, error) bool) {
		for range n {
			if !yield(turn.Text("word"), nil) {
				return
			}
		}
	}, true, nil
}

// One text event through the pipeline to a reader: at most 200 ns, and no allocation.
func BenchmarkTextEvent(b *testing.B) {
	b.ReportAllocs()
	f := build(b, events(b.N))
	read := 0
	if _, err := f.Process(b.Context(), &turn.Envelope{}, turn.WithSink(func(turn.Event, error) { read++ })); err != nil || read != b.N+1 {
		b.Fatal(read, err)
	}
}

func TestATurnAllocatesLittle(t *testing.T) {
	for name, run := range map[string]func(context.Context, *turn.Framework, *turn.Envelope) error{"process": process, "submit": submit} {
		f := build(t, &builtin{})
		e := &turn.Envelope{SessionID: "s", Content: "hello"}
		n := testing.AllocsPerRun(100, func() {
			if err := run(t.Context(), f, e); err != nil {
				t.Fatal(err)
			}
		})
		if n > 100 {
			t.Errorf("%s: %v allocations, expected 100 at most", name, n)
		}
	}
}

func TestATextEventAllocatesNothing(t *testing.T) {
	allocations := func(n int) float64 {
		f := build(t, events(n))
		sink := turn.WithSink(func(turn.Event, error) {})
		return testing.AllocsPerRun(10, func() {
			if _, err := f.Process(t.Context(), &turn.Envelope{}, sink); err != nil {
				t.Fatal(err)
			}
		})
	}
	// What is left is the output, which grows by doubling.
	if few, many := allocations(100), allocations(10_000); many-few > 30 {
		t.Errorf("%v allocations for 100 events, %v for 10 000", few, many)
	}
}
