package anthropic

import (
	"testing"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/adaptertest"
)

// subject is this adapter, as the suite of all adapters sees it.
var subject = adaptertest.Subject{
	Prefix:  "anthropic",
	KeyName: "ANTHROPIC_API_KEY",
	New: func(t testing.TB, o adaptertest.Options) adapter.Provider {
		return newProvider(t, Options{BaseURL: o.BaseURL, Key: o.Key, Transport: o.Transport, MaxEvent: o.MaxEvent})
	},
	Wire:            adaptertest.Anthropic,
	NoContentFilter: true, // Anthropic's models refuse instead
}

// AD-01, AD-06, AD-07 and what else every adapter promises.
func TestSuite(t *testing.T) { adaptertest.Run(t, subject) }

// Whatever comes as a stream, it ends with a finish or with one error.
func FuzzStream(f *testing.F) {
	adaptertest.Fuzz(f, subject,
		[]byte(`data: {"type":"content_block_start","content_block":{"type":"server_tool_use","id":"s","name":"web_search","input":{}}}`+"\n\n"+
			`data: {"type":"content_block_delta","delta":{"type":"input_json_delta","partial_json":"{}"}}`+"\n\n"+`data: {"type":"message_stop"}`+"\n\n"))
}

func newProvider(t testing.TB, o Options) adapter.Provider {
	t.Helper()
	p, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}
