package main

import (
	"strings"
	"sync"
	"time"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/agent/team"
	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/manager"
	"github.com/lingserve/lingserve/flow"
	"github.com/lingserve/lingserve/internal/config"
	"github.com/lingserve/lingserve/internal/telemetry"
	"github.com/lingserve/lingserve/turn"
	"github.com/lingserve/lingserve/web"
)

// newMetrics makes what counts the work of a server. The models report to it from now on.
func newMetrics(c *config.Config, models *adapter.Registry, workflows *flow.Registry) (*telemetry.Metrics, *operatorNames) {
	b := build()
	names := &operatorNames{c: c, models: models, workflows: workflows}
	m := telemetry.NewMetrics(b.version, b.commit, telemetry.MetricNames{
		Workflow: func(name string) bool { _, ok := workflows.Get(name); return ok || name == web.CompletionWorkflow },
		Agent:    func(name string) bool { return isAgent(c, name) },
		Model:    names.has,
	})
	models.Observer = m
	return m, names
}

func isAgent(c *config.Config, name string) bool {
	for _, a := range c.Agents {
		if a.Name == name {
			return true
		}
	}
	return false
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

// watch lets the metrics ask for what goes on.
func watch(m *telemetry.Metrics, names *operatorNames, s *web.Server, models *adapter.Registry, turns *turn.Framework, agents *team.Team, channels *manager.Manager, shared *engine) {
	// Before the channels serve, so that nothing of theirs is missed.
	channels.Kernel.Observer = channel.Observers{channels.Kernel.Observer, channel.Count(m)}
	m.Watch(telemetry.Sources{
		Server: s.Load, Lanes: turns.Lanes, Approvals: agents.Waiting, Providers: models.Load, Channels: channels.Kernel.Pending,
		Engine: shared.watched(), Routes: s.Routes,
		Names: func() telemetry.Names {
			all := names.all()
			all.Channels = channels.Channels()
			return all
		},
	})
}
