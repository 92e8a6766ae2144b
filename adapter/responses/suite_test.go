package responses

import (
	"io"
	"testing"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/adaptertest"
)

var subject = adaptertest.Subject{
	Prefix:  "responses",
	KeyName: "RESPONSES_API_KEY",
	New: func(t testing.TB, o adaptertest.Options) adapter.Provider {
		return newProvider(t, Options{BaseURL: o.BaseURL + "/v1", Key: o.Key, Transport: o.Transport, MaxEvent: o.MaxEvent})
	},
	Wire: adaptertest.Responses,
}

// AD-04, MO-30: the promises that all adapters make.
func TestSuite(t *testing.T) { adaptertest.Run(t, subject) }

// The same at Azure's addresses.
func TestAzureSuite(t *testing.T) {
	azure := subject
	azure.Prefix, azure.KeyName = "azure", "AZURE_OPENAI_API_KEY"
	azure.New = func(t testing.TB, o adaptertest.Options) adapter.Provider {
		return newAzure(t, Options{
			Prefix: "azure", BaseURL: o.BaseURL, Key: o.Key, KeyName: "AZURE_OPENAI_API_KEY",
			Transport: o.Transport, MaxEvent: o.MaxEvent,
		}, "")
	}
	adaptertest.Run(t, azure)
}

func FuzzStream(f *testing.F) { adaptertest.Fuzz(f, subject) }

func newAzure(t testing.TB, o Options, version string) adapter.Provider {
	t.Helper()
	p, err := NewAzure(o, version)
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

func read(t testing.TB, r io.Reader) string {
	t.Helper()
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
