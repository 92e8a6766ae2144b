package ling

import (
	"context"
	"slices"

	"github.com/lingserve/lingserve/adapter"
)

// Settle waits until no bot or task runs, and returns the error of the run so far. Bots that are started later are no longer waited for. ctx
// ends the waiting only; its cause is then the error. A task must not call it.
func (m *Manager) Settle(ctx context.Context) error {
	if err := m.wait(ctx, func() bool { return m.active == 0 }); err != nil {
		return err
	}
	return m.failure()
}

// SetHistory sets the messages that bots created from now on have before what they are asked: the conversation so far.
func (m *Manager) SetHistory(history ...adapter.Message) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.history = slices.Clone(history)
}

// History returns what was set.
func (m *Manager) History() []adapter.Message {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.history)
}
