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

// Options are the settings of a provider.
type Options struct {
	Prefix string // as it is known in model names, default "responses"
	// BaseURL is what comes before /responses, default the OpenAI API's. Azure's is the endpoint: see [Options.Azure].
	BaseURL string
	// Azure says that the server is Azure's: model names are names of deployments, and the key goes into a header of its own. BaseURL is then
	// the endpoint, https://NAME.openai.azure.com, with or without /openai/v1. With a version of the API, or a BaseURL that has an api-version,
	// the address is that of the versions: /openai/responses.
	Azure      bool
	APIVersion string
	Key        string
	KeyName    string            // where the key comes from, named in errors; default the prefix in capitals and "_API_KEY"
	Header     http.Header       // of every request
	Transport  http.RoundTripper // default: a shared one sized for thousands of streams
	ProxyEnv   bool              // with the default transport: go through the proxy that the environment names
	Names      []string          // models to list
	Timeouts   adapter.Timeouts  // Connect is used for dialing
	MaxEvent   int               // bytes of one event, default 4 MiB
}

const (
	defaultURL      = "https://api.openai.com/v1"
	defaultMaxEvent = 4 << 20
)

// New returns a provider; one that is not Azure's is an [adapter.Lister]. Errors: a BaseURL that is no http(s) URL.
func New(o Options) (adapter.Provider, error) {
	o.Prefix = cmp.Or(o.Prefix, "responses")
	example := defaultURL
	if o.Azure {
		example = endpoint.AzureURL
	} else {
		o.BaseURL = cmp.Or(o.BaseURL, defaultURL)
	}
	base, err := wire.BaseURL(o.Prefix, o.BaseURL, example)
	if err != nil {
		return nil, err
	}
	if o.Azure && o.APIVersion == "" && !base.Query().Has("api-version") {
		if path := strings.TrimRight(base.Path, "/"); path == "" || path == "/openai" {
			base.Path, base.RawPath = "/openai/v1", "" // the versions that had /responses were previews
		}
	}
	p := &provider{
		Server: wire.NewServer(wire.Server{Prefix: o.Prefix, KeyName: o.KeyName, Header: o.Header}, o.Key, o.Transport,
			adapter.TransportOptions{Connect: o.Timeouts.Connect, ProxyEnv: o.ProxyEnv}),
		Endpoint: endpoint.New(*base, o.Azure, o.APIVersion),
		names:    o.Names,
		maxEvent: cmp.Or(max(o.MaxEvent, 0), defaultMaxEvent),
	}
	if p.Azure() {
		return p, nil // Azure lists the models that could be deployed, which are no names that can be asked
	}
	return &lister{p}, nil
}

// provider is one server and what is known of it. It is safe for concurrent use.
type provider struct {
	wire.Server
	endpoint.Endpoint
	names    []string
	maxEvent int
	learned  wire.Lessons // see giveIn
}

// Model returns the model of this name. Which names a server has is only known to it.
func (p *provider) Model(name string) (adapter.Model, error) {
	if name == "" {
		return nil, fmt.Errorf("expected a model's name after %q", p.Prefix+":")
	}
	return &model{p: p, name: name}, nil
}

func (p *provider) Names() []string { return p.names }

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
	return m.p.Stream(ctx, m.name, m.p.maxEvent, func(ctx context.Context) (*http.Response, error) { return m.ask(ctx, req) }, m.read)
}
