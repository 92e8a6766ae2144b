package openai

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/lingserve/lingserve/adapter"
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

// Whatever a series of events has beside its text, the answer has the text that encoding/json finds: what is kept of one event must not show in the
// next.
func TestTextIsTheSameAsEncodingJSONs(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		contents := rapid.OneOf(rapid.SampledFrom([]string{"", "a", "}", `"`, `\`, `\\`, "\n", `","finish_reason":"stop`, "ü", "🙂", "\u2028", "]"}), rapid.String())
		heads := []string{`{"id":"1","choices":[{`, `{"id":"2","choices":[{`, `{"error":null,"choices":[{`, `{"choices":[],"choices":[{`}
		befores := []string{`"index":0,`, ``, `"finish_reason":null,`, `"delta":null,`}
		deltas := []string{`"content":%s`, `"reasoning_content":%s`, `"role":"assistant","content":%s`, `"content":null,"reasoning_content":%s`, `"content":"first","reasoning_content":%s`, `"content" : %s`}
		afters := []string{
			`}],"usage":null}`, `}]}`, `,"finish_reason":"stop"}]}`, `}],"usage":{"prompt_tokens":1}}`, `}] , "obfuscation":"x"}`,
			`}],"obfuscation":"y"}`, `}],"error":{"message":"x"}}`, `},{"delta":{"content":"second"}}]}`, `}],"choices":[{"delta":{"content":"third"}}]}`, `}],"usage":null,"error":"x"}`,
		}
		var want, got struct {
			Text, Reasoning string
			Tokens          int
			Failed          bool
		}
		var body strings.Builder
		finished := false
		for range rapid.IntRange(1, 20).Draw(rt, "events") {
			content, _ := json.Marshal(contents.Draw(rt, "content"))
			delta := fmt.Sprintf(rapid.SampledFrom(deltas).Draw(rt, "delta"), content)
			text := rapid.SampledFrom(heads).Draw(rt, "head") + rapid.SampledFrom(befores).Draw(rt, "before") + `"delta":{` + delta + `}` + rapid.SampledFrom(afters).Draw(rt, "after")
			body.WriteString("data: " + text + "\n\n")
			var e plainEvent
			if err := json.Unmarshal([]byte(text), &e); err != nil {
				rt.Fatalf("%v: %s", err, text)
			}
			if e.Usage != nil && !want.Failed {
				want.Tokens = e.Usage.PromptTokens
			}
			if len(e.Error) > 0 && string(e.Error) != "null" {
				want.Failed = true
				break
			}
			c := e.Choices[0]
			want.Text += str(c.Delta.Content)
			want.Reasoning += str(c.Delta.ReasoningContent)
			finished = finished || c.FinishReason != nil
		}
		want.Failed = want.Failed && !finished
		body.WriteString("data: [DONE]\n\n")
		for c, err := range openModel(t, []byte(body.String())).Stream(t.Context(), adapter.Request{}) {
			got.Text += c.Text
			got.Reasoning += c.Reasoning
			got.Failed = err != nil
			if c.Usage != nil {
				got.Tokens = c.Usage.PromptTokens
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			rt.Fatalf("%s: -want +got\n%s", body.String(), diff)
		}
	})
}

func str(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
