package bedrock

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"mime"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/wire"
)

// turn is what one side says until the other one does.
type turn struct {
	Role    string `json:"role"`
	Content []any  `json:"content"`
}

type text struct {
	Text string `json:"text"`
}

type reasoningBlock struct {
	Reasoning reasoningContent `json:"reasoningContent"`
}

type reasoningContent struct {
	Text     *reasoningText `json:"reasoningText,omitempty"`
	Redacted []byte         `json:"redactedContent,omitempty"`
}

type reasoningText struct {
	Text      string `json:"text"`
	Signature string `json:"signature,omitempty"`
}

type toolUse struct {
	ID    string          `json:"toolUseId"`
	Name  string          `json:"name"`
	Type  string          `json:"type,omitempty"`
	Input json.RawMessage `json:"input"`
}

type toolResult struct {
	ID      string `json:"toolUseId"`
	Type    string `json:"type,omitempty"`
	Status  string `json:"status,omitempty"`
	Content []any  `json:"content"`
}

// file is an image, a document, a sound or a film.
type file struct {
	Format string `json:"format"`
	Name   string `json:"name,omitempty"`
	Source struct {
		Bytes string `json:"bytes"` // in base64
	} `json:"source"`
}

// history writes messages as turns of user and assistant, in which results of tools are the user's.
type history struct {
	m       *model
	without learned
	system  []any
	turns   []turn
	pending []string       // ids of calls that have no result yet
	called  []string       // names of the tools that were called, each once
	names   map[string]int // how often a document has been called so
	working bool           // the last calls were made to go on with what the user asked last
	// unthought says that they began without thinking.
	unthought bool
}

// nothing stands for what is empty, which is refused.
var nothing = []any{text{"(nothing)"}}

func (h *history) write(messages []adapter.Message) error {
	for i := range messages {
		msg := &messages[i]
		switch msg.Role {
		case adapter.System:
			h.instruct(msg)
		case adapter.Assistant:
			h.missing()
			h.assistant(msg)
		case adapter.ToolRole:
			if err := h.result(msg); err != nil {
				return err
			}
		default:
			h.missing()
			content, err := h.content(msg)
			if err != nil {
				return err
			}
			if len(content) == 0 {
				content = nothing
			}
			if h.without&apart != 0 && h.ends(func(block any) bool { _, ok := block.(own); return ok }) {
				h.add(adapter.Assistant, text{"(continued)"})
			}
			h.add(adapter.User, content...)
			h.working = false
		}
	}
	h.missing()
	if len(h.turns) == 0 || h.turns[0].Role != adapter.User {
		h.turns = slices.Insert(h.turns, 0, turn{adapter.User, slices.Clone(nothing)})
	}
	if h.without&noSystem != 0 && len(h.system) > 0 && h.turns[0].Role == adapter.User {
		h.turns[0].Content = append(h.system, h.turns[0].Content...)
		h.system = nil
	}
	for i := range h.turns {
		explain(&h.turns[i])
	}
	h.mark()
	return nil
}

// add appends blocks to the turn of a side. No blocks are no turn.
func (h *history) add(role string, blocks ...any) {
	if len(blocks) == 0 {
		return
	}
	if n := len(h.turns); n > 0 && h.turns[n-1].Role == role {
		h.turns[n-1].Content = append(h.turns[n-1].Content, blocks...)
		return
	}
	h.turns = append(h.turns, turn{role, slices.Clone(blocks)})
}

// ends says whether the last block of all is of a kind.
func (h *history) ends(is func(block any) bool) bool {
	if len(h.turns) == 0 {
		return false
	}
	content := h.turns[len(h.turns)-1].Content
	return is(content[len(content)-1])
}

// explain adds a text to a turn with a document: Bedrock wants one.
func explain(t *turn) {
	documents := false
	for _, block := range t.Content {
		switch block := block.(type) {
		case text:
			return
		case map[string]file:
			_, is := block["document"]
			documents = documents || is
		}
	}
	if documents {
		t.Content = append(t.Content, text{"(see the file)"})
	}
}

// mark puts cache points behind the system's message and the last two turns of the user: the one before last is where the last request's
// was, and so is read. (MO-24)
func (h *history) mark() {
	if h.m.family != claude && h.m.family != nova {
		return
	}
	if len(h.system) > 0 && h.without&noSystemCache == 0 {
		h.system = append(h.system, cachePoint)
	}
	if h.without&noMessageCache != 0 {
		return
	}
	for i, points := len(h.turns)-1, 0; i >= 0 && points < 2; i-- {
		if t := &h.turns[i]; t.Role == adapter.User {
			t.Content = append(t.Content, cachePoint)
			points++
		}
	}
}

