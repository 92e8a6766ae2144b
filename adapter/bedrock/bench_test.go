package bedrock

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"testing"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/adaptertest"
	"github.com/lingserve/lingserve/internal/upstream"
)

// canned answers every request with the same bytes, so that only this package is measured.
type canned []byte

func (c canned) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {streamType}}, Body: io.NopCloser(&segments{b: c})}, nil
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

// tokens makes an answer of n tokens as Bedrock writes it, each with padding of its own.
func tokens(n int) []byte {
	const padding = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
	b := []byte(adaptertest.Bedrock.Open)
	for i := range n {
		b = upstream.AppendFrame(b, "event", "contentBlockDelta", fmt.Appendf(nil, `{"contentBlockIndex":0,"delta":{"text":" tok%d"},"p":%q}`, i%10, padding[:i*7%len(padding)]))
	}
	return append(b, adaptertest.Bedrock.Finish+adaptertest.Bedrock.Done...)
}

const benchTokens = 1000

// MO-33: the cost of one token, from the connection's buffer to the loop's body.
func BenchmarkStream(b *testing.B) {
	m, err := newProvider(b, Options{Transport: canned(tokens(benchTokens)), Key: "test-key"}, AWS{Region: "us-east-1"}).Model(haiku)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		n += readAll(b, m)
	}
	if n != b.N*benchTokens {
		b.Fatalf("%d tokens", n)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/token")
}

func readAll(t testing.TB, m adapter.Model) (n int) {
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

// MO-33: a delta of text costs the allocation of its own string.
func TestATextDeltaAllocatesItsTextOnly(t *testing.T) {
	allocations := func(n int) float64 {
		m, err := newProvider(t, Options{Transport: canned(tokens(n)), Key: "test-key"}, AWS{Region: "us-east-1"}).Model(haiku)
		if err != nil {
			t.Fatal(err)
		}
		return testing.AllocsPerRun(10, func() {
			if got := readAll(t, m); got != n {
				t.Fatalf("%d tokens", got)
			}
		})
	}
	if few, many := allocations(100), allocations(2100); many-few > 2000*1.01 {
		t.Errorf("%.2f allocations for a delta", (many-few)/2000)
	}
}
