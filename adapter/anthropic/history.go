package anthropic

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"mime"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/buger/jsonparser"
	"github.com/lingserve/lingserve/adapter"
)

// turn is what one side says until the other one does.
type turn struct {
	Role    string `json:"role"`
	Content []any  `json:"content"` // *part, or json.RawMessage for blocks that go back as they came
}

// part is a content block.
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
	Content   []*part         `json:"content,omitempty"`
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

// history adds the messages as turns of user and assistant. Tool results belong to the user's turns. Content is always a list of blocks, so
// that a breakpoint changes nothing else (MO-24).
func (m *model) history(r *request, messages []adapter.Message) error {
	h := writer{m: m, turns: make([]turn, 0, len(messages)), used: map[string]bool{}, named: map[string]bool{}}
	for i := range messages {
		msg := &messages[i]
		if msg.Role == adapter.ToolRole {
			if err := h.result(msg); err != nil {
				return err
			}
			continue
		}
		if msg.Role == adapter.System {
			r.System = append(r.System, texts(msg)...)
			continue
		}
		h.missing()
		if msg.Role == adapter.Assistant {
			h.assistant(msg)
			continue
		}
		parts, err := h.content(msg)
		if err != nil {
			return err
		}
		if len(parts) == 0 { // the API refuses a turn without content
			parts = []*part{{Type: "text", Text: "(nothing)"}}
		}
		for _, p := range parts {
			h.add(adapter.User, p)
		}
	}
	h.missing()
	if n := len(h.turns); n > 0 && h.turns[n-1].Role == adapter.Assistant {
		content := h.turns[n-1].Content
		if p, ok := content[len(content)-1].(*part); ok {
			p.Text = strings.TrimRight(p.Text, " \t\r\n") // the API refuses white space at the end of a prefill
		}
		if m.version >= 46 { // and since 4.6 every prefill
			h.add(adapter.User, &part{Type: "text", Text: "Continue."})
		}
	}
	r.Messages = h.turns
	r.called = h.names
	return nil
}

// writer writes turns.
type writer struct {
	m     *model
	turns []turn
	waits []waiting       // calls of the last turn that have no result yet
	used  map[string]bool // ids; each has to be the only one
	named map[string]bool
	names []string // of the tools that were called
}

// waiting is a call without a result: its id in the history, and on the wire.
type waiting struct{ id, wire string }

func (h *writer) add(role string, content any) {
	if n := len(h.turns); n > 0 && h.turns[n-1].Role == role {
		h.turns[n-1].Content = append(h.turns[n-1].Content, content)
		return
	}
	h.turns = append(h.turns, turn{role, []any{content}})
}

// missing adds results for calls that have none, because the API refuses such calls.
func (h *writer) missing() {
	for _, w := range h.waits {
		h.add(adapter.User, &part{Type: "tool_result", CallID: w.wire, Failed: true, Content: []*part{{Type: "text", Text: "There is no result: the call was not finished."}}})
	}
	h.waits = nil
}

// result adds the result of a call, or a text if the last turn has no such call.
func (h *writer) result(msg *adapter.Message) error {
	parts, err := h.content(msg)
	if err != nil {
		return err
	}
	for i, w := range h.waits {
		if w.id == msg.ToolCallID {
			h.waits = append(h.waits[:i:i], h.waits[i+1:]...)
			h.add(adapter.User, &part{Type: "tool_result", CallID: w.wire, Content: parts})
			return nil
		}
	}
	h.missing()
	for _, p := range parts {
		h.add(adapter.User, p)
	}
	return nil
}

