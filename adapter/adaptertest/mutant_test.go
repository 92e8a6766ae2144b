package adaptertest

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/openai"
)

// mutants are adapters that are wrong in one way each, and the part of the suite that is to notice.
var mutants = []struct {
	name, part string
	options    func(*openai.Options)
	transport  func(http.RoundTripper) http.RoundTripper
	stream     func(ask stream, ctx context.Context, req adapter.Request, yield func(adapter.Chunk, error) bool)
}{
	{name: "none", part: "(answers|requests|behaviours|refusals|words|redirects|TLS|connections)"},
	{name: "takes what was cut off for whole", part: "behaviours", stream: each(func(c adapter.Chunk, err error) (adapter.Chunk, error) {
		if e, ok := errors.AsType[*adapter.Error](err); ok && strings.Contains(e.Message, "cut off") {
			return adapter.Chunk{Finish: adapter.FinishStop}, nil
		}
		return c, err
	})},
	{name: "takes half a call for whole", part: "an answer cut off anywhere", stream: each(func(c adapter.Chunk, err error) (adapter.Chunk, error) {
		if e, ok := errors.AsType[*adapter.Error](err); ok && strings.Contains(e.Message, "cut off") {
			return adapter.Chunk{Finish: adapter.FinishToolCalls}, nil
		}
		return c, err
	})},
	{name: "goes on when its context has ended", part: "behaviours", stream: func(ask stream, ctx context.Context, req adapter.Request, yield func(adapter.Chunk, error) bool) {
		ask(context.WithoutCancel(ctx), req)(yield)
	}},
	{name: "goes on when its reader has left", part: "behaviours", stream: func(ask stream, ctx context.Context, req adapter.Request, yield func(adapter.Chunk, error) bool) {
		left := false
		for c, err := range ask(ctx, req) {
			left = left || !yield(c, err)
		}
	}},
	{name: "waits for the whole answer", part: "behaviours", stream: func(ask stream, ctx context.Context, req adapter.Request, yield func(adapter.Chunk, error) bool) {
		var all []adapter.Chunk
		for c, err := range ask(ctx, req) {
			if err != nil {
				yield(c, err)
				return
			}
			all = append(all, c)
		}
		for _, c := range all {
			if !yield(c, nil) {
				return
			}
		}
	}},
	{name: "speaks before there is a token", part: "behaviours", stream: func(ask stream, ctx context.Context, req adapter.Request, yield func(adapter.Chunk, error) bool) {
		if !yield(adapter.Chunk{Model: "openai:m"}, nil) {
			return
		}
		for c, err := range ask(ctx, req) {
			c.Model = ""
			if !yield(c, err) {
				return
			}
		}
	}},
	{name: "asks again by itself", part: "refusals", stream: func(ask stream, ctx context.Context, req adapter.Request, yield func(adapter.Chunk, error) bool) {
		for range ask(ctx, req) {
			break
		}
		ask(ctx, req)(yield)
	}},
	{name: "does not say which model", part: "behaviours", stream: each(func(c adapter.Chunk, err error) (adapter.Chunk, error) {
		c.Model = ""
		return c, err
	})},
	{name: "ends twice", part: "answers", stream: func(ask stream, ctx context.Context, req adapter.Request, yield func(adapter.Chunk, error) bool) {
		for c, err := range ask(ctx, req) {
			if !yield(c, err) || c.Finish != "" && !yield(c, nil) {
				return
			}
		}
	}},
	{name: "goes on after an error", part: "refusals", stream: func(ask stream, ctx context.Context, req adapter.Request, yield func(adapter.Chunk, error) bool) {
		for c, err := range ask(ctx, req) {
			if !yield(c, err) || err != nil && !yield(adapter.Chunk{Text: "b"}, nil) {
				return
			}
		}
	}},
	{name: "loses the usage", part: "answers", stream: each(func(c adapter.Chunk, err error) (adapter.Chunk, error) {
		c.Usage = nil
		return c, err
	})},
	{name: "loses reasoning", part: "answers", stream: each(func(c adapter.Chunk, err error) (adapter.Chunk, error) {
		c.Reasoning = ""
		return c, err
	})},
	{name: "mixes up calls", part: "answers", stream: each(func(c adapter.Chunk, err error) (adapter.Chunk, error) {
		if c.ToolCall != nil {
			c.ToolCall = &adapter.ToolCall{ID: c.ToolCall.ID, Name: c.ToolCall.Name, Arguments: c.ToolCall.Arguments}
		}
		return c, err
	})},
	{name: "cuts characters", part: "answers", stream: each(func(c adapter.Chunk, err error) (adapter.Chunk, error) {
		c.Text = strings.ToValidUTF8(c.Text[:len(c.Text)/2], "") + c.Text[len(c.Text)/2:]
		return c, err
	})},
	{name: "forgets how long to wait", part: "refusals", stream: wrong(func(e *adapter.Error) { e.RetryAfter = 0 })},
	{name: "has everything tried again", part: "refusals", stream: wrong(func(e *adapter.Error) { e.Retryable = true })},
	{name: "says what the provider says", part: "words of the provider", stream: wrong(func(e *adapter.Error) { e.Message += e.Cause.Error() })},
	{name: "keeps the key in a cause", part: "words of the provider", stream: wrong(func(e *adapter.Error) { e.Cause = fmt.Errorf("%w: %s", e.Cause, Key) })},
	{name: "returns errors of its own", part: "refusals", stream: each(func(c adapter.Chunk, err error) (adapter.Chunk, error) {
		if err != nil {
			err = errors.New("it failed")
		}
		return c, err
	})},
	{name: "takes events of any size", part: "huge events/a limit of its own", options: func(o *openai.Options) { o.MaxEvent = 1 << 30 }},
	{name: "trusts anybody", part: "TLS", options: func(o *openai.Options) {
		o.Transport = &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	}},
	{name: "follows redirects", part: "redirects", transport: func(t http.RoundTripper) http.RoundTripper {
		return trip(func(r *http.Request) (*http.Response, error) {
			return (&http.Client{Transport: t}).Do(r.Clone(r.Context()))
		})
	}},
	{name: "makes a connection for each answer", part: "connections", transport: func(t http.RoundTripper) http.RoundTripper {
		return trip(func(r *http.Request) (*http.Response, error) {
			r.Close = true
			return t.RoundTrip(r)
		})
	}},
	{name: "does not send the key", part: "requests", options: func(o *openai.Options) { o.Key = "" }},
}

