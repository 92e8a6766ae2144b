package tube_test

import (
	"testing"

	"github.com/lingserve/lingserve/tube"
)

func nothing() *tube.Options {
	return &tube.Options{}
}

func token() tube.Event {
	return tube.Event{Kind: tube.Append, URI: []byte("article/sections/0/body"), Value: []byte("word")}
}

// perRun is how many events are sent into one tube: a long run, and short of what its log holds.
const perRun = 1_000_000

func BenchmarkSend(b *testing.B) {
	for _, c := range []struct {
		name    string
		prepare func(*tube.Tube)
	}{
		{"plain", func(*tube.Tube) {}},
		{"with a filter", func(t *tube.Tube) {
			t.AddFilter(tube.Filter{Exclude: []tube.Matcher{tube.URI("other")}})
		}},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			e := token()
			var t *tube.Tube
			for i := 0; b.Loop(); i++ {
				if i%perRun == 0 {
					t = tube.New("run", nothing())
					c.prepare(t)
				}
				if _, err := t.Send(e); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkSendToFourURIs is what bots that write at the same time do.
func BenchmarkSendToFourURIs(b *testing.B) {
	b.ReportAllocs()
	var es [4]tube.Event
	for i := range es {
		es[i] = token()
		es[i].URI[17] = '0' + byte(i)
	}
	var t *tube.Tube
	for i := 0; b.Loop(); i++ {
		if i%perRun == 0 {
			t = tube.New("run", nothing())
		}
		_, _ = t.Send(es[i%4])
	}
	b.ReportMetric(float64(t.Bytes())/float64(t.Len()), "B/event")
}

// BenchmarkSendBeyondTheLimit folds every event.
func BenchmarkSendBeyondTheLimit(b *testing.B) {
	b.ReportAllocs()
	e := token()
	var t *tube.Tube
	for i := 0; b.Loop(); i++ {
		if i%perRun == 0 {
			o := nothing()
			o.MaxBytes = 256 << 10
			t = tube.New("run", o)
		}
		_, _ = t.Send(e)
	}
}

// BenchmarkSendWith100Waiting wakes as many readers, all of which look at the event and wait again.
func BenchmarkSendWith100Waiting(b *testing.B) {
	b.ReportAllocs()
	t, e := tube.New("run", nothing()), token()
	readers := make([]*tube.Reader, 100)
	for i := range readers {
		readers[i] = t.NewReader(0)
	}
	for b.Loop() {
		for _, r := range readers {
			r.More()
		}
		_, _ = t.Send(e)
		for _, r := range readers {
			for e := range r.Waiting() {
				_ = e
			}
		}
	}
}

func BenchmarkRead(b *testing.B) {
	b.ReportAllocs()
	t, e := tube.New("run", nothing()), token()
	for range 10_000 {
		_, _ = t.Send(e)
	}
	n := 0
	for b.Loop() {
		for e := range t.NewReader(0).Waiting() {
			n += len(e.Value)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n/4), "ns/event")
}

func BenchmarkSnapshotOf100KB(b *testing.B) {
	t, e := tube.New("run", nothing()), token()
	for range 25_000 {
		_, _ = t.Send(e)
	}
	for b.Loop() {
		t.Snapshot(false)
	}
}

func TestSendAndReadAllocateNothingInTheSteadyState(t *testing.T) {
	if testing.CoverMode() != "" {
		t.Skip("coverage allocates")
	}
	tb, e := tube.New("run", nothing()), token()
	tb.AddFilter(tube.Filter{Exclude: []tube.Matcher{tube.URI("other")}})
	number := tube.Event{Kind: tube.Set, URI: []byte("n"), Value: []byte("12.5")}
	readers := make([]*tube.Reader, 10)
	for i := range readers {
		readers[i] = tb.NewReader(0)
	}
	round := func() {
		for range 100 {
			for _, r := range readers {
				<-more(r)
				for range r.Waiting() {
				}
			}
			_, _ = tb.Send(e)
			_, _ = tb.Send(number)
		}
	}
	for _, r := range readers {
		r.More()
	}
	_, _ = tb.Send(e)
	for range 100 {
		round() // blocks have grown
	}
	// A block of 64 KiB takes some 9 000 of these events: less than one in 20 rounds.
	if n := testing.AllocsPerRun(50, round); n > 1 {
		t.Errorf("%.1f allocations for 200 events and 10 readers", n)
	}
}

func more(r *tube.Reader) <-chan struct{} { return r.More() }

func TestAShortRunTakesLittleMemory(t *testing.T) {
	tb, e := tube.New("run", nothing()), token()
	for range 1000 {
		_, _ = tb.Send(e)
	}
	if n := tb.Bytes(); n > 8<<10 {
		t.Errorf("%d bytes for 1000 tokens", n)
	}
}
