package agent

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/openai"
	"github.com/lingserve/lingserve/bot"
	"github.com/lingserve/lingserve/internal/fakeproviders"
	"github.com/lingserve/lingserve/tube"
)

// MO-26: agents and workflows ask the next model by one rule: for whatever the first one failed of, as long as nothing was shown.
func TestAgentsAndBotsAskTheNextModelByOneRule(t *testing.T) {
	refuse := func(status int, body string) fakeproviders.Answer {
		return fakeproviders.Answer{Status: status, Body: body}
	}
	long := `{"error":{"message":"This model's maximum context length is 8192 tokens.","code":"context_length_exceeded"}}`
	for _, row := range []struct {
		name   string
		first  fakeproviders.Answer // of the first model, to each request
		asked  int                  // how often the first model is asked
		output string
		code   string // of the error; "" where the second model answers
	}{
		{"it answers", fakeproviders.Answer{Text: "from a"}, 1, "from a", ""},
		{"overload", refuse(529, `{"error":{"type":"overloaded_error"}}`), 3, "from b", ""},
		{"a broken server", refuse(500, ""), 3, "from b", ""},
		{"a rate limit", refuse(429, ""), 3, "from b", ""},
		{"a rate limit of an hour", fakeproviders.Answer{Status: 429, Header: http.Header{"Retry-After": {"3600"}}}, 1, "from b", ""},
		{"no quota", refuse(429, `{"error":{"code":"insufficient_quota"}}`), 1, "from b", ""},
		{"authentication", refuse(401, ""), 1, "from b", ""},
		{"no such model", refuse(404, ""), 1, "from b", ""},
		{"a request that it does not take", refuse(400, `{"error":{"param":"top_p"}}`), 1, "from b", ""},
		{"a filter of the request", refuse(400, `{"error":{"code":"content_filter"}}`), 1, "from b", ""},
		{"a filter of the answer, before any text", fakeproviders.Answer{Finish: "content_filter"}, 1, "from b", ""},
		{"a filter of the answer, behind text", fakeproviders.Answer{Text: "half", Finish: "content_filter"}, 1, "half", adapter.CodeProtocol},
		{"a context that is too small", refuse(400, long), 1, "from b", ""},
		{"an empty answer", fakeproviders.Answer{}, 2, "from b", ""},
		{"an answer that is cut off before any text", fakeproviders.Answer{Finish: "-"}, 3, "from b", ""},
		{"an answer that is cut off in its text", fakeproviders.Answer{Text: "half", Finish: "-"}, 1, "half", adapter.CodeProtocol},
		{"an answer that is cut off in a thought", fakeproviders.Answer{Reasoning: "Hm", Finish: "-"}, 1, "", adapter.CodeProtocol},
		{"a connection that breaks", fakeproviders.Answer{Raw: []fakeproviders.Raw{{Bytes: "\n"}, {Cut: true}}}, 3, "from b", ""},
	} {
		models := func(t *testing.T) (*adapter.Registry, func() map[string]int) {
			var mu sync.Mutex
			asked := map[string]int{}
			server := &fakeproviders.Server{Script: func(r fakeproviders.Request) fakeproviders.Answer {
				mu.Lock()
				defer mu.Unlock()
				asked[r.Model]++
				if r.Model == "a" {
					return row.first
				}
				return fakeproviders.Answer{Text: "from b"}
			}}
			t.Cleanup(func() { synctest.Wait(); server.Close() })
			p, err := openai.New(openai.Options{BaseURL: "http://upstream/v1", Key: "key", Transport: server.Transport()})
			if err != nil {
				t.Fatal(err)
			}
			r := &adapter.Registry{}
			r.Register("openai", p)
			return r, func() map[string]int {
				mu.Lock()
				defer mu.Unlock()
				return asked
			}
		}
		check := func(t *testing.T, output string, err error, asked map[string]int) {
			t.Helper()
			want := map[string]int{"a": row.asked}
			if row.output == "from b" {
				want["b"] = 1
			}
			if diff := cmp.Diff(want, asked); diff != "" {
				t.Error(diff)
			}
			e, _ := errors.AsType[*adapter.Error](err)
			if output != row.output || (err == nil) != (row.code == "") || err != nil && (e == nil || e.Code != row.code) {
				t.Errorf("%q, %v", output, err)
			}
		}
		t.Run("an agent: "+row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, asked := models(t)
				w := newWorld(t, nil, Options{Models: r, Model: "openai:a", Fallback: []string{"openai:b"}})
				h := w.process(t.Context(), message("go"))
				check(t, h.Output, h.err, asked())
				if got := strings.Join(w.lines(), "\n"); strings.Contains(got, "auto_handoff") {
					t.Error(got)
				}
			})
		})
		t.Run("a bot: "+row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, asked := models(t)
				var wg sync.WaitGroup
				events := tube.New("run", &tube.Options{})
				b := bot.New(bot.Env{
					Context: t.Context(), Models: r, Tube: events,
					Go: func(f func(context.Context)) bool {
						wg.Go(func() { f(t.Context()) })
						return true
					},
				}, "b", "b", bot.Config{Model: "openai:a, openai:b", Format: bot.Text})
				if err := b.Chat(bot.Message{Text: "go"}); err != nil {
					t.Fatal(err)
				}
				_, err := b.Wait(t.Context())
				wg.Wait()
				_ = events.Close("completed")
				var text string
				for e, err := range events.Events(t.Context(), 0) {
					if err != nil || e.Terminal() {
						break
					}
					if e.Kind == tube.Append && string(e.URI) == "b" {
						text += string(e.Value)
					}
				}
				check(t, text, err, asked())
			})
		})
	}
}

