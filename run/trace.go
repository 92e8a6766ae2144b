package run

import (
	"cmp"
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/lingserve/lingserve/internal/trail"
	"github.com/lingserve/lingserve/tape"
)

// scope is the name of the tracer.
const scope = "github.com/lingserve/lingserve/web"

// runContext returns the context of a run that begins: it says what lines of the log belong to, and has the run's span, which it opens
// unless the run has one already. Without a tracer what the caller's trace is called is still known.
func (s *Service) runContext(sp *spec) context.Context {
	if sp.account == nil {
		if sp.account = sp.asked; sp.account == nil {
			sp.account = s.o.Ledger.Open()
		} else {
			sp.account.Retain()
		}
	}
	ctx := sp.account.Within(trail.With(s.working, trail.Trail{Run: sp.id, Session: sp.lane(), Caller: sp.caller}))
	switch {
	case sp.span != nil:
		return trace.ContextWithSpan(ctx, sp.span)
	case sp.trace.IsValid():
		ctx = trace.ContextWithRemoteSpanContext(ctx, sp.trace)
	}
	if s.o.Tracer == nil {
		return ctx
	}
	of := sp.of()
	attrs := append(make([]attribute.KeyValue, 0, 8), attribute.String("lingserve.run.id", sp.id))
	name := "run " + of.Agent
	if of.Workflow != "" {
		name = "invoke_workflow " + of.Workflow
		attrs = append(attrs, attribute.String("gen_ai.operation.name", "invoke_workflow"), attribute.String("gen_ai.workflow.name", of.Workflow))
	} else {
		attrs = append(attrs, attribute.String("gen_ai.agent.name", of.Agent))
	}
	if sp.session != "" {
		attrs = append(attrs, attribute.String("gen_ai.conversation.id", tape.Tag(sp.lane())))
	}
	ctx, sp.span = s.o.Tracer.Tracer(scope).Start(ctx, name, trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(attrs...))
	return ctx
}

// contextOf is what others need to know of a span, to link to it.
func contextOf(span trace.Span) *trace.SpanContext {
	if span == nil {
		return nil
	}
	return new(span.SpanContext())
}

// endSpan closes the span of a run that has ended.
func (r *Run) endSpan(code string) {
	span := r.span
	if span == nil {
		return
	}
	r.span = nil // it holds more than an ended run needs
	span.SetAttributes(attribute.String("lingserve.run.status", r.result.Status), attribute.Int64("lingserve.run.events", int64(r.tube.Len()%Epoch)))
	switch {
	case r.result.Status == StatusFailed:
		span.SetAttributes(attribute.String("error.type", code))
		span.SetStatus(codes.Error, "")
	case r.result.Status != StatusCompleted:
		span.SetAttributes(attribute.Bool("lingserve.canceled", true))
	}
	span.End()
}

// endSpan closes the span and the account of a message that has got no run of its own: it was refused, or the turn of another run has taken it.
func (a *agentRun) endSpan(sp *spec) {
	if a.ownRun == nil {
		sp.account.Release()
	}
	if sp.span == nil || a.ownRun != nil {
		return
	}
	switch err := a.taken.err; {
	case err != nil:
		sp.span.SetAttributes(attribute.String("error.type", codeOf(err)))
		sp.span.SetStatus(codes.Error, "")
	case a.taken.id != "":
		sp.span.SetAttributes(attribute.String("lingserve.run.id", a.taken.id), attribute.Bool("lingserve.steered", true))
	}
	sp.span.End()
}

// traceReplay tells the trace of a request that another one had started its run before: by a span of its own, with a link to the run's.
func (s *Service) traceReplay(ctx context.Context, from trace.SpanContext, r *Run) {
	if s.o.Tracer == nil || !from.IsValid() {
		return
	}
	options := []trace.SpanStartOption{
		trace.WithSpanKind(trace.SpanKindServer),
		trace.WithAttributes(attribute.String("lingserve.run.id", r.ID), attribute.Bool("lingserve.replayed", true)),
	}
	if r.traced != nil { // not of a run from before a restart
		options = append(options, trace.WithLinks(trace.Link{SpanContext: *r.traced}))
	}
	name := "attach " + cmp.Or(r.Of.Workflow, r.Of.Agent)
	_, span := s.o.Tracer.Tracer(scope).Start(trace.ContextWithRemoteSpanContext(ctx, from), name, options...)
	span.End()
}
