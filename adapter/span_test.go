package adapter

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
)

// inTurn answers one request after the other.
type inTurn struct {
	asked   int
	answers []func(yield func(Chunk, error) bool)
}

func (m *inTurn) Stream(context.Context, Request) iter.Seq2[Chunk, error] {
	m.asked++
	return m.answers[m.asked-1]
}

func traced(t *testing.T) (context.Context, func() []tracetest.SpanStub) {
	spans := tracetest.NewInMemoryExporter()
	p := sdk.NewTracerProvider(sdk.WithSyncer(spans))
	ctx, parent := p.Tracer("test").Start(t.Context(), "parent")
	t.Cleanup(func() { parent.End() })
	return ctx, func() []tracetest.SpanStub { return spans.GetSpans() }
}

func describe(s tracetest.SpanStub) string {
	var b strings.Builder
	b.WriteString(s.Name)
	for _, a := range s.Attributes {
		fmt.Fprintf(&b, " %s=%s", a.Key, a.Value.String())
	}
	for _, e := range s.Events {
		fmt.Fprintf(&b, " (%s)", e.Name)
	}
	if s.Status.Code == codes.Error {
		b.WriteString(" ERROR " + s.Status.Description)
	}
	return b.String()
}

func TestEachAttemptHasASpan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, spans := traced(t)
		temperature := 0.5
		m := &inTurn{answers: []func(func(Chunk, error) bool){
			func(yield func(Chunk, error) bool) {
				time.Sleep(time.Second)
				yield(Chunk{}, &Error{Code: CodeRateLimited, Message: "too many, said sk-CANARY-012345", Retryable: true, Status: 429})
			},
			func(yield func(Chunk, error) bool) {
				time.Sleep(2 * time.Second)
				_ = yield(Chunk{Model: "azure:gpt-4o-2026"}, nil) &&
					yield(Chunk{Text: "blue"}, nil) &&
					yield(Chunk{Text: " sky", Usage: &Usage{PromptTokens: 3, CompletionTokens: 4, CachedTokens: 2, CacheWriteTokens: 1, ReasoningTokens: 3, AudioTokens: 1, Cost: 1500}}, nil) &&
					yield(Chunk{Finish: FinishStop}, nil)
			},
		}}
		g := &guarded{Registry: new(Registry), model: m, provider: "azure", name: "gpt-4o"}
		for _, err := range g.Stream(ctx, Request{Options: Options{Temperature: &temperature}, Format: Format{JSON: true}}) {
			if err != nil {
				t.Fatal(err)
			}
		}
		const common = "chat gpt-4o gen_ai.operation.name=chat gen_ai.provider.name=azure.ai.openai gen_ai.request.model=gpt-4o gen_ai.request.stream=true " +
			"lingserve.attempt=%d gen_ai.request.temperature=0.5 gen_ai.output.type=json"
		for i, want := range []string{
			fmt.Sprintf(common, 1) + " error.type=upstream_rate_limited http.response.status_code=429 ERROR too many, said sk-***",
			fmt.Sprintf(common, 2) + " gen_ai.response.time_to_first_chunk=2 gen_ai.response.model=gpt-4o-2026 gen_ai.response.finish_reasons=[\"stop\"] " +
				"gen_ai.usage.input_tokens=3 gen_ai.usage.output_tokens=4 " +
				"gen_ai.usage.cache_read.input_tokens=2 gen_ai.usage.cache_creation.input_tokens=1 gen_ai.usage.reasoning.output_tokens=3 lingserve.usage.audio_tokens=1 lingserve.usage.cost=0.0015 (gen_ai.first_token)",
		} {
			if got := describe(spans()[i]); got != want {
				t.Errorf("\n%s\n%s", got, want)
			}
		}
		if first := spans()[0]; first.SpanKind != trace.SpanKindClient || first.EndTime.Sub(first.StartTime) != time.Second {
			t.Errorf("%v, %v", first.SpanKind, first.EndTime.Sub(first.StartTime))
		}
	})
}

func TestWhatNobodyWantsAnyMoreHasNotFailed(t *testing.T) {
	for _, row := range []struct {
		name string
		ask  func(g *guarded, ctx context.Context)
	}{
		{"its reader has left", func(g *guarded, ctx context.Context) {
			for range g.Stream(ctx, Request{}) {
				break
			}
		}},
		{"its context has ended", func(g *guarded, ctx context.Context) {
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			for range g.Stream(ctx, Request{}) {
				cancel()
			}
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			ctx, spans := traced(t)
			row.ask(&guarded{Registry: new(Registry), model: untilCanceled{}, name: "m"}, ctx)
			got := describe(spans()[0])
			if !strings.Contains(got, "lingserve.canceled=true") || strings.Contains(got, "ERROR") || strings.Contains(got, "error.type") {
				t.Error(got)
			}
		})
	}
}

// untilCanceled says a word and then waits for the end of its context.
type untilCanceled struct{}

func (untilCanceled) Stream(ctx context.Context, _ Request) iter.Seq2[Chunk, error] {
	return func(yield func(Chunk, error) bool) {
		if yield(Chunk{Text: "word"}, nil) {
			<-ctx.Done()
			yield(Chunk{}, context.Cause(ctx))
		}
	}
}

func TestARequestThatWaitsForItsSlotSaysHowLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, spans := traced(t)
		r := &Registry{Slots: Slots{Max: 1}}
		r.Register("p", providerOf{untilCanceled{}})
		m, err := r.Model("p:m")
		if err != nil {
			t.Fatal(err)
		}
		next, stop := iter.Pull2(m.Stream(t.Context(), Request{}))
		next()
		time.AfterFunc(3*time.Second, stop)
		for range m.Stream(ctx, Request{}) {
			break
		}
		if got := describe(spans()[0]); !strings.Contains(got, " lingserve.slot.wait=3") {
			t.Error(got)
		}
	})
}

type providerOf struct{ m Model }

func (p providerOf) Model(string) (Model, error) { return p.m, nil }
func (providerOf) Names() []string               { return nil }

func TestWithoutASpanAboveThereIsNone(t *testing.T) {
	g := &guarded{Registry: new(Registry)}
	ctx, a := g.begin(t.Context(), &Request{}, 1)
	if a.span.IsRecording() || ctx != t.Context() {
		t.Errorf("%v", a.span)
	}
}

// headers keeps what was sent.
type headers []http.Header

func (h *headers) RoundTrip(r *http.Request) (*http.Response, error) {
	*h = append(*h, r.Header)
	return &http.Response{StatusCode: 200, Body: http.NoBody}, nil
}

func TestOnlyWhoIsToBeToldIsToldOfATrace(t *testing.T) {
	ctx, _ := traced(t)
	id := trace.SpanContextFromContext(ctx)
	var sent headers
	for _, row := range []struct {
		name string
		ctx  context.Context
		want string
	}{
		{"in a trace", ctx, "00-" + id.TraceID().String() + "-" + id.SpanID().String() + "-01"},
		{"in none", t.Context(), ""},
	} {
		r, _ := http.NewRequestWithContext(row.ctx, "POST", "http://model.invalid/v1", nil)
		resp, err := Propagate(&sent).RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if got := sent[len(sent)-1].Get("Traceparent"); got != row.want {
			t.Errorf("%s: %q", row.name, got)
		}
		if r.Header.Get("Traceparent") != "" {
			t.Error("the caller's request was changed")
		}
	}
}
