// Package providers makes the providers of models that a configuration describes, checks what a model can do, and says why one failed.
package providers

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/anthropic"
	"github.com/lingserve/lingserve/adapter/bedrock"
	"github.com/lingserve/lingserve/adapter/coze"
	"github.com/lingserve/lingserve/adapter/demo"
	"github.com/lingserve/lingserve/adapter/gemini"
	"github.com/lingserve/lingserve/adapter/ollama"
	"github.com/lingserve/lingserve/adapter/openai"
	"github.com/lingserve/lingserve/adapter/responses"
	"github.com/lingserve/lingserve/adapter/wire"
	"github.com/lingserve/lingserve/internal/config"
)

// New makes the providers, whose keys can be exchanged while they work, and checks that one of them has the default model. stop ends their
// work.
func New(c *config.Config) (models *adapter.Registry, keys *Keys, stop func(), err error) {
	keys = &Keys{current: map[string]*atomic.Value{}}
	limits := adapter.Timeouts{
		Connect:    orNone(c.Upstream.Connect),
		FirstToken: orNone(c.Upstream.FirstToken),
		Idle:       orNone(c.Upstream.Idle),
		Total:      orNone(c.Upstream.Total),
	}
	models = &adapter.Registry{
		Timeouts: limits, Retries: adapter.Retries{Attempts: c.Retries.Attempts}, Slots: slotsOf(c.Limit), Default: c.Model,
		Settings: map[string]adapter.Settings{},
	}
	for _, m := range c.Models {
		models.Settings[m.Name] = adapter.Settings{Options: m.Options}
	}
	prices, err := c.Prices()
	if err != nil {
		return nil, nil, nil, err
	}
	models.Prices = prices
	for _, text := range c.Media {
		if rule, err := adapter.ParseMediaRule(text); err == nil { // which the configuration has checked
			models.Media = append(models.Media, rule)
		}
	}
	var closers []io.Closer
	stop = func() {
		for _, c := range closers {
			c.Close()
		}
	}
	register := func(name string, p adapter.Provider) {
		models.Register(name, p)
		if c, ok := p.(io.Closer); ok {
			closers = append(closers, c)
		}
	}
	pace := c.Demo.Pace
	if pace == 0 {
		pace = -1 // as fast as it can; 0 would be the provider's default
	}
	register("demo", demo.New(&demo.Options{Pace: pace}))
	for _, p := range c.Providers {
		models.Settings[p.Name] = adapter.Settings{Options: p.Options, Total: p.Timeout}
		made, err := newProvider(p, keys.track(p), transportTo(c, p, limits.Connect))
		if err != nil {
			stop()
			// The only thing that can be wrong with what the configuration has let through.
			key := "providers." + p.Name + ".base_url"
			if p.Kind == config.KindBedrock {
				key = "providers." + p.Name + ".region"
			}
			return nil, nil, nil, fmt.Errorf("%s (%s): %w", key, c.Source(key), err)
		}
		register(p.Name, made)
	}
	if _, err := models.Model(c.Model); err != nil {
		stop()
		return nil, nil, nil, fmt.Errorf("model (%s): %w", c.Source("model"), err)
	}
	return models, keys, stop, nil
}

// newProvider makes the provider that a configuration describes. keyNow returns its key at any time.
func newProvider(p *config.Provider, keyNow func() string, transport http.RoundTripper) (adapter.Provider, error) {
	if missing := p.Missing(); missing != "" {
		return notSetUp(missing), nil
	}
	o := wire.Options{
		Prefix: p.Name, BaseURL: p.BaseURL, Key: p.Key.Reveal(), KeyNow: keyNow, KeyName: p.KeyName, Names: p.Models, Header: p.Header(),
		Transport: transport,
	}
	switch p.Kind {
	case config.KindOpenAI:
		return openai.New(o)
	case config.KindAzure:
		return openai.NewAzure(o, p.APIVersion)
	case config.KindResponses:
		return responses.New(o)
	case config.KindAzureResponses:
		return responses.NewAzure(o, p.APIVersion)
	case config.KindAnthropic:
		return anthropic.New(o)
	case config.KindGemini:
		return gemini.New(o)
	case config.KindVertex:
		return gemini.NewVertex(o, gemini.Vertex{Project: p.Project, Location: p.Location})
	case config.KindBedrock:
		made, err := bedrock.New(o, bedrock.AWS{Region: p.Region, Profile: p.Profile})
		if err != nil && !p.Set { // the mistake is in the settings of other programs, and nothing here uses Bedrock
			return notSetUp("cannot read the AWS settings for Amazon Bedrock; set AWS_REGION or providers.bedrock.region"), nil
		}
		return made, err
	case config.KindOllama:
		return ollama.New(o)
	case config.KindCoze:
		return coze.New(o, p.User)
	default:
		panic("config: a provider of kind " + p.Kind)
	}
}

// orNone turns 0, which is no limit in settings, into a negative duration, which is no limit of an adapter.
func orNone(d time.Duration) time.Duration {
	if d == 0 {
		return -1
	}
	return d
}

// notSetUp replaces a provider that is not set up. Its text, which says what is missing, is the error of all its models.
type notSetUp string

func (missing notSetUp) Model(string) (adapter.Model, error) {
	return nil, &adapter.Error{Code: adapter.CodeAuth, Message: string(missing)}
}

func (notSetUp) Names() []string { return nil }

// slotsOf are those of each provider.
func slotsOf(l config.Limit) adapter.Slots {
	s := adapter.Slots{Max: l.Upstream, Queue: l.UpstreamQueue, Wait: l.UpstreamWait}
	if s.Queue == 0 {
		s.Queue = -1 // to the registry, 0 is its default
	}
	return s
}

// transportTo returns the transport to a provider. Most share one; those that get the ids of traces, or have a proxy, do not.
func transportTo(c *config.Config, p *config.Provider, connect time.Duration) http.RoundTripper {
	transport := adapter.Transport(adapter.TransportOptions{Connect: connect, ProxyEnv: c.Upstream.ProxyEnv, Proxy: p.Proxy})
	if slices.Contains(c.Traces.Propagate, p.Name) {
		return adapter.Propagate(transport)
	}
	return transport
}
