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
				m.count("http_requests_total", r.Pattern, r.Method, class)
			}
			m.count("http_broken_total", r.Pattern)
			m.count("http_response_bytes_total", r.Pattern)
		}
	}
	if of.Names == nil {
		return
	}
	names := of.Names()
	for _, name := range append(names.Workflows, Other) { // requests bring workflows of their own
		m.createRunZeros(kindWorkflow, label(m.known.Workflow, name))
	}
	for _, name := range names.Agents {
		m.createRunZeros(kindAgent, label(m.known.Agent, name))
	}
	for _, name := range names.Models {
		if label(m.known.Model, name) != Other {
			m.createModelZeros(name)
		}
	}
	for _, name := range names.Channels {
		for _, outcome := range channel.Outcomes() {
			if outcome != channel.OutcomeBlocked { // which always has a reason
				m.count("channel_turns_total", name, string(outcome), "")
			}
		}
		for _, stage := range channel.Stages() {
			m.times("channel_stage_seconds", name, string(stage))
		}
	}
}

func (m *Metrics) createRunZeros(kind, name string) {
	m.count("runs_started_total", kind, name)
	m.gauge("runs_running", kind, name)
	m.times("run_first_delta_seconds", kind, name)
	m.times("run_duration_seconds", kind, name)
	for _, end := range web.RunEnds() {
		m.count("runs_ended_total", kind, name, end.Status, end.Code)
	}
}

func (m *Metrics) createModelZeros(name string) {
	provider, model, _ := strings.Cut(name, ":")
	for _, name := range []string{"upstream_waiting", "upstream_in_flight"} {
		m.gauge(name, provider, model)
	}
	for _, name := range []string{"upstream_queue_seconds", "upstream_first_token_seconds", "upstream_request_duration_seconds"} {
		m.times(name, provider, model)
	}
	for _, name := range []string{"upstream_retries_total", "cost_dollars_total"} {
		m.count(name, provider, model)
	}
	for _, direction := range []string{"input", "output"} {
		m.count("tokens_total", provider, model, direction)
	}
	for _, kind := range tokenKinds {
		m.count("tokens_by_kind_total", provider, model, kind)
	}
	for _, outcome := range append(adapter.Codes(), adapter.Complete, adapter.Left) {
		m.count("upstream_requests_total", provider, model, outcome)
	}
}
