package ollama

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/lingserve/lingserve/adapter"
)

// canned answers every request with the same bytes, so that only this package is measured.
type canned []byte

func (c canned) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: 200, Header: http.Header{"Content-Type": {"application/x-ndjson"}},
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

// stream makes an answer of n tokens as Ollama writes it: the time differs in each line.
func stream(n int) []byte {
	var b bytes.Buffer
	at := time.Date(2026, 1, 2, 3, 4, 5, 678901234, time.UTC)
	for i := range n {
		at = at.Add(12_345_678)
		fmt.Fprintf(&b, `{"model":"llama3.2:3b","created_at":%q,"message":{"role":"assistant","content":"tok%d"},"done":false}`+"\n", at.Format(time.RFC3339Nano), i%10)
	}
	b.WriteString(lastLine)
	return b.Bytes()
}

const benchTokens = 1000

// The cost of one token, from the connection's buffer to the loop's body.
func BenchmarkStream(b *testing.B) {
	m, err := newProvider(b, Options{Transport: canned(stream(benchTokens))}).Model("llama3.2:3b")
	if err != nil {
		b.Fatal(err)
	}
	measure(b, m)
}

// The same with the time limits around it.
func BenchmarkStreamGuarded(b *testing.B) {
	var r adapter.Registry
	r.Register("ollama", newProvider(b, Options{Transport: canned(stream(benchTokens))}))
	m, err := r.Model("ollama:llama3.2:3b")
	if err != nil {
		b.Fatal(err)
	}
	measure(b, m)
}

func measure(b *testing.B, m adapter.Model) {
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		for c, err := range m.Stream(context.Background(), adapter.Request{}) {
			if err != nil {
				b.Fatal(err)
			}
			if c.Text != "" {
				n++
			}
		}
	}
	if n != b.N*benchTokens {
		b.Fatalf("%d tokens", n)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/token")
}

// What of it is the decoder's share.
func BenchmarkDecode(b *testing.B) {
	for name, content := range map[string]string{"plain": " the", "escaped": `\n\u003cp\u003e`} {
		b.Run(name, func(b *testing.B) {
			var d decoder
			d.init()
			line := []byte(strings.TrimSpace(messageLine(`"content":"` + content + `"`)))
			b.ReportAllocs()
			for b.Loop() {
				if err := d.decode(line); err != nil || d.text == "" {
					b.Fatal(err)
				}
			}
		})
	}
}
