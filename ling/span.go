package ling

import (
	"context"

	"go.opentelemetry.io/otel/trace"
)

// Trace puts what begins from now on, bots and tasks, below the span of ctx: a run's work may be that of a turn, which is not there yet
// when the run begins. Their life stays that of the run.
func (m *Manager) Trace(ctx context.Context) {
	if span := trace.SpanFromContext(ctx); span.IsRecording() {
		below := trace.ContextWithSpan(m.ctx, span)
		m.below.Store(&below)
	}
}

// work is the context of what begins now.
func (m *Manager) work() context.Context {
	if below := m.below.Load(); below != nil {
		return *below
	}
	return m.ctx
}
