package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/web"
)

// runMetrics are those of runs.
type runMetrics struct {
	started  *prometheus.CounterVec
	ended    *prometheus.CounterVec
	running  *prometheus.GaugeVec
	first    *prometheus.HistogramVec
	duration *prometheus.HistogramVec
}

func (r *runMetrics) make(m *Metrics) {
	r.started = m.counters("runs_started_total", "Runs started by requests. Messages of other channels are turns.", "kind", "name")
	r.ended = m.counters("runs_ended_total", "Ended runs by status and error code; moved runs continue at another replica.", "kind", "name", "status", "code")
	r.running = m.gauges("runs_running", "Running runs.", "kind", "name")
	r.first = m.histograms("run_first_delta_seconds", "Time to the first piece of a run's document.", wait, "kind", "name")
	r.duration = m.histograms("run_duration_seconds", "Time of a run.", slow, "kind", "name")
}

// Kinds of what runs are of.
const (
	kindWorkflow = "workflow"
	kindAgent    = "agent"
)

// Run implements [web.Observer].
func (m *Metrics) Run(workflow, agent string) web.RunObserver {
	kind, name := kindWorkflow, label(m.known.Workflow, workflow)
	if agent != "" {
		kind, name = kindAgent, label(m.known.Agent, agent)
	}
	r := &runObserver{m: m, kind: kind, name: name, began: time.Now(), first: m.runs.first.WithLabelValues(kind, name)}
	m.runs.started.WithLabelValues(kind, name).Inc()
	m.runs.running.WithLabelValues(kind, name).Inc()
	return r
}

// runObserver counts one run.
type runObserver struct {
	m          *Metrics
	kind, name string
	began      time.Time
	first      prometheus.Observer
}

// First implements [web.RunObserver].
func (r *runObserver) First() { r.first.Observe(since(r.began)) }

// End implements [web.RunObserver].
func (r *runObserver) End(status, code string) {
	r.m.runs.running.WithLabelValues(r.kind, r.name).Dec()
	r.m.runs.ended.WithLabelValues(r.kind, r.name, status, code).Inc()
	r.m.runs.duration.WithLabelValues(r.kind, r.name).Observe(since(r.began))
}

// upstreamMetrics are those of requests to providers of models.
type upstreamMetrics struct {
	requests *prometheus.CounterVec
	retries  *prometheus.CounterVec
	tokens   *prometheus.CounterVec
	kinds    *prometheus.CounterVec
	cost     *prometheus.CounterVec
	waiting  *prometheus.GaugeVec
	inFlight *prometheus.GaugeVec
	queued   *prometheus.HistogramVec
	first    *prometheus.HistogramVec
	duration *prometheus.HistogramVec
}

func (u *upstreamMetrics) make(m *Metrics) {
	u.requests = m.counters("upstream_requests_total", "Ended requests to models: ok, canceled or an error code.", "provider", "model", "outcome")
	u.retries = m.counters("upstream_retries_total", "Retried requests to models.", "provider", "model")
	u.tokens = m.counters("tokens_total", "Tokens as providers count them, by direction: input or output.", "provider", "model", "direction")
	u.kinds = m.counters("tokens_by_kind_total", "Of these tokens: cached, cache_write, reasoning, audio.", "provider", "model", "kind")
	u.cost = m.counters("cost_dollars_total", "Estimated cost by provider or configured prices; 0 without a price.", "provider", "model")
	u.waiting = m.gauges("upstream_waiting", "Requests to models that wait for a slot.", "provider", "model")
	u.inFlight = m.gauges("upstream_in_flight", "Running requests to models.", "provider", "model")
	u.queued = m.histograms("upstream_queue_seconds", "Time that requests waited for a slot.", fast, "provider", "model")
	u.first = m.histograms("upstream_first_token_seconds", "Time to the first token.", wait, "provider", "model")
	u.duration = m.histograms("upstream_request_duration_seconds", "Time of a request to a model.", slow, "provider", "model")
}

// Ask implements [adapter.Observer].
func (m *Metrics) Ask(provider, model string, n int) adapter.Attempt {
	name := label(func(model string) bool { return m.known.Model != nil && m.known.Model(provider+":"+model) }, model)
	// Providers are registered by the server itself, and none is asked that is not.
	a := &attempt{m: m, provider: provider, model: name, at: time.Now()}
	if n > 1 {
		m.upstream.retries.WithLabelValues(provider, name).Inc()
	}
	m.upstream.waiting.WithLabelValues(provider, name).Inc()
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
	u := &a.m.upstream
	u.waiting.WithLabelValues(a.provider, a.model).Dec()
	u.inFlight.WithLabelValues(a.provider, a.model).Inc()
	u.queued.WithLabelValues(a.provider, a.model).Observe(since(a.at))
	a.at, a.sent = time.Now(), true
}

// First implements [adapter.Attempt].
func (a *attempt) First() {
	a.m.upstream.first.WithLabelValues(a.provider, a.model).Observe(since(a.at))
}

// tokenKinds are the kinds of tokens that have a count of their own.
var tokenKinds = [...]string{"cached", "cache_write", "reasoning", "audio"}

// End implements [adapter.Attempt].
func (a *attempt) End(outcome string, used adapter.Usage) {
	u := &a.m.upstream
	if a.sent {
		u.inFlight.WithLabelValues(a.provider, a.model).Dec()
		u.duration.WithLabelValues(a.provider, a.model).Observe(since(a.at))
	} else {
		u.waiting.WithLabelValues(a.provider, a.model).Dec()
	}
	u.requests.WithLabelValues(a.provider, a.model, outcome).Inc()
	for _, d := range [...]struct {
		direction string
		tokens    int
	}{{"input", used.PromptTokens}, {"output", used.CompletionTokens}} {
		if d.tokens > 0 { // what providers say is not trusted to be a count
			u.tokens.WithLabelValues(a.provider, a.model, d.direction).Add(float64(d.tokens))
		}
	}
	for i, tokens := range [...]int{used.CachedTokens, used.CacheWriteTokens, used.ReasoningTokens, used.AudioTokens} {
		if tokens > 0 {
			u.kinds.WithLabelValues(a.provider, a.model, tokenKinds[i]).Add(float64(tokens))
		}
	}
	if used.Cost > 0 {
		u.cost.WithLabelValues(a.provider, a.model).Add(float64(used.Cost) / 1e6)
	}
}
