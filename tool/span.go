package tool

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// maxCallID is how much of a call's id a span has, in bytes: a model's server can make it as long as it likes.
const maxCallID = 64

// begin opens the span of a call below that of its caller; without one nothing is recorded.
// It lasts from when the
// model has asked until there is a result, so waiting for an approval or for other calls is in it. Arguments and results are not.
func (c *running) begin(ctx context.Context) (context.Context, trace.Span) {
	name := "unknown" // what a model makes up is nothing to count by
	if c.tool != nil {
		name = c.tool.Name
	}
	return trace.SpanFromContext(ctx).TracerProvider().Tracer("github.com/lingserve/lingserve/tool").Start(ctx, "execute_tool "+name, trace.WithAttributes(
		attribute.String("gen_ai.operation.name", "execute_tool"), attribute.String("gen_ai.tool.name", name),
		attribute.String("gen_ai.tool.type", "function"), attribute.String("gen_ai.tool.call.id", c.call.ID[:min(len(c.call.ID), maxCallID)])))
}

// end closes the span of a call. The message of a failure may have words of the conversation, so the span has only its kind.
func end(span trace.Span, r *Result) {
	if r.Err != nil {
		span.SetAttributes(attribute.String("error.type", r.Err.Kind))
		if r.Err.Kind == KindInterrupted {
			span.SetAttributes(attribute.Bool("lingserve.canceled", true))
		} else {
			span.SetStatus(codes.Error, "")
		}
	}
	span.End()
}
