package turn

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/lingserve/lingserve/tape"
)

// trace opens the span of a turn, below that of its run or of the message that it answers; end closes it. It begins when the turn does:
// the time in the lane is the gap before it. Without a parent span there is no span.
func (t *Turn) trace(ctx context.Context) (inside context.Context, end func()) {
	parent := trace.SpanFromContext(ctx)
	if !parent.IsRecording() {
		return ctx, func() {}
	}
	name := "turn"
	attrs := append(make([]attribute.KeyValue, 0, 6),
		attribute.String("gen_ai.conversation.id", tape.Tag(t.outcome.Session)), attribute.String("lingserve.turn.id", t.outcome.TurnID))
	if agent := t.outcome.Envelope.Agent(); agent != "" {
		name = "invoke_agent " + agent
		attrs = append(attrs, attribute.String("gen_ai.operation.name", "invoke_agent"), attribute.String("gen_ai.agent.name", agent))
	}
	ctx, t.span = parent.TracerProvider().Tracer("github.com/lingserve/lingserve/turn").Start(ctx, name, trace.WithAttributes(attrs...))
	return ctx, func() { t.span.End() }
}

// mark adds the error to the turn's span. A canceled turn has not failed.
func (t *Turn) mark(canceled bool, err error) {
	switch {
	case t.span == nil:
	case canceled:
		t.span.SetAttributes(attribute.Bool("lingserve.canceled", true))
	default:
		code := t.framework.Code(err)
		t.span.SetAttributes(attribute.String("error.type", code))
		t.span.SetStatus(codes.Error, Sentence(code))
	}
}