type stream func(context.Context, adapter.Request) iter.Seq2[adapter.Chunk, error]

// each changes every pair.
func each(change func(adapter.Chunk, error) (adapter.Chunk, error)) func(stream, context.Context, adapter.Request, func(adapter.Chunk, error) bool) {
	return func(ask stream, ctx context.Context, req adapter.Request, yield func(adapter.Chunk, error) bool) {
		for c, err := range ask(ctx, req) {
			if !yield(change(c, err)) {
				return
			}
		}
	}
}

// wrong changes every error.
func wrong(change func(*adapter.Error)) func(stream, context.Context, adapter.Request, func(adapter.Chunk, error) bool) {
	return each(func(c adapter.Chunk, err error) (adapter.Chunk, error) {
		if e, ok := errors.AsType[*adapter.Error](err); ok {
			e := *e
			change(&e)
			err = &e
		}
		return c, err
	})
}

// mutant is a provider of which the models' streams are changed.
type mutant struct {
	adapter.Provider
	stream func(stream, context.Context, adapter.Request, func(adapter.Chunk, error) bool)
}

func (p mutant) Model(name string) (adapter.Model, error) {
	m, err := p.Provider.Model(name)
	return mutated{m, p.stream}, err
}

type mutated struct {
	adapter.Model
	stream func(stream, context.Context, adapter.Request, func(adapter.Chunk, error) bool)
}

func (m mutated) Stream(ctx context.Context, req adapter.Request) iter.Seq2[adapter.Chunk, error] {
	if m.stream == nil {
		return m.Model.Stream(ctx, req)
	}
	return func(yield func(adapter.Chunk, error) bool) { m.stream(m.Model.Stream, ctx, req, yield) }
}

const mutantVariable = "ADAPTERTEST_MUTANT"

// TestMutant is the suite over the mutant that the environment names. It is for the test below, which wants it to fail.
func TestMutant(t *testing.T) {
	name := os.Getenv(mutantVariable)
	if name == "" {
		t.Skip("no mutant is named")
	}
	for _, m := range mutants {
		if m.name != name {
			continue
		}
		Run(t, Subject{
			Prefix: "openai", KeyName: "OPENAI_API_KEY",
			New: func(t testing.TB, o Options) adapter.Provider {
				made := openai.Options{BaseURL: o.BaseURL, Key: o.Key, Transport: o.Transport, MaxEvent: o.MaxEvent}
				if m.options != nil {
					m.options(&made)
				}
				if m.transport != nil {
					made.Transport = m.transport(made.Transport)
				}
				p, err := openai.New(made)
				if err != nil {
					t.Fatal(err)
				}
				return mutant{p, m.stream}
			},
			Wire: OpenAI,
		})
	}
}

// A suite that nothing can fail shows nothing: each mutant fails in the part that is to notice it, and the adapter without a
// mistake in none.
func TestEveryMutantFails(t *testing.T) {
	if testing.Short() {
		t.Skip("it runs the suite many times")
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			pattern := strings.ReplaceAll(m.part, " ", "_")
			part, _, _ := strings.Cut(pattern, "/")
			cmd := exec.CommandContext(t.Context(), program, "-test.run=^TestMutant$/^"+pattern, "-test.timeout=1m")
			cmd.Env = append(os.Environ(), mutantVariable+"="+m.name)
			out, err := cmd.CombinedOutput()
			switch {
			case m.name == "none":
				if err != nil {
					t.Errorf("%v\n%s", err, out)
				}
			case err == nil:
				t.Errorf("it passes %q", m.part)
			case !strings.Contains(string(out), "--- FAIL: TestMutant/"+part):
				t.Errorf("it fails otherwise than by %q: %s", m.part, out[:min(len(out), 4000)])
			}
		})
	}
}
