package bot

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/openai"
	"github.com/lingserve/lingserve/internal/fakeproviders"
	"github.com/lingserve/lingserve/tool"
)

type town struct {
	Town string `json:"town"`
}

// toolbox has tools that do what their names say.
func toolbox(t testing.TB) *tool.Set {
	t.Helper()
	make := func(name string, fn func(context.Context, town) (any, error), opts ...tool.Option) *tool.Tool {
		one, err := tool.New(name, "The "+name+".", fn, opts...)
		if err != nil {
			t.Fatal(err)
		}
		return one
	}
	set, err := tool.NewSet(
		make("weather.now", func(_ context.Context, in town) (any, error) { return "sunny in <" + in.Town + ">", nil }),
		make("list", func(context.Context, town) (any, error) { return []int{1, 2}, nil }),
		make("fails", func(context.Context, town) (any, error) { return nil, errors.New("open /srv/hidden: no such file") }),
		make("leaks", func(context.Context, town) (any, error) {
			return nil, errors.New("401 for sk-proj-abcdefghijklmnopqrstuvwx0123456789")
		}),
		make("away", func(context.Context, town) (any, error) {
			return nil, &tool.Error{Kind: tool.KindUnavailable, Message: "try later"}
		}),
		make("panics", func(context.Context, town) (any, error) { panic("secret") }),
		make("hangs", func(ctx context.Context, _ town) (any, error) { <-ctx.Done(); return nil, ctx.Err() }, tool.WithTimeout(3*time.Second)),
		make("asks", func(context.Context, town) (any, error) { return "never", nil }, tool.WithApproval(tool.Always)),
		make("slow", func(ctx context.Context, _ town) (any, error) {
			select {
			case <-time.After(time.Second):
				return "done", nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}),
	)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

const rome = `{"town":"Rome"}`

// calling answers with text, then calls.
func calling(text string, calls ...adapter.Chunk) script {
	list := []adapter.Chunk{{Text: text}}
	list = append(list, calls...)
	return chunks(append(list, adapter.Chunk{Finish: "tool_calls"}, adapter.Chunk{Usage: &usage})...)
}

// messages shows a conversation in short.
func messages(r adapter.Request) []string {
	var all []string
	for _, m := range r.Messages {
		line := m.Role + ": " + m.Content
		for _, c := range m.ToolCalls {
			line += fmt.Sprintf(" [%s %s %s]", c.ID, c.Name, c.Arguments)
		}
		if m.ToolCallID != "" {
			line = fmt.Sprintf("%s(%s): %s", m.Role, m.ToolCallID, m.Content)
		}
		for _, p := range m.Parts {
			line += "<" + p.Type + " " + p.Text + p.Image + ">"
		}
		all = append(all, line)
	}
	return all
}

// BO-07: the model calls, gets the results, and answers.
func TestToolsRunUntilTheModelCallsNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked []adapter.Request
		w := newWorld(t, inTurn(&asked,
			calling("Let me see.", part(0, "c0", "weather_now", rome), part(1, "c1", "list", "")),
			calling("", part(0, "c0", "weather_now", `{"town":"Oslo"}`)),
			says("stop", "It is ", "sunny."),
		))
		b := New(w.Env, "b", "r", Config{Format: Text, Tools: toolbox(t), Done: true})
		var log []string
		b.Listen(journal(&log))
		r, err := chat(t, b)
		if err != nil {
			t.Fatal(err)
		}
		want := Response{Value: json.RawMessage(`"Let me see.\n\nIt is sunny."`), Model: "fake:m", Usage: adapter.Usage{PromptTokens: 9, CompletionTokens: 12, TotalTokens: 21}}
		if diff := cmp.Diff(want, r); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff([]string{
			"string r=Let me see.\n\nIt is sunny.", `inference-done "Let me see.\n\nIt is sunny."`, `response "Let me see.\n\nIt is sunny."`,
		}, log); diff != "" {
			t.Error(diff)
		}
		lines := w.lines()
		results := lines[3:5] // of two calls at once
		slices.Sort(results)
		used := `{"event":"usage","data":{"bot":"b","model":"%s","prompt_tokens":3,"completion_tokens":4,"total_tokens":7}}`
		if diff := cmp.Diff([]string{
			`{"uri":"r","delta":"Let me see."}`,
			`{"uri":"r/$tools/0","delta":{"id":"c0","name":"weather_now","arguments":{"town":"Rome"}}}`,
			`{"uri":"r/$tools/1","delta":{"id":"c1","name":"list","arguments":{}}}`,
		}, lines[:3]); diff != "" {
			t.Error(diff)
		}
		if !slices.Contains(lines, fmt.Sprintf(used, "fake:m")) || strings.Count(strings.Join(lines, "\n"), `"event":"usage"`) != 3 {
			t.Error(lines)
		}
		for _, line := range []string{
			`{"uri":"r/$tool_results/0","delta":"sunny in <Rome>"}`, `{"uri":"r/$tool_results/2","delta":"sunny in <Oslo>"}`,
			`{"uri":"r/$tools/2","delta":{"id":"c0","name":"weather_now","arguments":{"town":"Oslo"}}}`, `{"uri":"r","delta":"\n\n"}`,
		} {
			if !slices.Contains(lines, line) {
				t.Errorf("%s is missing in %q", line, lines)
			}
		}
		if len(asked) != 3 {
			t.Fatal(len(asked))
		}
		var offered []string
		for _, tool := range asked[0].Tools {
			offered = append(offered, tool.Name+" "+tool.Description)
		}
		if diff := cmp.Diff("weather_now The weather.now.", offered[len(offered)-1]); diff != "" || len(offered) != 9 || !json.Valid(asked[0].Tools[0].Parameters) {
			t.Error(offered)
		}
		got := messages(asked[2])
		if !strings.HasPrefix(got[3], `tool(c1): {"error":{"kind":"invalid_arguments","message":"invalid arguments`) {
			t.Error(got[3])
		}
		got[3] = "tool(c1): …"
		if diff := cmp.Diff([]string{
			"user: go", "assistant: Let me see. [c0 weather_now " + rome + "] [c1 list {}]", "tool(c0): sunny in <Rome>", "tool(c1): …",
			`assistant:  [c0 weather_now {"town":"Oslo"}]`, "tool(c0): sunny in <Oslo>",
		}, got); diff != "" {
			t.Error(diff)
		}
	})
}

