package coze

import (
	"flag"
	"strconv"
	"testing"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/adaptertest"
)

var update = flag.Bool("update", false, "rewrite the expected chunks in testdata")

const (
	chatCreated   = "event:conversation.chat.created\ndata:{\"id\":\"740002\",\"conversation_id\":\"740001\",\"bot_id\":\"m\",\"status\":\"created\"}\n\n"
	chatCompleted = "event:conversation.chat.completed\ndata:{\"id\":\"740002\",\"conversation_id\":\"740001\",\"bot_id\":\"m\",\"status\":\"completed\",\"usage\":{\"token_count\":3,\"output_count\":1,\"input_count\":2}}\n\n"
	done          = "event:done\ndata:\"[DONE]\"\n\n"
)

// An event with a piece of an answer is deltaHead, a member, deltaTail.
const (
	deltaHead = `event:conversation.message.delta` + "\n" + `data:{"id":"740003","conversation_id":"740001","bot_id":"m","role":"assistant","type":"answer",`
	deltaTail = `,"content_type":"text","chat_id":"740002"}` + "\n\n"
)

var subject = adaptertest.Subject{
	Prefix:  "coze",
	KeyName: "COZE_API_TOKEN",
	New: func(t testing.TB, o adaptertest.Options) adapter.Provider {
		return newProvider(t, Options{BaseURL: o.BaseURL, Key: o.Key, Transport: o.Transport, MaxEvent: o.MaxEvent, Timeouts: o.Timeouts})
	},
	Wire: adaptertest.Wire{
		ContentType: "text/event-stream",
		Open:        chatCreated,
		Text:        func(text string) string { return deltaHead + `"content":` + strconv.Quote(text) + deltaTail },
		Reasoning: func(text string) string {
			return deltaHead + `"content":"","reasoning_content":` + strconv.Quote(text) + deltaTail
		},
		Finish: chatCompleted,
		Done:   done,
		Ping:   ": ping\n\n",
		Error:  "event:error\ndata:{\"code\":5000,\"msg\":\"event interval error " + adaptertest.Key + "\"}\n\n",
	},
	NoLength:        true, // a chat is completed or it fails
	NoContentFilter: true,
}

// AD-03: the promises that all adapters make.
func TestSuite(t *testing.T) { adaptertest.Run(t, subject) }

func newProvider(t testing.TB, o Options) adapter.Provider {
	t.Helper()
	p, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// AD-03, and the lines of FAULTS.md about streams: each file of testdata is an answer as Coze gives it, or a server that is like
// it, or one that is broken.
func TestRecordedStreamsGiveTheirChunks(t *testing.T) {
	adaptertest.Recorded(t, subject, "testdata/*.txtar", *update)
}
