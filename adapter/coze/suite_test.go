package coze

import (
	"flag"
	"testing"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/adaptertest"
)

var update = flag.Bool("update", false, "rewrite the expected chunks in testdata")

var (
	chatCreated   = adaptertest.Coze.Open
	chatCompleted = adaptertest.Coze.Finish
	done          = adaptertest.Coze.Done
	text          = adaptertest.Coze.Text // an event with a piece of an answer
)

var subject = adaptertest.Subject{
	Prefix:  "coze",
	KeyName: "COZE_API_TOKEN",
	New: func(t testing.TB, o adaptertest.Options) adapter.Provider {
		return newProvider(t, Options{BaseURL: o.BaseURL, Key: o.Key, Transport: o.Transport, MaxEvent: o.MaxEvent})
	},
	Wire:            adaptertest.Coze,
	NoLength:        true, // a chat is completed or it fails
	NoContentFilter: true,
}

// AD-03: the promises that all adapters make.
func TestSuite(t *testing.T) { adaptertest.Run(t, subject) }

func newProvider(t testing.TB, o Options) adapter.Provider {
	t.Helper()
	p, err := New(o, "web")
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
