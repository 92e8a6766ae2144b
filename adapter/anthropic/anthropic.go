// Package anthropic speaks Anthropic's Messages API, and that of the servers that offer the same: Kimi, DeepSeek, MiniMax, Z.ai.
//
// # Guarantees
//   - A stream that was cut off is an error, never a short answer.
//   - Thinking, signatures and blocks of the provider's own tools go back as they came, in their order.
//   - What is sent of a history does not change when the history grows, so the provider's cache keeps working.
//   - What the adapter adds by itself is left out if the model refuses it by name.
package anthropic

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"net/http"
	"strings"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/wire"
)

// Options are the settings of a provider: the default of Prefix is "anthropic"; BaseURL is what comes before /v1/messages, with or without the
// /v1, default https://api.anthropic.com; values of the header Anthropic-Beta are added to those that a request needs.
type Options = wire.Options

const (
	defaultURL = "https://api.anthropic.com"
	version    = "2023-06-01" // of the API; there is no later one
)

// New returns a provider, which is an [adapter.Lister]. Errors: a BaseURL that is no http(s) URL.
func New(o Options) (adapter.Provider, error) {
	o.Prefix = cmp.Or(o.Prefix, "anthropic")
	base, err := wire.BaseURL(o.Prefix, cmp.Or(o.BaseURL, defaultURL), defaultURL)
	if err != nil {
		return nil, err
	}
	for _, end := range []string{"/messages", "/v1"} {
		base.Path = strings.TrimSuffix(strings.TrimRight(base.Path, "/"), end)
	}
	base.RawPath = ""
	betas := o.Header.Values(betaHeader)
	o.Header = o.Header.Clone()
	o.Header.Del(betaHeader)
	models := base.JoinPath("v1", "models")
	query := models.Query()
	query.Set("limit", "1000") // the most of a page
	models.RawQuery = query.Encode()
	p := &provider{Server: wire.NewServer(o), messages: base.JoinPath("v1", "messages").String(), models: models.String()}
	p.Authorize = func(h http.Header) {
		h.Set("Anthropic-Version", version)
		if key := p.Key(); key != "" {
			h.Set("X-Api-Key", key)
		}
		if all := append(betas[:len(betas):len(betas)], h[betaHeader]...); len(all) > 0 {
			h[betaHeader] = all
		}
	}
	return p, nil
}

// provider is one server. It is safe for concurrent use.
type provider struct {
	wire.Server
	messages, models string // addresses
}

// Model returns the model of this name. Which names a server has is only known to it.
func (p *provider) Model(name string) (adapter.Model, error) {
	if name == "" {
		return nil, fmt.Errorf("expected a model's name after %q", p.Prefix+":")
	}
	return &model{p: p, name: name, version: wire.ClaudeVersion(name)}, nil
}

const betaHeader = "Anthropic-Beta"

// List asks the server for its models, in its order.
func (p *provider) List(ctx context.Context) ([]string, error) {
	return p.ListModels(ctx, p.models)
}

var _ adapter.Lister = (*provider)(nil)

// model is one model of a provider.
type model struct {
	p       *provider
	name    string
	version int // 46 of Claude 4.6; 0 where it is not known, as of other makers' models
}

// Stream asks the model.
func (m *model) Stream(ctx context.Context, req adapter.Request) iter.Seq2[adapter.Chunk, error] {
	return m.p.Answer(ctx, m.name, m.p.messages, &asking{model: m, req: &req}, m.read)
}
