package telemetry

import (
	"time"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/web"
)

// Kinds of what runs are of.
const (
	kindWorkflow = "workflow"
	kindAgent    = "agent"
)

// Run implements [web.Observer].
func (m *Metrics) Run(workflow, agent string) web.RunObserver {
	r := &runObserver{m: m, kind: kindWorkflow, name: label(m.known.Workflow, workflow), began: time.Now()}
	if agent != "" {
		r.kind, r.name = kindAgent, label(m.known.Agent, agent)
	}
	m.count("runs_started_total", r.kind, r.name).Inc()
	m.gauge("runs_running", r.kind, r.name).Inc()
	return r
}

// runObserver counts one run.
type runObserver struct {
	m          *Metrics
	kind, name string
	began      time.Time
}

// First implements [web.RunObserver].
func (r *runObserver) First() {
	r.m.times("run_first_delta_seconds", r.kind, r.name).Observe(since(r.began))
}

// End implements [web.RunObserver].
func (r *runObserver) End(status, code string) {
	r.m.gauge("runs_running", r.kind, r.name).Dec()
	r.m.count("runs_ended_total", r.kind, r.name, status, code).Inc()
	r.m.times("run_duration_seconds", r.kind, r.name).Observe(since(r.began))
}

// Ask implements [adapter.Observer].
func (m *Metrics) Ask(provider, model string, n int) adapter.Attempt {
	name := label(func(model string) bool { return m.known.Model != nil && m.known.Model(provider+":"+model) }, model)
	// Providers are registered by the server itself, and none is asked that is not.
	a := &attempt{m: m, provider: provider, model: name, at: time.Now()}
	if n > 1 {
		m.count("upstream_retries_total", provider, name).Inc()
	}
	m.gauge("upstream_waiting", provider, name).Inc()
	return a
}

// attempt counts one request to a provider.
type attempt struct {
	m               *Metrics
	provider, model string
	at              time.Time // when it began to wait, then when it was sent
	sent            bool
}

// Sent implements [adapter.Attempt].
func (a *attempt) Sent() {
	a.m.gauge("upstream_waiting", a.provider, a.model).Dec()
	a.m.gauge("upstream_in_flight", a.provider, a.model).Inc()
	a.m.times("upstream_queue_seconds", a.provider, a.model).Observe(since(a.at))
	a.at, a.sent = time.Now(), true
}

// First implements [adapter.Attempt].
func (a *attempt) First() {
	a.m.times("upstream_first_token_seconds", a.provider, a.model).Observe(since(a.at))
}

// tokenKinds are the kinds of tokens that have a count of their own.
var tokenKinds = [...]string{"cached", "cache_write", "reasoning", "audio"}

// End implements [adapter.Attempt].
func (a *attempt) End(outcome string, used adapter.Usage) {
	if a.sent {
		a.m.gauge("upstream_in_flight", a.provider, a.model).Dec()
		a.m.times("upstream_request_duration_seconds", a.provider, a.model).Observe(since(a.at))
	} else {
		a.m.gauge("upstream_waiting", a.provider, a.model).Dec()
	}
	a.m.count("upstream_requests_total", a.provider, a.model, outcome).Inc()
	a.m.count("tokens_total", a.provider, a.model, "input").Add(float64(max(used.PromptTokens, 0))) // what providers say may be no count
	a.m.count("tokens_total", a.provider, a.model, "output").Add(float64(max(used.CompletionTokens, 0)))
	for i, tokens := range [...]int{used.CachedTokens, used.CacheWriteTokens, used.ReasoningTokens, used.AudioTokens} {
		if tokens > 0 {
			a.m.count("tokens_by_kind_total", a.provider, a.model, tokenKinds[i]).Add(float64(tokens))
		}
	}
	if used.Cost > 0 {
		a.m.count("cost_dollars_total", a.provider, a.model).Add(float64(used.Cost) / 1e6)
	}
}
