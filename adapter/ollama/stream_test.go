package ollama

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/adaptertest"
	"github.com/lingserve/lingserve/internal/fakeproviders"
	"github.com/rogpeppe/go-internal/txtar"
	"pgregory.net/rapid"
)

// plainLine is a line as encoding/json reads it.
type plainLine struct {
	Message struct {
		Content   string
		Thinking  string
		ToolCalls []struct {
			ID       string
			Function struct {
				Name      string
				Arguments json.RawMessage
			}
		} `json:"tool_calls"`
	}
	DoneReason string `json:"done_reason"`
}

// readLines reads an answer that consists of lines.
func readLines(t rapid.TB, lines ...string) (text, reasoning, finish string, calls []adapter.ToolCall, usage *adapter.Usage) {
	t.Helper()
	p, err := New(Options{Transport: canned([]byte(strings.Join(lines, "\n") + "\n"))})
	if err != nil {
		t.Fatal(err)
	}
	m, err := p.Model("m")
	if err != nil {
		t.Fatal(err)
	}
	for c, err := range m.Stream(context.Background(), adapter.Request{}) {
		if err != nil {
			t.Fatalf("%v: %q", err, lines)
		}
		text, reasoning, finish = text+c.Text, reasoning+c.Reasoning, finish+c.Finish
		if c.ToolCall != nil {
			calls = append(calls, *c.ToolCall)
		}
		if c.Usage != nil {
			usage = c.Usage
		}
	}
	return text, reasoning, finish, calls, usage
}

