package bot

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/lingserve/lingserve/adapter"
)

// chunks answers with these.
func chunks(list ...adapter.Chunk) script {
	return func(_ context.Context, _ adapter.Request, yield func(adapter.Chunk, error) bool) {
		for _, c := range list {
			if !yield(c, nil) {
				return
			}
		}
	}
}

func part(index int, id, name, arguments string) adapter.Chunk {
	return adapter.Chunk{ToolCall: &adapter.ToolCall{Index: index, ID: id, Name: name, Arguments: arguments}}
}

func result(index int, id, content string, failed bool) adapter.Chunk {
	return adapter.Chunk{ToolResult: &adapter.ToolResult{Index: index, ID: id, Content: content, Failed: failed}}
}

// PROTOCOL 1.2
func TestToolCallsStandBesideTheDocument(t *testing.T) {
	document := adapter.Chunk{Text: `{"a":1}`}
	stop := adapter.Chunk{Finish: "stop"}
	for _, c := range []struct {
		name   string
		answer []adapter.Chunk
		want   []string // events before usage, without those of the document
	}{
		{
			"a call that comes in pieces, sent when the next begins",
			[]adapter.Chunk{part(0, "c0", "weather", ""), part(0, "", "", `{"town":"R`), part(0, "", "", `ome"}`), part(1, "c1", "time", ""), document, stop},
			[]string{
				`{"uri":"r/$tools/0","delta":{"id":"c0","name":"weather","arguments":{"town":"Rome"}}}`,
				`{"uri":"r/$tools/1","delta":{"id":"c1","name":"time","arguments":{}}}`,
			},
		},
		{
			"the provider's own calls, with their results",
			[]adapter.Chunk{
				part(0, "c0", "weather", `{"a":"<b>"}`), result(0, "c0", `sunny, "23"`, false),
				part(1, "c1", "list", `{}`), result(1, "c1", ` [1, {"a":2}] `, false),
				part(2, "c2", "fails", `{}`), result(2, "c2", "secret words", true),
				document, stop,
			},
			[]string{
				`{"uri":"r/$tools/0","delta":{"id":"c0","name":"weather","arguments":{"a":"<b>"}}}`,
				`{"uri":"r/$tool_results/0","delta":"sunny, \"23\""}`,
				`{"uri":"r/$tools/1","delta":{"id":"c1","name":"list","arguments":{}}}`,
				`{"uri":"r/$tool_results/1","delta":[1, {"a":2}]}`,
				`{"uri":"r/$tools/2","delta":{"id":"c2","name":"fails","arguments":{}}}`,
				`{"uri":"r/$tool_results/2","delta":null}`,
			},
		},
		{
			"arguments that are no object are text",
			[]adapter.Chunk{part(0, "c0", "f", `{"a":1,}`), part(1, "c1", "f", `[1]`), part(2, "c2", "f", "a\xff"), document, stop},
			[]string{
				`{"uri":"r/$tools/0","delta":{"id":"c0","name":"f","arguments":"{\"a\":1,}"}}`,
				`{"uri":"r/$tools/1","delta":{"id":"c1","name":"f","arguments":"[1]"}}`,
				`{"uri":"r/$tools/2","delta":{"id":"c2","name":"f","arguments":"a\ufffd"}}`,
			},
		},
		{
			"calls that all have the same index",
			[]adapter.Chunk{part(0, "c0", "f", `{"n":`), part(0, "c0", "", `0}`), part(0, "c1", "f", `{"n":1}`), document, stop},
			[]string{
				`{"uri":"r/$tools/0","delta":{"id":"c0","name":"f","arguments":{"n":0}}}`,
				`{"uri":"r/$tools/1","delta":{"id":"c1","name":"f","arguments":{"n":1}}}`,
			},
		},
		{
			"a call that goes on later is sent again, once",
			[]adapter.Chunk{part(0, "", "f", `{"a":`), part(1, "", "g", `{`), part(0, "", "", `1`), part(1, "", "", `}`), part(0, "", "", `}`), document, stop},
			[]string{
				`{"uri":"r/$tools/0","delta":{"id":"","name":"f","arguments":"{\"a\":"}}`,
				`{"uri":"r/$tools/1","delta":{"id":"","name":"g","arguments":"{"}}`,
				`{"uri":"r/$tools/0","delta":{"id":"","name":"f","arguments":{"a":1}}}`,
				`{"uri":"r/$tools/1","delta":{"id":"","name":"g","arguments":{}}}`,
			},
		},
		{
			"a result for which there is no call, one that is empty, and a second one",
			[]adapter.Chunk{result(7, "x", "", false), part(8, "y", "f", "{}"), result(0, "y", "one", false), result(0, "y", "two", false), document, stop},
			[]string{
				`{"uri":"r/$tool_results/0","delta":""}`,
				`{"uri":"r/$tools/1","delta":{"id":"y","name":"f","arguments":{}}}`,
				`{"uri":"r/$tool_results/1","delta":"one"}`,
				`{"uri":"r/$tool_results/1","delta":null}`,
				`{"uri":"r/$tool_results/1","delta":"two"}`,
			},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, chunks(c.answer...))
				if _, err := chat(t, New(w.Env, "b", "r", Config{})); err != nil {
					t.Fatal(err)
				}
				var got []string
				for _, line := range w.lines() {
					if strings.Contains(line, "$tool") {
						got = append(got, line)
					}
				}
				if diff := cmp.Diff(c.want, got); diff != "" {
					t.Error(diff)
				}
				document, _ := w.Tube.Snapshot(true)
				if diff := cmp.Diff(`{"r":{"a":1}}`, string(document)); diff != "" {
					t.Error("tools are in the document:", diff)
				}
				for _, err := range w.reported {
					if f, _ := Describe(err); strings.Contains(f.Message, "secret") {
						t.Error(f.Message)
					} else if f.Message != `a tool of the model's server failed: "fails"` {
						t.Error(f.Message)
					}
				}
			})
		})
	}
}

func TestCallsOfASecondAnswerAreCountedOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var requests []adapter.Request
		w := newWorld(t, inTurn(
			&requests,
			chunks(part(0, "c0", "f", "{}"), result(0, "c0", "x", false), adapter.Chunk{Text: "sorry"}, adapter.Chunk{Finish: "stop"}),
			chunks(part(0, "c0", "g", "{}"), result(0, "c0", "y", false), adapter.Chunk{Text: "{}"}, adapter.Chunk{Finish: "stop"}),
		))
		if _, err := chat(t, New(w.Env, "b", "", Config{OnInvalid: Retry})); err != nil {
			t.Fatal(err)
		}
		_, beside := w.Tube.Snapshot(true)
		var reserved map[string]any
		if err := json.Unmarshal(beside, &reserved); err != nil {
			t.Fatal(err)
		}
		want := map[string]any{
			"$tools": map[string]any{
				"0": map[string]any{"id": "c0", "name": "f", "arguments": map[string]any{}},
				"1": map[string]any{"id": "c0", "name": "g", "arguments": map[string]any{}},
			},
			"$tool_results":      map[string]any{"0": "x", "1": "y"},
			"$reasoning_context": reserved["$reasoning_context"],
		}
		if diff := cmp.Diff(want, reserved); diff != "" {
			t.Error(diff)
		}
	})
}

