package web

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/agent"
	webchannel "github.com/lingserve/lingserve/channel/web"
	"github.com/lingserve/lingserve/tape"
	"github.com/lingserve/lingserve/turn"
)

// spans are those of a server.
type spans struct {
	t testing.TB
	*tracetest.InMemoryExporter
	provider *sdk.TracerProvider
}

func newSpans(t testing.TB, options ...sdk.TracerProviderOption) *spans {
	s := &spans{t: t, InMemoryExporter: tracetest.NewInMemoryExporter()}
	s.provider = sdk.NewTracerProvider(append(options, sdk.WithSyncer(s))...)
	return s
}

// tree waits for so many spans and writes them below each other as they began, with these attributes.
func (s *spans) tree(n int, attributes ...string) string {
	s.t.Helper()
	eventually(s.t, fmt.Sprintf("there are %d spans", n), func() bool { return len(s.GetSpans()) >= n })
	all := s.GetSpans()
	known := map[trace.SpanID]bool{}
	for _, one := range all {
		known[one.SpanContext.SpanID()] = true
	}
	var b strings.Builder
	var show func(parent trace.SpanID, depth int)
	show = func(parent trace.SpanID, depth int) {
		var list []tracetest.SpanStub
		for _, one := range all {
			of := one.Parent.SpanID()
			if !known[of] {
				of = trace.SpanID{}
			}
			if of == parent {
				list = append(list, one)
			}
		}
		slices.SortStableFunc(list, func(a, b tracetest.SpanStub) int {
			return cmp.Or(a.StartTime.Compare(b.StartTime), cmp.Compare(a.Name, b.Name))
		})
		for _, one := range list {
			b.WriteString(strings.Repeat("  ", depth) + one.Name)
			for _, a := range one.Attributes {
				if slices.Contains(attributes, string(a.Key)) {
					fmt.Fprintf(&b, " %s=%s", a.Key, a.Value.String())
				}
			}
			for _, e := range one.Events {
				fmt.Fprintf(&b, " (%s)", e.Name)
			}
			if one.Status.Code == codes.Error {
				b.WriteString(" ERROR")
			}
			b.WriteString("\n")
			show(one.SpanContext.SpanID(), depth+1)
		}
	}
	show(trace.SpanID{}, 0)
	return b.String()
}

// root is the first of the spans that have none of the others above it.
func (s *spans) root(name string) tracetest.SpanStub {
	s.t.Helper()
	for _, one := range s.GetSpans() {
		if one.Name == name {
			return one
		}
	}
	s.t.Fatalf("there is no %s", name)
	return tracetest.SpanStub{}
}

const (
	parent   = "Traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	parentID = "0af7651916cd43dd8448eb211c80319c"
)

func TestARunIsATrace(t *testing.T) {
	s := newSpans(t)
	b := newBench(t, func(o *Options) { o.Tracer = s.provider }).serve()
	d := readDocument(t, b.do("POST", "/v1/runs", `{"workflow":"chat","input":{"question":"why is the sky blue"}}`))
	want := `invoke_workflow chat lingserve.run.status=completed
  invoke_agent writer lingserve.bot.root=article
    chat story gen_ai.provider.name=test lingserve.attempt=1 gen_ai.response.model=story gen_ai.usage.input_tokens=4 gen_ai.usage.output_tokens=6 (gen_ai.first_token)
`
	if got := s.tree(3, "lingserve.run.status", "lingserve.bot.root", "gen_ai.provider.name", "lingserve.attempt", "gen_ai.response.model",
		"gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens"); got != want {
		t.Errorf("%s", got)
	}
	root := s.root("invoke_workflow chat")
	if root.Parent.IsValid() || root.SpanKind != trace.SpanKindServer {
		t.Errorf("%+v", root)
	}
	if text := fmt.Sprintf("%+v", s.GetSpans()); strings.Contains(text, "Light is scattered") || strings.Contains(text, "sky blue") || d.Run == "" {
		t.Error("what was said is in a span")
	}
}

