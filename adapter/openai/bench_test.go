package openai

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/adaptertest"
)

// stream makes an answer of n tokens as OpenAI writes it, each of which begins with start; where vary is set, something beside the content differs each
// time.
func stream(n int, start string, vary bool) []byte {
	var b bytes.Buffer
	for i := range n {
		extra := ""
		if vary {
			extra = fmt.Sprintf(`,"obfuscation":"%08x"`, i*2654435761)
		}
		fmt.Fprintf(&b, `data: {"id":"chatcmpl-BZcd0123456789abcdefghijklmno","object":"chat.completion.chunk","created":1730000000,`+
			`"model":"gpt-4o-mini-2024-07-18","service_tier":"default","system_fingerprint":"fp_0123456789","choices":[{"index":0,`+
			`"delta":{"content":"%s%d"},"logprobs":null,"finish_reason":null}],"usage":null%s}`+"\n\n", start, i%10, extra)
	}
	b.WriteString(`data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\ndata: [DONE]\n\n")
	return b.Bytes()
}

const benchTokens = 1000

// openModel returns a model whose answer is a stream.
func openModel(t testing.TB, stream []byte) adapter.Model {
	t.Helper()
	m, err := newProvider(t, Options{Transport: adaptertest.Canned("text/event-stream", stream)}).Model("gpt-4o-mini")
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// The cost of one token, from the connection's buffer to the loop's body.
func BenchmarkStream(b *testing.B) {
	for name, answer := range map[string][]byte{
		"plain": stream(benchTokens, "tok", false), "obfuscated": stream(benchTokens, "tok", true), "escaped": stream(benchTokens, `\"to`, false),
	} {
		b.Run(name, func(b *testing.B) { adaptertest.Measure(b, openModel(b, answer), benchTokens) })
	}
}

// The same with the time limits around it.
func BenchmarkStreamGuarded(b *testing.B) {
	var r adapter.Registry
	r.Register("openai", newProvider(b, Options{Transport: adaptertest.Canned("text/event-stream", stream(benchTokens, "tok", false))}))
	m, err := r.Model("openai:gpt-4o-mini")
	if err != nil {
		b.Fatal(err)
	}
	adaptertest.Measure(b, m, benchTokens)
}

// A delta of text costs its string, and nothing else.
func TestATextDeltaCostsOneAllocation(t *testing.T) {
	for _, start := range []string{"tok", `\"to`, "né"} {
		for _, vary := range []bool{false, true} {
			adaptertest.OneAllocation(t, func(n int) adapter.Model { return openModel(t, stream(n, start, vary)) })
		}
	}
}
