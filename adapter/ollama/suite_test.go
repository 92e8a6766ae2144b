package ollama

import (
	"flag"
	"testing"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/adaptertest"
)

var update = flag.Bool("update", false, "rewrite the expected chunks in testdata")

// lastLine is what Ollama ends an answer with.
var lastLine = adaptertest.Ollama.Finish

func messageLine(members string) string {
	return `{"model":"m","created_at":"2026-01-02T03:04:05.123456789Z","message":{"role":"assistant",` + members + `},"done":false}` + "\n"
}

var subject = adaptertest.Subject{
	Prefix:  "ollama",
	KeyName: "OLLAMA_API_KEY",
	New: func(t testing.TB, o adaptertest.Options) adapter.Provider {
		return newProvider(t, Options{BaseURL: o.BaseURL, Key: o.Key, Transport: o.Transport, MaxEvent: o.MaxEvent})
	},
	Wire:            adaptertest.Ollama,
	NoContentFilter: true, // Ollama has no filter
}

// AD-04: the promises that all adapters make.
func TestSuite(t *testing.T) { adaptertest.Run(t, subject) }

// AD-04, and the lines of FAULTS.md about streams: each file of testdata is an answer as some version of Ollama gives it, or a
// server that is like it, or one that is broken.
func TestRecordedStreamsGiveTheirChunks(t *testing.T) {
	adaptertest.Recorded(t, subject, "testdata/*.txtar", *update)
}

func newProvider(t testing.TB, o Options) adapter.Provider {
	t.Helper()
	p, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}
