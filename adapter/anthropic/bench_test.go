package anthropic

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/adaptertest"
)

// canned answers every request with the same bytes, so that only this package is measured.
type canned []byte

func (c canned) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: 200, Header: http.Header{"Content-Type": {"text/event-stream"}},
		Body: io.NopCloser(&segments{b: c}),
	}, nil
}

// segments gives bytes in pieces of the size that a connection's buffer gives.
type segments struct{ b []byte }

func (s *segments) Read(p []byte) (int, error) {
	if len(s.b) == 0 {
		return 0, io.EOF
	}
	n := copy(p, s.b[:min(len(s.b), 4096)])
	s.b = s.b[n:]
	return n, nil
}

const benchTokens = 1000

// stream makes an answer of n tokens as Anthropic writes it: padded with spaces.
func stream(n int, token string) []byte {
	var b bytes.Buffer
	b.WriteString(adaptertest.Anthropic.Open)
	for i := range n {
		fmt.Fprintf(&b, "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":1,\"delta\":{\"type\":\"text_delta\",\"text\":\"%s%d\"}%s}\n\n",
			token, i%10, strings.Repeat(" ", i%14))
	}
	b.WriteString(adaptertest.Anthropic.Finish + adaptertest.Anthropic.Done)
	return b.Bytes()
}

// MO-33: the cost of one token, from the connection's buffer to the loop's body.
func BenchmarkStream(b *testing.B) {
	for name, token := range map[string]string{"plain": "tok", "escaped": `\n\"to\"`} {
		b.Run(name, func(b *testing.B) {
			m, err := newProvider(b, Options{Transport: canned(stream(benchTokens, token))}).Model("claude-sonnet-4-6")
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				n += count(b, m)
			}
			if n != b.N*benchTokens {
				b.Fatalf("%d tokens", n)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/token")
		})
	}
}

func count(t testing.TB, m adapter.Model) (n int) {
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

// MO-33: a text delta allocates its text, and nothing else.
func TestATextDeltaAllocatesItsTextOnly(t *testing.T) {
	for _, token := range []string{"tok", `\n\"to\"`} {
		allocs := func(tokens int) float64 {
			m, err := newProvider(t, Options{Transport: canned(stream(tokens, token))}).Model("claude-sonnet-4-6")
			if err != nil {
				t.Fatal(err)
			}
			return testing.AllocsPerRun(5, func() { count(t, m) })
		}
		if each := (allocs(3000) - allocs(1000)) / 2000; each > 1.01 {
			t.Errorf("%q: %.2f allocations for a token", token, each)
		}
	}
}
