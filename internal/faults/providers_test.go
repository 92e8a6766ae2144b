package faults

import (
	"io"
	"strings"
	"testing"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/adaptertest"
	"github.com/lingserve/lingserve/adapter/coze"
	"github.com/lingserve/lingserve/adapter/ollama"
	"github.com/lingserve/lingserve/adapter/openai"
)

// provider is one of those that the product has, and what its server sends.
type provider struct {
	adaptertest.Wire
	name      string
	keyName   string // that errors about keys name
	words     string // of the Error, which are for the log only
	elsewhere string // said where something else answers than the provider
	absent    string // said where nothing answers
	like      *provider
}

var (
	openAI = &provider{
		name: "openai", Wire: adaptertest.OpenAI, keyName: "OPENAI_API_KEY", words: "server_error",
		elsewhere: "check the base URL", absent: "check that it runs, and the base URL",
	}
	azure = &provider{
		name: "azure", Wire: adaptertest.OpenAI, keyName: "AZURE_OPENAI_API_KEY", words: "server_error",
		elsewhere: "check the base URL", absent: "check that it runs, and the base URL", like: openAI,
	}
	cozeBot = &provider{
		name: "coze", Wire: adaptertest.Coze, keyName: "COZE_API_TOKEN", words: "event interval error",
		elsewhere: "check the base URL", absent: "check that it runs, and the base URL",
	}
	ollamaRunner = &provider{
		name: "ollama", Wire: adaptertest.Ollama, keyName: "OLLAMA_API_KEY", words: "llama runner process",
		elsewhere: "check that it is Ollama's address", absent: "`ollama serve`",
	}
	providers = []*provider{openAI, azure, cozeBot, ollamaRunner}
)

// framings are those in which a provider's faults are looked at: what speaks the same format as another needs no more than one.
func (w *provider) framings() []string {
	if w.like != nil {
		return framings[:1]
	}
	return framings
}

// model is a model's name with the provider in front.
func (w *provider) model(name string) string { return w.name + ":" + name }

// end is what ends a whole answer.
func (w *provider) end() string { return w.Finish + w.Done }

// begin is what an answer begins with.
func (w *provider) begin(text string) string { return w.Open + w.Text(text) }

// register gives the product all providers, each at the same server. The returned ones are to be closed at the end.
func register(t testing.TB, models *adapter.Registry, base string, maxEvent int, limits adapter.Timeouts) (closers []io.Closer) {
	t.Helper()
	for _, w := range providers {
		var p adapter.Provider
		var err error
		// The transport is the one that the product shares among its providers.
		switch w {
		case openAI:
			p, err = openai.New(openai.Options{BaseURL: base + "/v1", Key: canary, Timeouts: limits, MaxEvent: maxEvent})
		case azure:
			p, err = openai.New(openai.Options{
				Prefix: w.name, Azure: true, BaseURL: base, Key: canary, KeyName: w.keyName, Timeouts: limits, MaxEvent: maxEvent,
			})
		case cozeBot:
			p, err = coze.New(coze.Options{BaseURL: base, Key: canary, Timeouts: limits, MaxEvent: maxEvent})
		case ollamaRunner:
			p, err = ollama.New(ollama.Options{BaseURL: base, Key: canary, Timeouts: limits, MaxEvent: maxEvent})
		}
		if err != nil {
			t.Fatal(err)
		}
		models.Register(w.name, p)
		if c, ok := p.(io.Closer); ok {
			closers = append(closers, c)
		}
	}
	return closers
}

// broken is an event that is no JSON, with much more in it than anybody wants to read.
func (w *provider) broken() string {
	return strings.Replace(w.Text(strings.Repeat("x", 100_000)), "{", "<rubbish of "+canary+">", 1)
}
