package web

import (
	"context"

	"go.opentelemetry.io/otel/trace"

	"github.com/lingserve/lingserve/internal/trail"
)

// context is what a line of the log about a run is written under that is written outside of it: it has the run's ids, and those of its trace.
func (r *run) context() context.Context {
	ctx := trail.With(context.Background(), trail.Trail{Run: r.id, Session: r.lane()})
	if r.traced != nil {
		ctx = trace.ContextWithSpanContext(ctx, *r.traced)
	}
	return ctx
}
