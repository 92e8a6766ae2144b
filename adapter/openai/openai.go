// Package openai speaks the chat completions format of OpenAI and of every server compatible with it: DeepSeek, Qwen,
// Moonshot, OpenRouter, vLLM, llama.cpp, Ollama's /v1; and that of Azure, under its addresses.
//
// # Guarantees
//   - A stream that was cut off is an error, never a short answer.
//   - An error that the provider sends in any form is an error here, and its text stays out of ours.
//   - Leaving the loop or ending the context closes the stream at the provider at once.
//   - One event, one chunk: nothing waits for more than what it is part of.
package openai

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"strings"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/openai/endpoint"
	"github.com/lingserve/lingserve/adapter/wire"
)

// Options are the settings of a provider: the default of Prefix is "openai"; BaseURL is what comes before /chat/completions, default
// the OpenAI API's.
type Options = wire.Options

// New returns a provider, which is an [adapter.Lister]. Errors: a BaseURL that is no http(s) URL.
func New(o Options) (adapter.Provider, error) { return open(o, false, "") }

// NewAzure returns a provider of Azure: model names are names of deployments, and the key goes into another header. BaseURL is
// the endpoint, https://NAME.openai.azure.com, with or without the path of a deployment; or that with /openai/v1, where Azure takes
// the addresses of OpenAI. The version of the API is that of BaseURL if it has one, or else apiVersion, default 2024-10-21. The
// provider does not list models: Azure lists those that could be deployed, which are no names that can be asked. Errors: a BaseURL
// that is no http(s) URL.
func NewAzure(o Options, apiVersion string) (adapter.Provider, error) {
	return open(o, true, apiVersion)
}

func open(o Options, azure bool, version string) (adapter.Provider, error) {
	o.Prefix = cmp.Or(o.Prefix, "openai")
	s, err := endpoint.New(o, azure, version)
	if err != nil {
		return nil, err
	}
	thinks := thinksOf(s.Hostname())
	return s.Provider(func(name string) adapter.Model { return &model{s, name, s.Chat(name), thinks} }), nil
}

// model is one model of a server. It is safe for concurrent use.
type model struct {
	*endpoint.Server
	name, url string
	thinks    thinks
}

// Stream asks the model.
func (m *model) Stream(ctx context.Context, req adapter.Request) iter.Seq2[adapter.Chunk, error] {
	return m.Answer(ctx, m.name, m.url, &asking{model: m, req: &req}, m.read)
}

// thinks is how a server is asked to think.
type thinks int

const (
	thinksEffort thinks = iota // reasoning_effort
	thinksObject               // OpenRouter's reasoning
	thinksType                 // thinking: {type}
	thinksFlag                 // enable_thinking
)

func thinksOf(host string) thinks {
	for of, hosts := range map[thinks][]string{
		thinksObject: {"openrouter.ai"},
		thinksType:   {"deepseek.com", "moonshot.cn", "moonshot.ai", "z.ai", "bigmodel.cn"},
		thinksFlag:   {"aliyuncs.com", "siliconflow.cn"},
	} {
		if slices.ContainsFunc(hosts, func(h string) bool { return host == h || strings.HasSuffix(host, "."+h) }) {
			return of
		}
	}
	return thinksEffort
}
