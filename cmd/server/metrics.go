package main

import (
	"strings"
	"sync"
	"time"

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
		Model:    names.has,
	})
	models.Observer = m
	return m, names
}

// operatorNames are what the operator has named in the configuration and in workflows. Callers may name other models.
type operatorNames struct {
	c         *config.Config
	models    *adapter.Registry
	workflows *flow.Registry

	mu    sync.Mutex
	names map[string]bool
	read  time.Time
}

// namesFor is how long the names are used before they are collected anew, as workflows come and go.
const namesFor = 5 * time.Second

// has says whether "provider:model" is one of the models.
func (n *operatorNames) has(name string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.names[name] {
		return true
	}
	n.refreshLocked()
	return n.names[name]
}

// refreshLocked collects the models anew where that was some time ago.
func (n *operatorNames) refreshLocked() {
	if !n.read.IsZero() && time.Since(n.read) < namesFor {
		return
	}
	n.names, n.read = map[string]bool{}, time.Now()
	add := func(chain string) {
		for _, link := range adapter.Links(chain) {
			n.names[link] = true
		}
	}
	add(n.c.Model)
	add(strings.Join(n.models.Names(), ","))
	for _, a := range n.c.Agents {
		add(a.Model)
	}
	for _, w := range n.workflows.All() {
		info := w.Info()
		for _, model := range info.Models() {
			add(model)
		}
	}
}

// all lists everything that the operator has named.
func (n *operatorNames) all() (all telemetry.Names) {
	for _, w := range n.workflows.All() {
		all.Workflows = append(all.Workflows, w.Info().Name)
	}
	for _, a := range n.c.Agents {
		all.Agents = append(all.Agents, a.Name)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.refreshLocked()
	for name := range n.names {
		if name != "" { // no default model
			all.Models = append(all.Models, name)
		}
	}
	return all
}

// watch lets the metrics ask for what goes on. It comes before the channels serve, so that nothing of theirs is missed.
func (s *server) watch() {
	k := s.channels.Kernel
	k.Observer = channel.Observers{k.Observer, s.metrics}
	s.metrics.Watch(telemetry.Sources{
		Server: s.web.Load, Lanes: s.turns.Lanes, Approvals: s.agents.Waiting, Providers: s.models.Load, Channels: s.channels.Pending,
		Database: s.shared.watched(), Routes: s.web.Routes,
		Names: func() telemetry.Names {
			all := s.names.all()
			all.Channels = s.channels.Channels()
			return all
		},
	})
}
