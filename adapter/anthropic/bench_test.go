package anthropic

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/adaptertest"
)

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

// answeringTokens is a model whose answers have so many tokens.
func answeringTokens(t testing.TB, n int, token string) adapter.Model {
	m, err := newProvider(t, Options{Transport: adaptertest.Canned("text/event-stream", stream(n, token))}).Model("claude-sonnet-4-6")
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// MO-33: the cost of one token, from the connection's buffer to the loop's body.
func BenchmarkStream(b *testing.B) {
	for name, token := range map[string]string{"plain": "tok", "escaped": `\n\"to\"`} {
		b.Run(name, func(b *testing.B) { adaptertest.Measure(b, answeringTokens(b, benchTokens, token), benchTokens) })
	}
}

// MO-33: a text delta allocates its text, and nothing else.
func TestATextDeltaAllocatesItsTextOnly(t *testing.T) {
	for _, token := range []string{"tok", `\n\"to\"`} {
		adaptertest.OneAllocation(t, func(n int) adapter.Model { return answeringTokens(t, n, token) })
	}
}