// Whatever a series of lines has, the answer has what encoding/json gives of each.
func TestLinesAreReadAsByEncodingJSON(t *testing.T) {
	text := rapid.OneOf(rapid.SampledFrom([]string{"", "a", "}", `"`, `\`, `\\`, "\n", `","done":true`, `"error"`, "ü", "🙂", "\u2028", "<b>"}), rapid.String())
	literal := rapid.SampledFrom([]string{`{}`, `{"a":1.10}`, `{"a":[1e400,{"b":"}"}],"c":null}`, `{"ü\n":"\u00fc"}`})
	rapid.Check(t, func(t *rapid.T) {
		quoted := func(name string) string {
			s, _ := json.Marshal(text.Draw(t, name))
			return string(s)
		}
		var lines []string
		var wantText, wantThoughts, wantFinish string
		var wantCalls []adapter.ToolCall
		for n := rapid.IntRange(1, 20).Draw(t, "lines"); n > 0; n-- {
			message := []string{`"role":"assistant"`}
			if rapid.Bool().Draw(t, "has content") {
				message = append(message, `"content":`+quoted("content"))
			}
			if rapid.Bool().Draw(t, "has thinking") {
				message = append(message, `"thinking":`+quoted("thinking"))
			}
			var list []string
			for range rapid.IntRange(0, 2).Draw(t, "calls") {
				list = append(list, fmt.Sprintf(`{"id":"id%d","function":{"name":%s,"arguments":%s}}`, len(list), quoted("name"), literal.Draw(t, "arguments")))
			}
			if list != nil {
				message = append(message, `"tool_calls":[`+strings.Join(list, ",")+`]`)
			}
			done := rapid.SampledFrom([]string{`"done":false`, `"done":null`, `"x":{"done":true}`}).Draw(t, "done")
			if n == 1 {
				done = rapid.SampledFrom([]string{`"done":true`, `"done_reason":"length","done":true`}).Draw(t, "last")
			}
			members := []string{
				`"model":` + quoted("model"), `"message":{` + strings.Join(rapid.Permutation(message).Draw(t, "message"), " , ") + `}`, done,
				`"eval_count":7,"prompt_eval_count":1099511627776`, rapid.SampledFrom([]string{`"error":""`, `"error":null`, `"errors":"x"`}).Draw(t, "error"),
			}
			line := `{` + strings.Join(rapid.Permutation(members).Draw(t, "members"), ",") + `}`
			var want plainLine
			if err := json.Unmarshal([]byte(line), &want); err != nil {
				t.Fatalf("%v: %s", err, line)
			}
			wantText, wantThoughts, wantFinish = wantText+want.Message.Content, wantThoughts+want.Message.Thinking, want.DoneReason
			for _, c := range want.Message.ToolCalls {
				wantCalls = append(wantCalls, adapter.ToolCall{Index: len(wantCalls), ID: c.ID, Name: c.Function.Name, Arguments: string(c.Function.Arguments)})
			}
			lines = append(lines, line)
		}
		if wantFinish == "" {
			wantFinish = adapter.FinishStop
			if len(wantCalls) > 0 {
				wantFinish = adapter.FinishToolCalls
			}
		}
		said, thoughts, finish, calls, usage := readLines(t, lines...)
		if diff := cmp.Diff([]any{wantText, wantThoughts, wantFinish, wantCalls}, []any{said, thoughts, finish, calls}); diff != "" {
			t.Fatalf("%q\n%s", lines, diff)
		}
		if usage == nil || usage.PromptTokens != 1099511627776 || usage.CompletionTokens != 7 {
			t.Fatalf("%+v", usage)
		}
	})
}

// Calls of servers that give no ids get one that is stable, and that no other call has.
func TestIDsThatAreMadeUp(t *testing.T) {
	ids := func(times ...string) (all []string) {
		lines := []string{}
		for _, at := range times {
			lines = append(lines, `{"created_at":"`+at+`","message":{"tool_calls":[{"function":{"name":"f"}},{"function":{"name":"f"}}]}}`)
		}
		_, _, _, calls, _ := readLines(t, append(lines, strings.TrimSpace(lastLine))...)
		for _, c := range calls {
			all = append(all, c.ID)
		}
		return all
	}
	times := []string{"2026-01-02T03:04:05.1Z", "2026-01-02T03:04:05.2Z", "2026-01-02T03:04:05.2Z"}
	first := ids(times...)
	seen := map[string]bool{}
	for _, id := range append(first, ids("2026-01-02T03:04:06Z")...) {
		if seen[id] || !strings.HasPrefix(id, "call_") {
			t.Errorf("%q in %q", id, first)
		}
		seen[id] = true
	}
	if diff := cmp.Diff(first, ids(times...)); diff != "" {
		t.Error(diff)
	}
}

func TestCallsHaveALimit(t *testing.T) {
	const maxCalls = 1024
	script := fakeproviders.Answer{ToolCalls: make([]fakeproviders.ToolCall, maxCalls+1)}
	s := &fakeproviders.Server{Script: func(fakeproviders.Request) fakeproviders.Answer { return script }}
	defer s.Close()
	m, _ := newProvider(t, Options{Transport: s.Transport()}).Model("m")
	calls := 0
	var last error
	for c, err := range m.Stream(t.Context(), adapter.Request{}) {
		if last = err; c.ToolCall != nil {
			calls++
		}
	}
	if calls != maxCalls || last == nil || !strings.Contains(last.Error(), "an invalid piece of an answer") {
		t.Errorf("%d calls, %v", calls, last)
	}
}

// What is read of a line stays when its bytes are read over by the next.
func TestTextStaysAsItWasWhenMoreIsRead(t *testing.T) {
	m, _ := newProvider(t, Options{Transport: canned(stream(2000))}).Model("m")
	var kept []string
	for c, err := range m.Stream(t.Context(), adapter.Request{}) {
		if err != nil {
			t.Fatal(err)
		}
		if c.Text != "" {
			kept = append(kept, c.Text)
		}
	}
	if len(kept) != 2000 {
		t.Fatalf("%d chunks", len(kept))
	}
	for i, text := range kept {
		if want := fmt.Sprintf("tok%d", i%10); text != want {
			t.Fatalf("chunk %d has become %q, was %q", i, text, want)
		}
	}
}

// AD-01: a reader may leave at any chunk, and is not called again; range panics if it is.
func TestAReaderMayLeaveAtAnyChunk(t *testing.T) {
	answer := messageLine(`"content":"","thinking":"so\ud83d"`) + messageLine(`"content":"a\ud83d","tool_calls":[{"id":"a","function":{"name":"f"}},{"function":{"name":"g"}}]`) + lastLine
	m, _ := newProvider(t, Options{Transport: canned([]byte(answer))}).Model("m")
	all := 0
	for range m.Stream(t.Context(), adapter.Request{}) {
		all++
	}
	if all != 6 { // thinking, text, two calls, what was held back of characters, the end
		t.Fatalf("%d chunks", all)
	}
	for leave := range all {
		n := 0
		for _, err := range m.Stream(t.Context(), adapter.Request{}) {
			if err != nil {
				t.Fatal(err)
			}
			if n++; n > leave {
				break
			}
		}
		if n != leave+1 {
			t.Errorf("%d chunks before leaving at %d", n, leave)
		}
	}
}

// AD-04: whatever comes as a stream.
func FuzzStream(f *testing.F) {
	var seeds [][]byte
	files, _ := filepath.Glob("testdata/*.txtar")
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		for _, section := range txtar.Parse(data).Files {
			if section.Name == "stream" && len(section.Data) < 4096 {
				seeds = append(seeds, section.Data)
			}
		}
	}
	adaptertest.Fuzz(f, subject, seeds...)
}
