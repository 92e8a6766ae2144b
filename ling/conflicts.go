package ling

import (
	"encoding/json"
	"fmt"

	"github.com/lingserve/lingserve/bot"
)

// addWriter is called when a bot starts.
func (m *Manager) addWriter(b *bot.ChatBot) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.writers[b] = struct{}{}
}

// alone is the Alone of bots. The lock keeps other bots from starting; those of other kinds, and tasks, are not known to write
// nothing, so where a bot of another kind is it counts as a writer.
func (m *Manager) alone(b *bot.ChatBot, f func(here json.RawMessage) bool) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.others {
		return false
	}
	for other := range m.writers {
		if other != b && within(b.Root(), other.Root()) {
			return false
		}
	}
	here, _ := m.tube.Document(true).Get(b.Root())
	return f(here)
}

// writes is called when a bot begins to write a string or an array, and when it has left it.
func (m *Manager) writes(b *bot.ChatBot, uri []byte, open bool) {
	m.mu.Lock()
	other, reported := m.open[string(uri)], m.reported[string(uri)]
	conflict := open && other != nil && other != b
	switch {
	case conflict:
		m.reported[string(uri)] = true
	case open:
		m.open[string(uri)] = b
	case other == b:
		delete(m.open, string(uri))
	}
	m.mu.Unlock()
	if conflict && !reported {
		m.report(ErrorData{Bot: b.Name()}, &bot.Failure{
			Code:    bot.CodeConflict,
			Message: fmt.Sprintf("the bots %q and %q wrote to the same place at the same time", other.Name(), b.Name()),
			Pointer: bot.Pointer(string(uri)),
		})
	}
}
