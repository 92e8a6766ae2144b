package adapter

import (
	"context"
	"net/http"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// Names are those of OpenTelemetry's conventions for generative AI, which are not stable yet; what they have no name for begins with
// "lingserve.". No span has a word of what was asked or answered.

// scope is the name of the tracer.
const scope = "github.com/lingserve/lingserve/adapter"

// wellKnown are the names that the conventions have for providers, where they are not ours.
var wellKnown = map[string]string{"azure": "azure.ai.openai", "moonshot": "moonshot_ai", "mistral": "mistral_ai", "xai": "x_ai"}

// attemptSpan is the span of one request to a provider; nil where nobody traces.
type attemptSpan struct {
	span   trace.Span
	began  time.Time
	tokens bool // something of the answer is there
	usage  Usage
	used   bool // the provider has counted
	finish string
	model  string
}

// begin opens the span of the n-th attempt. It has the span of whoever asks above it, which also says where spans go: without one, or
// where that is not kept, there is none, at the cost of a look.
func (g *guarded) begin(ctx context.Context, req *Request, n int) (context.Context, *attemptSpan) {
	parent := trace.SpanFromContext(ctx)
	if !parent.IsRecording() {
		return ctx, nil
	}
	provider := g.provider
	if name, ok := wellKnown[provider]; ok {
		provider = name
	}
	attrs := append(make([]attribute.KeyValue, 0, 12),
		attribute.String("gen_ai.operation.name", "chat"), attribute.String("gen_ai.provider.name", provider),
		attribute.String("gen_ai.request.model", g.name), attribute.Bool("gen_ai.request.stream", true), attribute.Int("lingserve.attempt", n))
	if req.Temperature != nil {
		attrs = append(attrs, attribute.Float64("gen_ai.request.temperature", *req.Temperature))
	}
	if req.TopP != nil {
		attrs = append(attrs, attribute.Float64("gen_ai.request.top_p", *req.TopP))
	}
	if req.MaxTokens != nil {
		attrs = append(attrs, attribute.Int("gen_ai.request.max_tokens", *req.MaxTokens))
	}
	if req.Seed != nil {
		attrs = append(attrs, attribute.Int("gen_ai.request.seed", *req.Seed))
	}
	if req.Format.JSON {
		attrs = append(attrs, attribute.String("gen_ai.output.type", "json"))
	}
	s := &attemptSpan{began: time.Now()}
	ctx, s.span = parent.TracerProvider().Tracer(scope).Start(ctx, "chat "+g.name, trace.WithSpanKind(trace.SpanKindClient),
		trace.WithTimestamp(s.began), trace.WithAttributes(attrs...))
	return ctx, s
}

// longWait is what a request must have waited for its slot so that the span says so.
const longWait = time.Millisecond

// inSlot says that the request has its slot and is sent now.
func (s *attemptSpan) inSlot() {
	if s == nil {
		return
	}
	if waited := time.Since(s.began); waited >= longWait {
		s.span.SetAttributes(attribute.Float64("lingserve.slot.wait", waited.Seconds()))
	}
}

// saw looks at a chunk; token says that there is something of the answer in it.
func (s *attemptSpan) saw(c *Chunk, token bool) {
	if token && !s.tokens {
		s.tokens = true
		now := time.Now()
		s.span.AddEvent("gen_ai.first_token", trace.WithTimestamp(now))
		s.span.SetAttributes(attribute.Float64("gen_ai.response.time_to_first_chunk", now.Sub(s.began).Seconds()))
	}
	if c.Usage != nil {
		s.usage, s.used = *c.Usage, true
	}
	if c.Finish != "" {
		s.finish = c.Finish
	}
	if c.Model != "" {
		s.model = c.Model
	}
}

// end closes the span. over is the context's cause where whoever asked has ended it, err what the attempt has failed of.
func (s *attemptSpan) end(over, err error) {
	if s == nil {
		return
	}
	if s.model != "" {
		_, name, ok := strings.Cut(s.model, ":")
		if !ok {
			name = s.model
		}
		s.span.SetAttributes(attribute.String("gen_ai.response.model", name))
	}
	if s.finish != "" {
		s.span.SetAttributes(attribute.StringSlice("gen_ai.response.finish_reasons", []string{s.finish}))
	}
	if u := s.usage; s.used {
		s.span.SetAttributes(attribute.Int("gen_ai.usage.input_tokens", u.PromptTokens), attribute.Int("gen_ai.usage.output_tokens", u.CompletionTokens))
		for _, more := range [...]struct {
			name   string
			tokens int
		}{
			{"gen_ai.usage.cache_read.input_tokens", u.CachedTokens},
			{"gen_ai.usage.cache_creation.input_tokens", u.CacheWriteTokens},
			{"gen_ai.usage.reasoning.output_tokens", u.ReasoningTokens},
			{"lingserve.usage.audio_tokens", u.AudioTokens},
		} {
			if more.tokens > 0 {
				s.span.SetAttributes(attribute.Int(more.name, more.tokens))
			}
		}
		if u.Cost > 0 {
			s.span.SetAttributes(attribute.Float64("lingserve.usage.cost", float64(u.Cost)/1e6))
		}
	}
	switch {
	case over != nil, err == nil && s.finish == "": // nobody wanted the rest
		s.span.SetAttributes(attribute.Bool("lingserve.canceled", true))
	case err != nil:
		e := asError(err)
		s.span.SetAttributes(attribute.String("error.type", e.Code))
		if e.Status != 0 {
			s.span.SetAttributes(attribute.Int("http.response.status_code", e.Status))
		}
		s.span.SetStatus(codes.Error, Redact(e.Message))
	}
	s.span.End()
}

// Propagate returns a transport that tells the server the trace that a request belongs to, in the header "traceparent" of W3C Trace
// Context. It is for servers that are the operator's own: to anybody else the ids say when requests belong together. Requests
// outside of traces are sent as they are.
func Propagate(next http.RoundTripper) http.RoundTripper { return propagator{next} }

type propagator struct{ next http.RoundTripper }

func (p propagator) RoundTrip(r *http.Request) (*http.Response, error) {
	if trace.SpanContextFromContext(r.Context()).IsValid() {
		r = r.Clone(r.Context()) // a transport leaves requests as they are
		propagation.TraceContext{}.Inject(r.Context(), propagation.HeaderCarrier(r.Header))
	}
	return p.next.RoundTrip(r)
}

// CloseIdleConnections closes those of the transport.
func (p propagator) CloseIdleConnections() {
	if c, ok := p.next.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}
