package agent

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/internal/wording"
	"github.com/lingserve/lingserve/tape"
	"github.com/lingserve/lingserve/turn"
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

// toMessage makes an adapter's message of one on the tape; false where it says nothing that a model could read.
func toMessage(raw json.RawMessage) (adapter.Message, bool) {
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
	return out, true
}

// toContent reads a content: text, parts, or null beside calls.
func toContent(content json.RawMessage, out *adapter.Message) bool {
	switch {
	case len(content) == 0:
	case json.Unmarshal(content, &out.Content) == nil:
		if out.Role == adapter.ToolRole {
			mediaOfTool(out)
		}
	case content[0] == '[':
		out.Parts = toParts(content)
	default:
		return false
	}
	return true
}

// mediaOfTool takes the images and files out of a result that is a list of parts: its message takes none. They are in Parts then, for the user's
// message behind it.
func mediaOfTool(out *adapter.Message) {
	text := out.Content
	if !strings.HasPrefix(text, `[{"type":`) || !strings.Contains(text, `"image_url"`) && !strings.Contains(text, `"file"`) {
		return
	}
	if !json.Valid([]byte(text)) {
		return
	}
	var texts []string
	for _, p := range toParts([]byte(text)) {
		if p.Type == "text" {
			texts = append(texts, p.Text)
		} else {
			out.Parts = append(out.Parts, p)
		}
	}
	out.Content = strings.Join(texts, "\n")
}

// loadMedia reads the media that are stored beside the tape. Images and files of tools that are older than the newest maxMediaBytes of them become
// notes.
func (r *run) loadMedia(list []adapter.Message) error {
	left := maxMediaBytes / 3 * 4
	for _, m := range slices.Backward(list) {
		for i := range m.Parts {
			p := &m.Parts[i]
			if m.Role != adapter.ToolRole || left > 0 {
				if err := r.loadPart(p); err != nil {
					return err
				}
			}
			if m.Role == adapter.ToolRole {
				if left -= len(p.Image) + len(p.File); left < 0 {
					*p = adapter.Part{Type: "text", Text: "[an older image or file that is not shown again]"}
				}
			}
		}
	}
	return nil
}

// loadPart reads the image or the file of a part. If the tape does not have it, the part becomes a note.
func (r *run) loadPart(p *adapter.Part) error {
	data := &p.Image
	if p.File != "" {
		data = &p.File
	}
	before, handle, ok := tape.BlobOf(*data)
	if !ok || before != "" && !strings.HasPrefix(before, "data:") {
		return nil
	}
	blob, _, err := r.tape.ReadBlob(r.ctx, handle, 0, math.MaxInt64)
	if errors.Is(err, tape.ErrNotFound) || errors.Is(err, tape.ErrDamaged) {
		*p = adapter.Part{Type: "text", Text: "[media is not available]"}
		return nil
	}
	*data = before + string(blob)
	return err
}

// withMedia says whether there is an image or a file in what was said since the model's last reply.
func withMedia(list []adapter.Message) bool {
	for _, m := range slices.Backward(list) {
		if m.Role == adapter.Assistant {
			return false
		}
		if slices.ContainsFunc(m.Parts, func(p adapter.Part) bool { return p.Image != "" || p.File != "" }) {
			return true
		}
	}
	return false
}

// toParts makes an adapter's parts of a list. What of a part has another type than expected is left out.
func toParts(list json.RawMessage) []adapter.Part {
	var read []turn.Part
	_ = json.Unmarshal(list, &read)
	parts := make([]adapter.Part, len(read))
	for i, p := range read {
		parts[i] = toPart(p)
	}
	return parts
}

// toPart makes an adapter's part. A part that no adapter can send becomes a note.
func toPart(p turn.Part) adapter.Part {
	switch {
	case p.Type == "text":
		return adapter.Part{Type: "text", Text: p.Text}
	case p.Type == "image_url" && p.ImageURL != nil:
		return adapter.Part{Type: "image_url", Image: p.ImageURL.URL}
	case p.Type == "input_audio" && p.InputAudio != nil:
		kind := map[string]string{"mp3": "mpeg"}[p.InputAudio.Format]
		return adapter.Part{Type: "file", File: "data:audio/" + cmp.Or(kind, p.InputAudio.Format) + ";base64," + p.InputAudio.Data}
	case p.Type == "file" && p.File != nil && p.File.Data != "":
		return adapter.Part{Type: "file", File: p.File.Data, Name: p.File.Name}
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

// oneLine makes one line of a text, without control characters and at most so many characters of it.
func oneLine(text string, max int) string {
	words := strings.FieldsFunc(strings.ToValidUTF8(text, "\uFFFD"), func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) })
	return wording.ClipChars(strings.Join(words, " "), max)
}
