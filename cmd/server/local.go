package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lingserve/lingserve/bot"
	"github.com/lingserve/lingserve/flow"
	"github.com/lingserve/lingserve/internal/config"
	"github.com/lingserve/lingserve/internal/edits"
	"github.com/lingserve/lingserve/internal/providers"
	"github.com/lingserve/lingserve/internal/rawjson"
	"github.com/lingserve/lingserve/internal/trail"
	"github.com/lingserve/lingserve/ling"
	"github.com/lingserve/lingserve/tube"
)

// localRun is a run in this process.
type localRun struct {
	m      *ling.Manager
	next   uint64 // number of the next event
	info   flow.Info
	closed chan struct{} // Close has returned
	causes *causes
}

func startLocal(ctx context.Context, j *job, c *config.Config, stderr io.Writer) (_ *localRun, err error) {
	models, _, stop, err := providers.New(c)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			stop()
		}
	}()
	workflows, from, err := openWorkflows(c)
	if workflows == nil {
		return nil, err
	}
	w, ok := workflows.Get(j.workflow)
	if !ok {
		if err != nil { // perhaps it is in the file that is broken
			return nil, err
		}
		return nil, unknownWorkflow(j.workflow, workflows, from)
	}
	info := w.Info()
	input, err := flow.Prepare(w, j.input.text(info.Input))
	if err != nil {
		return nil, inputError(err)
	}
	// The log is for servers; what goes wrong here is in the events.
	log := newLog(io.Discard, c)
	if c.Source("log.level").Kind != config.Default {
		log = newLog(stderr, c)
	}
	models.Log = log
	causes := new(causes)
	model := c.Model
	if j.model == "" && info.Model != "" {
		model = info.Model
	}
	defaults := bot.Config{Model: model, Done: j.done, HTMLEvents: j.html}
	defaults.Options = j.options.Options
	if j.strict {
		defaults.OnInvalid = bot.Fail
	}
	models.Budget = newBudget(c, nil, nil, log)
	ctx = trail.With(ctx, trail.Trail{Run: "local"})
	// The run is not canceled through its context: Cancel lets it end with an event that says why.
	m := ling.New(context.WithoutCancel(ctx), defaults, &ling.Options{
		Models: providers.WithCauses(models, causes.add), Log: log, Workflow: info.Name, Model: model,
		MaxBots: c.Run.MaxBots, MaxTasks: c.Run.MaxTasks, MaxResult: int(c.Run.MaxResult), MaxLog: int(c.Run.MaxLog),
	})
	m.SetCustomParams(j.params)
	if err := w.Run(m.Context(), m, input); err != nil {
		m.Cancel(err)
		return nil, err
	}
	r := &localRun{m: m, info: info, closed: make(chan struct{}), causes: causes}
	limit := time.AfterFunc(c.Run.Timeout, func() { m.Cancel(fmt.Errorf("it took longer than %s", c.Run.Timeout)) })
	go func() {
		defer close(r.closed)
		m.Close()
		limit.Stop()
		stop()
	}()
	return r, nil
}

func unknownWorkflow(name string, workflows *flow.Registry, from string) error {
	var names []string
	for _, w := range workflows.All() {
		names = append(names, w.Info().Name)
	}
	if len(names) == 0 {
		return fmt.Errorf("unknown workflow %q; there are no workflows (%s)", name, from)
	}
	return fmt.Errorf("unknown workflow %q%s expected one of %s (%s)", name, cmp.Or(edits.Suggest(name, names, ""), ";"), strings.Join(names, ", "), from)
}

func (r *localRun) ID() string      { return r.m.ID() }
func (r *localRun) Info() flow.Info { return r.info }

func (r *localRun) Events(ctx context.Context) iter.Seq2[tube.Event, error] {
	return func(yield func(tube.Event, error) bool) {
		for e, err := range r.m.Tube().Events(ctx, r.next) {
			if err == nil {
				r.next = e.N + 1
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

func (r *localRun) Result(context.Context) (json.RawMessage, error) {
	return rawjson.Marshal(r.m.Peek(false))
}

func (r *localRun) Cancel(cause error) {
	r.m.Cancel(cause)
	<-r.closed
}

// causes are the messages of models' servers about failures during a run, without duplicates.
type causes struct {
	mu   sync.Mutex
	list []string
}

func (c *causes) add(model, cause string) {
	line := model + ": " + cause
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.list) < maxProblems && !slices.Contains(c.list, line) {
		c.list = append(c.list, line)
	}
}

func (c *causes) all() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.list
}
