package ollama

import (
	"bytes"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/adaptertest"
)

// canned answers every request with the same bytes.
func canned(body []byte) http.RoundTripper { return adaptertest.Canned("application/x-ndjson", body) }

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
	adaptertest.Measure(b, m, benchTokens)
}

// The same with the time limits around it.
func BenchmarkStreamGuarded(b *testing.B) {
	var r adapter.Registry
	r.Register("ollama", newProvider(b, Options{Transport: canned(stream(benchTokens))}))
	m, err := r.Model("ollama:llama3.2:3b")
	if err != nil {
		b.Fatal(err)
	}
	adaptertest.Measure(b, m, benchTokens)
}
