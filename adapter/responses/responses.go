// Package responses speaks OpenAI's Responses API, as OpenAI, Azure, xAI, DeepSeek, OpenRouter, Bedrock and Ollama have it. Nothing is stored at
// the provider: each request carries the whole history, with the reasoning as the model has encrypted it.
//
// # Guarantees
//   - A stream that was cut off is an error, never a short answer.
//   - What an answer has is passed on once, whether it came in deltas, in an item, or in the whole response only.
//   - Reasoning goes back byte for byte, in front of the item that it led to, and never without one.
//   - A member of a request that a model has refused is left out of the next one, and remembered for the model.
package responses

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"net/http"
	"strings"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/openai/endpoint"
	"github.com/lingserve/lingserve/adapter/wire"
)

// Options are the settings of a provider: the default of Prefix is "responses"; BaseURL is what comes before /responses, default the OpenAI
// API's.
type Options = wire.Options

const defaultURL = "https://api.openai.com/v1"

// New returns a provider, which is an [adapter.Lister]. Errors: a BaseURL that is no http(s) URL.
func New(o Options) (adapter.Provider, error) {
	o.Prefix, o.BaseURL = cmp.Or(o.Prefix, "responses"), cmp.Or(o.BaseURL, defaultURL)
	base, err := wire.BaseURL(o.Prefix, o.BaseURL, defaultURL)
	if err != nil {
		return nil, err
	}
	p := providerAt(o, endpoint.New(*base, false, ""))
	if p.Azure() {
		return p, nil // a BaseURL with an api-version is Azure's
	}
	return &lister{p}, nil
}

// NewAzure returns a provider of Azure: model names are names of deployments, and the key goes into a header of its own. BaseURL is the endpoint,
// https://NAME.openai.azure.com, with or without /openai/v1. With an apiVersion, or a BaseURL that has an api-version, the address is that of
// the versions: /openai/responses. The provider does not list models: Azure lists those that could be deployed, which are no names that can
// be asked. Errors: a BaseURL that is no http(s) URL.
func NewAzure(o Options, apiVersion string) (adapter.Provider, error) {
	o.Prefix = cmp.Or(o.Prefix, "responses")
	base, err := wire.BaseURL(o.Prefix, o.BaseURL, endpoint.AzureURL)
	if err != nil {
		return nil, err
	}
	if apiVersion == "" && !base.Query().Has("api-version") {
		if path := strings.TrimRight(base.Path, "/"); path == "" || path == "/openai" {
			base.Path, base.RawPath = "/openai/v1", "" // the versions that had /responses were previews
		}
	}
	return providerAt(o, endpoint.New(*base, true, apiVersion)), nil
}

func providerAt(o Options, at endpoint.Endpoint) *provider {
	return &provider{Server: wire.NewServer(o), Endpoint: at}
}

// provider is one server and what is known of it. It is safe for concurrent use.
type provider struct {
	wire.Server
	endpoint.Endpoint
	learned wire.Lessons // see giveIn
}

// Model returns the model of this name. Which names a server has is only known to it.
func (p *provider) Model(name string) (adapter.Model, error) {
	if name == "" {
		return nil, fmt.Errorf("expected a model's name after %q", p.Prefix+":")
	}
	return &model{p: p, name: name}, nil
}

func (p *provider) header(accept string) http.Header {
	h := http.Header{"Accept": {accept}}
	p.Endpoint.Authorize(h, p.Key())
	return h
}

// lister is a provider whose server says which models it has.
type lister struct{ *provider }

// List asks the server for its models, in its order.
func (p *lister) List(ctx context.Context) ([]string, error) {
	return p.ListModels(ctx, p.Models(), p.header("application/json"), p.Refused)
}

var _ adapter.Lister = (*lister)(nil)

// model is one model of a provider.
type model struct {
	p    *provider
	name string
}

// Stream asks the model.
func (m *model) Stream(ctx context.Context, req adapter.Request) iter.Seq2[adapter.Chunk, error] {
	return m.p.Stream(ctx, m.name, func(ctx context.Context) (*http.Response, error) { return m.ask(ctx, req) }, m.read)
}