// assistant adds a message of a model: the parts of Made if it has them, or else its text and its calls.
func (h *writer) assistant(msg *adapter.Message) {
	calls := make(map[string]*adapter.ToolCall, len(msg.ToolCalls))
	for i := range msg.ToolCalls {
		calls[msg.ToolCalls[i].ID] = &msg.ToolCalls[i]
	}
	if msg.Made == nil {
		for _, p := range texts(msg) {
			h.add(adapter.Assistant, p)
		}
	} else {
		for _, p := range msg.Made.Parts {
			switch p.Type {
			case adapter.PartText:
				if strings.TrimSpace(p.Text) != "" { // the API refuses blank texts
					cited, _, _, _ := jsonparser.Get(p.Data, "citations")
					h.add(adapter.Assistant, &part{Type: "text", Text: p.Text, Citations: cited})
				}
			case adapter.PartReasoning:
				h.thinking(p)
			case adapter.PartCall:
				if c := calls[p.Call]; c != nil {
					h.call(c, p.Data)
					delete(calls, p.Call)
				}
			case adapter.PartOther:
				if isObject(p.Data) {
					h.add(adapter.Assistant, p.Data)
				}
			}
		}
	}
	for i := range msg.ToolCalls {
		if c := &msg.ToolCalls[i]; calls[c.ID] == c || msg.Made == nil {
			h.call(c, nil)
		}
	}
}

// thinking adds a block of thinking. Claude refuses one without a signature. Other makers' models may send none and still want it back.
func (h *writer) thinking(p adapter.MadePart) {
	signature := member(p.Data, "signature")
	if signature == nil && h.m.version > 0 {
		return
	}
	quoted := append(append([]byte{'"'}, signature...), '"')
	h.add(adapter.Assistant, &part{Type: "thinking", Thinking: &p.Text, Signature: quoted})
}

func (h *writer) call(c *adapter.ToolCall, beside json.RawMessage) {
	p := &part{Type: "tool_use", ID: h.id(c.ID), Name: c.Name, Input: json.RawMessage("{}")}
	if input := []byte(c.Arguments); isObject(input) && json.Valid(input) {
		p.Input = input
	}
	h.waits = append(h.waits, waiting{c.ID, p.ID})
	if !h.named[c.Name] {
		h.named[c.Name] = true
		h.names = append(h.names, c.Name)
	}
	if len(beside) <= len("{}") || !isObject(beside) {
		h.add(adapter.Assistant, p)
		return
	}
	raw, err := json.Marshal(p)
	if err != nil { // of texts, and an object that is JSON
		return
	}
	h.add(adapter.Assistant, json.RawMessage(append(append(raw[:len(raw)-1], ','), beside[1:]...)))
}

// id makes an id that the API takes: letters, digits, _ and -, and unique in the history. Anthropic's own ids stay as they are.
func (h *writer) id(id string) string {
	id = strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', r == '_', r == '-':
			return r
		}
		return '_'
	}, id)
	if id == "" {
		id = "call"
	}
	own := id
	for n := 2; h.used[own]; n++ {
		own = id + "_" + strconv.Itoa(n)
	}
	h.used[own] = true
	return own
}

// unthinking reports whether the history ends in a turn of the assistant, perhaps with tool calls and their results, that does not begin with
// thinking.
func unthinking(turns []turn) bool {
	i := len(turns) - 1
	if i > 0 && turns[i].Role == adapter.Assistant {
		i--
	}
	for ; i >= 1 && hasResult(turns[i]); i -= 2 {
	}
	if i++; i >= len(turns) || turns[i].Role != adapter.Assistant {
		return false
	}
	switch first := turns[i].Content[0].(type) {
	case *part:
		return first.Type != "thinking"
	case json.RawMessage:
		return string(member(first, "type")) != "redacted_thinking"
	}
	return true
}

func hasResult(t turn) bool {
	p, ok := t.Content[0].(*part)
	return ok && p.Type == "tool_result"
}

// breakpoints marks the ends of the tools, of the system prompt and of the last two user turns. The turn before the last is where the previous
// request ended, so its cache entry is found however many blocks came since. The API allows four.
func (m *model) breakpoints(r *request) {
	if n := len(r.Tools); n > 0 {
		r.Tools[n-1].Cache = ephemeral
	}
	if n := len(r.System); n > 0 {
		r.System[n-1].Cache = ephemeral
	}
	for i, left := len(r.Messages)-1, 2; i >= 0 && left > 0; i-- {
		if t := r.Messages[i]; t.Role == adapter.User {
			t.Content[len(t.Content)-1].(*part).Cache = ephemeral
			left--
		}
	}
}

