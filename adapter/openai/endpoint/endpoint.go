// Package endpoint is what adapters share whose servers speak as OpenAI does, Azure's among them: the addresses, the key's header,
// the list of models, and what refusals say.
package endpoint

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/wire"
)

const (
	// DefaultURL is the base URL of OpenAI's API.
	DefaultURL = "https://api.openai.com/v1"
	// AzureURL is an example of an endpoint of Azure's.
	AzureURL = "https://NAME.openai.azure.com"
	// V1 is the version of Azure's API that has the addresses of OpenAI's, below /openai/v1.
	V1 = "v1"
	// defaultVersion is the last version of Azure's API that was declared generally available before /openai/v1 did away with
	// them. It has all that is sent: streamed usage, tools, JSON Schema.
	defaultVersion = "2024-10-21"
	completions    = "/chat/completions"
	responses      = "/responses"
)

// Server knows where a server takes requests.
type Server struct {
	wire.Server
	base        url.URL // what comes before /chat/completions or /responses or, for Azure's deployments, before /openai; with the query
	azure       bool    // the server is Azure's
	deployments bool    // Azure's addresses name a deployment, and begin with /openai
}

// New returns the server at a base URL, which may end in the path of a call. version is that of Azure's API where the URL has none.
// Errors: a BaseURL that is no http(s) URL; Azure has no default of it.
func New(o wire.Options, azure bool, version string) (*Server, error) {
	example := AzureURL
	if !azure {
		example, o.BaseURL = DefaultURL, cmp.Or(o.BaseURL, DefaultURL)
	}
	base, err := wire.BaseURL(o.Prefix, o.BaseURL, example)
	if err != nil {
		return nil, err
	}
	s := &Server{Server: wire.NewServer(o), base: *base}
	s.URLHint = " (most end in /v1)"
	if s.read(azure, version); s.azure {
		s.URLHint = "; on Azure, models are called by the names of their deployments"
		s.Authorize = func(h http.Header) {
			if key := s.Key(); key != "" {
				h.Set("Api-Key", key)
			}
		}
	}
	return s, nil
}

// read reads the base URL.
func (s *Server) read(azure bool, version string) {
	base, query := &s.base, s.base.Query()
	if v := query.Get("api-version"); v != "" {
		azure, version = true, v
	}
	trim := func(suffix string) {
		base.RawPath = strings.TrimSuffix(strings.TrimRight(base.EscapedPath(), "/"), suffix) // %2F at the end is part of a name
		base.Path, _ = url.PathUnescape(base.RawPath)                                         // of a path that was read: cannot fail
	}
	trim(completions)
	trim(responses)
	if query.Del("api-version"); azure {
		if version == V1 {
			if trim("/openai"); base.Path == "" {
				base.Path, base.RawPath = "/openai/v1", ""
			}
			version = ""
		}
		version = cmp.Or(version, defaultVersion)
		switch {
		case strings.HasSuffix(base.Path, "/openai/v1"):
			if strings.HasPrefix(version, "20") {
				version = "" // a date is a version of the old addresses
			}
		case strings.Contains(base.Path, "/deployments/") || strings.HasSuffix(base.Path, "/models"): // of one, or of all by the name in a request
		default:
			trim("/openai")
			s.deployments = true
		}
		if s.azure = true; version != "" {
			query.Set("api-version", version)
		}
	}
	base.RawQuery = query.Encode()
}

// Hostname is where the server is.
func (s *Server) Hostname() string { return s.base.Hostname() }

// Chat returns the address of chat completions.
func (s *Server) Chat(model string) string {
	if s.deployments {
		return s.base.JoinPath("openai", "deployments", url.PathEscape(model), completions).String()
	}
	return s.base.JoinPath(completions).String()
}

// Responses returns the address of responses.
func (s *Server) Responses() string {
	if s.deployments {
		return s.base.JoinPath("openai", responses).String() // deployments are named in the body
	}
	return s.base.JoinPath(responses).String()
}

// Provider returns the provider whose models are those that model makes. Which names a server has is only known to it. It is an
// [adapter.Lister], but for Azure, which lists the models that could be deployed: those are no names that can be asked. Errors of
// Model: no name, or one that would change the address.
func (s *Server) Provider(model func(name string) adapter.Model) adapter.Provider {
	p := &provider{s, model}
	if s.azure {
		return p
	}
	return &lister{p}
}

type provider struct {
	*Server
	model func(name string) adapter.Model
}

// Model returns the model of this name.
func (p *provider) Model(name string) (adapter.Model, error) {
	if name == "" {
		return nil, fmt.Errorf("expected a model's name after %q", p.Prefix+":")
	}
	if p.azure && (name == "." || name == ".." || strings.Contains(name, "/")) {
		return nil, fmt.Errorf("invalid deployment name %q", name)
	}
	return p.model(name), nil
}

// lister is a provider whose server says which models it has.
type lister struct{ *provider }

// List asks the server for its models, in its order.
func (p *lister) List(ctx context.Context) ([]string, error) {
	return p.ListModels(ctx, p.base.JoinPath("models").String())
}

var _ adapter.Lister = (*lister)(nil)
