package gemini

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/adaptertest"
)

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

// writing is a model whose answer has n tokens.
func writing(t testing.TB, n int, text string) adapter.Model {
	return modelAt(t, "gemini-3-flash-preview", adaptertest.Canned("text/event-stream", tokensOf(n, text)))
}

// MO-33: the cost of one token, from the connection's buffer to the loop's body.
func BenchmarkStream(b *testing.B) {
	for name, text := range map[string]string{"plain": "a token ", "escaped": `a \"token\"\n`, "Chinese": "天空为什么是蓝色的"} {
		b.Run(name, func(b *testing.B) { adaptertest.Measure(b, writing(b, 1000, text), 1000) })
	}
}

// MO-33: a text delta costs its string, and no other allocation.
func TestATextDeltaCostsOneAllocation(t *testing.T) {
	for _, text := range []string{"a token ", `a \"token\"\n`} {
		adaptertest.OneAllocation(t, func(n int) adapter.Model { return writing(t, n, text) })
	}
}
