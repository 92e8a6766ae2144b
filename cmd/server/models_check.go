package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/internal/textview"
)

// trial is what came of trying a model, or of asking for the list of a provider that has no model to try.
type trial struct {
	Model    string  `json:"model,omitempty"`
	Provider string  `json:"provider,omitempty"` // instead of the model
	Status   string  `json:"status"`             // ok, fail, or skip: there was nothing to try
	Seconds  float64 `json:"seconds,omitempty"`  // until the first token
	Code     string  `json:"code,omitempty"`     // of the error
	Message  string  `json:"message,omitempty"`
	Cause    string  `json:"cause,omitempty"` // in the words of the model's server, or of the network
	// What it can do, in the order in which it was asked; nothing of one that does not answer.
	Checks []probe        `json:"checks,omitempty"`
	Usage  *adapter.Usage `json:"usage,omitempty"` // of all that it was asked
}

// count adds what a question took.
func (t *trial) count(u adapter.Usage) {
	if u == (adapter.Usage{}) {
		return
	}
	if t.Usage == nil {
		t.Usage = new(adapter.Usage)
	}
	t.Usage.Add(u)
}

// name is the first column.
func (t *trial) name() string {
	if t.Model != "" {
		return t.Model
	}
	return t.Provider + ":"
}

// check tries the models with these names, or all. Each has one attempt.
func (i *inventory) check(ctx context.Context, names []string) int {
	i.models.Retries.Attempts = 1
	// One limit, for all that a check does; that for the connection alone may be nearer.
	i.models.Timeouts.FirstToken, i.models.Timeouts.Idle, i.models.Timeouts.Total = -1, -1, -1
	all := len(names) == 0
	var trials []trial
	if all {
		trials = i.everything()
	} else {
		for _, chain := range names {
			for _, name := range adapter.Links(chain) {
				if !slices.ContainsFunc(trials, func(t trial) bool { return t.Model == name }) {
					trials = append(trials, trial{Model: name})
				}
			}
		}
	}
	width := 0
	for _, t := range trials {
		width = max(width, utf8.RuneCountInString(t.name()))
	}
	if len(trials) > 0 {
		i.await(trials[0])
	}
	n, status := 0, exitOK
	for _, t := range inOrder(trials, modelsAtOnce, func(t trial) trial { return i.try(ctx, t) }) {
		i.awaitNothing()
		if ctx.Err() != nil {
			return exitInterrupted
		}
		if t.Status == "fail" {
			status = exitFailed
		}
		i.result(t, width)
		if n++; n < len(trials) {
			i.await(trials[n])
		}
	}
	if all {
		i.unconfigured()
	}
	return status
}

// everything lists what there is to try: each model that can be used or that a workflow wants, and each provider that is
// set up without any.
func (i *inventory) everything() (trials []trial) {
	models := i.models.Usable(i.named...)
	for _, chain := range i.named {
		models = append(models, adapter.Links(chain)...)
	}
	slices.Sort(models)
	for _, model := range slices.Compact(models) {
		trials = append(trials, trial{Model: model})
	}
	for _, prefix := range i.models.Providers() {
		if i.models.Configured(prefix) && !i.unasked[prefix] && !slices.ContainsFunc(models, func(m string) bool { return strings.HasPrefix(m, prefix+":") }) {
			trials = append(trials, trial{Provider: prefix})
		}
	}
	return trials
}

// try fills in what comes of a trial.
func (i *inventory) try(ctx context.Context, t trial) trial {
	limited, cancel := i.limit(ctx)
	defer cancel()
	began := time.Now()
	var err error
	if t.Model != "" {
		t.Status = "ok"
		t.Seconds, err = i.answers(limited, &t)
	} else {
		t.Status, t.Message, err = i.offers(limited, t.Provider)
		if t.Status == "skip" {
			return t
		}
		t.Seconds = time.Since(began).Seconds()
	}
	if err != nil {
		t.Status, t.Code, t.Cause = "fail", code(err), serverWords(err)
		t.Seconds = time.Since(began).Seconds()
		t.Message = strings.TrimPrefix(said(err), fmt.Sprintf("the model %q: ", t.Model)) // which is in the line already
		return t
	}
	if t.Model != "" && !i.quick && !strings.HasPrefix(t.Model, "demo:") { // which is scripted and knows nothing
		i.examine(ctx, &t)
	}
	return t
}