func TestARunIsBelowTheTraceOfWhoeverAsksForIt(t *testing.T) {
	unsampled := strings.TrimSuffix(parent, "01") + "00"
	for _, row := range []struct {
		name, header string
		options      []sdk.TracerProviderOption
		below        bool
	}{
		{"it is kept", parent, nil, true},
		{"its caller does not keep it, and callers are not asked", unsampled, []sdk.TracerProviderOption{sdk.WithSampler(sdk.AlwaysSample())}, true},
	} {
		s := newSpans(t, row.options...)
		b := newBench(t, func(o *Options) { o.Tracer = s.provider }).serve()
		readDocument(t, b.do("POST", "/v1/runs", askChat, row.header))
		s.tree(3)
		root := s.root("invoke_workflow chat")
		if below := root.Parent.IsRemote() && root.SpanContext.TraceID().String() == parentID; below != row.below {
			t.Errorf("%s: below: %v, %+v", row.name, below, root.Parent)
		}
	}
	s := newSpans(t)
	b := newBench(t, func(o *Options) { o.Tracer = s.provider }).serve()
	readDocument(t, b.do("POST", "/v1/runs", askChat, unsampled))
	b.down()
	if n := len(s.GetSpans()); n != 0 {
		t.Errorf("the caller does not keep its trace, and there are %d spans", n)
	}
}

// withModels lets an agent ask by the registry, and turns know its errors, as in a server.
func withModels(s *spans) func(*Options, *agent.Options) {
	return func(o *Options, ao *agent.Options) {
		o.Tracer, ao.Models = s.provider, o.Models
		o.Turns = turn.New(turn.Options{Workspace: o.Workspace, Log: o.Log, Code: func(err error) string {
			if e, ok := errors.AsType[*adapter.Error](err); ok {
				return e.Code
			}
			return ""
		}})
	}
}

// What a caller calls a session is not what its tape is called, and a run and its turn are to be found by the same word.
func TestATurnIsInTheTraceOfItsRun(t *testing.T) {
	k := newKeyring(t, "ann:user")
	for say, want := range map[string]string{
		"use weather":             "execute_tool weather",
		"use broken":              "execute_tool broken error.type=failed ERROR",
		"use nothing-of-the-kind": "execute_tool unknown error.type=unknown_tool ERROR",
		"use danger":              "execute_tool danger error.type=denied (lingserve.approval.asked) (lingserve.approval.answered) ERROR",
	} {
		t.Run(say, func(t *testing.T) {
			s := newSpans(t)
			a := newAgentBench(t, func(o *Options, ao *agent.Options) {
				withModels(s)(o, ao)
				o.Access.Door = k.door
			})
			a.serve()
			readDocument(t, a.say(say, "", parent, k.bearer["ann"]))
			want := "run assistant\n  invoke_agent assistant\n    chat talk (gen_ai.first_token)\n    " + want + "\n    chat talk (gen_ai.first_token)\n"
			if got := s.tree(5, "error.type"); got != want {
				t.Errorf("%s", got)
			}
			for _, name := range []string{"run assistant", "invoke_agent assistant"} {
				one := s.root(name)
				if one.SpanContext.TraceID().String() != parentID || !hasAttribute(one, "gen_ai.conversation.id", tape.Tag(webchannel.SessionKey("ann", "s"))) {
					t.Errorf("%+v", one)
				}
			}
			if text := fmt.Sprintf("%+v", s.GetSpans()); strings.Contains(text, "clear <") || strings.Contains(text, "out of order") ||
				strings.Contains(text, "A tool helps") || strings.Contains(text, "nothing-of-the-kind") {
				t.Error("what was said is in a span")
			}
		})
	}
}

func hasAttribute(s tracetest.SpanStub, key, value string) bool {
	for _, a := range s.Attributes {
		if string(a.Key) == key && a.Value.String() == value {
			return true
		}
	}
	return false
}

func TestATurnThatFailsSaysSoInItsTraceAndOnceInTheLog(t *testing.T) {
	s := newSpans(t)
	a := newAgentBench(t, withModels(s))
	a.serve()
	readProblem(t, a.say("fail", ""))
	want := `run assistant error.type=upstream_auth ERROR
  invoke_agent assistant error.type=upstream_auth ERROR
    chat talk error.type=upstream_auth ERROR
`
	if got := s.tree(3, "error.type"); got != want {
		t.Errorf("%s", got)
	}
	eventually(t, "the log has the run's end", func() bool { return strings.Contains(a.log.String(), `msg="run ended"`) })
	a.down()
	if log := a.log.String(); strings.Count(log, "level=ERROR") != 1 || strings.Contains(log, "level=WARN") {
		t.Errorf("expected one line that somebody must act on:\n%s", log)
	}
}
