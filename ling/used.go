package ling

import (
	"slices"

	"github.com/lingserve/lingserve/adapter"
)

// Used counts an answer of a model that no bot of the manager has asked, and tells it by a "usage" event as a bot does. name
// stands for the bot; model is "provider:name"; counts are zero where nobody has counted.
func (m *Manager) Used(name, model string, counts adapter.Usage) {
	m.mu.Lock()
	m.usedLocked(name, model, counts)
	m.mu.Unlock()
	var told *adapter.Usage
	if counts != (adapter.Usage{}) {
		told = &counts
	}
	m.send("usage", struct {
		Bot   string `json:"bot"`
		Model string `json:"model"`
		*adapter.Usage
	}{name, model, told})
}

// usedLocked sums up what was used under a name; mu is held.
func (m *Manager) usedLocked(name, model string, counts adapter.Usage) {
	if counts != (adapter.Usage{}) {
		if m.usage == nil {
			m.usage = map[string]adapter.Usage{}
		}
		u := m.usage[name]
		u.Add(counts)
		m.usage[name] = u
	}
	if model != "" && !slices.Contains(m.models[name], model) {
		if m.models == nil {
			m.models = map[string][]string{}
		}
		m.models[name] = append(m.models[name], model)
	}
}