// tokenLimits are asked for one after the other, while the server refuses the request: some take no less than 16, and models that
// think first may refuse any limit that their thoughts do not keep to. nil is no limit; the first piece of an answer is enough
// anyway.
var tokenLimits = []*int{new(1), new(16), nil}

// answers asks a model for a word, and returns how long its first token took. An answer that ends before one is none the less an answer.
func (i *inventory) answers(ctx context.Context, t *trial) (seconds float64, err error) {
	m, err := i.models.Model(t.Model)
	if err != nil {
		return 0, err
	}
	for _, limit := range tokenLimits {
		began := time.Now()
		var h *heard
		h, err = listen(ctx, untilFirst{m}, adapter.Request{
			Messages: []adapter.Message{{Role: adapter.User, Content: "Say yes."}},
			Options:  adapter.Options{MaxTokens: limit},
		})
		t.count(h.usage)
		if seconds = h.first.Seconds(); h.first == 0 {
			seconds = time.Since(began).Seconds()
		}
		e, refused := errors.AsType[*adapter.Error](err)
		if !refused || e.Status != http.StatusBadRequest && e.Status != http.StatusUnprocessableEntity {
			return seconds, err
		}
	}
	return seconds, err
}

// untilFirst is a model of whose answer the beginning is enough: up to its first token, be that text, a thought or a call.
type untilFirst struct{ adapter.Model }

func (m untilFirst) Stream(ctx context.Context, req adapter.Request) iter.Seq2[adapter.Chunk, error] {
	return func(yield func(adapter.Chunk, error) bool) {
		for c, err := range m.Model.Stream(ctx, req) {
			if !yield(c, err) || c.Text != "" || c.Reasoning != "" || c.ToolCall != nil {
				return
			}
		}
	}
}

// offers says what a provider has of which no model is named. That its server gives a list shows that key and address are right.
func (i *inventory) offers(ctx context.Context, prefix string) (status, message string, err error) {
	if _, lists := i.models.Provider(prefix).(adapter.Lister); !lists {
		return "skip", fmt.Sprintf("no model is configured; list your models in %s, or test one with \"lingserve models check %s:NAME\"",
			namesKey(prefix), prefix), nil
	}
	names, err := i.ask(ctx, prefix)
	if err != nil {
		return "", "", err
	}
	if len(names) == 0 {
		return "ok", "the provider has no models", nil
	}
	count := fmt.Sprintf("%d models, e.g. ", len(names))
	if len(names) == 1 {
		count = "1 model, "
	}
	return "ok", count + strings.Join(names[:min(len(names), 3)], ", ") + "; list your models in " + namesKey(prefix), nil
}

// namesKey is where a provider's models are named in the configuration file.
func namesKey(prefix string) string { return "providers." + prefix + ".models" }

// result prints a line, and below it a table of what a model can do.
func (i *inventory) result(t trial, width int) {
	if i.json {
		t.Seconds = milliseconds(t.Seconds)
		for n := range t.Checks {
			t.Checks[n].Seconds = milliseconds(t.Checks[n].Seconds)
		}
		i.object(t)
		return
	}
	var what string
	switch t.Status {
	case "ok":
		what = strings.TrimRight(fmt.Sprintf("%.2fs  %s", t.Seconds, t.Message), " ")
	default:
		what = t.Message
	}
	i.line("%-4s  %-*s  %s", t.Status, width, t.name(), what)
	i.quote(6, t.Cause)
	for _, p := range t.Checks {
		note := p.Message
		if p.Status == probeOK && p.Seconds > 0 {
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

// await shows on a terminal which one is waited for; awaitNothing takes that away.
func (i *inventory) await(t trial) {
	if i.waiting {
		fmt.Fprintf(i.stdout, "…     %s", textview.Clean(t.name()))
	}
}

func (i *inventory) awaitNothing() {
	if i.waiting {
		fmt.Fprint(i.stdout, "\r\x1b[K")
	}
}
