package main

import (
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/flow"
	"github.com/lingserve/lingserve/internal/config"
	"github.com/lingserve/lingserve/run"
	"github.com/lingserve/lingserve/web"
	"github.com/lingserve/lingserve/workflows"
)

// openWorkflows reads the folder of workflows. The default folder, which may be missing, adds to the shipped workflows; another folder replaces
// them. The shipped workflows are not used if a file is invalid, so that none of them runs in place of the file's workflow. from says where the
// workflows come from.
func openWorkflows(c *config.Config) (w *flow.Registry, from string, err error) {
	providers := []string{"demo"}
	for _, p := range c.Providers {
		providers = append(providers, p.Name)
	}
	info, err := os.Stat(c.Workflows)
	isDefault := c.Source("workflows").Kind == config.Default
	switch {
	case err == nil && !info.IsDir():
		return nil, "", fmt.Errorf("workflows (%s): %s is not a folder", c.Source("workflows"), c.Workflows)
	case err == nil:
		from = "from " + c.Workflows
		w, err = flow.Open(c.Workflows, providers...)
		if err != nil || !isDefault {
			return w, from, err
		}
		shipped, err := flow.OpenFS("shipped", workflows.Files, providers...)
		if err != nil {
			return nil, "", err
		}
		for _, s := range shipped.All() {
			if _, ok := w.Get(s.Info().Name); !ok {
				from = "shipped, and from " + c.Workflows
			}
			w.RegisterDefault(s)
		}
		return w, from, nil
	case os.IsNotExist(err) && isDefault:
		w, err = flow.OpenFS("shipped", workflows.Files, providers...)
		return w, "shipped", err
	case os.IsNotExist(err):
		return nil, "", fmt.Errorf("workflows (%s): the folder %s does not exist", c.Source("workflows"), c.Workflows)
	default:
		return nil, "", fmt.Errorf("workflows (%s): cannot read %s", c.Source("workflows"), c.Workflows)
	}
}

// serverOptions returns the options of the settings.
func serverOptions(c *config.Config, w *flow.Registry, m *adapter.Registry, log *slog.Logger) web.Options {
	o := web.Options{
		Options: run.Options{
			Workflows: w, Models: m, Log: log, Workspace: c.Workspace,
			Retention: c.Run.Retention, KeyRetention: c.Run.KeyRetention, RunTimeout: c.Run.Timeout,
			MaxRuns: c.Run.Max, MaxLog: int(c.Run.MaxLog), MaxResult: int(c.Run.MaxResult),
			MaxBots: c.Run.MaxBots, MaxTasks: c.Run.MaxTasks, MemoryOfEnded: int64(c.Run.EndedMemory),
			InlineWorkflows: c.InlineWorkflows, ListedModels: c.CallerModels != "any", Timezones: map[string]*time.Location{},
		},
		Data: c.Data, KeepSessions: c.Sessions.Keep, KeepUnnamed: c.Sessions.KeepUnnamed,
		KeepAlive: c.HTTP.KeepAlive, WriteTimeout: c.HTTP.WriteTimeout, MaxBody: int64(c.HTTP.MaxBody), Version: build().version,
		Limits: limitsOf(c, log),
		Files:  c.Files,
	}
	for _, a := range c.Agents {
		if zone, err := time.LoadLocation(a.Timezone); err == nil { // the configuration is checked
			o.Timezones[a.Name] = zone
		}
	}
	o.Ledger = adapter.NewLedger(o.Limits.Memory)
	o.Bot.Model = c.Model
	return o
}
