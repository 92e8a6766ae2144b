package openai

import (
	"encoding/json"
	"fmt"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// plainEvent is an event as encoding/json reads it.
type plainEvent struct {
	Choices []struct {
		Delta struct {
			Content          *string
			ReasoningContent *string `json:"reasoning_content"`
		}
		FinishReason *string `json:"finish_reason"`
	}
	Usage *struct {
		PromptTokens     int `json:"prompt_tokens"`
		CompletionTokens int `json:"completion_tokens"`
		TotalTokens      int `json:"total_tokens"`
	}
	Error json.RawMessage
}

// Whatever a series of events has beside the content, the decoder gives of each what encoding/json gives: what it keeps of one
// event must not show in the next.
func TestDecodingIsTheSameAsEncodingJSONs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var d decoder
		d.init()
		contents := rapid.OneOf(rapid.SampledFrom([]string{"", "a", "}", `"`, `\`, `\\`, "\n", `","finish_reason":"stop`, "ü", "🙂", "\u2028", "]"}), rapid.String())
		heads := []string{`{"id":"1","choices":[{`, `{"id":"2","choices":[{`, `{"error":null,"choices":[{`, `{"choices":[],"choices":[{`}
		befores := []string{`"index":0,`, ``, `"finish_reason":null,`, `"delta":null,`}
		deltas := []string{`"content":%s`, `"reasoning_content":%s`, `"role":"assistant","content":%s`, `"content":null,"reasoning_content":%s`, `"content":"first","reasoning_content":%s`, `"content" : %s`}
		afters := []string{
			`}],"usage":null}`, `}]}`, `,"finish_reason":"stop"}]}`, `}],"usage":{"prompt_tokens":1}}`, `}] , "obfuscation":"x"}`,
			`}],"obfuscation":"y"}`, `}],"error":{"message":"x"}}`, `},{"delta":{"content":"second"}}]}`, `}],"choices":[{"delta":{"content":"third"}}]}`, `}],"usage":null,"error":"x"}`,
		}
		for range rapid.IntRange(1, 20).Draw(t, "events") {
			content, _ := json.Marshal(contents.Draw(t, "content"))
			delta := fmt.Sprintf(rapid.SampledFrom(deltas).Draw(t, "delta"), content)
			event := rapid.SampledFrom(heads).Draw(t, "head") + rapid.SampledFrom(befores).Draw(t, "before") + `"delta":{` + delta + `}` + rapid.SampledFrom(afters).Draw(t, "after")
			var want plainEvent
			if err := json.Unmarshal([]byte(event), &want); err != nil {
				t.Fatalf("%v: %s", err, event)
			}
			err := d.decode([]byte(event))
			if failed := len(want.Error) > 0 && string(want.Error) != "null"; failed != (err == errReported) {
				t.Fatalf("%v: %s", err, event)
			} else if failed {
				continue
			}
			if err != nil {
				t.Fatalf("%v: %s", err, event)
			}
			c := want.Choices[0]
			got := [...]string{d.text, d.reasoning, d.finish}
			exp := [...]string{str(c.Delta.Content), str(c.Delta.ReasoningContent), str(c.FinishReason)}
			if diff := cmp.Diff(exp, got); diff != "" {
				t.Fatalf("%s: -want +got\n%s", event, diff)
			}
			if (want.Usage != nil) != (d.usage != nil) {
				t.Fatalf("usage %v: %s", d.usage, event)
			}
		}
	})
}

func str(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// Any two events, one after the other: no panic, and the second gives what it gives alone, unless a character was held back.
func FuzzDecode(f *testing.F) {
	for _, event := range []string{
		`{"choices":[{"delta":{"content":"a"}}]}`, `{"choices":[{"delta":{"content":"b"}}],"x":1}`, `{"choices":[{"delta":{"content":"a\ud83d"},"finish_reason":"stop"}]}`,
		`{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{"}}]}}]}`, `{"error":{}}`, `{"object":"error"}`,
		`{"choices":[],"usage":{"prompt_tokens":1e9}}`, `[]`, ``, ` `, `{`, `{"choices":[{"delta":{"reasoning":"é"}}]}`, `{"choices":[{"delta":{"content":"a`,
	} {
		f.Add(event, event)
		f.Add(`{"choices":[{"delta":{"content":"a"}}]}`, event)
	}
	f.Fuzz(func(t *testing.T, first, second string) {
		type result struct {
			text, reasoning, finish string
			usage                   bool
			err                     error
		}
		run := func(events ...string) (r result, held bool) {
			var d decoder
			d.init()
			for _, e := range events {
				held = d.content.Open() || d.thinking.Open() || len(d.calls) > 0
				r = result{err: d.decode([]byte(e))}
				if r.err == nil {
					r = result{d.text, d.reasoning, d.finish, d.usage != nil, nil}
				}
			}
			if !utf8.ValidString(r.text) || !utf8.ValidString(r.reasoning) {
				t.Fatalf("not UTF-8: %q %q", r.text, r.reasoning)
			}
			return r, held
		}
		alone, _ := run(second)
		after, held := run(first, second)
		if !held && alone != after {
			t.Fatalf("alone %+v, after another %+v", alone, after)
		}
	})
}
