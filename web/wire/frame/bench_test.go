package frame_test

import (
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
	{"long", strings.Repeat("The sky — “blue” — is… 20\u00a0° wide. ", 600)},
}

func TestALineWithoutBreaksAllocatesNothing(t *testing.T) {
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
