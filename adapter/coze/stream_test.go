package coze

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"unicode"

	"github.com/lingserve/lingserve/adapter"
	"pgregory.net/rapid"
)

// AD-03: whatever answers a bot gives, in pieces, in one or both, with other messages between: the text is all of them without the
// white space before each, a blank line between two; the reasoning is all of it.
func TestTheTextIsThatOfAllAnswers(t *testing.T) {
	texts := rapid.StringOf(rapid.SampledFrom([]rune(" \n\u3000aü🙂\"\\")))
	rapid.Check(t, func(t *rapid.T) {
		var stream strings.Builder
		stream.WriteString(chatCreated)
		var want []string
		var thoughts strings.Builder
		for id := range rapid.IntRange(0, 4).Draw(t, "answers") {
			said, thought := texts.Draw(t, "text"), texts.Draw(t, "reasoning")
			event := func(kind, content, reasoning string) {
				b, _ := json.Marshal(map[string]any{
					"id": string(rune('a' + id)), "type": "answer", "content": content, "reasoning_content": reasoning, "content_type": "text",
				})
				stream.WriteString("event:conversation.message." + kind + "\ndata:" + string(b) + "\n\n")
				if rapid.IntRange(0, 4).Draw(t, "between") == 0 {
					stream.WriteString("event:conversation.message.completed\ndata:{\"id\":\"v\",\"type\":\"verbose\",\"content\":\"x\"}\n\n: ping\n\n")
				}
			}
			if pieces := rapid.Bool().Draw(t, "pieces"); pieces {
				for _, r := range thought {
					event("delta", "", string(r))
				}
				for rest := []rune(said); len(rest) > 0; {
					n := rapid.IntRange(1, len(rest)).Draw(t, "piece")
					event("delta", string(rest[:n]), "")
					rest = rest[n:]
				}
				if rapid.Bool().Draw(t, "completed") {
					event("completed", said, thought)
				}
			} else {
				event("completed", said, thought)
			}
			thoughts.WriteString(thought)
			if said = strings.TrimLeftFunc(said, unicode.IsSpace); said != "" {
				want = append(want, said)
			}
		}
		stream.WriteString(chatCompleted + done)
		p, err := New(Options{Transport: trip(func(*http.Request) (*http.Response, error) {
			return &http.Response{
				StatusCode: 200, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: io.NopCloser(strings.NewReader(stream.String())),
			}, nil
		})}, "")
		if err != nil {
			t.Fatal(err)
		}
		m, _ := p.Model("m")
		var text, reasoning strings.Builder
		for c, err := range m.Stream(t.Context(), adapter.Request{}) {
			if err != nil {
				t.Fatalf("%v in %s", err, stream.String())
			}
			if c == (adapter.Chunk{}) {
				t.Fatalf("an empty chunk in %s", stream.String())
			}
			text.WriteString(c.Text)
			reasoning.WriteString(c.Reasoning)
		}
		if text.String() != strings.Join(want, "\n\n") || reasoning.String() != thoughts.String() {
			t.Fatalf("%q, %q of %s", text.String(), reasoning.String(), stream.String())
		}
	})
}