func (h *history) instruct(msg *adapter.Message) {
	texts := []string{msg.Content}
	if len(msg.Parts) > 0 {
		texts = nil
		for _, p := range msg.Parts {
			texts = append(texts, p.Text)
		}
	}
	for _, t := range texts {
		if strings.TrimSpace(t) != "" {
			h.system = append(h.system, text{t})
		}
	}
}

// content writes text and files. Blank text is left out: it is refused.
func (h *history) content(msg *adapter.Message) (content []any, err error) {
	if len(msg.Parts) == 0 {
		if strings.TrimSpace(msg.Content) != "" {
			content = append(content, text{msg.Content})
		}
		return content, nil
	}
	for _, p := range msg.Parts {
		switch {
		case p.Image != "" || p.File != "":
			block, err := h.file(&p)
			if err != nil {
				return nil, err
			}
			content = append(content, block)
		case strings.TrimSpace(p.Text) != "":
			content = append(content, text{p.Text})
		}
	}
	return content, nil
}

// assistant writes a message as its model made it, or its text and calls.
func (h *history) assistant(msg *adapter.Message) {
	var blocks []any
	calls := map[string]bool{}
	call := func(c *adapter.ToolCall) {
		calls[c.ID] = true
		id, name := idOf(c.ID), wire.SchemaName(c.Name)
		blocks = append(blocks, own{ToolUse: &toolUse{ID: id, Name: name, Input: arguments(c.Arguments)}})
		h.pending = append(h.pending, id)
		if !slices.Contains(h.called, name) {
			h.called = append(h.called, name)
		}
	}
	said, thought := false, false
	if msg.Made != nil {
		for i := range msg.Made.Parts {
			p := &msg.Made.Parts[i]
			switch p.Type {
			case adapter.PartText:
				if strings.TrimSpace(p.Text) != "" {
					blocks, said = append(blocks, text{p.Text}), true
				}
			case adapter.PartReasoning:
				if block, ok := h.reasoning(p); ok {
					blocks, thought = append(blocks, block), thought || len(blocks) == 0
				}
			case adapter.PartCall:
				if at := slices.IndexFunc(msg.ToolCalls, func(c adapter.ToolCall) bool { return c.ID == p.Call }); at >= 0 && !calls[p.Call] {
					call(&msg.ToolCalls[at])
				}
			case adapter.PartOther:
				if h.without&noReasoning == 0 || !strings.Contains(string(p.Data), `"reasoningContent"`) {
					thought = thought || len(blocks) == 0
					blocks = append(blocks, p.Data)
				}
			}
		}
	}
	if !said && strings.TrimSpace(msg.Content) != "" {
		at := slices.IndexFunc(blocks, func(b any) bool { o, ok := b.(own); return ok && o.ToolUse != nil })
		if at < 0 {
			at = len(blocks)
		}
		blocks = slices.Insert(blocks, at, any(text{msg.Content}))
	}
	for i := range msg.ToolCalls {
		if c := &msg.ToolCalls[i]; !calls[c.ID] {
			call(c)
		}
	}
	for len(blocks) > 0 { // reasoning is never the last
		if _, ok := blocks[len(blocks)-1].(reasoningBlock); !ok {
			break
		}
		blocks = blocks[:len(blocks)-1]
	}
	if len(calls) == 0 {
		h.working, h.unthought = false, false
	} else if !h.working {
		h.working, h.unthought = true, !thought
	}
	h.add(adapter.Assistant, blocks...)
}

// reasoning writes a part of reasoning; false where the model would refuse it. Claude takes none without its signature.
func (h *history) reasoning(p *adapter.MadePart) (block reasoningBlock, ok bool) {
	var beside signed
	if len(p.Data) > 0 && json.Unmarshal(p.Data, &beside) != nil || h.without&noReasoning != 0 || beside.Signature == "" && h.m.family == claude {
		return block, false
	}
	if h.without&noSignature != 0 {
		beside.Signature = ""
	}
	return reasoningBlock{reasoningContent{Text: &reasoningText{p.Text, beside.Signature}}}, beside.Signature != "" || p.Text != ""
}

// result writes what a tool has given. One that no call waits for is the user's text.
func (h *history) result(msg *adapter.Message) error {
	content, err := h.content(msg)
	if err != nil {
		return err
	}
	id := idOf(msg.ToolCallID)
	at := slices.Index(h.pending, id)
	if at < 0 {
		h.add(adapter.User, content...)
		return nil
	}
	h.pending = slices.Delete(h.pending, at, at+1)
	if len(content) == 0 {
		content = []any{text{"(no output)"}}
	}
	h.add(adapter.User, own{ToolResult: &toolResult{ID: id, Content: content}})
	return nil
}

// missing adds results for the calls that have none: they are refused without.
func (h *history) missing() {
	for _, id := range h.pending {
		result := &toolResult{ID: id, Content: []any{text{"(no result)"}}}
		if h.m.family == claude || h.m.family == nova { // others take none
			result.Status = "error"
		}
		h.add(adapter.User, own{ToolResult: result})
	}
	h.pending = nil
}