// MO-26: a call that nobody has seen yet is no answer; one more try of an empty answer may help; and a past that no model takes is left behind.
func TestWhatNobodyHasSeenIsReplaced(t *testing.T) {
	half := adapter.Chunk{ToolCall: &adapter.ToolCall{ID: "c1", Name: "echo", Arguments: `{"te`}, Usage: &some}
	another := adapter.Chunk{ToolCall: &adapter.ToolCall{Index: 1, ID: "c2", Name: "echo", Arguments: `{"te`}}
	stop := adapter.Chunk{Finish: adapter.FinishStop, Usage: &some}
	for name, test := range map[string]struct {
		script []say
		asked  []string
		output string
		tokens int
		err    error
	}{
		"half a call":                   {[]say{fails(downError, half), answers("b")}, []string{"a:1", "b:1"}, "b", 14, nil},
		"half of a second call":         {[]say{fails(downError, half, another), answers("b")}, []string{"a:1"}, "", 7, downError},
		"nothing":                       {[]say{chunks(stop), answers("b")}, []string{"a:1", "b:1"}, "b", 14, nil},
		"too long for one":              {[]say{fails(tooLongError), answers("b")}, []string{"a:1", "b:1"}, "b", 7, nil},
		"too long for both":             {[]say{fails(tooLongError), fails(tooLongError), answers("a")}, []string{"a:1", "b:1", "a:1"}, "a", 7, nil},
		"too long, and one without key": {[]say{fails(tooLongError), fails(&adapter.Error{Code: adapter.CodeAuth, Message: "no key"}), answers("a")}, []string{"a:1", "b:1", "a:1"}, "a", 7, nil},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, newFake(test.script...), Options{Model: "a:1", Fallback: []string{"b:1"}})
			h := w.process(t.Context(), message("go"))
			if !errors.Is(h.err, test.err) || h.Output != test.output || h.Usage.TotalTokens != test.tokens {
				t.Errorf("%q %v, %d tokens", h.Output, h.err, h.Usage.TotalTokens)
			}
			if diff := cmp.Diff(test.asked, w.model.names); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// DV-11: an answer of thoughts is no answer, nor is nothing.
func TestAnAnswerThatSaysNothingFails(t *testing.T) {
	thinks := []adapter.Chunk{{Reasoning: "hm", Model: "fake:m"}}
	stop := adapter.Chunk{Finish: adapter.FinishStop, Usage: &some}
	length := adapter.Chunk{Finish: adapter.FinishLength, Usage: &some}
	for name, row := range map[string]struct {
		script []say
		asked  int
		output string
		says   string // the error; "" is none
	}{
		"nothing of both":                    {[]say{chunks(stop)}, 2, "", "the model's answer was empty"},
		"thoughts of both":                   {[]say{chunks(append(thinks, stop)...)}, 2, "", "the model's answer was empty"},
		"thoughts, and the next one answers": {[]say{chunks(append(thinks, stop)...), answers("b")}, 2, "b", ""},
		"thoughts up to the limit":           {[]say{chunks(append(thinks, length)...)}, 2, "", "reached its limit of tokens before it said anything"},
		"text up to the limit":               {[]say{chunks(adapter.Chunk{Text: "a"}, length)}, 1, "a", ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, newFake(row.script...), Options{Model: "a:1", Fallback: []string{"b:1"}})
			h := w.process(t.Context(), message("go"))
			if len(w.model.requests()) != row.asked || h.Output != row.output || (h.err == nil) != (row.says == "") {
				t.Fatalf("%q, %v, %d models asked", h.Output, h.err, len(w.model.requests()))
			}
			if e, ok := errors.AsType[*adapter.Error](h.err); h.err != nil && (!ok || e.Code != adapter.CodeProtocol || e.Retryable || !strings.Contains(e.Message, row.says)) {
				t.Errorf("%v", h.err)
			}
		})
	}
}

// MO-17: of a model in whose place another one answers, the log has what its server said, and no caller has.
func TestTheLogSaysWhyAModelWasReplaced(t *testing.T) {
	cause := errors.New(`status 401: {"error":{"message":"CANARY, the key sk-abcdefghijkl is of another project"}}`)
	auth := &adapter.Error{Code: adapter.CodeAuth, Message: "the server refused the key", Cause: cause}
	w := newWorld(t, newFake(fails(auth), answers("b")), Options{Model: "a:1", Fallback: []string{"b:1"}})
	h := w.say("go")
	if all := strings.Join(append(told(h.events), w.lines()...), "\n"); strings.Contains(all, "CANARY") {
		t.Error(all)
	}
	if log := w.log.String(); !strings.Contains(log, "the server refused the key") || !strings.Contains(log, "CANARY") || !strings.Contains(log, "session=s") || strings.Contains(log, "abcdefghijkl") {
		t.Error(log)
	}
}
