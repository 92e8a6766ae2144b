package gemini

import (
	"testing"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/adaptertest"
)

// subject is this adapter, as the suite of all adapters sees it. Its model is one that insists on signatures.
var subject = adaptertest.Subject{
	Prefix:  "gemini",
	Model:   "gemini-3-flash-preview",
	KeyName: "GEMINI_API_KEY",
	New: func(t testing.TB, o adaptertest.Options) adapter.Provider {
		return newProvider(t, Options{BaseURL: o.BaseURL, Key: o.Key, Transport: o.Transport, MaxEvent: o.MaxEvent})
	},
	Wire: adaptertest.Gemini,
}

// AD-01, AD-06, AD-07, MO-32 and what else every adapter promises.
func TestSuite(t *testing.T) { adaptertest.Run(t, subject) }

// MO-30: Vertex AI, asked with a key, keeps the same promises.
func TestSuiteOfVertex(t *testing.T) {
	s := subject
	s.Prefix, s.KeyName, s.Model = "vertex", "", "gemini-2.5-flash" // without a key, it would be asked with credentials
	s.New = func(t testing.TB, o adaptertest.Options) adapter.Provider {
		return newVertex(t, Options{
			BaseURL: o.BaseURL, Key: o.Key, Transport: o.Transport, MaxEvent: o.MaxEvent,
		}, Vertex{Project: "p", Location: "us-central1"})
	}
	adaptertest.Run(t, s)
}

func newVertex(t testing.TB, o Options, at Vertex) adapter.Provider {
	t.Helper()
	p, err := NewVertex(o, at)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func newProvider(t testing.TB, o Options) adapter.Provider {
	t.Helper()
	p, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}
