package ollama

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

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
	Done            bool
	DoneReason      string `json:"done_reason"`
	PromptEvalCount int    `json:"prompt_eval_count"`
	EvalCount       int    `json:"eval_count"`
	Error           string
}

// Whatever a series of lines has, the decoder gives of each what encoding/json gives: nothing of one shows in the next.
func TestDecodingIsTheSameAsEncodingJSONs(t *testing.T) {
	text := rapid.OneOf(rapid.SampledFrom([]string{"", "a", "}", `"`, `\`, `\\`, "\n", `","done":true`, "ü", "🙂", "\u2028", "<b>"}), rapid.String())
	literal := rapid.SampledFrom([]string{`{}`, `{"a":1.10}`, `{"a":[1e400,{"b":"}"}],"c":null}`, `{"ü\n":"\u00fc"}`})
	rapid.Check(t, func(t *rapid.T) {
		var d decoder
		d.init()
		quoted := func(name string) string {
			s, _ := json.Marshal(text.Draw(t, name))
			return string(s)
		}
		calls := 0
		for range rapid.IntRange(1, 20).Draw(t, "lines") {
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
			members := []string{
				`"model":` + quoted("model"), `"message":{` + strings.Join(rapid.Permutation(message).Draw(t, "message"), " , ") + `}`,
				rapid.SampledFrom([]string{`"done":false`, `"done":true`, `"done":null`, `"x":{"done":true}`, `"done_reason":"length","done":true`}).Draw(t, "done"),
				rapid.SampledFrom([]string{`"eval_count":7`, `"eval_count":0,"prompt_eval_count":1099511627776`, `"eval_duration":5`}).Draw(t, "counts"),
				rapid.SampledFrom([]string{`"error":""`, `"error":null`, `"errors":"x"`, `"errors":"x"`, `"error":"x"`}).Draw(t, "error"),
			}
			line := `{` + strings.Join(rapid.Permutation(members).Draw(t, "members"), ",") + `}`
			var want plainLine
			if err := json.Unmarshal([]byte(line), &want); err != nil {
				t.Fatalf("%v: %s", err, line)
			}
			err := d.decode([]byte(line))
			calls += len(want.Message.ToolCalls)
			if want.Error != "" {
				if err != errReported {
					t.Fatalf("%v: %s", err, line)
				}
				continue
			}
			if err != nil {
				t.Fatalf("%v: %s", err, line)
			}
			if diff := cmp.Diff([]any{want.Message.Content, want.Message.Thinking, want.Done}, []any{d.text, d.reasoning, d.done}); diff != "" {
				t.Fatalf("%s\n%s", line, diff)
			}
			if want.Done != (d.usage != nil && (d.usage.PromptTokens == want.PromptEvalCount && d.usage.CompletionTokens == want.EvalCount)) &&
				!strings.Contains(line, "eval_duration") {
				t.Fatalf("usage %v: %s", d.usage, line)
			}
			if want.Done && d.reason != want.DoneReason {
				t.Fatalf("reason %q: %s", d.reason, line)
			}
			var got []adapter.ToolCall
			for i, c := range want.Message.ToolCalls {
				got = append(got, adapter.ToolCall{Index: calls - len(want.Message.ToolCalls) + i, ID: c.ID, Name: c.Function.Name, Arguments: string(c.Function.Arguments)})
			}
			if diff := cmp.Diff(got, append([]adapter.ToolCall(nil), d.calls...)); diff != "" {
				t.Fatalf("%s\n%s", line, diff)
			}
		}
	})
}

// Calls of servers that give no ids get one that is stable, and that no other call has.
func TestIdsThatAreMadeUp(t *testing.T) {
	line := func(at string) []byte {
		return []byte(`{"created_at":"` + at + `","message":{"tool_calls":[{"function":{"name":"f"}},{"function":{"name":"f"}}]}}`)
	}
	ids := func(lines ...[]byte) (all []string) {
		var d decoder
		d.init()
		for _, l := range lines {
			if err := d.decode(l); err != nil {
				t.Fatal(err)
			}
			for _, c := range d.calls {
				all = append(all, c.ID)
			}
		}
		return all
	}
	first := ids(line("2026-01-02T03:04:05.1Z"), line("2026-01-02T03:04:05.2Z"), line("2026-01-02T03:04:05.2Z"))
	seen := map[string]bool{}
	for _, id := range append(first, ids(line("2026-01-02T03:04:06Z"))...) {
		if seen[id] || !strings.HasPrefix(id, "call_") {
			t.Errorf("%q in %q", id, first)
		}
		seen[id] = true
	}
	if diff := cmp.Diff(first, ids(line("2026-01-02T03:04:05.1Z"), line("2026-01-02T03:04:05.2Z"), line("2026-01-02T03:04:05.2Z"))); diff != "" {
		t.Error(diff)
	}
}

func TestCallsHaveALimit(t *testing.T) {
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

// Any two lines, one after the other: no panic, only whole characters, and the second gives what it gives alone, unless a
// character was held back.
func FuzzDecode(f *testing.F) {
	for _, line := range []string{
		strings.TrimSpace(lastLine), `{"message":{"content":"a\ud83d"}}`, `{"message":{"thinking":"é"},"done":true,"eval_count":1e9}`, `[]`, ``, `{`, `null`,
		`{"error":{}}`, `{"error":"x"}`, `{"message":{"tool_calls":[{"function":{"name":"f","arguments":{"a":[1]}}}]}}`, `{"message":{"tool_calls":[{"function":{"arguments":"{"}}]}}`,
	} {
		f.Add(line, line)
		f.Add(`{"message":{"content":"a"}}`, line)
	}
	f.Fuzz(func(t *testing.T, first, second string) {
		type result struct {
			text, reasoning, reason, calls string
			done, usage                    bool
			err                            error
		}
		run := func(lines ...string) (r result, clean bool) {
			var d decoder
			d.init()
			for _, l := range lines {
				clean = d.called == 0 && d.heldText.Rest()+d.heldThinking.Rest() == ""
				err := d.decode([]byte(l))
				if r = (result{err: err}); err == nil {
					r = result{d.text, d.reasoning, d.reason, fmt.Sprint(d.calls), d.done, d.usage != nil, nil}
				}
				for _, c := range d.calls {
					if !utf8.ValidString(c.ID + c.Name + c.Arguments) {
						t.Fatalf("not UTF-8: %+v", c)
					}
				}
			}
			if !utf8.ValidString(r.text) || !utf8.ValidString(r.reasoning) {
				t.Fatalf("not UTF-8: %q %q", r.text, r.reasoning)
			}
			return r, clean
		}
		alone, _ := run(second)
		if after, clean := run(first, second); clean && alone != after {
			t.Fatalf("alone %+v, after another %+v", alone, after)
		}
	})
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
