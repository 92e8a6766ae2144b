package main

import (
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/demo"
	"github.com/lingserve/lingserve/adapter/openai"
	"github.com/lingserve/lingserve/config"
	"github.com/lingserve/lingserve/flow"
	"github.com/lingserve/lingserve/web"
	"github.com/lingserve/lingserve/workflows"
)

// newModels makes the providers and checks that the default model is one of theirs. stop ends what they run.
func newModels(c *config.Config) (models *adapter.Registry, stop func(), err error) {
	limits := adapter.Timeouts{
		Connect:    orNone(c.Upstream.Connect),
		FirstToken: orNone(c.Upstream.FirstToken),
		Idle:       orNone(c.Upstream.Idle),
		Total:      orNone(c.Upstream.Total),
	}
	models = &adapter.Registry{Timeouts: limits, Retries: adapter.Retries{Attempts: c.Retries.Attempts}, Default: c.Model}
	pace := c.Demo.Pace
	if pace == 0 {
		pace = -1 // as fast as it can; 0 would be the provider's default
	}
	scripted := demo.New(&demo.Options{Pace: pace})
	models.Register("demo", scripted)
	stop = func() { scripted.Close() }
	if c.OpenAI.Key == "" && c.OpenAI.BaseURL == "" {
		models.Register("openai", withoutKey{})
	} else {
		p, err := openai.New(openai.Options{
			BaseURL: c.OpenAI.BaseURL, Key: c.OpenAI.Key.Reveal(), Names: c.OpenAI.Models, Timeouts: limits, ProxyEnv: c.Upstream.ProxyEnv,
		})
		if err != nil {
			stop()
			return nil, nil, fmt.Errorf("openai.base_url (%s): %w", c.Source("openai.base_url"), err)
		}
		models.Register("openai", p)
	}
	if _, err := models.Model(c.Model); err != nil {
		stop()
		return nil, nil, fmt.Errorf("model (%s): %w", c.Source("model"), err)
	}
	return models, stop, nil
}

// orNone turns the settings' 0 for no limit into the adapter's, which is negative.
func orNone(d time.Duration) time.Duration {
	if d == 0 {
		return -1
	}
	return d
}

// withoutKey stands where OpenAI would, so that a workflow that wants it says what is missing.
type withoutKey struct{}

func (withoutKey) Model(string) (adapter.Model, error) {
	return nil, &adapter.Error{
		Code:    adapter.CodeAuth,
		Message: "OpenAI needs a key; set OPENAI_API_KEY, or OPENAI_BASE_URL for a compatible server",
	}
}

func (withoutKey) Names() []string { return nil }

// openWorkflows reads the folder of workflows, or takes the shipped ones where the default folder does not exist.
func openWorkflows(c *config.Config) (w *flow.Registry, from string, err error) {
	info, err := os.Stat(c.Workflows)
	switch {
	case err == nil && !info.IsDir():
		return nil, "", fmt.Errorf("workflows (%s): %s is not a folder", c.Source("workflows"), c.Workflows)
	case err == nil:
		w, err = flow.Open(c.Workflows)
		return w, "from " + c.Workflows, err
	case os.IsNotExist(err) && c.Source("workflows").Kind == config.Default:
		w, err = flow.OpenFS("shipped", workflows.Files)
		return w, "shipped", err
	case os.IsNotExist(err):
		return nil, "", fmt.Errorf("workflows (%s): the folder %s does not exist", c.Source("workflows"), c.Workflows)
	default:
		return nil, "", fmt.Errorf("workflows (%s): %s cannot be read", c.Source("workflows"), c.Workflows)
	}
}

// serverOptions hands the settings to the server.
func serverOptions(c *config.Config, w *flow.Registry, m *adapter.Registry, log *slog.Logger) web.Options {
	o := web.Options{
		Workflows: w, Models: m, Log: log, Data: c.Data,
		Retention: c.Run.Retention, KeyRetention: c.Run.KeyRetention, RunTimeout: c.Run.Timeout,
		KeepAlive: c.HTTP.KeepAlive, WriteTimeout: c.HTTP.WriteTimeout, MaxBody: int64(c.HTTP.MaxBody),
		MaxRuns: c.Run.Max, MaxLog: int(c.Run.MaxLog), MaxResult: int(c.Run.MaxResult),
		MaxBots: c.Run.MaxBots, MaxTasks: c.Run.MaxTasks, MemoryOfEnded: int64(c.Run.EndedMemory),
		InlineWorkflows: c.InlineWorkflows, Version: build().version,
	}
	o.Bot.Model = c.Model
	return o
}
