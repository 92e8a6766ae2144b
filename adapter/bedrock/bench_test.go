package bedrock

import (
	"fmt"
	"testing"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/adaptertest"
	"github.com/lingserve/lingserve/adapter/wire"
	"github.com/lingserve/lingserve/internal/fakeproviders"
)

// tokens makes an answer of n tokens as Bedrock writes it, each with padding of its own.
func tokens(n int) []byte {
	const padding = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
	b := []byte(adaptertest.Bedrock.Open)
	for i := range n {
		b = fakeproviders.AppendFrame(b, "event", "contentBlockDelta", fmt.Appendf(nil, `{"contentBlockIndex":0,"delta":{"text":" tok%d"},"p":%q}`, i%10, padding[:i*7%len(padding)]))
	}
	return append(b, adaptertest.Bedrock.Finish+adaptertest.Bedrock.Done...)
}

const benchTokens = 1000

func answeringTokens(t testing.TB, n int) adapter.Model {
	return modelAt(t, haiku, adaptertest.Canned(wire.AWSStreamType, tokens(n)))
}

// MO-33: the cost of one token, from the connection's buffer to the loop's body.
func BenchmarkStream(b *testing.B) {
	adaptertest.Measure(b, answeringTokens(b, benchTokens), benchTokens)
}
