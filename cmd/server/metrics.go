package main

import (
	"cmp"
	"slices"
	"strings"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/flow"
	"github.com/lingserve/lingserve/internal/config"
	"github.com/lingserve/lingserve/internal/telemetry"
	"github.com/lingserve/lingserve/web"
)

// newMetrics makes what counts the work of a server. The models report to it from now on.
func newMetrics(c *config.Config, models *adapter.Registry, workflows *flow.Registry) (*telemetry.Metrics, *operatorNames) {
	b := build()
	names := &operatorNames{c: c, models: models, workflows: workflows}
	m := telemetry.NewMetrics(b.version, b.commit, telemetry.MetricNames{
		Workflow: func(name string) bool { _, ok := workflows.Get(name); return ok || name == web.CompletionWorkflow },
		Agent:    func(name string) bool { _, ok := c.Agent(name); return ok },
		Model:    names.hasModel,
	})
	models.Observer = m
	return m, names
}

// operatorNames are the names in the configuration and in workflows. Callers may name other models.
type operatorNames struct {
	c         *config.Config
	models    *adapter.Registry
	workflows *flow.Registry
}

// hasModel reports whether "provider:model" is one of the models.
func (n *operatorNames) hasModel(name string) bool { return slices.Contains(n.allModels(), name) }

// allModels returns the models. Workflows can be reloaded.
func (n *operatorNames) allModels() []string {
	chains := slices.Concat(n.models.Names(), []string{n.c.Model}, n.workflows.Models())
	for _, a := range n.c.Agents {
		chains = append(chains, cmp.Or(a.Model, n.c.Model))
	}
	models := adapter.Links(strings.Join(chains, ","))
	slices.Sort(models)
	return slices.Compact(models)
}

// all returns all names.
func (n *operatorNames) all() telemetry.Names {
	all := telemetry.Names{Models: n.allModels()}
	for _, w := range n.workflows.All() {
		all.Workflows = append(all.Workflows, w.Info().Name)
	}
	for _, a := range n.c.Agents {
		all.Agents = append(all.Agents, a.Name)
	}
	return all
}

// watch connects the metrics with their sources. It is called before the channels serve, so that the metrics miss nothing.
func (s *server) watch() {
	k := s.channels.Kernel
	k.Observer = channel.Observers{k.Observer, s.metrics}
	sources := telemetry.Sources{
		Server: s.web.Load, Lanes: s.turns.Lanes, Approvals: s.agents.Waiting, Providers: s.models.Load, Channels: s.channels.Kernel.Store.Pending, Routes: s.web.Routes,
		Names: func() telemetry.Names {
			all := s.names.all()
			all.Channels = s.channels.Channels()
			return all
		},
	}
	if s.shared != nil {
		sources.Database = s.shared.load
	}
	s.metrics.Watch(sources)
}
