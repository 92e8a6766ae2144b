package mcp

import (
	"context"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// traceOf is what a server is told of the trace that a call belongs to: members of _meta, so that programs get them as addresses do. Nil
// where it is to be told nothing, or there is no trace.
func (s *server) traceOf(ctx context.Context) sdk.Meta {
	if !s.Traced || !trace.SpanContextFromContext(ctx).IsValid() {
		return nil
	}
	said := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, said)
	meta := sdk.Meta{}
	for name, value := range said {
		meta[name] = value
	}
	return meta
}
