package kernel

import (
	"cmp"
	"context"
	"log/slog"
	"runtime/debug"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/lingserve/lingserve/channel"
)

// trace reports to the observer what happens, and returns the time.
func (p *pass) trace(ctx context.Context, t channel.Trace) time.Time {
	now := time.Now()
	if t.Phase != channel.PhaseStart && t.Phase != channel.PhaseWarning {
		t.Duration = now.Sub(p.started)
	}
	t.TurnID, t.SessionKey, t.Admission = p.result.TurnID, p.result.SessionKey, p.result.Admission
	t.Channel, t.Account = p.meta.Channel, p.meta.Account
	if span := trace.SpanContextFromContext(ctx); span.IsValid() {
		t.TraceID = span.TraceID().String()
	}
	sender := ""
	if f := p.facts; f != nil {
		t.MessageID, t.Conversation, sender = f.MessageID, f.Conversation.ID, f.Sender.ID
		t.Account = cmp.Or(f.Route.AccountID, f.Account, t.Account)
		if p.policy.Previews {
			t.Preview = f.Message.Preview
		}
	}
	if in := p.in; in != nil {
		t.MessageID = in.ID
		if p.facts == nil {
			t.Conversation, sender = in.ConversationID, in.SenderID
		}
	}
	if p.policy.SenderIDs != "none" {
		t.Sender = sender
	}
	if t.Phase == channel.PhaseDrop || t.Phase == channel.PhaseHandled {
		t.Setting = p.result.Setting
	}
	if err := p.k.guard(ctx, func() error { p.k.Observer.Observe(ctx, t); return nil }); err != nil {
		p.k.Log.WarnContext(ctx, "observer failed", "turn", t.TurnID, "channel", t.Channel)
	}
	return now
}

// startSpan starts the span of a turn, which says where the message comes from, without its sender. A turn that is part of a trace has none.
func (p *pass) startSpan(ctx context.Context) (inside context.Context, end func()) {
	if p.k.Tracer == nil || trace.SpanContextFromContext(ctx).IsValid() {
		return ctx, func() {}
	}
	ctx, span := p.k.Tracer.Start(ctx, "message "+p.meta.Channel, trace.WithSpanKind(trace.SpanKindConsumer), trace.WithAttributes(
		attribute.String("messaging.system", p.meta.Channel), attribute.String("lingserve.turn.id", p.result.TurnID)))
	return ctx, func() {
		a := p.result.Admission
		span.SetAttributes(attribute.String("lingserve.admission", string(a.Kind)), attribute.String("lingserve.reason", string(a.Reason)),
			attribute.Bool("lingserve.canceled", p.canceled))
		if p.err != nil {
			span.SetStatus(codes.Error, "")
			span.SetAttributes(attribute.String("error.type", "turn_failed")) // the span of the turn has the cause
		}
		span.End()
	}
}

// warn tells of something that does not change the turn.
func (p *pass) warn(ctx context.Context, s channel.Stage, what string, err error) {
	p.trace(ctx, channel.Trace{Stage: s, Phase: channel.PhaseWarning, Warning: what, Err: err})
}

// attempt does what must not change the turn: its failure is a warning.
func (p *pass) attempt(ctx context.Context, s channel.Stage, what string, f func() error) {
	if err := p.k.guard(ctx, f); err != nil {
		p.warn(ctx, s, what, err)
	}
}

// guard makes a panic an error. The stack goes to the log alone; the value goes nowhere, since it may have words of a message.
func (k *Kernel) guard(ctx context.Context, f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &channel.PanicError{Value: v}
			k.Log.LogAttrs(ctx, slog.LevelError, "panic in a channel's callback", slog.String("stack", string(debug.Stack())))
		}
	}()
	return f()
}