// BO-07: where a bot has no tools, users are told of a model that waits for one.
func TestAModelThatWaitsForToolsIsReported(t *testing.T) {
	calls := []adapter.Chunk{part(0, "c0", "weather", `{}`), part(1, "c1", "time", `{}`)}
	for _, c := range []struct {
		name     string
		format   Format
		answer   []adapter.Chunk
		err      string
		reported string
	}{
		{"instead of a document", JSON, []adapter.Chunk{{Finish: "tool_calls"}}, `the model called tools that the bot does not have: "weather", "time"`, ""},
		{"beside a document", JSON, []adapter.Chunk{{Text: `{"a":1}`}, {Finish: "tool_calls"}}, "", `the model called tools that the bot does not have: "weather", "time"`},
		{"instead of a text", Text, []adapter.Chunk{{Finish: "tool_calls"}}, `the model called tools that the bot does not have: "weather", "time"`, ""},
		{"beside a text", Text, []adapter.Chunk{{Text: "Let me see."}, {Finish: "tool_calls"}}, "", `the model called tools that the bot does not have: "weather", "time"`},
		{"only one of them", Text, []adapter.Chunk{result(0, "c0", "sunny", false), {Finish: "tool_calls"}}, `the model called tools that the bot does not have: "time"`, ""},
		{"none, as the provider has made them", Text, []adapter.Chunk{result(0, "c0", "sunny", false), result(1, "c1", "noon", false), {Text: "Sunny."}, {Finish: "tool_calls"}}, "", ""},
		{"but the answer ends otherwise", Text, []adapter.Chunk{{Text: "Sunny."}, {Finish: "stop"}}, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, chunks(append(calls[:2:2], c.answer...)...))
				_, err := chat(t, New(w.Env, "b", "r", Config{Format: c.format}))
				f, _ := Describe(err)
				if err == nil {
					f = Failure{}
				}
				if f.Message != c.err || err != nil && f.Code != CodeOutputInvalid {
					t.Errorf("%+v", f)
				}
				var reported strings.Builder
				for _, err := range w.reported {
					reported.WriteString(err.Error())
				}
				if diff := cmp.Diff(c.reported, reported.String()); diff != "" {
					t.Error(diff)
				}
			})
		})
	}
}

func TestToolCallsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var many []adapter.Chunk
		for i := range maxCalls + 1 {
			many = append(many, part(i, fmt.Sprint(i), "f", "{}"))
		}
		w := newWorld(t, chunks(append(many, adapter.Chunk{Text: "{}"}, adapter.Chunk{Finish: "stop"})...))
		if _, err := chat(t, New(w.Env, "b", "r", Config{})); err == nil || !strings.Contains(err.Error(), "more than 256 tools") {
			t.Error(err)
		}
		for name, long := range map[string]adapter.Chunk{
			"arguments": part(0, "c", "f", strings.Repeat("a", 2000)),
			"a name":    part(0, "c", strings.Repeat("a", 2000), ""),
			"an id":     part(0, strings.Repeat("a", 2000), "f", ""),
			"a result":  result(0, "c", strings.Repeat("a", 2000), false),
		} {
			w := newWorld(t, chunks(long, adapter.Chunk{Text: "{}"}, adapter.Chunk{Finish: "stop"}))
			left := 1000
			w.Written = func(n int) bool { left -= n; return left >= 0 }
			if _, err := chat(t, New(w.Env, "b", "r", Config{})); err == nil {
				t.Errorf("%s: the bot is not stopped", name)
			}
		}
	})
}

// However a call is cut into pieces, the last that is sent of it is the same.
func TestPiecesOfACallDoNotMatter(t *testing.T) {
	outer := t
	rapid.Check(t, func(t *rapid.T) {
		arguments := rapid.SampledFrom([]string{`{"a":"é","b":[1,2]}`, `{}`, ``, `no JSON`, `{"a":`}).Draw(t, "arguments")
		var answer []adapter.Chunk
		for index := range 2 {
			rest := arguments
			answer = append(answer, part(index, fmt.Sprint("c", index), "f", ""))
			for len(rest) > 0 {
				n := rapid.IntRange(1, len(rest)).Draw(t, "piece")
				answer = append(answer, part(index, "", "", rest[:n]))
				rest = rest[n:]
			}
		}
		w := newWorld(outer, chunks(append(answer, adapter.Chunk{Text: "{}"}, adapter.Chunk{Finish: "stop"})...))
		if err := New(w.Env, "b", "", Config{}).Chat(Message{Text: "go"}); err != nil {
			t.Fatal(err)
		}
		w.wg.Wait()
		_, beside := w.Tube.Snapshot(true)
		want := func(i int) string {
			value := arguments
			switch {
			case arguments == "":
				value = "{}"
			case !strings.HasSuffix(arguments, "}"):
				text, _ := json.Marshal(arguments)
				value = string(text)
			}
			return fmt.Sprintf(`{"id":"c%d","name":"f","arguments":%s}`, i, value)
		}
		if diff := cmp.Diff(fmt.Sprintf(`{"$tools":{"0":%s,"1":%s}}`, want(0), want(1)), string(beside)); diff != "" {
			t.Fatal(diff)
		}
	})
}
