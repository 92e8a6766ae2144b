package run

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/lingserve/lingserve/internal/trail"
	"github.com/lingserve/lingserve/tape"
)

// scope is the name of the tracer.
const scope = "github.com/lingserve/lingserve/web"

// runContext returns the context of a run: its account, the ids for the log, and its span, which it starts if the run has none. Without a
// tracer it has the span of the caller.
func (s *Service) runContext(sp *spec) context.Context {
	if sp.ctx != nil {
		return sp.ctx
	}
	if sp.account.Retain(); sp.account == nil {
		sp.account = s.o.Ledger.Open()
	}
	ctx := sp.account.Within(trail.With(s.working, trail.Trail{Run: sp.ID, Session: sp.Lane(), Caller: sp.Caller}))
	if sp.request.Trace.IsValid() {
		ctx = trace.ContextWithRemoteSpanContext(ctx, sp.request.Trace)
	}
	if s.o.Tracer != nil {
		ctx, sp.span = s.startSpan(ctx, sp)
	}
	sp.ctx = ctx
	return ctx
}

// startSpan starts the span of a run.
func (s *Service) startSpan(ctx context.Context, sp *spec) (context.Context, trace.Span) {
	of := sp.Of
	name, attrs := "run "+of.Agent, []attribute.KeyValue{attribute.String("gen_ai.agent.name", of.Agent)}
	if of.Workflow != "" {
		name, attrs = "invoke_workflow "+of.Workflow, []attribute.KeyValue{
			attribute.String("gen_ai.operation.name", "invoke_workflow"), attribute.String("gen_ai.workflow.name", of.Workflow),
		}
	}
	attrs = append(attrs, attribute.String("lingserve.run.id", sp.ID))
	if sp.Session != "" {
		attrs = append(attrs, attribute.String("gen_ai.conversation.id", tape.Tag(sp.Lane())))
	}
	return s.o.Tracer.Tracer(scope).Start(ctx, name, trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(attrs...))
}

// endSpan ends the span of a run.
func (r *Run) endSpan(code string) {
	span := r.span
	if span == nil {
		return
	}
	r.span = nil // it holds more than an ended run needs
	span.SetAttributes(attribute.String("lingserve.run.status", r.result.Status), attribute.Int64("lingserve.run.events", int64(r.tube.Len()%Epoch)))
	switch r.result.Status {
	case StatusCompleted:
	case StatusFailed:
		span.SetAttributes(attribute.String("error.type", code))
		span.SetStatus(codes.Error, "")
	default:
		span.SetAttributes(attribute.Bool("lingserve.canceled", true))
	}
	span.End()
}

// endSpan ends the span and the account of a message without a run: it was refused, or the turn of another run took it.
func (a *agentRun) endSpan() {
	sp := a.spec
	if a.ownRun != nil {
		return
	}
	sp.account.Release()
	if sp.span == nil {
		return
	}
	if a.err != nil {
		sp.span.SetAttributes(attribute.String("error.type", codeOf(a.err)))
		sp.span.SetStatus(codes.Error, "")
	} else if a.host != nil {
		sp.span.SetAttributes(attribute.String("lingserve.run.id", a.host.ID), attribute.Bool("lingserve.steered", true))
	}
	sp.span.End()
}
