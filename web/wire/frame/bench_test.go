package frame_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/lingserve/lingserve/tube"
	"github.com/lingserve/lingserve/web/wire/frame"
)

const runID = "9vJcvKZ0VbZ1n0f3yqQ8Jw"

type discard struct{ n int }

func (d *discard) Write(p []byte) (int, error) { d.n += len(p); return len(p), nil }
func (d *discard) Flush() error                { return nil }

func token() tube.Event { return text("article/sections/0/body", "word") }

// BenchmarkCopy takes a run of 10 000 tokens from the log to the bytes of a connection.
func BenchmarkCopy(b *testing.B) {
	tb := newTube()
	for range 10_000 {
		_, _ = tb.Send(token())
	}
	_ = tb.Close("completed")
	for _, f := range []frame.Format{frame.SSE, frame.JSONL} {
		b.Run(string(f), func(b *testing.B) {
			b.ReportAllocs()
			var out discard
			for b.Loop() {
				if err := frame.Copy(b.Context(), &out, runID, tb.NewReader(0), frame.Options{Format: f}); err != nil {
					b.Fatal(err)
				}
			}
			b.SetBytes(int64(out.n / b.N))
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/10_001, "ns/event")
		})
	}
}

func BenchmarkAppendSSE(b *testing.B) {
	b.ReportAllocs()
	var buf []byte
	for e := token(); b.Loop(); e.N++ {
		buf = frame.AppendSSE(buf[:0], runID, e)
	}
}

// BenchmarkFollow is one token at a time from a sender to as many readers that wait for it, as at a slow model.
func BenchmarkFollow(b *testing.B) {
	for _, readers := range []int{1, 100} {
		b.Run(fmt.Sprint(readers), func(b *testing.B) {
			b.ReportAllocs()
			tb := newTube()
			flushed := make(chan struct{}, readers)
			done := make(chan error, readers)
			for range readers {
				go func() {
					done <- frame.Copy(b.Context(), signal(flushed), runID, tb.NewReader(0), frame.Options{Format: frame.SSE})
				}()
			}
			e := token()
			for b.Loop() {
				_, _ = tb.Send(e)
				for range readers {
					<-flushed
				}
			}
			_ = tb.Close("completed")
			for range readers {
				<-flushed
				if err := <-done; err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

type signal chan struct{}

func (s signal) Write(p []byte) (int, error) { return len(p), nil }
func (s signal) Flush() error                { s <- struct{}{}; return nil }

func TestCopyAllocatesNothingForAnEvent(t *testing.T) {
	if testing.CoverMode() != "" {
		t.Skip("coverage allocates")
	}
	tb := newTube()
	for range 5000 {
		_, _ = tb.Send(token())
	}
	_ = tb.Close("completed")
	var out discard
	n := testing.AllocsPerRun(20, func() {
		if err := frame.Copy(t.Context(), &out, runID, tb.NewReader(0), frame.Options{Format: frame.SSE}); err != nil {
			t.Fatal(err)
		}
	})
	if n > 20 { // the reader, its channel, the terminal event's name; none of it for each event
		t.Errorf("%.0f allocations for 5001 events", n)
	}
}

// breakTexts are texts as models send them, by what makes a line of them worth a second look.
var breakTexts = []struct{ name, text string }{
	{"plain", strings.Repeat("The sky is blue since light is scattered. ", 6)},
	{"typographic", strings.Repeat("The sky — “blue” — is… 20\u00a0° wide. ", 6)},
	{"boxes", strings.Repeat("┌──┬──┐", 40)},
	{"breaks", strings.Repeat("one line\u2028and another\u0085 ", 12)},
	{"long", strings.Repeat("The sky — “blue” — is… 20\u00a0° wide. ", 600)},
}

// BenchmarkOneLine is what it costs to see to it that a line has no other breaks in it.
func BenchmarkOneLine(b *testing.B) {
	for _, c := range breakTexts {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			e := text("a", c.text)
			var buf []byte
			for b.Loop() {
				buf = frame.AppendJSONL(buf[:0], runID, e)
			}
			b.SetBytes(int64(len(buf)))
		})
	}
}

// A line with other breaks costs no more memory than one without.
func TestALineWithOtherBreaksAllocatesNothing(t *testing.T) {
	if testing.CoverMode() != "" {
		t.Skip("coverage allocates")
	}
	for _, c := range breakTexts {
		e := text("a", c.text)
		for name, add := range map[string]func([]byte, string, tube.Event) []byte{"sse": frame.AppendSSE, "jsonl": frame.AppendJSONL} {
			buf := add(nil, runID, e)
			if n := testing.AllocsPerRun(100, func() { buf = add(buf[:0], runID, e) }); n != 0 {
				t.Errorf("%s, %s: %.0f allocations", c.name, name, n)
			}
		}
	}
}
