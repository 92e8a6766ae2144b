package ling

import (
	"slices"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/bot"
)

// Used counts an answer of a model that no bot of the manager has asked, and tells it by a "usage" event as a bot does. name
// stands for the bot; model is "provider:name"; counts are zero if they are unknown.
func (m *Manager) Used(name, model string, counts adapter.Usage) {
	m.mu.Lock()
	m.sum.add(name, model, counts)
	m.mu.Unlock()
	var told *adapter.Usage
	if counts != (adapter.Usage{}) {
		told = &counts
	}
	m.send("usage", bot.UsageData{Bot: name, Model: model, Usage: told})
}

// newResult returns a result of nothing.
func newResult() Result {
	return Result{Usage: map[string]adapter.Usage{}, Models: map[string][]string{}, Repairs: map[string]map[string]int{}, Errors: []ErrorData{}}
}

// add sums up what was used under a name.
func (r *Result) add(name, model string, counts adapter.Usage) {
	if counts != (adapter.Usage{}) {
		u := r.Usage[name]
		u.Add(counts)
		r.Usage[name] = u
	}
	if model != "" && !slices.Contains(r.Models[name], model) {
		r.Models[name] = append(r.Models[name], model)
	}
}
