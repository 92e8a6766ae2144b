package channel

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
)

// begun says in the span that the tracer has opened for a turn where the turn comes from. Of whom, it does not say. A turn that is part
// of somebody else's span leaves that as it is.
func (p *pass) begun(outer, inside context.Context) (ended func()) {
	span := trace.SpanFromContext(inside)
	if !span.IsRecording() || span == trace.SpanFromContext(outer) {
		return func() {}
	}
	span.SetName("message " + p.meta.Channel)
	span.SetAttributes(attribute.String("messaging.system", p.meta.Channel), attribute.String("lingserve.turn.id", p.result.TurnID))
	return func() {
		span.SetAttributes(attribute.String("lingserve.admission", string(p.result.Admission.Kind)))
		if reason := p.result.Admission.Reason; reason != "" {
			span.SetAttributes(attribute.String("lingserve.reason", string(reason)))
		}
		if p.canceled {
			span.SetAttributes(attribute.Bool("lingserve.canceled", true))
		}
	}
}
