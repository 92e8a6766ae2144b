// Package openai speaks the chat completions format of OpenAI and of every server compatible with it: DeepSeek, Qwen,
// Moonshot, OpenRouter, vLLM, llama.cpp, Ollama's /v1; and that of Azure, under its addresses.
//
// # Guarantees
//   - A stream that was cut off is an error, never a short answer.
//   - An error that the provider sends, wherever and in whatever form, is an error here, and its text stays out of ours.
//   - Leaving the loop or ending the context closes the stream at the provider at once.
//   - One event, one chunk: nothing waits for more than what it is part of.
package openai

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"strings"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/openai/endpoint"
	"github.com/lingserve/lingserve/adapter/wire"
)

// Options are the settings of a provider: the default of Prefix is "openai"; BaseURL is what comes before /chat/completions, default the OpenAI
// API's.
type Options = wire.Options

const defaultURL = "https://api.openai.com/v1"

// New returns a provider, which is an [adapter.Lister]. Errors: a BaseURL that is no http(s) URL.
func New(o Options) (adapter.Provider, error) {
	o.Prefix, o.BaseURL = cmp.Or(o.Prefix, "openai"), cmp.Or(o.BaseURL, defaultURL)
	base, err := wire.BaseURL(o.Prefix, o.BaseURL, defaultURL)
	if err != nil {
		return nil, err
	}
	p := providerAt(o, base, endpoint.New(*base, false, ""))
	if p.Azure() {
		return p, nil // a BaseURL with an api-version is Azure's
	}
	return &lister{p}, nil
}

// NewAzure returns a provider of Azure: model names are names of deployments, and the key goes into a header of its own. BaseURL is the endpoint,
// https://NAME.openai.azure.com, with or without the path of a deployment; or that with /openai/v1, where Azure takes the addresses of OpenAI. The
// version of the API is that of BaseURL if it has one, or else apiVersion, default 2024-10-21. The provider does not list models: Azure lists
// those that could be deployed, which are no names that can be asked. Errors: a BaseURL that is no http(s) URL.
func NewAzure(o Options, apiVersion string) (adapter.Provider, error) {
	o.Prefix = cmp.Or(o.Prefix, "openai")
	base, err := wire.BaseURL(o.Prefix, o.BaseURL, endpoint.AzureURL)
	if err != nil {
		return nil, err
	}
	return providerAt(o, base, endpoint.New(*base, true, apiVersion)), nil
}

func providerAt(o Options, base *url.URL, at endpoint.Endpoint) *provider {
	p := &provider{Server: wire.NewServer(o), Endpoint: at, thinks: thinksOf(base.Hostname())}
	p.URLHint = " (most end in /v1)"
	return p
}

// provider is one server and what is known of it. It is safe for concurrent use.
type provider struct {
	wire.Server
	endpoint.Endpoint
	learned wire.Lessons // see giveIn
	thinks  thinks
}

// thinks is how a server is told to think.
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
		for _, h := range hosts {
			if host == h || strings.HasSuffix(host, "."+h) {
				return of
			}
		}
	}
	return thinksEffort
}

// Model returns the model of this name. Which names a server has is only known to it.
func (p *provider) Model(name string) (adapter.Model, error) {
	if name == "" {
		return nil, fmt.Errorf("expected a model's name after %q", p.Prefix+":")
	}
	if p.Azure() && (name == "." || name == ".." || strings.Contains(name, "/")) {
		return nil, fmt.Errorf("no deployment can be called %q", name) // it would be part of the address
	}
	return &model{p: p, name: name, url: p.Chat(name)}, nil
}

// model is one model of a provider.
type model struct {
	p    *provider
	name string
	url  string
}

// Stream asks the model.
func (m *model) Stream(ctx context.Context, req adapter.Request) iter.Seq2[adapter.Chunk, error] {
	return m.p.Stream(ctx, m.name, func(ctx context.Context) (*http.Response, error) { return m.ask(ctx, req) }, m.read)
}
