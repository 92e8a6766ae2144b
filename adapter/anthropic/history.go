package anthropic

import (
	"encoding/json"
	"strings"

	"github.com/buger/jsonparser"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/wire"
	"github.com/lingserve/lingserve/internal/rawjson"
)

// part is a content block. One that goes back as it came is a json.RawMessage.
type part struct {
	Type      string          `json:"type"`
	Text      string          `json:"text,omitempty"`
	Citations json.RawMessage `json:"citations,omitempty"`
	Thinking  *string         `json:"thinking,omitempty"`
	Signature json.RawMessage `json:"signature,omitempty"`
	ID        string          `json:"id,omitempty"`
	Name      string          `json:"name,omitempty"`
	Input     json.RawMessage `json:"input,omitempty"`
	CallID    string          `json:"tool_use_id,omitempty"`
	Content   []any           `json:"content,omitempty"`
	Failed    bool            `json:"is_error,omitempty"`
	Title     string          `json:"title,omitempty"`
	Source    *source         `json:"source,omitempty"`
	Cache     *breakpoint     `json:"cache_control,omitempty"`
}

// source is where an image or a document is.
type source struct {
	Type      string `json:"type"` // "base64", "url" or "text"
	MediaType string `json:"media_type,omitempty"`
	Data      string `json:"data,omitempty"`
	URL       string `json:"url,omitempty"`
}

// history writes messages as turns.
func (m *model) history(messages []adapter.Message) (*wire.Turns, error) {
	t, err := wire.NewTurns(m, messages, false)
	if err != nil {
		return nil, err
	}
	if last := t.List[len(t.List)-1]; last.Role == adapter.Assistant {
		if p, ok := last.Content[len(last.Content)-1].(*part); ok {
			p.Text = strings.TrimRight(p.Text, " \t\r\n") // the API refuses white space at the end of a prefill
		}
		if m.version >= 46 { // and since 4.6 every prefill
			t.List = append(t.List, wire.Turn{Role: adapter.User, Content: []any{m.Text("Continue.", nil)}})
		}
	}
	return t, nil
}

// Text and the next ones write blocks, as [wire.Blocks] has them.
func (m *model) Text(text string, beside json.RawMessage) any {
	cited, _, _, _ := jsonparser.Get(beside, "citations")
	return &part{Type: "text", Text: text, Citations: cited}
}

// Thinking leaves out thinking without a signature, which Claude refuses. Other makers' models may send none and still want it back.
func (m *model) Thinking(p *adapter.MadePart) any {
	signature := wire.StringAt(p.Data, "signature")
	if signature == nil && m.version > 0 {
		return nil
	}
	return &part{Type: "thinking", Thinking: &p.Text, Signature: append(append([]byte{'"'}, signature...), '"')}
}

func (m *model) Other(data json.RawMessage) (any, bool) {
	if !wire.IsObject(data) {
		return nil, false
	}
	return data, string(wire.StringAt(data, "type")) == "redacted_thinking"
}

func (m *model) Call(id, name string, input, beside json.RawMessage) any {
	p := &part{Type: "tool_use", ID: id, Name: name, Input: input}
	if len(beside) <= len("{}") || !wire.IsObject(beside) {
		return p
	}
	raw, _ := rawjson.Marshal(p) // of texts, and an object that is JSON: cannot fail
	return json.RawMessage(append(append(raw[:len(raw)-1], ','), beside[1:]...))
}

func (m *model) Result(id string, content []any, failed bool) any {
	return &part{Type: "tool_result", CallID: id, Content: content, Failed: failed}
}

func (m *model) File(p *adapter.Part) (any, error) {
	out, what := &part{Type: "document", Title: p.Name}, "a file"
	address := p.File
	if p.Image != "" {
		out, address, what = &part{Type: "image"}, p.Image, "an image"
	}
	if wire.IsWeb(address) { // Anthropic fetches images and PDF only
		out.Source = &source{Type: "url", URL: address}
		return out, nil
	}
	data, ok := wire.ReadData(address)
	major, _, _ := strings.Cut(data.Type, "/")
	switch known := strings.Contains(" image/jpeg image/png image/gif image/webp ", " "+data.Type+" "); {
	case !ok:
		return nil, m.cannot(what + " that is neither an http(s) URL nor a data URL")
	case known:
		return &part{Type: "image", Source: &source{Type: "base64", MediaType: data.Type, Data: data.Base64}}, nil
	case major == "image" || p.Image != "":
		return nil, m.cannot("an image of another type")
	case data.Type == "application/pdf":
		out.Source = &source{Type: "base64", MediaType: data.Type, Data: data.Base64}
	case major == "audio" || major == "video":
		return nil, m.cannot(major)
	default:
		text, plain := data.Text()
		if !plain {
			return nil, m.cannot("a file that is neither a PDF nor text")
		}
		out.Source = &source{Type: "text", MediaType: "text/plain", Data: text}
	}
	return out, nil
}

func (m *model) cannot(what string) error {
	return m.p.CannotTake("does not take " + what + ": expected text, a JPEG, PNG, GIF or WebP image, or a PDF")
}

// breakpoints marks the ends of the tools, of the system prompt and of the last two user turns. The turn before the last is where the previous
// request ended, so its cache entry is found however many blocks came since. The API allows four.
func (r *request) breakpoints() {
	if n := len(r.Tools); n > 0 {
		r.Tools[n-1].Cache = ephemeral
	}
	if n := len(r.System); n > 0 {
		r.System[n-1].(*part).Cache = ephemeral
	}
	for i, left := len(r.Messages)-1, 2; i >= 0 && left > 0; i-- {
		if t := r.Messages[i]; t.Role == adapter.User {
			t.Content[len(t.Content)-1].(*part).Cache = ephemeral
			left--
		}
	}
}
