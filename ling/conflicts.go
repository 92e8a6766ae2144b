package ling

import (
	"encoding/json"
	"fmt"

	"github.com/lingserve/lingserve/bot"
)

// conflicts is the manager as it watches which bot writes to which string or array.
type conflicts Manager

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

// Open is called when a bot begins to write a string or an array.
func (c *conflicts) Open(b *bot.ChatBot, uri []byte) {
	c.mu.Lock()
	other := c.open[string(uri)]
	if other == nil || other == b {
		c.open[string(uri)] = b
		c.mu.Unlock()
		return
	}
	reported := c.reported[string(uri)]
	c.reported[string(uri)] = true
	c.mu.Unlock()
	if !reported {
		(*Manager)(c).report(ErrorData{Bot: b.Name()}, &bot.Failure{
			Code:    bot.CodeConflict,
			Message: fmt.Sprintf("the bots %q and %q wrote to the same place at the same time", other.Name(), b.Name()),
			Pointer: bot.Pointer(string(uri)),
		})
	}
}

// Close is called when a bot has left a string or an array.
func (c *conflicts) Close(b *bot.ChatBot, uri []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open[string(uri)] == b {
		delete(c.open, string(uri))
	}
}
