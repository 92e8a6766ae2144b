package telemetry

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/lingserve/lingserve/channel"
)

// Channels is the tracer of channels' turns: a message that comes from a platform begins a trace, as a request does. Nil where spans go
// nowhere.
func (t *Traces) Channels() channel.Tracer {
	if p := t.Provider(); p != nil {
		return channelTracer{p.Tracer("github.com/lingserve/lingserve/channel")}
	}
	return nil
}

type channelTracer struct{ tracer trace.Tracer }

// Span implements [channel.Tracer]. What is in a trace already, as a run of the server is, needs no second root; and the stages of a turn
// take microseconds, but for the one that the turn's own span is of.
func (t channelTracer) Span(ctx context.Context, name string) (context.Context, func(error)) {
	if name != "turn" || trace.SpanContextFromContext(ctx).IsValid() {
		return ctx, nil
	}
	ctx, span := t.tracer.Start(ctx, "message", trace.WithSpanKind(trace.SpanKindConsumer))
	return ctx, func(err error) {
		if err != nil {
			span.SetStatus(codes.Error, "")
			span.SetAttributes(attribute.String("error.type", "turn_failed")) // the turn's own span says of what
		}
		span.End()
	}
}
