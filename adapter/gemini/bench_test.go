package gemini

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"testing"

	"github.com/lingserve/lingserve/adapter"
)

// canned answers every request with the same bytes, so that only this package is measured.
type canned []byte

func (c canned) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: io.NopCloser(&segments{c})}, nil
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

// tokensOf makes an answer of n events as the Gemini API writes them: with counts that grow, and with escapes.
func tokensOf(n int, text string) []byte {
	var b bytes.Buffer
	for i := range n {
		fmt.Fprintf(&b, `data: {"candidates": [{"content": {"parts": [{"text": "%s%d"}],"role": "model"},"index": 0}],"usageMetadata": {"promptTokenCount": 44,`+
			`"candidatesTokenCount": %d,"totalTokenCount": %d,"promptTokensDetails": [{"modality": "TEXT","tokenCount": 44}],"thoughtsTokenCount": 902,`+
			`"serviceTier": "standard"},"modelVersion": "gemini-3-flash-preview","responseId": "eb-FapqKAZ36nsEP49ya-As"}`+"\r\n\r\n", text, i%10, i, 946+i)
	}
	b.WriteString(`data: {"candidates": [{"content": {"parts": [{"text": ""}]},"finishReason": "STOP"}],"usageMetadata": {"promptTokenCount": 44,"totalTokenCount": 50}}` + "\r\n\r\n")
	return b.Bytes()
}

const benchTokens = 1000

// MO-33: the cost of one token, from the connection's buffer to the loop's body.
func BenchmarkStream(b *testing.B) {
	for name, text := range map[string]string{"plain": "a token ", "escaped": `a \"token\"\n`, "Chinese": "天空为什么是蓝色的"} {
		b.Run(name, func(b *testing.B) {
			p, err := New(Options{Transport: canned(tokensOf(benchTokens, text))})
			if err != nil {
				b.Fatal(err)
			}
			m, _ := p.Model("gemini-3-flash-preview")
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				n += count(b, m)
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

// MO-33: a text delta costs its string, and no other allocation.
func TestATextDeltaCostsOneAllocation(t *testing.T) {
	of := func(n int, text string) float64 {
		m, err := newProvider(t, Options{Transport: canned(tokensOf(n, text))}).Model("gemini-3-flash-preview")
		if err != nil {
			t.Fatal(err)
		}
		return testing.AllocsPerRun(10, func() {
			if count(t, m) != n {
				t.Fatal("not all of the text")
			}
		})
	}
	for _, text := range []string{"a token ", `a \"token\"\n`} {
		if each := (of(2000, text) - of(1000, text)) / 1000; each > 1.01 {
			t.Errorf("%q: %.2f allocations a delta", text, each)
		}
	}
}
