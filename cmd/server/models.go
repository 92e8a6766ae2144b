package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/internal/config"
	"github.com/lingserve/lingserve/internal/providers"
	"github.com/lingserve/lingserve/internal/textview"
)

// maxChecks is how many servers are checked at a time: enough that one that hangs does not delay the others, and below the limits of
// connections.
const maxChecks = 4

// inventory is what "lingserve models" works with.
type inventory struct {
	streams
	providers.Checker
	settings config.Flags
	named    []string        // by the workflows
	unset    map[string]bool // providers without any setting; they may exist all the same
	json     bool
}

func modelsCommand(s streams) *cobra.Command {
	i := &inventory{streams: s}
	remote := false
	check := configured("models check", &i.settings, func(ctx context.Context, c *config.Config, args []string) error {
		return i.run(ctx, c, true, args, i.check)
	})
	check.Flags().BoolVar(&i.Quick, "quick", false, "only test whether a model answers")
	cmd := configured("models", &i.settings, func(ctx context.Context, c *config.Config, _ []string) error {
		if remote {
			return i.run(ctx, c, false, nil, i.listRemote)
		}
		return i.run(ctx, c, true, nil, i.list)
	}, check)
	cmd.Flags().BoolVar(&remote, "remote", false, "list the models that the providers offer")
	cmd.PersistentFlags().BoolVar(&i.json, "json", false, "print one JSON object per line")
	cmd.PersistentFlags().DurationVar(&i.Timeout, "timeout", 30*time.Second, "`TIME` to wait for each answer")
	addSettings(cmd.PersistentFlags(), &i.settings)
	return cmd
}

