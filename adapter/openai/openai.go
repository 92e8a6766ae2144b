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
	"strings"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/openai/endpoint"
	"github.com/lingserve/lingserve/adapter/wire"
)

// Options are the settings of a provider.
type Options struct {
	Prefix string // as it is known in model names, default "openai"
	// BaseURL is what comes before /chat/completions, default the OpenAI API's. Azure's can be any of those that it shows: see
	// [Options.Azure].
	BaseURL string
	// Azure says that the server is Azure's: model names are names of deployments, and the key goes into a header of its own.
	// BaseURL is then the endpoint, https://NAME.openai.azure.com, with or without the path of a deployment; or that with
	// /openai/v1, where Azure takes the addresses of OpenAI. A BaseURL with an api-version is Azure's too.
	Azure      bool
	APIVersion string // of Azure's API, default 2024-10-21; one that the BaseURL has is taken instead
	Key        string
	KeyName    string            // where the key comes from, named in errors; default the prefix in capitals and "_API_KEY"
	Header     http.Header       // of every request, over what is sent anyway
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
	o.Prefix = cmp.Or(o.Prefix, "openai")
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
	p := &provider{
		Server: wire.NewServer(wire.Server{Prefix: o.Prefix, KeyName: o.KeyName, Header: o.Header, URLHint: " (most end in /v1)"}, o.Key, o.Transport,
			adapter.TransportOptions{Connect: o.Timeouts.Connect, ProxyEnv: o.ProxyEnv}),
		Endpoint: endpoint.New(*base, o.Azure, o.APIVersion),
		names:    o.Names,
		thinks:   thinksOf(base.Hostname()),
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
	thinks   thinks
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

func (p *provider) Names() []string { return p.names }

// model is one model of a provider.
type model struct {
	p    *provider
	name string
	url  string
}

// Stream asks the model.
func (m *model) Stream(ctx context.Context, req adapter.Request) iter.Seq2[adapter.Chunk, error] {
	return m.p.Stream(ctx, m.name, m.p.maxEvent, func(ctx context.Context) (*http.Response, error) { return m.ask(ctx, req) }, m.read)
}
