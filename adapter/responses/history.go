package responses

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"strconv"
	"strings"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/wire"
	"github.com/lingserve/lingserve/internal/rawjson"
)

// history makes the items of a request.
type history struct {
	*asking
	items    []any
	others   int // items of the provider's own tools
	answered bool
}

// add adds a message.
func (h *history) add(m *adapter.Message) error {
	switch m.Role {
	case adapter.Assistant:
		h.assistant(m)
		return nil
	case adapter.ToolRole:
		content, err := h.content(m)
		h.items = append(h.items, map[string]any{"type": "function_call_output", "call_id": callID(m.ToolCallID), "output": content})
		return err
	}
	content, err := h.content(m)
	h.items = append(h.items, map[string]any{"role": m.Role, "content": content})
	return err
}

// content is a text, or a list of parts.
func (h *history) content(m *adapter.Message) (any, error) {
	if len(m.Parts) == 0 {
		return m.Content, nil
	}
	parts := make([]map[string]any, 0, len(m.Parts))
	for _, p := range m.Parts {
		switch {
		case p.Image != "":
			parts = append(parts, map[string]any{"type": "input_image", "image_url": p.Image, "detail": "auto"})
		case p.File != "":
			part, err := h.file(p)
			if err != nil {
				return nil, err
			}
			parts = append(parts, part)
		case p.Text != "":
			parts = append(parts, map[string]any{"type": "input_text", "text": p.Text})
		}
	}
	return parts, nil
}

// file is a PDF or another document, a text, or a sound.
func (h *history) file(p adapter.Part) (map[string]any, error) {
	if wire.IsWeb(p.File) {
		return map[string]any{"type": "input_file", "file_url": p.File}, nil
	}
	refuse := func(what string) (map[string]any, error) {
		return nil, h.CannotTake("takes no files " + what)
	}
	d, ok := wire.ReadData(p.File)
	sound := d.Sound()
	switch {
	case !ok:
		return refuse("but those of an http(s) URL or of a data: URL")
	case strings.HasPrefix(d.Type, "text/") || d.Type == "application/json":
		// As text: documents are read by some models only, text by all.
		said, ok := d.Text()
		if !ok {
			return refuse("that are not in base64, or no text in UTF-8")
		}
		return map[string]any{"type": "input_text", "text": cmp.Or(p.Name, "file") + ":\n\n" + said}, nil
	case sound == "mp3" || sound == "wav":
		return map[string]any{"type": "input_audio", "input_audio": map[string]string{"data": d.Base64, "format": sound}}, nil
	case sound != "":
		return refuse("of sound but WAV and MP3")
	case strings.HasPrefix(d.Type, "video/"):
		return refuse("of video")
	}
	name := cmp.Or(p.Name, "file"+map[string]string{"application/pdf": ".pdf"}[d.Type]) // the API wants one
	return map[string]any{"type": "input_file", "filename": name, "file_data": "data:" + d.Type + ";base64," + d.Base64}, nil
}

// assistant adds what a model has said: item by item where this provider made it, or else its text and its calls.
func (h *history) assistant(m *adapter.Message) {
	h.answered = true
	var thoughts []wire.Object // of the item that comes next: the API refuses reasoning that leads to nothing
	for p, call := range wire.Parts(m) {
		item, kind := wire.ReadObject(p.Data), ""
		if item == nil {
			item = wire.Object{}
		}
		switch {
		case p.Type == adapter.PartReasoning:
			if t := returned(item); t != nil {
				thoughts = append(thoughts, t)
			}
			continue
		case p.Type == adapter.PartText && p.Text == "":
			continue
		case p.Type == adapter.PartText:
			if kind = "message"; item["content"] == nil {
				item.Set("content", p.Text)
			}
		case call != nil:
			kind = "function_call"
			item.Set("call_id", callID(call.ID))
			item.Set("name", call.Name)
			item.Set("arguments", cmp.Or(call.Arguments, "{}"))
		case p.Type == adapter.PartOther && !h.Uses(noItems):
			kind = item.Text("type")
		}
		if kind != "" { // else what they led to does not go back
			for _, t := range thoughts {
				h.item("reasoning", t)
			}
			h.item(kind, item)
		}
		thoughts = nil
	}
}

// nameless are the items that the API takes without the id that they came with. With store false it does not know those ids any
// more, and where it meets one it asks for the items around it by theirs; so does the API's own client for agents.
var nameless = map[string]string{
	"message": "msg_", "reasoning": "rs_", "function_call": "fc_",
	"web_search_call": "", "custom_tool_call": "", "local_shell_call": "", "tool_search_call": "",
}

// item adds an item of an answer.
func (h *history) item(kind string, item wire.Object) {
	prefix, without := nameless[kind]
	if prefix == "" {
		h.others++
	}
	full, short := h.Uses(fullItems), kind == "message" && item.Text("content") != ""
	switch {
	case full && prefix != "":
		if !item.Has("id") {
			item.Set("id", prefix+strconv.Itoa(len(h.items))) // the same each time
		}
		if short {
			short = false
			item.Set("content", []any{map[string]any{"type": "output_text", "text": item["content"], "annotations": []any{}}})
		}
		item.Set("status", "completed")
	case without && !full:
		delete(item, "id")
	}
	item.Set("type", kind)
	if kind == "message" {
		item.Set("role", adapter.Assistant)
	}
	if short {
		delete(item, "type") // which all servers know
	}
	h.items = append(h.items, item)
}

// returned is what goes back of an item of reasoning; nil where the server could make nothing of it.
func returned(in wire.Object) wire.Object {
	item := maps.Clone(in)
	maps.DeleteFunc(item, func(name string, v json.RawMessage) bool {
		return string(v) == "null" || name == "status" || name == "content" && string(v) == "[]"
	})
	if !item.Has("encrypted_content") && item["content"] == nil {
		return nil
	}
	if item["summary"] == nil {
		item.Set("summary", []any{})
	}
	return item
}

// extra is what an item has beside what every item of its type has: the phase of a message, say; and its content where that is more
// than a text. Where there is nothing of that, it is nil.
func extra(in wire.Object, content bool) json.RawMessage {
	item := maps.Clone(in)
	maps.DeleteFunc(item, func(name string, v json.RawMessage) bool {
		switch name {
		case "id", "type", "status", "role", "call_id", "name", "arguments", "object":
			return true
		case "content":
			return !content
		}
		return string(v) == "null"
	})
	if len(item) == 0 {
		return nil
	}
	data, _ := rawjson.Marshal(item) // of what was read as JSON: cannot fail
	return data
}

// maxCallID is how long the API lets the id of a call be.
const maxCallID = 64

// callID makes an id that the API takes of one that another provider gave.
func callID(id string) string {
	if len(id) <= maxCallID {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return "call_" + hex.EncodeToString(sum[:16])
}