// texts returns the texts of a message without blank ones, which the API refuses.
func texts(msg *adapter.Message) (out []*part) {
	add := func(text string) {
		if strings.TrimSpace(text) != "" {
			out = append(out, &part{Type: "text", Text: text})
		}
	}
	if len(msg.Parts) == 0 {
		add(msg.Content)
	}
	for _, p := range msg.Parts {
		add(p.Text)
	}
	return out
}

// content returns what a message of the user, or a tool's result, has.
func (h *writer) content(msg *adapter.Message) ([]*part, error) {
	if len(msg.Parts) == 0 {
		return texts(msg), nil
	}
	var out []*part
	for _, p := range msg.Parts {
		var b *part
		var err error
		switch {
		case p.Image != "":
			b, err = image(p.Image)
		case p.File != "":
			b, err = document(p.File, p.Name)
		case strings.TrimSpace(p.Text) != "":
			b = &part{Type: "text", Text: p.Text}
		default:
			continue
		}
		if err != nil {
			return nil, h.m.cannot(err)
		}
		out = append(out, b)
	}
	return out, nil
}

func (m *model) cannot(err error) error {
	return &adapter.Error{Code: adapter.CodeInvalid, Message: m.p.Name() + " does not take " + err.Error() + ": expected text, a JPEG, PNG, GIF or WebP image, or a PDF", Cause: err}
}

func image(address string) (*part, error) {
	if isWeb(address) {
		return &part{Type: "image", Source: &source{Type: "url", URL: address}}, nil
	}
	kind, data, encoded, ok := parseData(address)
	switch {
	case !ok || !encoded:
		return nil, errors.New("an image that is neither an http(s) URL nor a data URL in base64")
	case kind != "image/jpeg" && kind != "image/png" && kind != "image/gif" && kind != "image/webp":
		return nil, errors.New("an image of another type")
	}
	return &part{Type: "image", Source: &source{Type: "base64", MediaType: kind, Data: data}}, nil
}

func document(address, name string) (*part, error) {
	out := &part{Type: "document", Title: name}
	if isWeb(address) { // Anthropic fetches PDF only
		out.Source = &source{Type: "url", URL: address}
		return out, nil
	}
	kind, data, encoded, ok := parseData(address)
	major, _, _ := strings.Cut(kind, "/")
	switch {
	case !ok:
		return nil, errors.New("a file that is neither an http(s) URL nor a data URL")
	case major == "image":
		return image(address)
	case kind == "application/pdf" && encoded:
		out.Source = &source{Type: "base64", MediaType: kind, Data: data}
		return out, nil
	case major == "audio" || major == "video":
		return nil, errors.New(major)
	}
	text := []byte(data)
	var err error
	if encoded {
		text, err = base64.StdEncoding.DecodeString(data)
	}
	if err != nil || !utf8.Valid(text) {
		return nil, errors.New("a file that is neither a PDF nor text")
	}
	out.Source = &source{Type: "text", MediaType: "text/plain", Data: string(text)}
	return out, nil
}

func isWeb(address string) bool {
	return strings.HasPrefix(address, "https://") || strings.HasPrefix(address, "http://")
}

// parseData takes a data URL apart: RFC 2397. Data in base64 stays so.
func parseData(address string) (kind, data string, encoded, ok bool) {
	rest, ok := strings.CutPrefix(address, "data:")
	if !ok {
		return "", "", false, false
	}
	kind, data, ok = strings.Cut(rest, ",")
	if kind, encoded = strings.CutSuffix(kind, ";base64"); !encoded && ok {
		var err error
		data, err = url.PathUnescape(data)
		ok = err == nil
	}
	if parsed, _, err := mime.ParseMediaType(kind); err == nil {
		kind = parsed
	} else if kind == "" || kind[0] == ';' {
		kind = "text/plain"
	}
	return kind, data, encoded, ok
}
