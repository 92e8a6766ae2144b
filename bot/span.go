package bot

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// trace opens the span of a bot below that of its run, and keeps it for what the bot does after its first answer; without one it does
// nothing. Tokens are in the spans of the requests only, so that a sum over spans counts nothing twice.
func (b *ChatBot) trace(ctx context.Context) context.Context {
	parent := trace.SpanFromContext(ctx)
	if !parent.IsRecording() {
		return ctx
	}
	attrs := append(make([]attribute.KeyValue, 0, 6),
		attribute.String("gen_ai.operation.name", "invoke_agent"), attribute.String("gen_ai.agent.name", b.name),
		attribute.String("lingserve.bot.root", b.root))
	if b.config.Model != "" {
		attrs = append(attrs, attribute.String("lingserve.model", b.config.Model))
	}
	ctx, b.span = parent.TracerProvider().Tracer("github.com/lingserve/lingserve/bot").Start(ctx, "invoke_agent "+b.name,
		trace.WithAttributes(attrs...))
	return ctx
}

// traced puts the bot's span, where there is one, into a context that is made of the run's.
func (b *ChatBot) traced(ctx context.Context) context.Context {
	if b.span == nil {
		return ctx
	}
	return trace.ContextWithSpan(ctx, b.span)
}

// endTrace closes the bot's span: with what the bot has failed of, unless that is that its run has ended.
func (b *ChatBot) endTrace(err error) {
	if b.span == nil {
		return
	}
	if model := b.Response().Model; model != "" {
		b.span.SetAttributes(attribute.String("lingserve.answered_by", model))
	}
	switch {
	case err == nil:
	case b.env.Context.Err() != nil, errors.Is(err, context.Canceled):
		b.span.SetAttributes(attribute.Bool("lingserve.canceled", true))
	default:
		f, _ := Describe(err)
		b.span.SetAttributes(attribute.String("error.type", f.Code))
		b.span.SetStatus(codes.Error, f.Message)
	}
	b.span.End()
}
