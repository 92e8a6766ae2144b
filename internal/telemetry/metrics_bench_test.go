package telemetry

import (
	"context"
	"iter"
	"testing"
	"time"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/tube"
	"github.com/lingserve/lingserve/web/wire"
	"github.com/lingserve/lingserve/web/wire/frame"
)

// words is a model that says as many.
type words int

func (n words) Model(string) (adapter.Model, error) { return n, nil }
func (n words) Names() []string                     { return nil }
func (n words) Stream(context.Context, adapter.Request) iter.Seq2[adapter.Chunk, error] {
	return func(yield func(adapter.Chunk, error) bool) {
		for range n {
			if !yield(adapter.Chunk{Text: "word "}, nil) {
				return
			}
		}
		yield(adapter.Chunk{Finish: adapter.FinishStop, Usage: &adapter.Usage{PromptTokens: 1, CompletionTokens: int(n)}}, nil)
	}
}

// signal is a client that says when it has got something.
type signal chan struct{}

func (s signal) Write(p []byte) (int, error) { return len(p), nil }
func (s signal) Flush() error                { s <- struct{}{}; return nil }

// stream takes an answer of n words from a model through a run's tube to a client, word by word, and returns how long that took. m may
// be nil.
func stream(tb testing.TB, n int, m *Metrics) time.Duration {
	models := &adapter.Registry{}
	models.Register("demo", words(n))
	first := func() {}
	o := frame.Options{Format: frame.SSE}
	var end func()
	if m != nil {
		models.Observer = m
		r, s := m.Run("encyclopedia", ""), m.Stream(wire.StreamSSE)
		first, o.Wrote = r.First, s.Wrote
		end = func() { r.End("completed", ""); s.End(wire.StreamComplete, 0) }
	}
	tb.Helper()
	t := tube.New("run", &tube.Options{First: first})
	model, err := models.Model("demo:demo")
	if err != nil {
		tb.Fatal(err)
	}
	client, done := make(signal), make(chan error)
	go func() { done <- frame.Copy(tb.Context(), client, "run", t.NewReader(0), o) }()
	uri := []byte("answer")
	began := time.Now()
	for chunk, err := range model.Stream(tb.Context(), adapter.Request{}) {
		if err != nil {
			tb.Fatal(err)
		}
		if chunk.Text == "" {
			continue
		}
		if _, err := t.Send(tube.Event{Kind: tube.Append, URI: uri, Value: []byte(chunk.Text)}); err != nil {
			tb.Fatal(err)
		}
		<-client
	}
	took := time.Since(began)
	if err := t.Close("completed"); err != nil {
		tb.Fatal(err)
	}
	<-client
	if err := <-done; err != nil {
		tb.Fatal(err)
	}
	if end != nil {
		end()
	}
	return took
}

// BenchmarkDelta says what a word costs on its way from a model to a client that is not a network, without and with metrics, and how
// they compare. Both are measured by turns, so that a machine that has other work to do slows both.
func BenchmarkDelta(b *testing.B) {
	const n = 2000
	m := NewMetrics("", "", known)
	var with, without time.Duration
	for b.Loop() {
		without += stream(b, n, nil)
		with += stream(b, n, m)
	}
	b.ReportMetric(float64(without)/float64(b.N)/n, "ns/delta-without")
	b.ReportMetric(float64(with)/float64(b.N)/n, "ns/delta-with")
	b.ReportMetric(float64(with)/float64(without), "ratio")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkWrote is what metrics do for each write to a client.
func BenchmarkWrote(b *testing.B) {
	s := NewMetrics("", "", known).Stream(wire.StreamSSE)
	b.ReportAllocs()
	for b.Loop() {
		s.Wrote(1, 120)
	}
}

// BenchmarkRun is what they do once for a run and for a request to a model.
func BenchmarkRun(b *testing.B) {
	m := NewMetrics("", "", known)
	b.ReportAllocs()
	for b.Loop() {
		r := m.Run("encyclopedia", "")
		a := m.Ask("demo", "demo", 1)
		a.Sent()
		a.First()
		r.First()
		a.End(adapter.Complete, adapter.Usage{PromptTokens: 1, CompletionTokens: 1})
		r.End("completed", "")
	}
}

// BenchmarkGather is what a scrape costs.
func BenchmarkGather(b *testing.B) {
	m := worked()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := m.registry.Gather(); err != nil {
			b.Fatal(err)
		}
	}
}

func TestADeltaIsCountedWithoutAnAllocation(t *testing.T) {
	if testing.CoverMode() != "" {
		t.Skip("coverage allocates")
	}
	m := NewMetrics("", "", known)
	s := m.Stream(wire.StreamSSE)
	if n := testing.AllocsPerRun(100, func() { s.Wrote(1, 120) }); n != 0 {
		t.Errorf("%v allocations for a write", n)
	}
	if n := testing.AllocsPerRun(100, func() { m.Stream(wire.StreamUI).End(wire.StreamComplete, 0) }); n != 0 {
		t.Errorf("%v allocations for a stream", n)
	}
	// Of an answer with a hundred times the words no more is allocated than of a short one, but for the model's own.
	allocs := func(n int, o adapter.Observer) float64 {
		models := &adapter.Registry{Observer: o}
		models.Register("demo", words(n))
		model, err := models.Model("demo:demo")
		if err != nil {
			t.Fatal(err)
		}
		return testing.AllocsPerRun(20, func() {
			for _, err := range model.Stream(t.Context(), adapter.Request{}) {
				if err != nil {
					t.Fatal(err)
				}
			}
		})
	}
	// What else this process does meanwhile is counted, too, so one time without is enough: an allocation for
	// each word is there each time.
	var short, long float64
	for range 5 {
		short, long = allocs(10, m)-allocs(10, nil), allocs(1000, m)-allocs(1000, nil)
		if long <= short+1 {
			return
		}
	}
	t.Errorf("metrics allocate %v times for 10 words, and %v times for 1000", short, long)
}
