package web

import (
	"context"
	"net/http"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// traceOf is what the header "traceparent" says of a request (W3C Trace Context); zero where there is none, or rubbish.
//
// It becomes the parent of the run that the request starts: whoever has asked finds the run in the trace in which it asked, which is
// what a trace is for. That a run goes on when its request has ended is nothing that a trace could not show. A request that finds a
// run which another one has started cannot become its second parent; it is linked (see [run.Service.Start]).
func traceOf(r *http.Request) trace.SpanContext {
	if r.Header.Get("Traceparent") == "" {
		return trace.SpanContext{}
	}
	ctx := propagation.TraceContext{}.Extract(context.Background(), propagation.HeaderCarrier(r.Header))
	return trace.SpanContextFromContext(ctx)
}
