package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/internal/providers"
)

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
	var failed error
	for _, t := range inOrder(trials, maxChecks, func(t providers.Result) providers.Result { return i.Check(ctx, t) }) {
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
