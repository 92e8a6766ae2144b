package bedrock

import (
	"encoding/json"
	"errors"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/wire"
)

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
	Input json.RawMessage `json:"input"`
}

type toolResult struct {
	ID      string `json:"toolUseId"`
	Status  string `json:"status,omitempty"`
	Content []any  `json:"content"`
}

// errFile is the cause of an error about a file.
var errFile = errors.New("a file of a kind that the API does not take")

// file is an image, a document, a sound or a film.
type file struct {
	Format string `json:"format"`
	Name   string `json:"name,omitempty"`
	Source struct {
		Bytes string `json:"bytes"` // in base64
	} `json:"source"`
}

// own is a block of a call or a result.
type own struct {
	ToolUse    *toolUse    `json:"toolUse,omitempty"`
	ToolResult *toolResult `json:"toolResult,omitempty"`
}

// history writes messages as turns, and says which tools were called in them.
type history struct {
	*asking
	names map[string]int // how often a document has been called so
}

func (a *asking) history(messages []adapter.Message) (*wire.Turns, error) {
	t, err := wire.NewTurns(&history{asking: a, names: map[string]int{}}, messages, a.Knows(apart))
	if err != nil {
		return nil, err
	}
	if a.Knows(noSystem) {
		t.List[0].Content = append(t.System, t.List[0].Content...)
		t.System = nil
	}
	for i := range t.List {
		explain(&t.List[i])
	}
	a.mark(t)
	return t, nil
}

// explain adds a text to a turn with a document: Bedrock wants one.
func explain(t *wire.Turn) {
	is := func(want func(any) bool) bool { return slices.ContainsFunc(t.Content, want) }
	if is(func(b any) bool { f, _ := b.(map[string]file); _, ok := f["document"]; return ok }) && !is(func(b any) bool { _, ok := b.(text); return ok }) {
		t.Content = append(t.Content, text{"(see the file)"})
	}
}

// mark puts cache points behind the system's message and the last two turns of the user: the one before last is where the last request's
// was, and so is read. (MO-24)
func (a *asking) mark(t *wire.Turns) {
	if a.family != claude && a.family != nova || a.Knows(noCache) {
		return
	}
	if len(t.System) > 0 && !a.Knows(noSystemCache) {
		t.System = append(t.System, cachePoint)
	}
	for i, points := len(t.List)-1, 0; i >= 0 && points < 2 && !a.Knows(noMessageCache); i-- {
		if t := &t.List[i]; t.Role == adapter.User {
			t.Content = append(t.Content, cachePoint)
			points++
		}
	}
}

// Text and the next ones write blocks, as [wire.Blocks] has them.
func (h *history) Text(s string, _ json.RawMessage) any { return text{s} }

// Thinking leaves out what the model would refuse. Claude takes none without its signature.
func (h *history) Thinking(p *adapter.MadePart) any {
	var beside signed
	if len(p.Data) > 0 && json.Unmarshal(p.Data, &beside) != nil || h.Knows(noReasoning) || beside.Signature == "" && (h.family == claude || p.Text == "") {
		return nil
	}
	if h.Knows(noSignature) {
		beside.Signature = ""
	}
	return reasoningBlock{reasoningContent{Text: &reasoningText{p.Text, beside.Signature}}}
}

func (h *history) Call(id, name string, input, _ json.RawMessage) any {
	return own{ToolUse: &toolUse{ID: id, Name: name, Input: input}}
}

func (h *history) Other(data json.RawMessage) (any, bool) {
	thought := strings.Contains(string(data), `"reasoningContent"`)
	if thought && h.Knows(noReasoning) {
		return nil, false
	}
	return data, thought
}

func (h *history) Result(id string, content []any, failed bool) any {
	if len(content) == 0 {
		content = []any{text{"(no output)"}}
	}
	r := &toolResult{ID: id, Content: content}
	if failed && (h.family == claude || h.family == nova) { // others take none
		r.Status = "error"
	}
	return own{ToolResult: r}
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

// File writes an image or a file, which must be data: Bedrock fetches nothing.
func (h *history) File(p *adapter.Part) (any, error) {
	address, what := p.Image, "image"
	if address == "" {
		address, what = p.File, "file"
	}
	data, ok := wire.ReadData(address)
	f := formats[data.Type]
	if f.member == "" && strings.HasPrefix(data.Type, "text/") {
		f.member, f.format = "document", "txt"
	}
	switch {
	case !ok:
		return nil, h.cannot(" takes no " + what + " by its address: expected a data: URL")
	case f.member == "":
		kind, _, _ := strings.Cut(data.Type, "/")
		return nil, h.cannot(" does not take this kind of " + wire.SchemaName(kind) +
			": expected a PNG, JPEG, GIF or WebP image, a PDF, Office or text document, or a common kind of audio or video")
	}
	out := file{Format: f.format}
	out.Source.Bytes = data.Base64
	if f.member == "document" {
		out.Name = h.documentName(p.Name)
	}
	return map[string]file{f.member: out}, nil
}

func (h *history) cannot(why string) error {
	return &adapter.Error{Code: adapter.CodeInvalid, Message: h.p.Name() + why, Cause: errFile}
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
	if h.names[name]++; h.names[name] > 1 {
		return name + " (" + strconv.Itoa(h.names[name]) + ")"
	}
	return name
}