// arguments writes what a call gives as an object, which they must be.
func arguments(s string) json.RawMessage {
	if s = strings.TrimSpace(s); strings.HasPrefix(s, "{") && json.Valid([]byte(s)) {
		return json.RawMessage(s)
	}
	if s == "" || s == "null" {
		return json.RawMessage("{}")
	}
	return marshal(map[string]string{"arguments": s})
}

// idOf makes an id that the API takes: 1 to 64 letters, digits, _ and -. Those of other providers may be others.
func idOf(id string) string {
	if id != "" && id == wire.SchemaName(id) {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return "call_" + hex.EncodeToString(sum[:12])
}

// formats are Bedrock's names of media types.
var formats = map[string]struct{ member, format string }{
	"image/png": {"image", "png"}, "image/jpeg": {"image", "jpeg"}, "image/jpg": {"image", "jpeg"}, "image/gif": {"image", "gif"}, "image/webp": {"image", "webp"},
	"application/pdf": {"document", "pdf"}, "text/csv": {"document", "csv"}, "text/html": {"document", "html"}, "text/markdown": {"document", "md"},
	"application/json": {"document", "txt"}, "application/xml": {"document", "txt"}, "application/yaml": {"document", "txt"},
	"application/msword":       {"document", "doc"},
	"application/vnd.ms-excel": {"document", "xls"},
	"application/vnd.openxmlformats-officedocument.wordprocessingml.document": {"document", "docx"},
	"application/vnd.openxmlformats-officedocument.spreadsheetml.sheet":       {"document", "xlsx"},
	"audio/mpeg": {"audio", "mp3"}, "audio/mp3": {"audio", "mp3"}, "audio/wav": {"audio", "wav"}, "audio/x-wav": {"audio", "wav"}, "audio/ogg": {"audio", "ogg"},
	"audio/flac": {"audio", "flac"}, "audio/aac": {"audio", "aac"}, "audio/mp4": {"audio", "mp4"}, "audio/webm": {"audio", "webm"}, "audio/opus": {"audio", "opus"},
	"video/mp4": {"video", "mp4"}, "video/webm": {"video", "webm"}, "video/quicktime": {"video", "mov"}, "video/x-matroska": {"video", "mkv"},
}

// file writes an image or a file, which must be data: Bedrock fetches nothing.
func (h *history) file(p *adapter.Part) (any, error) {
	address, what := p.Image, "image"
	if address == "" {
		address, what = p.File, "file"
	}
	rest, ok := strings.CutPrefix(address, "data:")
	head, data, whole := strings.Cut(rest, ",")
	if !ok || !whole {
		return nil, &adapter.Error{
			Code: adapter.CodeInvalid, Message: h.m.p.Name() + " takes no " + what + " by its address: expected a data: URL",
			Cause: errNotData,
		}
	}
	head, isBase64 := strings.CutSuffix(head, ";base64")
	kind, _, err := mime.ParseMediaType(head)
	if err != nil {
		kind = "text/plain" // what a data: URL without a type is
	}
	f := formats[kind]
	if f.member == "" && strings.HasPrefix(kind, "text/") {
		f.member, f.format = "document", "txt"
	}
	if f.member == "" {
		kind, _, _ := strings.Cut(kind, "/")
		return nil, &adapter.Error{
			Code: adapter.CodeInvalid, Message: h.m.p.Name() + " does not take this kind of " + wire.SchemaName(kind) +
				": expected a PNG, JPEG, GIF or WebP image, a PDF, Office or text document, or a common kind of audio or video",
			Cause: errNotData,
		}
	}
	if !isBase64 {
		plain, err := url.PathUnescape(data)
		if err != nil {
			plain = data
		}
		data = base64.StdEncoding.EncodeToString([]byte(plain))
	}
	out := file{Format: f.format}
	out.Source.Bytes = data
	if f.member == "document" {
		out.Name = h.documentName(p.Name)
	}
	return map[string]file{f.member: out}, nil
}

// documentName makes a name that the API takes: letters, digits, single spaces, hyphens and brackets, and none twice.
func (h *history) documentName(name string) string {
	name = strings.TrimSuffix(name, path.Ext(name))
	name = strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', strings.ContainsRune("-()[]", r):
			return r
		}
		return ' '
	}, name)
	name = strings.Join(strings.Fields(name), " ")
	if name = strings.TrimSpace(name[:min(len(name), 100)]); name == "" {
		name = "document"
	}
	if h.names == nil {
		h.names = map[string]int{}
	}
	if h.names[name]++; h.names[name] > 1 {
		return name + " (" + strconv.Itoa(h.names[name]) + ")"
	}
	return name
}
