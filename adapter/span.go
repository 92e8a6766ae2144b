package adapter

import (
	"cmp"
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

// attempt is one request to a provider as it is traced and observed.
type attempt struct {
	span     trace.Span
	observer Attempt
	began    time.Time
	tokens   bool // something of the answer is there
	usage    Usage
	counted  bool // the provider has counted
	finish   string
	model    string
}

// notObserved is an attempt without an observer.
type notObserved struct{}

func (notObserved) Sent()             {}
func (notObserved) First()            {}
func (notObserved) End(string, Usage) {}

// begin begins the n-th attempt. Its span has that of ctx above it, which also says where spans go: without one, or where that is not kept,
// nothing is recorded.
func (g *guarded) begin(ctx context.Context, req *Request, n int) (context.Context, *attempt) {
	a := &attempt{began: time.Now(), span: trace.SpanFromContext(context.Background()), observer: notObserved{}}
	if g.Observer != nil {
		a.observer = g.Observer.Ask(g.provider, g.name, n)
	}
	if parent := trace.SpanFromContext(ctx); parent.IsRecording() {
		ctx, a.span = parent.TracerProvider().Tracer(scope).Start(ctx, "chat "+g.name, trace.WithSpanKind(trace.SpanKindClient),
			trace.WithTimestamp(a.began), trace.WithAttributes(g.attributes(req, n)...))
	}
	return ctx, a
}

// attributes are those of the span of an attempt.
func (g *guarded) attributes(req *Request, n int) []attribute.KeyValue {
	attrs := []attribute.KeyValue{
		attribute.String("gen_ai.operation.name", "chat"), attribute.String("gen_ai.provider.name", cmp.Or(wellKnown[g.provider], g.provider)),
		attribute.String("gen_ai.request.model", g.name), attribute.Bool("gen_ai.request.stream", true), attribute.Int("lingserve.attempt", n),
	}
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
	return attrs
}

// longWait is what a request must have waited for its slot so that the span says so.
const longWait = time.Millisecond

// saw records a chunk; token reports whether the chunk has a piece of the answer.
func (a *attempt) saw(c *Chunk, token bool) {
	if token && !a.tokens {
		a.tokens = true
		now := time.Now()
		a.span.AddEvent("gen_ai.first_token", trace.WithTimestamp(now))
		a.span.SetAttributes(attribute.Float64("gen_ai.response.time_to_first_chunk", now.Sub(a.began).Seconds()))
		a.observer.First()
	}
	if c.Usage != nil {
		a.usage, a.counted = *c.Usage, true
	}
	a.finish = cmp.Or(c.Finish, a.finish)
	a.model = cmp.Or(c.Model, a.model)
}

// end ends the attempt. over is the context's cause where the caller has ended it, err what the attempt has failed of.
func (a *attempt) end(over, err error) {
	switch {
	case err == nil && a.finish != "":
		a.observer.End(Complete, a.usage)
	case err == nil || over != nil:
		a.observer.End(Left, a.usage)
	default:
		a.observer.End(AsError(err).Code, a.usage)
	}
	if a.span.IsRecording() {
		a.endSpan(over, err)
	}
}

func (a *attempt) endSpan(over, err error) {
	if a.model != "" {
		_, name, _ := strings.Cut(a.model, ":")
		a.span.SetAttributes(attribute.String("gen_ai.response.model", cmp.Or(name, a.model)))
	}
	if a.finish != "" {
		a.span.SetAttributes(attribute.StringSlice("gen_ai.response.finish_reasons", []string{a.finish}))
	}
	if u := a.usage; a.counted {
		a.span.SetAttributes(attribute.Int("gen_ai.usage.input_tokens", u.PromptTokens), attribute.Int("gen_ai.usage.output_tokens", u.CompletionTokens))
		for _, count := range []attribute.KeyValue{
			attribute.Int("gen_ai.usage.cache_read.input_tokens", u.CachedTokens),
			attribute.Int("gen_ai.usage.cache_creation.input_tokens", u.CacheWriteTokens),
			attribute.Int("gen_ai.usage.reasoning.output_tokens", u.ReasoningTokens),
			attribute.Int("lingserve.usage.audio_tokens", u.AudioTokens),
		} {
			if count.Value.AsInt64() > 0 {
				a.span.SetAttributes(count)
			}
		}
		if u.Cost > 0 {
			a.span.SetAttributes(attribute.Float64("lingserve.usage.cost", float64(u.Cost)/1e6))
		}
	}
	switch {
	case over != nil, err == nil && a.finish == "": // the rest was not wanted
		a.span.SetAttributes(attribute.Bool("lingserve.canceled", true))
	case err != nil:
		e := AsError(err)
		a.span.SetAttributes(attribute.String("error.type", e.Code))
		if e.Status != 0 {
			a.span.SetAttributes(attribute.Int("http.response.status_code", e.Status))
		}
		a.span.SetStatus(codes.Error, Redact(e.Message))
	}
	a.span.End()
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
