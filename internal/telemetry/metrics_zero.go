package telemetry

import (
	"strings"

	dto "github.com/prometheus/client_model/go"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/web"
)

// Names are the names that are configured now.
type Names struct {
	Workflows, Agents, Channels []string
	Models                      []string // "provider:model"
}

// Gather implements [prometheus.Gatherer]. It first creates the series of known names and routes: they begin at 0, so that rate and increase
// see the first event. Histograms by route begin with the first request, since all of them together are as many series as everything else.
func (m *Metrics) Gather() ([]*dto.MetricFamily, error) {
	if of := m.sources.of.Load(); of != nil {
		m.createZeros(of)
	}
	return m.registry.Gather()
}

// createZeros creates the series whose labels are known before anything happens. Those that exist stay as they are.
func (m *Metrics) createZeros(of *Sources) {
	if of.Routes != nil {
		for _, r := range of.Routes() {
			for _, class := range []string{"2xx", "4xx", "5xx"} {
				m.http.requests.WithLabelValues(r.Pattern, r.Method, class)
			}
			m.http.broken.WithLabelValues(r.Pattern)
			m.http.bytes.WithLabelValues(r.Pattern)
		}
	}
	if of.Names == nil {
		return
	}
	names := of.Names()
	for _, name := range append(names.Workflows, Other) { // requests bring workflows of their own
		m.runs.createZeros(kindWorkflow, label(m.known.Workflow, name))
	}
	for _, name := range names.Agents {
		m.runs.createZeros(kindAgent, label(m.known.Agent, name))
	}
	for _, name := range names.Models {
		provider, model, _ := strings.Cut(name, ":")
		if label(m.known.Model, name) != Other {
			m.upstream.createZeros(provider, model)
		}
	}
	for _, name := range names.Channels {
		m.channel.createZeros(name)
	}
}

func (r *runMetrics) createZeros(kind, name string) {
	r.started.WithLabelValues(kind, name)
	r.running.WithLabelValues(kind, name)
	r.first.WithLabelValues(kind, name)
	r.duration.WithLabelValues(kind, name)
	for _, end := range web.RunEnds() {
		r.ended.WithLabelValues(kind, name, end.Status, end.Code)
	}
}

func (u *upstreamMetrics) createZeros(provider, model string) {
	u.retries.WithLabelValues(provider, model)
	u.waiting.WithLabelValues(provider, model)
	u.inFlight.WithLabelValues(provider, model)
	u.queued.WithLabelValues(provider, model)
	u.first.WithLabelValues(provider, model)
	u.duration.WithLabelValues(provider, model)
	for _, direction := range []string{"input", "output"} {
		u.tokens.WithLabelValues(provider, model, direction)
	}
	for _, kind := range tokenKinds {
		u.kinds.WithLabelValues(provider, model, kind)
	}
	u.cost.WithLabelValues(provider, model)
	for _, outcome := range append(adapter.Codes(), adapter.Complete, adapter.Left) {
		u.requests.WithLabelValues(provider, model, outcome)
	}
}

func (c *channelMetrics) createZeros(name string) {
	for _, outcome := range channel.Outcomes() {
		if outcome != channel.OutcomeBlocked { // which always has a reason
			c.turns.WithLabelValues(name, string(outcome), "")
		}
	}
	for _, stage := range channel.Stages() {
		c.stages.WithLabelValues(name, string(stage))
	}
}