// run makes the configured models and calls do with the names of models in args. do can use the models that workflows name if they are read.
func (i *inventory) run(ctx context.Context, c *config.Config, readWorkflows bool, args []string, do func(ctx context.Context, names []string) error) error {
	if i.Timeout <= 0 {
		return usagef("--timeout is %v; expected a duration above 0, such as 30s", i.Timeout)
	}
	var names []string
	for _, chain := range args {
		for _, name := range adapter.Links(chain) {
			if !strings.Contains(name, ":") {
				return usagef("%q is no model; expected PROVIDER:NAME, such as openai:gpt-4o-mini", name)
			}
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	i.unset = map[string]bool{}
	for _, p := range c.Providers {
		i.unset[p.Name] = !p.Set
	}
	models, _, stop, err := providers.New(c)
	if err != nil {
		return err
	}
	defer stop()
	i.Models = models
	var failed error
	if readWorkflows && len(names) == 0 {
		workflows, _, err := openWorkflows(c)
		if err != nil { // the valid workflows are used
			printError(i.err, err)
			failed = exitStatus(exitFailed)
		}
		if workflows != nil {
			i.named = workflows.Models()
		}
	}
	return cmp.Or(do(ctx, names), failed)
}

// modelRow is a model in a list.
type modelRow struct {
	Model    string  `json:"model"`
	Provider string  `json:"provider"`
	Default  bool    `json:"default,omitempty"`
	Price    *prices `json:"price,omitempty"` // nil where it is not known
}

// prices are those of a model, in dollars for a million tokens.
type prices struct {
	Input      float64 `json:"input"`
	Cached     float64 `json:"cached"`
	CacheWrite float64 `json:"cache_write"`
	Output     float64 `json:"output"`
	Reasoning  float64 `json:"reasoning"`
}

// print prints a model.
func (i *inventory) print(row modelRow) {
	if i.json {
		_ = printJSON(i.out, row)
		return
	}
	text := row.Model
	if row.Default {
		text += "  (default)"
	}
	if p := row.Price; p != nil {
		text += fmt.Sprintf("  $%g in, $%g cached, $%g out", p.Input, p.Cached, p.Output)
	}
	i.line("%s", text)
}

// list prints the models that can be used, and marks the default.
func (i *inventory) list(context.Context, []string) error {
	first := adapter.Links(i.Models.Default)[0]
	for _, name := range i.Models.Usable(i.named...) {
		provider, model, _ := strings.Cut(name, ":")
		row := modelRow{Model: name, Provider: provider, Default: name == first}
		if p, ok := i.Models.Prices(provider, model); ok {
			row.Price = &prices{p.Input, p.Cached, p.CacheWrite, p.Output, p.Reasoning}
		}
		i.print(row)
	}
	i.printUnconfigured()
	return nil
}

// listRemote prints the models that the servers of providers list.
func (i *inventory) listRemote(ctx context.Context, _ []string) (failed error) {
	for _, prefix := range i.Models.Providers() {
		if _, lists := i.Models.Provider(prefix).(adapter.Lister); !lists || !i.Models.Configured(prefix) {
			continue
		}
		names, err := i.List(ctx, prefix)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil && i.unset[prefix] && adapter.AsError(err).Code == adapter.CodeUnavailable: // such as an Ollama that is not installed
		case err != nil:
			printError(i.err, fmt.Errorf("%s: %s", prefix, adapter.AsError(err).Message))
			failed = exitStatus(exitFailed)
		}
		for _, name := range names {
			i.print(modelRow{Model: prefix + ":" + name, Provider: prefix})
		}
	}
	i.printUnconfigured()
	return failed
}

// printUnconfigured names the providers that are not configured.
func (i *inventory) printUnconfigured() {
	var missing []string
	for _, prefix := range i.Models.Providers() {
		if !i.Models.Configured(prefix) {
			missing = append(missing, prefix)
		}
	}
	if len(missing) > 0 {
		fmt.Fprintf(i.err, "not configured: %s (see docs/models.md)\n", strings.Join(missing, ", "))
	}
}

// line prints a line without escape sequences: names may come from a server.
func (i *inventory) line(format string, args ...any) {
	text := strings.ReplaceAll(textview.Clean(fmt.Sprintf(format, args...)), "\n", " ")
	fmt.Fprintln(i.out, strings.TrimRight(text, " "))
}

// check checks the models with these names, or all. Each has one attempt.
func (i *inventory) check(ctx context.Context, names []string) error {
	i.Models.Retries.Attempts = 1
	// --timeout is the limit of each answer; only the limit of the connection may be shorter.
	i.Models.Timeouts.FirstToken, i.Models.Timeouts.Idle, i.Models.Timeouts.Total = -1, -1, -1
	var trials []providers.Result
	for _, name := range names {
		trials = append(trials, providers.Result{Model: name})
	}
	if len(names) == 0 {
		trials = i.allTrials()
	}
	width := 0
	for _, t := range trials {
		width = max(width, utf8.RuneCountInString(t.Name()))
	}
	results := make([]chan providers.Result, len(trials)) // which are printed in order, as early as possible
	for n := range results {
		results[n] = make(chan providers.Result, 1)
	}
	var checks sync.WaitGroup
	defer checks.Wait()
	checks.Go(func() {
		slots := make(chan struct{}, maxChecks)
		for n, t := range trials {
			slots <- struct{}{}
			checks.Go(func() {
				results[n] <- i.Check(ctx, t)
				<-slots
			})
		}
	})
	var failed error
	for _, result := range results {
		t := <-result
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if t.Status == "fail" {
			failed = exitStatus(exitFailed)
		}
		i.printResult(t, width)
	}
	if len(names) == 0 {
		i.printUnconfigured()
	}
	return failed
}

// allTrials lists each model that can be used or that a workflow names, and each provider that is configured without models.
func (i *inventory) allTrials() (trials []providers.Result) {
	models := i.Models.Usable(i.named...)
	for _, chain := range i.named {
		models = append(models, adapter.Links(chain)...)
	}
	slices.Sort(models)
	for _, model := range slices.Compact(models) {
		trials = append(trials, providers.Result{Model: model})
	}
	for _, prefix := range i.Models.Providers() {
		if i.Models.Configured(prefix) && !i.unset[prefix] && !slices.ContainsFunc(models, func(m string) bool { return strings.HasPrefix(m, prefix+":") }) {
			trials = append(trials, providers.Result{Provider: prefix})
		}
	}
	return trials
}

// printResult prints a line, and below it a table of the model's features.
func (i *inventory) printResult(t providers.Result, width int) {
	if i.json {
		t.Seconds = milliseconds(t.Seconds)
		for n := range t.Checks {
			t.Checks[n].Seconds = milliseconds(t.Checks[n].Seconds)
		}
		_ = printJSON(i.out, t)
		return
	}
	i.line("%-4s  %-*s  %s", t.Status, width, t.Name(), timed(t.Status, t.Seconds, t.Message))
	i.quote(6, t.Cause)
	for _, p := range t.Checks {
		i.line("      %-12s  %-4s  %s", p.Check, p.Status, timed(p.Status, p.Seconds, p.Message))
		i.quote(26, p.Cause) // below the message
	}
	if u := t.Usage; u != nil && len(t.Checks) > 0 {
		cost := ""
		if u.Cost > 0 {
			cost = fmt.Sprintf(", $%.6f", float64(u.Cost)/1e6)
		}
		i.line("      %-12s        %d tokens in, %d out%s", "used", u.PromptTokens, u.CompletionTokens, cost)
	}
}

// timed returns the message of a result, after the time of a success if it was measured.
func timed(status string, seconds float64, message string) string {
	if status != providers.OK || seconds == 0 {
		return message
	}
	return strings.TrimRight(fmt.Sprintf("%.2fs  %s", seconds, message), " ")
}

// quote prints the message of a model's server, indented.
func (i *inventory) quote(indent int, said string) {
	if said != "" {
		i.line("%*scause: %s", indent, "", said)
	}
}

func milliseconds(s float64) float64 { return float64(int(s*1000+0.5)) / 1000 }
