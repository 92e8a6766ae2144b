package adapter

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// Provider gives models by name.
type Provider interface {
	// Model returns the model of this name; an error where the provider cannot have it. A provider that is known but not
	// configured has an *[Error] with [CodeAuth] for every name, which says what is missing.
	Model(name string) (Model, error)
	// Names lists the models that are configured, without the provider's prefix; it may be empty.
	Names() []string
}

// Lister is a Provider whose server can say which models it has. It may be asked at any time; it is never asked for a run.
type Lister interface {
	// List asks the server. Errors are an *[Error] or the context's cause.
	List(ctx context.Context) ([]string, error)
}

// Registry finds models by "provider:name". It is safe for concurrent use once built.
type Registry struct {
	Timeouts Timeouts
	Retries  Retries
	Slots    Slots
	Default  string       // used for the name ""
	Media    []MediaRule  // correct the table of what models take
	Observer Observer     // counts requests; may be nil
	Log      *slog.Logger // of what an operator should know of models, such as those of a chain that have failed; nil is nowhere
	// Prices gives the price of a provider's model; nil knows none. It is asked at each request.
	Prices func(provider, model string) (Price, bool)
	Budget *Budget // counts and bounds what requests cost; nil does not
	// Settings hold for the models of a provider, by its prefix, or for one model, by its whole name: "openai", "openai:gpt-6-luna".
	Settings map[string]Settings

	providers map[string]Provider

	noted sync.Map // what is known of models: that one begins with thoughts, and which fallbacks were logged

	slots sync.Map // *slots, by provider
}

// Settings are what holds for a provider or a model.
type Settings struct {
	Options Options       // where a request says nothing; those of a model go before those of its provider
	Total   time.Duration // of a provider: in place of Timeouts.Total; 0 is that one
}

// Register adds a provider under its prefix. It panics where the prefix is taken, empty or has a colon, a comma or a space in
// it: that is a mistake of the program.
func (r *Registry) Register(prefix string, p Provider) {
	if prefix == "" || strings.ContainsAny(prefix, ":, \t\r\n") {
		panic(fmt.Sprintf("adapter: a provider cannot be called %q", prefix))
	}
	if _, taken := r.providers[prefix]; taken {
		panic(fmt.Sprintf("adapter: there are two providers called %q", prefix))
	}
	if r.providers == nil {
		r.providers = map[string]Provider{}
	}
	r.providers[prefix] = p
}

// Model returns the model for "provider:name", with time limits and retries around it. Several names, separated by commas,
// are a [Chain]; those whose provider lacks its key fail when their turn comes, unless all of them do. The error, an *[Error], names what
// is known.
func (r *Registry) Model(name string) (Model, error) {
	if strings.TrimSpace(name) == "" {
		name = r.Default
	}
	if strings.TrimSpace(name) == "" {
		return nil, r.invalid("the request names no model, and there is no default model")
	}
	if !strings.Contains(name, ",") {
		return r.model(strings.TrimSpace(name))
	}
	c := NewChain(Links(name), r.model)
	if r.Log != nil {
		c.Failed = LogFailed(r.Log)
	}
	usable := false
	for _, l := range c.links {
		if e, ok := l.err.(*Error); l.err != nil && (!ok || e.Code != CodeAuth) {
			return nil, l.err
		}
		usable = usable || l.err == nil
	}
	if !usable {
		return nil, c.links[0].err
	}
	return c, nil
}

func (r *Registry) model(name string) (Model, error) {
	prefix, rest, ok := strings.Cut(name, ":")
	if !ok || prefix == "" {
		return nil, r.invalid(fmt.Sprintf("the model %q has no provider", name))
	}
	p := r.providers[prefix]
	if p == nil {
		return nil, r.invalid(fmt.Sprintf("the model %q has an unknown provider", name))
	}
	m, err := p.Model(rest)
	if err != nil {
		e := &Error{Code: CodeInvalid, Message: fmt.Sprintf("the model %q: %v", name, err), Cause: err}
		if known, ok := errors.AsType[*Error](err); ok { // such as one that has no key, which the caller cannot help
			e.Code = known.Code
		}
		return nil, e
	}
	of := r.Settings[prefix]
	timeouts := r.Timeouts
	if of.Total != 0 {
		timeouts.Total = of.Total
	}
	return &guarded{
		Registry: r, model: m, options: r.Settings[name].Options.Over(of.Options), timeouts: timeouts, slots: r.slotsOf(prefix), provider: prefix,
		name: rest, takes: mediaOf(r.Media, name),
	}, nil
}

// invalid makes the error of a name that names no model.
func (r *Registry) invalid(what string) *Error {
	known := strings.Join(r.Providers(), ", ")
	if known == "" {
		known = "none"
	}
	return &Error{Code: CodeInvalid, Message: what + "; expected PROVIDER:NAME with one of the providers " + known}
}

// Links takes a chain apart: the names of its models, in the order in which they are asked. One name is a chain of one.
func Links(chain string) []string {
	links := strings.Split(chain, ",")
	for i, link := range links {
		links[i] = strings.TrimSpace(link)
	}
	return links
}

// Providers lists the prefixes of all providers, sorted.
func (r *Registry) Providers() []string { return slices.Sorted(maps.Keys(r.providers)) }

// Provider returns the provider with this prefix; it may be nil.
func (r *Registry) Provider(prefix string) Provider { return r.providers[prefix] }

// Configured says whether there is a provider with this prefix that can have models at all.
func (r *Registry) Configured(prefix string) bool {
	p := r.providers[prefix]
	if p == nil {
		return false
	}
	_, err := p.Model("any")
	return AsError(err).Code != CodeAuth
}

// Names lists all configured models as "provider:name", sorted.
func (r *Registry) Names() []string {
	var names []string
	for prefix, p := range r.providers {
		for _, name := range p.Names() {
			names = append(names, prefix+":"+name)
		}
	}
	slices.Sort(names)
	return names
}

// Usable lists as "provider:name", sorted and each once, the configured models, the default and the ones that are named, where
// chains stand for their models. What the provider cannot have is left out, such as all models of one that has no key.
func (r *Registry) Usable(named ...string) []string {
	names := r.Names()
	names = append(names, Links(r.Default)...)
	for _, chain := range named {
		names = append(names, Links(chain)...)
	}
	slices.Sort(names)
	return slices.DeleteFunc(slices.Compact(names), func(name string) bool {
		_, err := r.model(name)
		return err != nil
	})
}
