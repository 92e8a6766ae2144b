// Package demo is a model that needs no network and no account: a scripted, deterministic stand-in that says so. It answers
// in-process over the OpenAI wire format, so that everything but the far end is the real path.
//
// Its script knows one article ("Why is the sky blue?") and has something sensible for everything else:
//   - Where a JSON Schema was sent, a document that fits it.
//   - Where the prompt shows an example of the JSON that it wants, the same shape with other text.
//   - Where any other JSON is wanted, {"answer": …}.
//   - Where the prompt asks for an HTML document, page or fragment, a page, in a code fence as models write it.
//   - Else, some sentences that repeat the question.
//
// Where tools are offered, it calls those that the last message of the user names: by all words of a tool's name, one after the
// other, or by one that no other tool has in its name ("What time is it?" calls the tool time, or clock.time). Arguments fit the
// tool's schema; for texts it takes what stands in quotes, or behind a preposition ("weather in Rome"), and for numbers those of the
// message. It calls three tools at once at most, none a second time for the same question, and then says what they returned.
//
// The same request always gets the same answer. One answer, the outline of an article, has a comma too many, as models do it,
// so that mending is seen at work.
package demo

import (
	"fmt"
	"slices"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/openai"
	"github.com/lingserve/lingserve/internal/heavy"
	"github.com/lingserve/lingserve/internal/upstream"
)

// defaultPace is about that of a real model, in tokens per second.
const defaultPace = 50

// Models of the provider.
const (
	Paced = "demo" // writes at the pace of a real model
	Fast  = "fast" // the same without pace
)

var names = []string{Paced, Fast}

// Options are the settings of the demo model.
type Options struct {
	Pace float64 // tokens per second, default 50; negative: as fast as it can
}

// Provider is the demo's provider. It is safe for concurrent use.
type Provider struct {
	server *upstream.Server
	wire   adapter.Provider
}

// New returns the provider. Its models: "demo" (the default), and "fast", the same without pace. o may be nil. Close it to
// end the goroutines that serve it.
func New(o *Options) *Provider {
	pace := float64(defaultPace)
	if o != nil && o.Pace != 0 {
		pace = max(o.Pace, 0) // for the server, 0 is as fast as it can
	}
	p := &Provider{}
	p.server = &upstream.Server{Models: names, Script: func(r upstream.Request) upstream.Answer {
		var a upstream.Answer
		heavy.Do(len(r.Body), func() { a = answer(r) })
		if r.Model != Fast {
			a.Pace = pace
		}
		return a
	}}
	wire, err := openai.New(openai.Options{
		Prefix:    "demo",
		BaseURL:   "http://demo.invalid/v1", // never dialed: the transport stays in this process
		Transport: p.server.Transport(),
		Names:     names,
	})
	if err != nil {
		panic("demo: " + err.Error())
	}
	p.wire = wire
	return p
}

// Model returns the model "demo" or "fast"; "" is "demo".
func (p *Provider) Model(name string) (adapter.Model, error) {
	if name == "" {
		name = Paced
	}
	if !slices.Contains(names, name) {
		return nil, fmt.Errorf("the demo has no model %q; it has demo and fast", name)
	}
	return p.wire.Model(name)
}

// Names lists the models.
func (p *Provider) Names() []string { return slices.Clone(names) }

// Close ends what is being answered, and returns when nothing is any more.
func (p *Provider) Close() error { return p.server.Close() }
