package main

import (
	"slices"
	"strings"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/flow"
	"github.com/lingserve/lingserve/internal/config"
	"github.com/lingserve/lingserve/internal/telemetry"
	"github.com/lingserve/lingserve/web"
)

// newMetrics makes what counts the work of a server. The models report to it from now on. Callers may name other models than the configuration and
// the workflows, which can be reloaded.
func newMetrics(c *config.Config, models *adapter.Registry, workflows *flow.Registry) *telemetry.Metrics {
	b := build()
	m := telemetry.NewMetrics(b.version, b.commit, telemetry.MetricNames{
		Workflow: func(name string) bool { _, ok := workflows.Get(name); return ok || name == web.CompletionWorkflow },
		Agent:    func(name string) bool { _, ok := c.Agent(name); return ok },
		Model: func(name string) bool {
			chains := slices.Concat(models.Names(), []string{c.Model}, workflows.Models())
			for _, a := range c.Agents {
				chains = append(chains, a.Model)
			}
			return slices.Contains(adapter.Links(strings.Join(chains, ",")), name)
		},
	})
	models.Observer = m
	return m
}

// watch connects the metrics with their sources. It is called before the channels serve, so that the metrics miss nothing.
func (s *server) watch() {
	k := s.channels.Kernel
	k.Observer = channel.Observers{k.Observer, s.metrics}
	sources := telemetry.Sources{
		Server: s.web.Load, Lanes: s.turns.Lanes, Approvals: s.agents.Waiting, Providers: s.models.Load, Channels: s.channels.Kernel.Store.Pending,
	}
	if s.shared != nil {
		sources.Database = s.shared.load
	}
	s.metrics.Watch(sources)
}
