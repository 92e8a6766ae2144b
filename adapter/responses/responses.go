// Package responses speaks OpenAI's Responses API, as OpenAI, Azure, xAI, DeepSeek, OpenRouter, Bedrock and Ollama have it. Nothing
// is stored at the provider: each request carries the whole history, with the reasoning as the model has encrypted it.
//
// # Guarantees
//   - A stream that was cut off is an error, never a short answer.
//   - What an answer has is passed on once, whether it came in deltas, in an item, or in the whole response only.
//   - Reasoning goes back byte for byte, in front of the item that it led to, and never without one.
//   - If a model refuses what the adapter adds by itself, the adapter asks once more without it.
package responses

import (
	"cmp"
	"context"
	"iter"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/openai/endpoint"
	"github.com/lingserve/lingserve/adapter/wire"
)

// Options are the settings of a provider: the default of Prefix is "responses"; BaseURL is what comes before /responses, default the OpenAI
// API's.
type Options = wire.Options

// New returns a provider, which is an [adapter.Lister]. Errors: a BaseURL that is no http(s) URL.
func New(o Options) (adapter.Provider, error) { return open(o, false, "") }

// NewAzure returns a provider of Azure: model names are names of deployments, and the key goes into another header. BaseURL is
// the endpoint, https://NAME.openai.azure.com, with or without /openai/v1. With an apiVersion, or a BaseURL that has an api-version,
// the address is that of the versions: /openai/responses. The provider does not list models: Azure lists those that could be
// deployed, which are no names that can be asked. Errors: a BaseURL that is no http(s) URL.
func NewAzure(o Options, apiVersion string) (adapter.Provider, error) {
	return open(o, true, cmp.Or(apiVersion, endpoint.V1)) // the versions that had /responses were previews
}

func open(o Options, azure bool, version string) (adapter.Provider, error) {
	o.Prefix = cmp.Or(o.Prefix, "responses")
	s, err := endpoint.New(o, azure, version)
	if err != nil {
		return nil, err
	}
	s.URLHint += ", and that the server has the Responses API"
	return s.Provider(func(name string) adapter.Model { return &model{s, name} }), nil
}

// model is one model of a server. It is safe for concurrent use.
type model struct {
	*endpoint.Server
	name string
}

// Stream asks the model.
func (m *model) Stream(ctx context.Context, req adapter.Request) iter.Seq2[adapter.Chunk, error] {
	return m.Answer(ctx, m.name, m.Responses(), &asking{model: m, req: &req}, m.read)
}
