package bot

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/adapter"
)

// Whatever a model says, however it is cut, the bot ends, and the value that its listeners get is the one that readers of its
// deltas have.
func FuzzAnswer(f *testing.F) {
	for _, text := range []string{
		`{"a":"b","c":[1,2.50,{"d":null}]}`, "```json\n{a: 'b', c: True,}\n```", "Sorry.", `{"a":{"b":["x","unfin`, `[1,2}`,
		`"just text"`, `{"a":1}{"b":2}`, `{"a":1,"a":{"x":2},"a":[3]}`, "{\"a\":\"\xff\\ud83d\"}", "", "12", `<think>{"no":1}</think>{"yes":1}`,
	} {
		f.Add(text, uint8(3), false)
		f.Add(text, uint8(200), true)
	}
	f.Fuzz(func(t *testing.T, text string, size uint8, asText bool) {
		var pieces []string
		for rest := text; rest != ""; {
			n := min(len(rest), int(size)+1)
			pieces = append(pieces, rest[:n])
			rest = rest[n:]
		}
		c := Config{Done: true}
		if asText {
			c.Format = Text
		}
		w := newWorld(t, says("stop", pieces...))
		b := New(w.Env, "b", "root", c)
		var log []string
		b.Listen(journal(&log))
		r, err := chat(t, b)
		w.wg.Wait()
		last := log[len(log)-1]
		if err != nil {
			if _, known := Describe(err); !known || b.State() != Error || !strings.HasPrefix(last, "error ") {
				t.Fatalf("state %s, %v, %s", b.State(), err, last)
			}
			return
		}
		if b.State() != Finished || !strings.HasPrefix(last, "response ") || !strings.HasPrefix(log[len(log)-2], "inference-done ") {
			t.Fatalf("state %s, %s", b.State(), last)
		}
		document, _ := w.Tube.Snapshot(true)
		var folded struct{ Root any }
		var value any
		if err := json.Unmarshal(document, &folded); err != nil {
			t.Fatalf("%s: %v", document, err)
		}
		if err := json.Unmarshal(r.Value, &value); err != nil {
			t.Fatalf("%s: %v", r.Value, err)
		}
		if diff := cmp.Diff(folded.Root, value); diff != "" {
			t.Fatalf("%s\n%s\n%s", document, r.Value, diff)
		}
	})
}

func FuzzToolCalls(f *testing.F) {
	f.Add("c0", "weather", `{"town":"Rome"}`, `sunny`, uint8(3), false)
	f.Add("", "", `{"a":1,}`, `[1,{"b":"\ud800"}]`, uint8(1), false)
	f.Add("\xff", "a\"b", ` {} `, `{"a":1,"a":2}`, uint8(200), true)
	f.Add("x", "f", strings.Repeat(`{"a":`, 600)+strings.Repeat("}", 600), `{"a":1e400}`, uint8(7), false)
	f.Fuzz(func(t *testing.T, id, name, arguments, content string, cut uint8, failed bool) {
		half := min(int(cut), len(arguments))
		w := newWorld(t, chunks(
			part(0, id, name, arguments[:half]), part(1, "other", name, arguments), part(0, "", "", arguments[half:]),
			result(0, id, content, failed), result(1, "other", content, failed),
			adapter.Chunk{Text: "{}"}, adapter.Chunk{Finish: "stop"},
		))
		b := New(w.Env, "b", "r", Config{})
		if err := b.Chat(Message{Text: "go"}); err != nil {
			t.Fatal(err)
		}
		w.wg.Wait()
		if err := b.Err(); err != nil {
			t.Fatal(err)
		}
		_, beside := w.Tube.Snapshot(true)
		var reserved map[string]map[string]json.RawMessage
		if err := json.Unmarshal(beside, &reserved); err != nil {
			t.Fatalf("%v in %s", err, beside)
		}
		if len(reserved["r/$tools"]) != 2 || len(reserved["r/$tool_results"]) != 2 {
			t.Fatalf("%s", beside)
		}
		for n, text := range reserved["r/$tools"] {
			var call struct {
				ID, Name  string
				Arguments any
			}
			if err := json.Unmarshal(text, &call); err != nil {
				t.Fatal(err)
			}
			switch got := call.Arguments.(type) {
			case map[string]any:
			case string:
				if want := strings.ToValidUTF8(arguments, "\ufffd"); utf8.ValidString(arguments) && got != want {
					t.Errorf("call %s: %q, want %q", n, got, want)
				}
			default:
				t.Errorf("arguments %v", got)
			}
		}
		for _, text := range reserved["r/$tool_results"] {
			if failed != (string(text) == "null") {
				t.Errorf("%s", text)
			}
		}
	})
}

// Whatever a model says at first, and when asked again, the bot ends once, and its value is what stands in the document.
func FuzzSecondAnswer(f *testing.F) {
	for _, first := range []string{`{"title":"Much too long"}`, "Sorry.", `{"title":"Sky"}`, `[1,{"a":2}`, `"text"`, "", `{"a":1,"a":{"b":2}}`} {
		for _, second := range []string{`{"title":"Sky"}`, "No.", `{"title":7`, `[3]`, `{}`, `"te`, "think {\n\"title\": \"x\"}"} {
			f.Add(first, second, uint8(3), true)
			f.Add(first, second, uint8(200), false)
		}
	}
	f.Fuzz(func(t *testing.T, first, second string, size uint8, rooted bool) {
		pieces := func(text string) (list []string) {
			for rest := text; rest != ""; {
				n := min(len(rest), int(size)+1)
				list = append(list, rest[:n])
				rest = rest[n:]
			}
			return list
		}
		var requests []adapter.Request
		w := newWorld(t, inTurn(&requests, says("stop", pieces(first)...), says("stop", pieces(second)...)))
		root := ""
		if rooted {
			root = "root"
		}
		b := New(w.Env, "b", root, Config{Schema: titled, OnInvalid: Retry, Done: true})
		var log []string
		b.Listen(journal(&log))
		r, err := chat(t, b)
		w.wg.Wait()
		ends := 0
		for _, line := range log {
			if strings.HasPrefix(line, "response ") || strings.HasPrefix(line, "error ") {
				ends++
			}
		}
		if ends != 1 {
			t.Fatalf("%d ends: %q", ends, log)
		}
		if err != nil {
			if _, known := Describe(err); !known || len(log) != 1 {
				t.Fatal(err, log)
			}
			return
		}
		document, _ := w.Tube.Snapshot(true)
		var value, stands any
		if err := json.Unmarshal(r.Value, &value); err != nil {
			t.Fatalf("%s: %v", r.Value, err)
		}
		if err := json.Unmarshal(document, &stands); err != nil {
			t.Fatalf("%s: %v", document, err)
		}
		if rooted {
			stands = stands.(map[string]any)["root"]
		}
		if diff := cmp.Diff(stands, value); diff != "" {
			t.Fatalf("%s\n%s\n%s", document, r.Value, diff)
		}
	})
}
