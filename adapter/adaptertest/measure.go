package adaptertest

import (
	"context"
	"io"
	"net/http"
	"runtime/debug"
	"slices"
	"testing"

	"github.com/lingserve/lingserve/adapter"
)

// Canned is a transport that answers every request with the same bytes, so that only the adapter is measured. They come in pieces of the size that
// a connection's buffer gives.
func Canned(kind string, body []byte) http.RoundTripper {
	return trip(func(*http.Request) (*http.Response, error) {
		return response(http.StatusOK, kind, &segments{body}), nil
	})
}

// Segments gives bytes in pieces of at most 4 KiB.
func Segments(body []byte) io.Reader { return &segments{body} }

type segments struct{ b []byte }

func (s *segments) Read(p []byte) (int, error) {
	if len(s.b) == 0 {
		return 0, io.EOF
	}
	n := copy(p, s.b[:min(len(s.b), 4096)])
	s.b = s.b[n:]
	return n, nil
}

// countTexts asks a model, and returns how many chunks with text came.
func countTexts(t testing.TB, m adapter.Model) (n int) {
	t.Helper()
	for c, err := range m.Stream(context.Background(), adapter.Request{}) {
		if err != nil {
			t.Fatal(err)
		}
		if c.Text != "" {
			n++
		}
	}
	return n
}

// Measure is the benchmark of a model whose answer has so many tokens: what one costs, from the connection's buffer to the loop's body.
func Measure(b *testing.B, m adapter.Model, tokens int) {
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		n += countTexts(b, m)
	}
	if n != b.N*tokens {
		b.Fatalf("%d tokens", n)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/token")
}

// OneAllocation fails where a delta of text allocates more than its text (MO-33). model returns one whose answer has n tokens.
func OneAllocation(t *testing.T, model func(n int) adapter.Model) {
	t.Helper()
	allocations := func(n int) float64 {
		m := model(n)
		return testing.AllocsPerRun(5, func() {
			if got := countTexts(t, m); got != n {
				t.Fatalf("%d tokens of %d", got, n)
			}
		})
	}
	if raced() {
		t.Skip("the race detector keeps values off the stack")
	}
	if each := (allocations(3000) - allocations(1000)) / 2000; each > 1.01 {
		t.Errorf("%.2f allocations for a token", each)
	}
}

// raced says whether the program was built with the race detector.
func raced() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}
