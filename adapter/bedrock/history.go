package bedrock

import (
	"cmp"
	"encoding/json"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/wire"
)

// history writes messages as turns, and says which tools were called in them.
type history struct {
	*asking
	names map[string]int // how often a document has been called so
}

func (a *asking) history(messages []adapter.Message) (*wire.Turns, error) {
	t, err := wire.NewTurns(&history{asking: a, names: map[string]int{}}, messages, a.Uses(apart))
	if err != nil {
		return nil, err
	}
	if a.Uses(noSystem) {
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
	has := func(member string) bool {
		return slices.ContainsFunc(t.Content, func(block any) bool { o, _ := block.(object); return o[member] != nil })
	}
	if has("document") && !has("text") {
		t.Content = append(t.Content, text("(see the file)"))
	}
}

func text(s string) object { return object{"text": s} }

// mark puts cache points behind the system's message and the last two turns of the user: the one before last is where the last request's
// was, and so is read. (MO-24)
func (a *asking) mark(t *wire.Turns) {
	if a.family != claude && a.family != nova || a.Uses(noCache) {
		return
	}
	if len(t.System) > 0 {
		t.System = append(t.System, cachePoint)
	}
	for i, points := len(t.List)-1, 0; i >= 0 && points < 2; i-- {
		if t := &t.List[i]; t.Role == adapter.User {
			t.Content = append(t.Content, cachePoint)
			points++
		}
	}
}

// Text and the next ones write blocks, as [wire.Blocks] has them.
func (h *history) Text(s string, _ json.RawMessage) any { return text(s) }

// Thinking leaves out what the model would refuse. Claude takes none without its signature.
func (h *history) Thinking(p *adapter.MadePart) any {
	signature, _ := wire.Unescape(wire.StringAt(p.Data, "signature"))
	if signature == "" && (h.family == claude || p.Text == "") {
		return nil
	}
	thought := text(p.Text)
	if signature != "" {
		thought["signature"] = signature
	}
	return object{"reasoningContent": object{"reasoningText": thought}}
}

func (h *history) Call(id, name string, input, _ json.RawMessage) any {
	return object{"toolUse": object{"toolUseId": id, "name": name, "input": input}}
}

func (h *history) Other(data json.RawMessage) (any, bool) {
	return data, strings.Contains(string(data), `"reasoningContent"`)
}

func (h *history) Result(id string, content []any, failed bool) any {
	if len(content) == 0 {
		content = []any{text("(no output)")}
	}
	result := object{"toolUseId": id, "content": content}
	if failed && (h.family == claude || h.family == nova) { // others take none
		result["status"] = "error"
	}
	return object{"toolResult": result}
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
		return nil, h.p.CannotTake("takes no " + what + " by its address: expected a data: URL")
	case f.member == "":
		kind, _, _ := strings.Cut(data.Type, "/")
		return nil, h.p.CannotTake("does not take this kind of " + wire.SchemaName(kind) +
			": expected a PNG, JPEG, GIF or WebP image, a PDF, Office or text document, or a common kind of audio or video")
	}
	out := object{"format": f.format, "source": object{"bytes": data.Base64}}
	if f.member == "document" {
		out["name"] = h.documentName(p.Name)
	}
	return object{f.member: out}, nil
}

var notInNames = regexp.MustCompile(`[^a-zA-Z0-9()\[\]-]+`)

// documentName makes a name that the API takes: letters, digits, single spaces, hyphens and brackets, and none twice.
func (h *history) documentName(name string) string {
	name = strings.TrimSuffix(name, path.Ext(name))
	name = strings.TrimSpace(notInNames.ReplaceAllString(name, " "))
	name = cmp.Or(strings.TrimSpace(name[:min(len(name), 100)]), "document")
	if h.names[name]++; h.names[name] > 1 {
		return name + " (" + strconv.Itoa(h.names[name]) + ")"
	}
	return name
}
