package coze

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/lingserve/lingserve/adapter/adaptertest"
)

const benchTokens = 1000

// stream makes an answer of n tokens as Coze writes it.
func stream(n int) []byte {
	var b bytes.Buffer
	b.WriteString(chatCreated)
	for i := range n {
		fmt.Fprintf(&b, "event:conversation.message.delta\n"+
			`data:{"id":"7382159494123470858","conversation_id":"7381473525342978089","bot_id":"7379462189365198898","role":"assistant",`+
			`"type":"answer","content":"tok%d","content_type":"text","chat_id":"7382159487131697202","section_id":"7381473525342978089",`+
			`"created_at":1718792949}`+"\n\n", i%10)
	}
	b.WriteString(chatCompleted + done)
	return b.Bytes()
}

// The cost of one token, from the connection's buffer to the loop's body.
func BenchmarkStream(b *testing.B) {
	m, err := newProvider(b, Options{Transport: adaptertest.Canned("text/event-stream", stream(benchTokens))}).Model("7379462189365198898")
	if err != nil {
		b.Fatal(err)
	}
	adaptertest.Measure(b, m, benchTokens)
}
