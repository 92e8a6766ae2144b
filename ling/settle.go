package ling

import (
	"context"
	"slices"

	"github.com/lingserve/lingserve/adapter"
)

// Settle waits, in a task or on behalf of one, until nothing but that task runs, and returns what has failed by then. Bots that
// are started later are no longer waited for. ctx ends the waiting only; its cause is then the error.
func (m *Manager) Settle(ctx context.Context) error {
	m.mu.Lock()
	m.settling++
	m.mu.Unlock()
	defer func() {
		m.mu.Lock()
		m.settling--
		m.mu.Unlock()
	}()
	if err := m.wait(ctx, func() bool { return m.active <= 1 }); err != nil {
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
