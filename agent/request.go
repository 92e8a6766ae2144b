package agent

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/internal/heavy"
)

// chatMessage is a message as it lies on the tape: OpenAI's shape.
type chatMessage struct {
	Role       string          `json:"role"`
	Content    json.RawMessage `json:"content"`
	ToolCalls  []chatCall      `json:"tool_calls,omitempty"`
	ToolCallID string          `json:"tool_call_id,omitempty"`
	Made       *adapter.Made   `json:"made,omitempty"`
}

type chatCall struct {
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	} `json:"function"`
}

// chatPart is a part of a message's content.
type chatPart struct {
	Type  string `json:"type"`
	Text  string `json:"text"`
	Image *struct {
		URL string `json:"url"`
	} `json:"image_url"`
}

// toMessage makes an adapter's message of one on the tape; false where it says nothing that a model could read.
func toMessage(raw json.RawMessage) (m adapter.Message, ok bool) {
	heavy.Do(len(raw), func() { m, ok = readMessage(raw) })
	return m, ok
}

func readMessage(raw json.RawMessage) (adapter.Message, bool) {
	var m chatMessage
	if json.Unmarshal(raw, &m) != nil {
		return adapter.Message{}, false
	}
	out := adapter.Message{Role: m.Role, ToolCallID: m.ToolCallID, Made: m.Made}
	switch m.Role {
	case adapter.System, adapter.User, adapter.Assistant, adapter.ToolRole:
	case "developer":
		out.Role = adapter.System
	default:
		return adapter.Message{}, false
	}
	if !toContent(m.Content, &out) {
		return adapter.Message{}, false
	}
	for i, c := range m.ToolCalls {
		out.ToolCalls = append(out.ToolCalls, adapter.ToolCall{Index: i, ID: c.ID, Name: c.Function.Name, Arguments: arguments(c.Function.Arguments)})
	}
	if out.Made != nil {
		if text := onlyText(out.Made); text != nil && text.Text == "" {
			text.Text = out.Content
		}
	}
	return out, true
}

// toContent reads a content: text, parts, or null beside calls.
func toContent(content json.RawMessage, out *adapter.Message) bool {
	if len(content) == 0 || string(content) == "null" {
		return true
	}
	switch content[0] {
	case '"':
		if bytes.IndexByte(content, '\\') < 0 {
			out.Content = string(content[1 : len(content)-1])
		} else if json.Unmarshal(content, &out.Content) != nil {
			return false
		}
		if out.Role == adapter.ToolRole {
			out.Content = withoutImages(out.Content)
		}
		return true
	case '[':
		var parts []json.RawMessage
		if json.Unmarshal(content, &parts) != nil {
			return false
		}
		for _, p := range parts {
			out.Parts = append(out.Parts, toPart(p))
		}
		return true
	}
	return false
}

// withoutImages takes the images out of a result that is a list of parts: no provider takes them there, and as text they would
// fill the context with what nobody can read.
func withoutImages(text string) string {
	if !strings.HasPrefix(text, `[{"type":`) || !strings.Contains(text, `"image_url"`) {
		return text
	}
	var parts []chatPart
	if json.Unmarshal([]byte(text), &parts) != nil {
		return text
	}
	var b strings.Builder
	for i, p := range parts {
		if i > 0 {
			b.WriteString("\n")
		}
		if p.Type == "text" {
			b.WriteString(p.Text)
		} else {
			fmt.Fprintf(&b, "[%s: it cannot be shown to the model]", oneLine(p.Type, 40))
		}
	}
	return b.String()
}

// toPart makes an adapter's part. Of what no adapter can send the model is told that it was there.
func toPart(raw json.RawMessage) adapter.Part {
	var p chatPart
	if json.Unmarshal(raw, &p) != nil {
		return adapter.Part{Type: "text", Text: "[a part that cannot be read]"}
	}
	switch {
	case p.Type == "text":
		return adapter.Part{Type: "text", Text: p.Text}
	case p.Type == "image_url" && p.Image != nil:
		return adapter.Part{Type: "image_url", Image: p.Image.URL}
	}
	return adapter.Part{Type: "text", Text: fmt.Sprintf("[%s: this kind of media cannot be sent to the model]", oneLine(p.Type, 40))}
}

// arguments returns a call's arguments as a JSON object, which is what providers take in a history. A call whose arguments were
// none has been answered with an error that says so.
func arguments(raw json.RawMessage) string {
	text := string(raw)
	if len(raw) > 0 && raw[0] == '"' && json.Unmarshal(raw, &text) != nil {
		return "{}"
	}
	if text = strings.TrimSpace(text); !strings.HasPrefix(text, "{") || !json.Valid([]byte(text)) {
		return "{}"
	}
	return text
}

// oneLine makes one line of a text, at most so many characters of it.
func oneLine(text string, most int) string {
	text = strings.Join(strings.Fields(strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == 0x85 || r == 0x2028 || r == 0x2029 {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "\uFFFD"))), " ")
	return clip(text, most)
}

// clip shortens a text to so many characters.
func clip(text string, most int) string {
	n := 0
	for i := range text {
		if n == most {
			return text[:i] + "…"
		}
		n++
	}
	return text
}
