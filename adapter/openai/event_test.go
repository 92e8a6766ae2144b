package openai

import (
	"encoding/json"
	"fmt"
	"strings"
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
			err := d.decode(event)
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

// FT-15: wherever a server cuts what it sends as content, in bytes or in escapes, what comes out is whole characters, and
// together what was meant.
func TestContentCutAnywhereIsWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		meant := rapid.StringOf(rapid.SampledFrom([]rune("aü€🙂\"\\\n𝄞"))).Draw(t, "meant")
		escaped, _ := json.Marshal(meant)
		raw := string(escaped[1 : len(escaped)-1])
		if rapid.Bool().Draw(t, "ascii") {
			raw = toASCII(raw)
		}
		var d decoder
		d.init()
		var got strings.Builder
		for raw != "" {
			n := rapid.IntRange(1, len(raw)).Draw(t, "cut")
			for inEscape(raw, n) {
				n++ // a server does not send half an escape: that is not JSON
			}
			if err := d.decode(`{"choices":[{"delta":{"content":"` + raw[:n] + `"}}]}`); err != nil {
				t.Fatalf("%v in %q", err, raw[:n])
			}
			if !utf8.ValidString(d.text) || strings.Contains(d.text, "\uFFFD") {
				t.Fatalf("half a character: %q", d.text)
			}
			got.WriteString(d.text)
			raw = raw[n:]
		}
		d.rest()
		if got.String()+d.text != meant {
			t.Fatalf("%q, want %q", got.String()+d.text, meant)
		}
	})
}

// inEscape says whether cutting raw before n cuts an escape.
func inEscape(raw string, n int) bool {
	for i := 0; i < n; {
		size := 1
		if raw[i] == '\\' {
			size = 2
			if raw[i+1] == 'u' {
				size = 6
			}
		}
		if i += size; i > n {
			return true
		}
	}
	return false
}

// toASCII escapes what is not ASCII, as Python's json does.
func toASCII(s string) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case r < 0x80:
			b.WriteRune(r)
		case r < 0x10000:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			r -= 0x10000
			fmt.Fprintf(&b, `\u%04x\u%04X`, 0xd800+r>>10, 0xdc00+r&0x3ff)
		}
	}
	return b.String()
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
				held = d.held > 0 || len(d.calls) > 0
				r = result{err: d.decode(e)}
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