// BO-07: a failing tool is told to the model, and users learn which one it was.
func TestWhatGoesWrongWithAToolIsAResult(t *testing.T) {
	for _, c := range []struct{ name, call, arguments, code, told, reported string }{
		{"an error", "fails", rome, CodeInternal, `{"error":{"kind":"failed","message":"open /srv/hidden: no such file"}}`, `a tool failed: "fails"`},
		{"an error with a key", "leaks", rome, CodeInternal, `{"error":{"kind":"failed","message":"401 for sk-***"}}`, `a tool failed: "leaks"`},
		{"a panic", "panics", rome, CodeInternal, `{"error":{"kind":"panic","message":"the tool crashed"}}`, `a tool failed: "panics"`},
		{"a timeout", "hangs", rome, CodeInternal, `{"error":{"kind":"timeout","message":"the tool did not finish within 3s"}}`, `a tool took too long: "hangs"`},
		{"a tool that asks", "asks", rome, CodeInternal, `{"error":{"kind":"denied","message":"this tool needs approval, but this conversation has no approver"}}`, `a tool was not allowed to run: "asks"`},
		{"a tool whose server is away", "away", rome, adapter.CodeUnavailable, `{"error":{"kind":"unavailable","message":"try later"}}`, `a tool is not available: "away"`},
		{"no such tool", "lsit", rome, CodeOutputInvalid, `{"error":{"kind":"unknown_tool","message":"unknown tool \"lsit\"; did you mean list?"}}`, `the model called an unknown tool: "lsit"`},
		{"no JSON", "list", `{"town":`, CodeOutputInvalid, `{"error":{"kind":"invalid_arguments","message":"the arguments are not valid JSON: unexpected end of JSON input"}}`, `the model called a tool with invalid arguments: "list"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var asked []adapter.Request
				w := newWorld(t, inTurn(&asked, calling("", part(0, "c0", c.call, c.arguments)), says("stop", `{"sorry":true}`)))
				r, err := chat(t, New(w.Env, "b", "r", Config{Tools: toolbox(t)}))
				if err != nil || string(r.Value) != `{"sorry":true}` {
					t.Fatalf("%s, %v", r.Value, err)
				}
				told := asked[1].Messages[len(asked[1].Messages)-1]
				if diff := cmp.Diff(c.told, told.Content); diff != "" || told.Role != adapter.ToolRole || told.ToolCallID != "c0" {
					t.Errorf("%+v: %s", told, diff)
				}
				if call := asked[1].Messages[len(asked[1].Messages)-2].ToolCalls[0]; !json.Valid([]byte(call.Arguments)) {
					t.Errorf("providers take no such arguments: %s", call.Arguments)
				}
				if len(w.reported) != 1 {
					t.Fatal(w.reported)
				}
				if f, _ := Describe(w.reported[0]); f.Message != c.reported || f.Code != c.code {
					t.Errorf("%+v", f)
				}
				lines := strings.Join(w.lines(), "\n")
				if !strings.Contains(lines, `{"uri":"r/$tool_results/0","delta":null}`) || strings.Contains(lines, "secret") || strings.Contains(lines, "hidden") || strings.Contains(lines, "401") {
					t.Error(lines)
				}
			})
		})
	}
}

// BO-07: at most 16 rounds, the last of which offers no tools.
func TestRoundsAreBounded(t *testing.T) {
	for _, c := range []struct {
		name   string
		rounds int
		want   int
		format Format
		answer string // of the last round
		err    string
		value  string
	}{
		{"by default", 0, 16, Text, "enough", "", `"enough"`},
		{"by configuration", 3, 3, JSON, `{"a":1}`, "", `{"a":1}`},
		{"one, which offers none", 1, 1, Text, "hello", "", `"hello"`},
		{"a model that does not stop", 2, 2, JSON, "", `the model called tools again instead of an answer, after the last allowed round: "list"`, ""},
		{"a model that does not stop, in text", 2, 2, Text, "", `the model called tools again instead of an answer, after the last allowed round: "list"`, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var asked []adapter.Request
				w := newWorld(t, func(ctx context.Context, r adapter.Request, yield func(adapter.Chunk, error) bool) {
					asked = append(asked, r)
					if c.answer != "" && len(r.Tools) == 0 {
						says("stop", c.answer)(ctx, r, yield)
						return
					}
					calling("", part(0, "c", "list", rome))(ctx, r, yield)
				})
				r, err := chat(t, New(w.Env, "b", "r", Config{Format: c.format, Tools: toolbox(t), ToolRounds: c.rounds}))
				if f, _ := Describe(err); c.err != "" && (f.Message != c.err || f.Code != CodeOutputInvalid) || c.err == "" && err != nil {
					t.Error(err)
				}
				if string(r.Value) != c.value || len(asked) != c.want || r.Usage.TotalTokens != 7*c.want {
					t.Errorf("%s after %d rounds, %+v", r.Value, len(asked), r.Usage)
				}
				for n, request := range asked {
					if offered := len(request.Tools) > 0; offered != (n+1 < c.want) {
						t.Errorf("round %d offers %d tools", n+1, len(request.Tools))
					}
				}
			})
		})
	}
}

// BO-07: of JSON and HTML the document is that of the last round that has one.
func TestTheDocumentIsThatOfTheLastRound(t *testing.T) {
	call := part(0, "c", "list", rome)
	for _, c := range []struct {
		name   string
		config Config
		rounds []script
		value  string // of the answer, and in the result
		told   []string
	}{
		{
			"prose before the calls is none",
			Config{},
			[]script{calling("I will look that up.", call), says("stop", `{"a":1}`)},
			`{"a":1}`,
			[]string{`object r={"a":1}`},
		},
		{
			"a document gives way to the next",
			Config{},
			[]script{calling(`{"a":"draft","b":[1]}`, call), says("stop", `{"a":"done"}`)},
			`{"a":"done"}`,
			[]string{"string r/a=draft", "object r/b=[1]", `object r={"a":"draft","b":[1]}`, "string r/a=done", `object r={"a":"done"}`},
		},
		{
			"a document stays where no other comes",
			Config{},
			[]script{calling(`{"a":"draft"}`, call), calling("And now the list again.", call), says("stop", "All is saved.")},
			`{"a":"draft"}`,
			[]string{"string r/a=draft", `object r={"a":"draft"}`},
		},
		{
			"calls behind a document and much text",
			Config{},
			[]script{calling(`{"a":"draft"}`+strings.Repeat(" more", 100), call), says("stop", "{}")},
			`{}`,
			[]string{"string r/a=draft", `object r={"a":"draft"}`, "object r={}"},
		},
		{
			"listeners are told once where an answer can be asked for again",
			Config{OnInvalid: Retry},
			[]script{calling(`{"a":"draft"}`, call), says("stop", `{"a":"done"}`)},
			`{"a":"done"}`,
			[]string{"string r/a=done", `object r={"a":"done"}`},
		},
		{
			"an answer that does not fit is asked for again, with what came of the tools",
			Config{OnInvalid: Retry, Schema: json.RawMessage(`{"required":["n"]}`)},
			[]script{calling("", call), says("stop", `{"a":1}`), says("stop", `{"n":1}`)},
			`{"n":1}`,
			[]string{`object r={"n":1}`},
		},
		{
			"HTML",
			Config{Format: HTML},
			[]script{calling("<p>draft</p>", call), calling("wait", call), says("stop", "Here: <p>done</p>")},
			`"\u003cp>done\u003c/p>"`, nil,
		},
		{
			"a value that nobody wants",
			Config{NoValue: true},
			[]script{calling(`{"a":"draft"}`, call), says("stop", `{"a":"done"}`)},
			``,
			[]string{"string r/a=draft", `object r={"a":"draft"}`, "string r/a=done", `object r={"a":"done"}`},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var asked []adapter.Request
				w := newWorld(t, inTurn(&asked, c.rounds...))
				c.config.Tools = toolbox(t)
				b := New(w.Env, "b", "r", c.config)
				var told []string
				l := journal(&told)
				b.Listen(Listener{String: l.String, Object: l.Object})
				r, err := chat(t, b)
				if err != nil || len(asked) != len(c.rounds) {
					t.Fatal(len(asked), err)
				}
				var want, got any
				if c.value == "" {
					c.value = `{"a":"done"}`
					if r.Value != nil {
						t.Errorf("%s", r.Value)
					}
				} else if diff := cmp.Diff(decode(t, c.value, &want), decode(t, string(r.Value), &got)); diff != "" {
					t.Error(diff)
				}
				document, _ := w.Tube.Snapshot(true)
				if diff := cmp.Diff(decode(t, `{"r":`+c.value+`}`, &want), decode(t, string(document), &got)); diff != "" {
					t.Error(diff)
				}
				if c.told != nil {
					if diff := cmp.Diff(c.told, told); diff != "" {
						t.Error(diff)
					}
				}
				if c.config.Schema != nil {
					if got := messages(asked[2]); len(got) < 5 || got[2] != "assistant:  [c list "+rome+"]" || got[3] != "tool(c): [1,2]" {
						t.Errorf("%q", got)
					}
				}
			})
		})
	}
}

// A model that goes on calling has its document all the same, where it wrote one before.
func TestADocumentOutlivesCallsWithoutEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked []adapter.Request
		call := part(0, "c", "list", rome)
		w := newWorld(t, inTurn(&asked, calling(`{"a":1}`, call), calling("", call)))
		r, err := chat(t, New(w.Env, "b", "r", Config{Tools: toolbox(t), ToolRounds: 2}))
		if err != nil || string(r.Value) != `{"a":1}` || r.Usage.TotalTokens != 14 {
			t.Errorf("%+v, %v", r, err)
		}
		if len(w.reported) != 1 || w.reported[0].Error() != `the model called tools again instead of an answer, after the last allowed round: "list"` {
			t.Error(w.reported)
		}
	})
}

// A later round that fails is the bot's error; what was written stays.
func TestARoundThatFailsIsTheBotsError(t *testing.T) {
	for _, format := range []Format{Text, JSON} {
		synctest.Test(t, func(t *testing.T) {
			down := &adapter.Error{Code: adapter.CodeUnavailable, Message: "the server is down"}
			var asked []adapter.Request
			w := newWorld(t, inTurn(&asked, calling(`{"a":1}`, part(0, "c", "list", rome)), func(_ context.Context, _ adapter.Request, yield func(adapter.Chunk, error) bool) {
				yield(adapter.Chunk{}, down)
			}))
			r, err := chat(t, New(w.Env, "b", "r", Config{Format: format, Tools: toolbox(t)}))
			if !errors.Is(err, down) || r.Usage.TotalTokens != 7 {
				t.Errorf("%+v, %v", r, err)
			}
			if document, _ := w.Tube.Snapshot(true); len(document) < len(`{"r":{"a":1}}`) {
				t.Errorf("%s", document)
			}
		})
	}
}

func decode(t *testing.T, text string, to *any) any {
	t.Helper()
	*to = nil
	if err := json.Unmarshal([]byte(text), to); err != nil {
		t.Fatal(err, text)
	}
	return *to
}

func TestTextBeforeAndAfterCallsIsParagraphs(t *testing.T) {
	call := part(0, "c", "list", rome)
	for name, c := range map[string]struct {
		rounds []script
		want   string
	}{
		"two":                            {[]script{calling("a", call), says("stop", "b", "c")}, "a\n\nbc"},
		"a line that has ended":          {[]script{calling("a\n", call), says("stop", "b")}, "a\nb"},
		"nothing before":                 {[]script{calling("", call), says("stop", "b")}, "b"},
		"nothing after":                  {[]script{calling("a", call), says("stop")}, "a"},
		"nothing at all":                 {[]script{calling("", call), says("stop")}, ""},
		"nothing between":                {[]script{calling("a", call), calling("", call), says("stop", "b")}, "a\n\nb"},
		"a character that is never full": {[]script{calling("a\xc3", call), says("stop", "\xa9b")}, "a\uFFFD\n\n\uFFFDb"},
	} {
		synctest.Test(t, func(t *testing.T) {
			var asked []adapter.Request
			w := newWorld(t, inTurn(&asked, c.rounds...))
			r, err := chat(t, New(w.Env, "b", "r", Config{Format: Text, Tools: toolbox(t)}))
			var got string
			if err != nil || json.Unmarshal(r.Value, &got) != nil || got != c.want {
				t.Errorf("%s: %s, %v", name, r.Value, err)
			}
			document, _ := w.Tube.Snapshot(true)
			var whole map[string]string
			if err := json.Unmarshal(document, &whole); err != nil || whole["r"] != c.want {
				t.Errorf("%s: %s", name, document)
			}
		})
	}
}

func TestReasoningOfRoundsIsParagraphs(t *testing.T) {
	for _, format := range []Format{Text, JSON} {
		synctest.Test(t, func(t *testing.T) {
			var asked []adapter.Request
			w := newWorld(t, inTurn(&asked,
				chunks(adapter.Chunk{Reasoning: "I need it."}, part(0, "c", "list", rome), adapter.Chunk{Finish: "tool_calls"}),
				chunks(part(0, "c", "list", rome), adapter.Chunk{Finish: "tool_calls"}),
				chunks(adapter.Chunk{Reasoning: "I have "}, adapter.Chunk{Reasoning: "it."}, adapter.Chunk{Text: "{}"}, adapter.Chunk{Finish: "stop"}),
			))
			if _, err := chat(t, New(w.Env, "b", "", Config{Format: format, Tools: toolbox(t)})); err != nil {
				t.Fatal(err)
			}
			_, beside := w.Tube.Snapshot(true)
			var reserved map[string]any
			if err := json.Unmarshal(beside, &reserved); err != nil || reserved["$reasoning_context"] != "I need it.\n\nI have it." {
				t.Errorf("%s, %v", beside, err)
			}
			if keys := slices.Sorted(maps.Keys(reserved["$tools"].(map[string]any))); !slices.Equal(keys, []string{"0", "1"}) {
				t.Error(keys)
			}
		})
	}
}

// BO-07: calls of a round run at once, 8 of them.
func TestCallsOfARoundRunAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls []adapter.Chunk
		for n := range 20 {
			calls = append(calls, part(n, fmt.Sprint("c", n), "slow", rome))
		}
		var asked []adapter.Request
		w := newWorld(t, inTurn(&asked, calling("", calls...), says("stop", "done")))
		begin := time.Now()
		if _, err := chat(t, New(w.Env, "b", "r", Config{Format: Text, Tools: toolbox(t)})); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begin); took != 3*time.Second {
			t.Error(took)
		}
		for n := range 20 { // in the order of the calls, whichever ended first
			if m := asked[1].Messages[2+n]; m.ToolCallID != fmt.Sprint("c", n) || m.Content != "done" {
				t.Errorf("%+v", m)
			}
		}
	})
}

// BO-07: the end of the run, and the end by hand, stop tools; no model is asked after that.
func TestToolsAreStopped(t *testing.T) {
	cause := errors.New("enough")
	for _, c := range []struct {
		name   string
		format Format
		text   string
		stop   func(w *world, b *ChatBot)
		err    error
		value  string
	}{
		{"by the run", Text, "Wait.", func(w *world, _ *ChatBot) { w.cancel(cause) }, cause, ""},
		{"by hand", Text, "Wait.", func(_ *world, b *ChatBot) { b.Finish() }, nil, `"Wait."`},
		{"by hand before any text", Text, "", func(_ *world, b *ChatBot) { b.Finish() }, nil, `""`},
		{"by hand with a document", JSON, `{"a":1}`, func(_ *world, b *ChatBot) { b.Finish() }, nil, `{"a":1}`},
		{"by hand without a document", JSON, "Wait.", func(_ *world, b *ChatBot) { b.Finish() }, nil, `null`},
		{"by the run, in JSON", JSON, `{"a":1}`, func(w *world, _ *ChatBot) { w.cancel(cause) }, cause, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var asked []adapter.Request
				w := newWorld(t, inTurn(&asked, calling(c.text, part(0, "c", "slow", rome), part(1, "d", "list", rome)), says("stop", "too late")))
				b := New(w.Env, "b", "r", Config{Format: c.format, Tools: toolbox(t)})
				if err := b.Chat(Message{Text: "go"}); err != nil {
					t.Fatal(err)
				}
				begin := time.Now()
				synctest.Wait()
				c.stop(w, b)
				r, err := b.Wait(t.Context())
				w.wg.Wait()
				if !errors.Is(err, c.err) || c.err == nil && err != nil || c.err == nil && string(r.Value) != c.value {
					t.Errorf("%s, %v", r.Value, err)
				}
				if len(asked) != 1 || time.Since(begin) != 0 {
					t.Errorf("%d questions, %s", len(asked), time.Since(begin))
				}
				lines := strings.Join(w.lines(), "\n")
				if !strings.Contains(lines, `{"uri":"r/$tool_results/1","delta":[1,2]}`) || strings.Contains(lines, "$tool_results/0") || len(w.reported) != 0 {
					t.Error(lines, w.reported)
				}
			})
		})
	}
}

func TestAToolThatIgnoresItsEndIsLeftBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		deaf, err := tool.New("deaf", "", func(context.Context, town) (any, error) { <-release; return nil, nil })
		if err != nil {
			t.Fatal(err)
		}
		set, err := tool.NewSet(deaf)
		if err != nil {
			t.Fatal(err)
		}
		runner := &tool.Runner{Grace: time.Second}
		w := newWorld(t, calling("", part(0, "c", "deaf", rome)))
		b := New(w.Env, "b", "r", Config{Format: Text, Tools: set, ToolRunner: runner})
		if err := b.Chat(Message{Text: "go"}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		begin := time.Now()
		w.cancel(errors.New("enough"))
		if _, err := b.Wait(t.Context()); err == nil || time.Since(begin) != time.Second {
			t.Error(err, time.Since(begin))
		}
		close(release)
	})
}

func TestWhatAModelGetsOfResultsIsBounded(t *testing.T) {
	long := strings.Repeat("天", 100_000)
	for name, value := range map[string]any{"text": long, "a list": []string{long}} {
		synctest.Test(t, func(t *testing.T) {
			big, err := tool.New("big", "", func(context.Context, town) (any, error) { return value, nil })
			if err != nil {
				t.Fatal(err)
			}
			set, err := tool.NewSet(big)
			if err != nil {
				t.Fatal(err)
			}
			var asked []adapter.Request
			w := newWorld(t, inTurn(&asked, calling("", part(0, "c", "big", rome)), says("stop", "ok")))
			if _, err := chat(t, New(w.Env, "b", "r", Config{Format: Text, Tools: set})); err != nil {
				t.Fatal(err)
			}
			if m := asked[1].Messages[2].Content; len(m) > 65<<10 || !strings.Contains(m, "… [cut off: 30000") {
				t.Errorf("%s: %d bytes, …%s", name, len(m), m[len(m)-60:])
			}
			_, beside := w.Tube.Snapshot(true)
			if len(beside) < 300_000 {
				t.Errorf("%s: readers get %d bytes", name, len(beside))
			}

			w = newWorld(t, inTurn(&asked, calling("", part(0, "c", "big", rome)), says("stop", "ok")))
			left := 1000
			w.Written = func(n int) bool { left -= n; return left >= 0 }
			asked = nil
			if _, err := chat(t, New(w.Env, "b", "r", Config{Format: Text, Tools: set})); !errors.Is(err, errTooMuch) || len(asked) != 1 {
				t.Errorf("%s: %v, %d questions", name, err, len(asked))
			}
		})
	}
}

func TestImagesOfResultsFollowThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		draw := &tool.Tool{Name: "draw", Run: func(context.Context, tool.Call) (tool.Result, error) {
			return tool.Result{Content: json.RawMessage(`"a cat"`), Parts: []tool.Part{{Type: "image_url", Image: "data:image/png;base64,AA=="}}}, nil
		}}
		set, err := tool.NewSet(draw)
		if err != nil {
			t.Fatal(err)
		}
		var asked []adapter.Request
		w := newWorld(t, inTurn(&asked, calling("", part(0, "", "draw", "{}"), part(1, "c", "draw", "{}"), part(2, "c", "draw", "[1]")), says("stop", "ok")))
		if _, err := chat(t, New(w.Env, "b", "", Config{Format: Text, Tools: set})); err != nil {
			t.Fatal(err)
		}
		want := []string{
			"user: go", "assistant:  [call_0 draw {}] [c draw {}] [call_2 draw {}]", "tool(call_0): a cat", "tool(c): a cat",
			`tool(call_2): {"error":{"kind":"invalid_arguments","message":"invalid arguments: expected an object"}}`,
			"user: <text Images and files of the tool draw:><image_url data:image/png;base64,AA==><text Images and files of the tool draw:><image_url data:image/png;base64,AA==>",
		}
		if diff := cmp.Diff(want, messages(asked[1])); diff != "" {
			t.Error(diff)
		}
	})
}

func TestCallsOfTheProvidersOwnToolsAreLeftToIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked []adapter.Request
		w := newWorld(t, inTurn(&asked,
			chunks(part(0, "p", "plugin", "{}"), result(0, "p", "x", false), part(1, "c", "list", rome), adapter.Chunk{Finish: "tool_calls"}),
			says("stop", "ok"),
		))
		if _, err := chat(t, New(w.Env, "b", "", Config{Format: Text, Tools: toolbox(t)})); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"user: go", "assistant:  [c list " + rome + "]", "tool(c): [1,2]"}, messages(asked[1])); diff != "" {
			t.Error(diff)
		}
	})
}

// BO-07 over the wire of a provider.
func TestToolsOverTheWire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var bodies []string
		server := &fakeproviders.Server{Script: func(r fakeproviders.Request) fakeproviders.Answer {
			bodies = append(bodies, string(r.Body))
			if len(r.Tools) > 0 && r.Messages[len(r.Messages)-1].Role == "user" {
				return fakeproviders.Answer{Text: "One moment.", Pace: 100, ToolCalls: []fakeproviders.ToolCall{{ID: "a", Name: "weather_now", Arguments: rome}, {ID: "b", Name: "slow", Arguments: rome}}}
			}
			return fakeproviders.Answer{Text: "It is sunny.", Pace: 100}
		}}
		defer server.Close()
		p, err := openai.New(openai.Options{Prefix: "x", BaseURL: "http://x.invalid/v1", Transport: server.Transport(), Names: []string{"m"}})
		if err != nil {
			t.Fatal(err)
		}
		registry := &adapter.Registry{}
		registry.Register("x", p)
		w := newWorld(t, nil)
		w.Models = registry
		r, err := chat(t, New(w.Env, "b", "r", Config{Model: "x:m", Format: Text, Tools: toolbox(t)}))
		if err != nil || string(r.Value) != `"One moment.\n\nIt is sunny."` || r.Usage.CompletionTokens == 0 || r.Model != "x:m" {
			t.Fatalf("%+v, %v", r, err)
		}
		if len(bodies) != 2 {
			t.Fatal(bodies)
		}
		var sent struct {
			Messages []map[string]any
			Tools    []any
		}
		if err := json.Unmarshal([]byte(bodies[1]), &sent); err != nil {
			t.Fatal(err)
		}
		function := func(id, name string) any {
			return map[string]any{"id": id, "type": "function", "function": map[string]any{"name": name, "arguments": rome}}
		}
		want := []map[string]any{
			{"role": "user", "content": "go"},
			{"role": "assistant", "content": "One moment.", "tool_calls": []any{function("a", "weather_now"), function("b", "slow")}},
			{"role": "tool", "content": "sunny in <Rome>", "tool_call_id": "a"},
			{"role": "tool", "content": "done", "tool_call_id": "b"},
		}
		if diff := cmp.Diff(want, sent.Messages); diff != "" || len(sent.Tools) != 9 {
			t.Error(diff)
		}
	})
}

// Whatever a model calls, round after round: each call has one result in the next question, under an id of its own.
func TestEveryCallHasItsResult(t *testing.T) {
	outer, set := t, toolbox(t)
	rapid.Check(t, func(t *rapid.T) {
		rounds := rapid.IntRange(1, 4).Draw(t, "rounds")
		var scripts []script
		total := 0
		for range rounds {
			var calls []adapter.Chunk
			for n := range rapid.IntRange(1, 4).Draw(t, "calls") {
				calls = append(calls, part(n, rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "id"),
					rapid.SampledFrom([]string{"list", "fails", "none", "weather.now", ""}).Draw(t, "name"),
					rapid.SampledFrom([]string{rome, "", "[", `{"town":1}`, "null"}).Draw(t, "arguments")))
				total++
			}
			scripts = append(scripts, calling(rapid.SampledFrom([]string{"", "a", "{}"}).Draw(t, "text"), calls...))
		}
		format := rapid.SampledFrom([]Format{Text, JSON, HTML}).Draw(t, "format")
		var asked []adapter.Request
		w := newWorld(outer, inTurn(&asked, append(scripts, says("stop", "{}<p>x</p>"))...))
		if err := New(w.Env, "b", "", Config{Format: format, Tools: set}).Chat(Message{Text: "go"}); err != nil {
			t.Fatal(err)
		}
		w.wg.Wait()
		if len(asked) != rounds+1 {
			t.Fatalf("%d questions", len(asked))
		}
		results := 0
		var open []string
		for _, m := range asked[rounds].Messages[len(asked[0].Messages):] {
			switch m.Role {
			case adapter.Assistant:
				if len(open) > 0 {
					t.Fatalf("calls without a result: %q", open)
				}
				for _, c := range m.ToolCalls {
					if slices.Contains(open, c.ID) || c.ID == "" || !json.Valid([]byte(c.Arguments)) {
						t.Fatalf("%+v", m.ToolCalls)
					}
					open = append(open, c.ID)
				}
			case adapter.ToolRole:
				if len(open) == 0 || m.ToolCallID != open[0] {
					t.Fatalf("%s answers none of %q", m.ToolCallID, open)
				}
				open = open[1:]
				results++
			}
		}
		if results != total || len(open) > 0 {
			t.Fatalf("%d results of %d calls", results, total)
		}
	})
}

// MO-02: what a model's provider put beside its calls goes back with their results.
func TestWhatStandsBesideCallsGoesBackWithTheirResults(t *testing.T) {
	var asked []adapter.Request
	w := newWorld(t, inTurn(&asked, func(_ context.Context, _ adapter.Request, yield func(adapter.Chunk, error) bool) {
		for _, c := range []adapter.Chunk{
			{Model: "fake:m", Reasoning: "I need it."},
			{Beside: &adapter.Beside{Type: adapter.PartReasoning, Data: json.RawMessage(`{"signature":"s"}`)}},
			{Text: "Let me see."},
			{ToolCall: &adapter.ToolCall{Index: 3, Name: "weather_now", Arguments: rome}},
			{Beside: &adapter.Beside{Type: adapter.PartCall, Index: 3, Data: json.RawMessage(`{"signature":"t"}`)}},
			{Beside: &adapter.Beside{Type: adapter.PartOther, Data: json.RawMessage(`{"type":"search"}`)}},
			{Finish: adapter.FinishToolCalls},
		} {
			if !yield(c, nil) {
				return
			}
		}
	}, says("stop", "Sunny.")))
	if _, err := chat(t, New(w.Env, "b", "r", Config{Format: Text, Tools: toolbox(t)})); err != nil {
		t.Fatal(err)
	}
	messages := asked[1].Messages
	said := messages[len(messages)-2]
	id := said.ToolCalls[0].ID
	if diff := cmp.Diff(&adapter.Made{Model: "fake:m", Parts: []adapter.MadePart{
		{Type: adapter.PartReasoning, Text: "I need it.", Data: json.RawMessage(`{"signature":"s"}`)},
		{Type: adapter.PartText, Text: "Let me see."},
		{Type: adapter.PartCall, Call: id, Data: json.RawMessage(`{"signature":"t"}`)},
		{Type: adapter.PartOther, Data: json.RawMessage(`{"type":"search"}`)},
	}}, said.Made); diff != "" || id == "" {
		t.Error(diff)
	}
}

// MO-14: a refusal is an error of its own, with the model's words; of a text the words are the text.
func TestARefusalIsToldAsSuch(t *testing.T) {
	w := newWorld(t, says(adapter.FinishRefusal, "I cannot help ", "with that."))
	_, err := chat(t, New(w.Env, "b", "r", Config{}))
	if f, _ := Describe(err); f.Code != CodeOutputRefused || f.Message != "the model refused to answer: I cannot help with that." {
		t.Errorf("%+v", f)
	}
	w = newWorld(t, says(adapter.FinishRefusal, "I cannot help ", "with that."))
	r, err := chat(t, New(w.Env, "b", "r", Config{Format: Text}))
	if err != nil || string(r.Value) != `"I cannot help with that."` || len(w.reported) != 1 {
		t.Fatalf("%s %v %v", r.Value, err, w.reported)
	}
	if f, _ := Describe(w.reported[0]); f.Code != CodeOutputRefused || f.Message != "the model refused to answer" {
		t.Errorf("%+v", f)
	}
}
