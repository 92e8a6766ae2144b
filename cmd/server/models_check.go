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

// check tries the models with these names, or all. Each has one attempt.
func (i *inventory) check(ctx context.Context, names []string) int {
	i.Models.Retries.Attempts = 1
	// One limit, for all that a check does; that for the connection alone may be nearer.
	i.Models.Timeouts.FirstToken, i.Models.Timeouts.Idle, i.Models.Timeouts.Total = -1, -1, -1
	all := len(names) == 0
	var trials []providers.Result
	if all {
		trials = i.everything()
	} else {
		for _, chain := range names {
			for _, name := range adapter.Links(chain) {
				if !slices.ContainsFunc(trials, func(t providers.Result) bool { return t.Model == name }) {
					trials = append(trials, providers.Result{Model: name})
				}
			}
		}
	}
	width := 0
	for _, t := range trials {
		width = max(width, utf8.RuneCountInString(t.Name()))
	}
	status := exitOK
	for _, t := range inOrder(trials, modelsAtOnce, func(t providers.Result) providers.Result { return i.Check(ctx, t) }) {
		if ctx.Err() != nil {
			return exitInterrupted
		}
		if t.Status == "fail" {
			status = exitFailed
		}
		i.result(t, width)
	}
	if all {
		i.unconfigured()
	}
	return status
}

// everything lists what there is to try: each model that can be used or that a workflow wants, and each provider that is
// set up without any.
func (i *inventory) everything() (trials []providers.Result) {
	models := i.Models.Usable(i.named...)
	for _, chain := range i.named {
		models = append(models, adapter.Links(chain)...)
	}
	slices.Sort(models)
	for _, model := range slices.Compact(models) {
		trials = append(trials, providers.Result{Model: model})
	}
	for _, prefix := range i.Models.Providers() {
		if i.Models.Configured(prefix) && !i.unasked[prefix] && !slices.ContainsFunc(models, func(m string) bool { return strings.HasPrefix(m, prefix+":") }) {
			trials = append(trials, providers.Result{Provider: prefix})
		}
	}
	return trials
}

// result prints a line, and below it a table of what a model can do.
func (i *inventory) result(t providers.Result, width int) {
	if i.json {
		t.Seconds = milliseconds(t.Seconds)
		for n := range t.Checks {
			t.Checks[n].Seconds = milliseconds(t.Checks[n].Seconds)
		}
		_ = printJSON(i.stdout, t)
		return
	}
	var what string
	switch t.Status {
	case "ok":
		what = strings.TrimRight(fmt.Sprintf("%.2fs  %s", t.Seconds, t.Message), " ")
	default:
		what = t.Message
	}
	i.line("%-4s  %-*s  %s", t.Status, width, t.Name(), what)
	i.quote(6, t.Cause)
	for _, p := range t.Checks {
		note := p.Message
		if p.Status == providers.OK && p.Seconds > 0 {
			note = strings.TrimRight(fmt.Sprintf("%.2fs  %s", p.Seconds, p.Message), " ")
		}
		i.line("      %-12s  %-4s  %s", p.Check, p.Status, note)
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

// quote prints what a model's server said, behind so many spaces.
func (i *inventory) quote(indent int, said string) {
	if said != "" {
		i.line("%*scause: %s", indent, "", said)
	}
}

func milliseconds(s float64) float64 { return float64(int(s*1000+0.5)) / 1000 }
