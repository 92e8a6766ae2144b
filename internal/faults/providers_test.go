//go:build nightly

package faults

import (
	"io"
	"strings"
	"testing"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/adaptertest"
	"github.com/lingserve/lingserve/adapter/anthropic"
	"github.com/lingserve/lingserve/adapter/bedrock"
	"github.com/lingserve/lingserve/adapter/coze"
	"github.com/lingserve/lingserve/adapter/gemini"
	"github.com/lingserve/lingserve/adapter/ollama"
	"github.com/lingserve/lingserve/adapter/openai"
	"github.com/lingserve/lingserve/adapter/responses"
	"github.com/lingserve/lingserve/internal/fakeproviders"
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
	anthropicAPI = &provider{
		name: "anthropic", Wire: adaptertest.Anthropic, keyName: "ANTHROPIC_API_KEY", words: "Overloaded",
		elsewhere: "check the base URL", absent: "check that it runs, and the base URL",
	}
	geminiAPI = &provider{
		name: "gemini", Wire: adaptertest.Gemini, keyName: "GEMINI_API_KEY", words: "The model is overloaded",
		elsewhere: "check the base URL", absent: "check that it runs, and the base URL",
	}
	vertex = &provider{ // with a key
		name: "vertex", Wire: adaptertest.Gemini, keyName: "VERTEX_API_KEY", words: "The model is overloaded",
		elsewhere: "check the base URL", absent: "check that it runs, and the base URL", like: geminiAPI,
	}
	responsesAPI = &provider{
		name: "responses", Wire: adaptertest.Responses, keyName: "RESPONSES_API_KEY", words: "server_error",
		elsewhere: "check the base URL", absent: "check that it runs, and the base URL",
	}
	bedrockRuntime = &provider{
		name: "bedrock", Wire: adaptertest.Bedrock, keyName: "AWS_BEARER_TOKEN_BEDROCK", words: "internalServerException",
		elsewhere: "check the base URL", absent: "check that it runs, and the base URL",
	}
	providers = []*provider{openAI, azure, cozeBot, ollamaRunner, anthropicAPI, geminiAPI, vertex, responsesAPI, bedrockRuntime}
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
			p, err = openai.NewAzure(openai.Options{
				Prefix: w.name, BaseURL: base, Key: canary, KeyName: w.keyName, Timeouts: limits, MaxEvent: maxEvent,
			}, "")
		case cozeBot:
			p, err = coze.New(coze.Options{BaseURL: base, Key: canary, Timeouts: limits, MaxEvent: maxEvent}, "")
		case ollamaRunner:
			p, err = ollama.New(ollama.Options{BaseURL: base, Key: canary, Timeouts: limits, MaxEvent: maxEvent})
		case anthropicAPI:
			p, err = anthropic.New(anthropic.Options{BaseURL: base, Key: canary, Timeouts: limits, MaxEvent: maxEvent})
		case geminiAPI:
			p, err = gemini.New(gemini.Options{BaseURL: base, Key: canary, Timeouts: limits, MaxEvent: maxEvent})
		case vertex:
			p, err = gemini.NewVertex(gemini.Options{
				BaseURL: base, Key: canary, KeyName: w.keyName, Timeouts: limits, MaxEvent: maxEvent,
			}, gemini.Vertex{Project: "p", Location: "us-central1"})
		case responsesAPI:
			p, err = responses.New(responses.Options{BaseURL: base + "/v1", Key: canary, Timeouts: limits, MaxEvent: maxEvent})
		case bedrockRuntime:
			p, err = bedrock.New(bedrock.Options{BaseURL: base, Key: canary, Timeouts: limits, MaxEvent: maxEvent}, bedrock.AWS{Region: "us-east-1"})
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

// inside is an event of text with these bytes between the quotes.
func (w *provider) inside(raw string) string {
	if w.Inside != nil { // Bedrock's frames have a length and checksums
		return w.Inside(raw)
	}
	return strings.Replace(w.Text("HERE"), "HERE", raw, 1)
}

// broken is an event that is no JSON, with much more in it than anybody wants to read.
func (w *provider) broken() string {
	rubbish := "<rubbish of " + canary + ">"
	if w == bedrockRuntime {
		return string(fakeproviders.AppendFrame(nil, "event", "contentBlockDelta", rubbish+strings.Repeat("x", 100_000)))
	}
	return strings.Replace(w.Text(strings.Repeat("x", 100_000)), "{", rubbish, 1)
}
