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
)

// history makes the items of a request.
type history struct {
	p     *provider
	items []any
	// What the server insists on; see giveIn.
	full    bool // items of an answer have ids, and all else that they came with
	bare    bool // no ids at all
	without bool // nothing of the provider's own tools
	sealed  bool // no reasoning but what is encrypted

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
		return nil, &adapter.Error{Code: adapter.CodeInvalid, Message: h.p.Name() + " takes no files " + what, Cause: errKind}
	}
	d, ok := wire.ReadData(p.File)
	switch family, form, _ := strings.Cut(d.Type, "/"); {
	case !ok:
		return refuse("but those of an http(s) URL or of a data: URL")
	case family == "text" || d.Type == "application/json":
		// As text: documents are read by some models only, text by all.
		said, ok := d.Text()
		if !ok {
			return refuse("that are not in base64, or no text in UTF-8")
		}
		return map[string]any{"type": "input_text", "text": cmp.Or(p.Name, "file") + ":\n\n" + said}, nil
	case family == "audio":
		if form = forms[form]; form == "" {
			return refuse("of sound but WAV and MP3")
		}
		return map[string]any{"type": "input_audio", "input_audio": map[string]string{"data": d.Base64, "format": form}}, nil
	case family == "video":
		return refuse("of video")
	}
	name := cmp.Or(p.Name, "file"+map[string]string{"application/pdf": ".pdf"}[d.Type]) // the API wants one
	return map[string]any{"type": "input_file", "filename": name, "file_data": "data:" + d.Type + ";base64," + d.Base64}, nil
}

// forms are those of sounds, by their types.
var forms = map[string]string{"wav": "wav", "x-wav": "wav", "wave": "wav", "mpeg": "mp3", "mp3": "mp3"}

// assistant adds what a model has said: item by item where this provider made it, or else its text and its calls.
func (h *history) assistant(m *adapter.Message) {
	h.answered = true
	var thoughts []members // of the item that comes next: the API refuses reasoning that leads to nothing
	for p, call := range wire.Parts(m) {
		item, kind := object(p.Data), "message"
		if item == nil {
			item = members{}
		}
		switch p.Type {
		case adapter.PartReasoning:
			thoughts = append(thoughts, returned(item))
			continue
		case adapter.PartText:
			if p.Text == "" {
				continue
			}
			if item["content"] == nil {
				item["content"] = quote(p.Text)
			}
		case adapter.PartCall:
			if call == nil {
				thoughts = nil // what they led to does not go back
				continue
			}
			kind = "function_call"
			item["call_id"], item["name"], item["arguments"] = quote(callID(call.ID)), quote(call.Name), quote(cmp.Or(call.Arguments, "{}"))
		case adapter.PartOther:
			if kind = word(item["type"]); kind == "" || h.without {
				thoughts = nil
				continue
			}
			h.others++
		}
		for _, t := range thoughts {
			if t != nil && (!h.sealed || some(t["encrypted_content"])) {
				h.item("reasoning", t)
			}
		}
		thoughts = nil
		h.item(kind, item)
	}
}

// nameless are the items that the API takes without the id that they came with. With store false it does not know those ids any more, and where
// it meets one it asks for the items around it by theirs; so does the API's own client for agents.
var nameless = map[string]string{
	"message": "msg_", "reasoning": "rs_", "function_call": "fc_",
	"web_search_call": "", "custom_tool_call": "", "local_shell_call": "", "tool_search_call": "",
}

// item adds an item of an answer.
func (h *history) item(kind string, item members) {
	prefix, without := nameless[kind]
	switch {
	case h.full && prefix != "":
		if !some(item["id"]) {
			item["id"] = quote(prefix + strconv.Itoa(len(h.items))) // the same each time
		}
		if kind == "message" && strings.HasPrefix(string(item["content"]), `"`) {
			item["content"] = json.RawMessage(`[{"type":"output_text","text":` + string(item["content"]) + `,"annotations":[]}]`)
		}
		item["status"] = json.RawMessage(`"completed"`)
	case h.bare || without && !h.full:
		delete(item, "id")
	}
	if item["type"] = quote(kind); kind == "message" {
		item["role"] = json.RawMessage(`"assistant"`)
		if strings.HasPrefix(string(item["content"]), `"`) {
			delete(item, "type") // the short form, which all servers know
		}
	}
	h.items = append(h.items, item)
}

// refused says what to leave out where the item at this place was refused: one of the provider's own tools, or reasoning that is not encrypted.
func (h *history) refused(place string) (what string) {
	i, err := strconv.Atoi(place)
	if err != nil || i >= len(h.items) {
		return ""
	}
	item, made := h.items[i].(members)
	switch kind := word(item["type"]); {
	case !made || kind == "":
		return ""
	case nameless[kind] == "":
		return "no items"
	case kind == "reasoning" && !some(item["encrypted_content"]):
		return "sealed reasoning"
	}
	return ""
}

// returned is what goes back of an item of reasoning; nil where the server could make nothing of it.
func returned(in members) members {
	item := maps.Clone(in)
	maps.DeleteFunc(item, func(_ string, v json.RawMessage) bool { return string(v) == "null" })
	delete(item, "status")
	if string(item["content"]) == "[]" {
		delete(item, "content")
	}
	if !some(item["encrypted_content"]) && item["content"] == nil {
		return nil
	}
	if item["summary"] == nil {
		item["summary"] = json.RawMessage("[]")
	}
	return item
}

// extra is what an item has beside what every item of its type has: the phase of a message, say; and its content where that is more than a text.
// Where there is nothing of that, it is nil.
func extra(in members, content bool) json.RawMessage {
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
	return quote(item)
}

// plain says whether a content is one text with nothing to it.
func plain(content json.RawMessage) bool {
	parts := objects(content)
	for _, p := range parts {
		if word(p["type"]) != "output_text" || some(p["annotations"]) && string(p["annotations"]) != "[]" {
			return false
		}
	}
	return len(parts) < 2
}

// quote writes a value as JSON, as it is: what a provider made is to come back to the byte.
func quote(v any) json.RawMessage {
	b, err := wire.Marshal(v)
	if err != nil {
		return json.RawMessage("null")
	}
	return b
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
