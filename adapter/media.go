package adapter

import (
	"encoding/base64"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/html/charset"
)

// Kinds of media. A model that takes files takes all that is none of the others, text too; every model takes text as text.
const (
	KindImage = "image"
	KindPDF   = "pdf"
	KindAudio = "audio"
	KindFile  = "file"
	kindText  = "text"
)

// MediaKinds lists them.
func MediaKinds() []string { return []string{KindImage, KindPDF, KindAudio, KindFile} }

// MediaRule says which kinds of media the models of a name take. In a pattern, * stands for any characters.
type MediaRule struct {
	Model string // "provider:name"
	Takes []string
}

// ParseMediaRule reads a rule as settings have it: "provider:name=image+pdf", or "provider:name=none".
func ParseMediaRule(text string) (MediaRule, error) {
	model, kinds, ok := strings.Cut(text, "=")
	r := MediaRule{Model: strings.TrimSpace(model)}
	if !ok || !strings.Contains(r.Model, ":") {
		return r, fmt.Errorf("%q is not a rule; expected provider:name=image+pdf, with %s or none", text, strings.Join(MediaKinds(), ", "))
	}
	if kinds = strings.TrimSpace(kinds); kinds == "none" {
		return r, nil
	}
	for kind := range strings.SplitSeq(kinds, "+") {
		if kind = strings.TrimSpace(kind); !slices.Contains(MediaKinds(), kind) {
			return r, fmt.Errorf("%q is not a kind of media; expected %s or none", kind, strings.Join(MediaKinds(), ", "))
		}
		r.Takes = append(r.Takes, kind)
	}
	return r, nil
}

// mediaTable is read from above. It narrows what a wire has: where a provider's pages do not say that its models refuse a kind, there is no row.
var mediaTable = []struct {
	models string // patterns, with spaces between
	takes  []string
}{
	{"openai:gpt-3.5* openai:gpt-4 openai:gpt-4-0* openai:gpt-4-32k* openai:o1-mini* openai:o1-preview* openai:o3-mini*", nil},
	{"openai:gpt-*audio*", []string{KindAudio}},
	{"openai:gpt-* openai:o1* openai:o3* openai:o4*", []string{KindImage, KindPDF}},
	{"responses:gpt-3.5* responses:gpt-4 responses:o3-mini*", nil},
	{"responses:*", []string{KindImage, KindPDF}},
	{"anthropic:claude-2* anthropic:claude-instant*", nil},
	{"anthropic:*", []string{KindImage, KindPDF}},
	{"bedrock:*nova-micro*", nil},
	{"bedrock:*", []string{KindImage, KindPDF}},
	{"gemini:gemma*", []string{KindImage}},
	{"mistral:voxtral*", []string{KindAudio}},
	{"mistral:codestral* mistral:devstral*", nil},
	{"groq:llama-3* groq:*gpt-oss* groq:qwen*", nil},
	{"xai:grok-3* xai:grok-code*", nil},
	{"zai:glm-*v*", []string{KindImage}},
	{"zai:glm-* deepseek:* cerebras:* minimax:minimax-m*", nil},
	{"cohere:*vision*", []string{KindImage}},
	{"cohere:*", nil},
	{"qwen:*omni*", []string{KindImage, KindAudio}},
	{"moonshot:*vision*", []string{KindImage}},
	{"moonshot:moonshot-v1* moonshot:kimi-k2-*", nil},
	{"mistral:* groq:* xai:* perplexity:* qwen:* moonshot:* ollama:*", []string{KindImage}},
	{"coze:*", []string{KindImage, KindPDF, KindAudio, KindFile}},
	{"*", []string{KindImage, KindPDF, KindAudio}}, // what the wire of OpenAI has
}

// mediaOf finds the kinds of media that a model takes. Rules of settings go before those of the table.
func mediaOf(rules []MediaRule, model string) []string {
	model = strings.ToLower(model)
	for _, r := range rules {
		if MatchesPattern(strings.ToLower(r.Model), model) {
			return r.Takes
		}
	}
	fits := func(pattern string) bool { return MatchesPattern(pattern, model) }
	for _, r := range mediaTable {
		if slices.ContainsFunc(strings.Fields(r.models), fits) {
			return r.takes
		}
	}
	return nil
}

// MatchesPattern reports whether a name fits a pattern, in which * stands for any characters.
func MatchesPattern(pattern, name string) bool {
	fits, err := path.Match(strings.ReplaceAll(pattern, "/", ":"), strings.ReplaceAll(name, "/", ":")) // there, * stands for no slash
	return fits && err == nil
}

// DataURL writes data as a URL that holds them.
func DataURL(kind string, data []byte) string {
	return "data:" + kind + ";base64," + base64.StdEncoding.EncodeToString(data)
}

// OpenDataURL returns the media type, without parameters, and the data of a URL that holds them; ok is false for any other.
func OpenDataURL(address string) (kind string, data []byte, ok bool) {
	head, body, ok := strings.Cut(address, ",")
	if !ok || !strings.HasPrefix(head, "data:") {
		return "", nil, false
	}
	kind, coded := mediaType(head), strings.HasSuffix(head, ";base64")
	if !coded {
		text, err := url.PathUnescape(body)
		return kind, []byte(text), err == nil
	}
	data, err := base64.StdEncoding.DecodeString(body)
	return kind, data, err == nil
}

// mediaType is the type in the head of a data URL.
func mediaType(address string) string {
	head, _, _ := strings.Cut(address, ",")
	kind, _, _ := strings.Cut(strings.TrimPrefix(head, "data:"), ";")
	return strings.ToLower(strings.TrimSpace(kind))
}

// MediaKind is the kind of a media type: one of [MediaKinds], or "text".
func MediaKind(kind string) string {
	kind, _, _ = strings.Cut(strings.ToLower(kind), ";")
	switch {
	case strings.HasPrefix(kind, "image/") && kind != "image/svg+xml":
		return KindImage
	case strings.HasPrefix(kind, "audio/"):
		return KindAudio
	case kind == "application/pdf":
		return KindPDF
	case strings.HasPrefix(kind, "text/"), strings.HasSuffix(kind, "+json"), strings.HasSuffix(kind, "+xml"),
		slices.Contains([]string{"application/json", "application/xml", "application/yaml", "application/x-yaml", "application/javascript", "application/x-ndjson", "application/toml", "application/sql"}, kind):
		return kindText
	}
	return KindFile
}

// Kind is the kind of media that a part holds: one of [MediaKinds], or "text" for text and for files of text.
func (p *Part) Kind() string {
	switch {
	case p.Image != "":
		return KindImage
	case p.File == "":
		return kindText
	case strings.HasPrefix(p.File, "data:"):
		return MediaKind(mediaType(p.File))
	}
	if at, err := url.Parse(p.File); err == nil {
		return MediaKind(mime.TypeByExtension(path.Ext(at.Path)))
	}
	return KindFile
}

// SniffMedia is the media type of data, by what is in them. What is text, claimed names more exactly.
func SniffMedia(data []byte, claimed string) string {
	found, _, _ := mime.ParseMediaType(http.DetectContentType(data))
	switch { // what net/http does not know
	case len(data) > 11 && string(data[4:8]) == "ftyp" && (string(data[8:11]) == "M4A" || string(data[8:11]) == "M4B"):
		return "audio/mp4"
	case len(data) > 11 && string(data[4:8]) == "ftyp" && slices.Contains([]string{"heic", "heix", "mif1"}, string(data[8:12])):
		return "image/heic"
	case len(data) > 4 && string(data[:4]) == "fLaC":
		return "audio/flac"
	case len(data) > 2 && data[0] == 0xff && data[1]&0xe0 == 0xe0 && found == "application/octet-stream": // MPEG audio without a tag
		return "audio/mpeg"
	case found == "application/ogg":
		return "audio/ogg"
	case found == "audio/wave":
		return "audio/wav"
	}
	if strings.HasPrefix(found, "text/") || found == "application/octet-stream" && utf8.Valid(data) && !slices.Contains(data, 0) {
		claimed, _, err := mime.ParseMediaType(claimed)
		if err == nil && MediaKind(claimed) == kindText {
			return claimed
		}
		if !strings.HasPrefix(found, "text/") {
			return "text/plain"
		}
	}
	return found
}

// fit makes of a request's media what the model takes. A file of text becomes text, and an image that came as a file an image. What the model
// cannot take is refused in the new message; earlier in the history, and in results of tools, a text replaces it.
func (g *guarded) fit(req *Request) error {
	isMedia := func(p Part) bool { return p.Image != "" || p.File != "" }
	if !slices.ContainsFunc(req.Messages, func(m Message) bool { return slices.ContainsFunc(m.Parts, isMedia) }) {
		return nil
	}
	now := len(req.Messages) // from here on stands what is asked now
	for now > 0 && req.Messages[now-1].Role == User {
		now--
	}
	if now > 0 && req.Messages[now-1].Role == ToolRole {
		now = len(req.Messages)
	}
	req.Messages = slices.Clone(req.Messages)
	for i := range req.Messages {
		m := &req.Messages[i]
		m.Parts = slices.Clone(m.Parts)
		for k := range m.Parts {
			if err := g.fitPart(&m.Parts[k], i >= now); err != nil {
				return err
			}
		}
	}
	return nil
}

func (g *guarded) fitPart(p *Part, asked bool) error {
	if p.Image == "" && p.File == "" {
		return nil
	}
	kind := p.Kind()
	switch {
	case slices.Contains(g.takes, kind), kind == kindText && slices.Contains(g.takes, KindFile):
		if kind == KindImage && p.Image == "" {
			*p = Part{Type: "image_url", Image: p.File}
		}
		return nil
	case kind == kindText:
		if _, data, ok := OpenDataURL(p.File); ok {
			head, _, _ := strings.Cut(strings.TrimPrefix(p.File, "data:"), ",")
			text, guessed := decodeText(data, strings.TrimSuffix(head, ";base64"))
			if guessed != "" {
				guessed = fmt.Sprintf(" encoding=%q", guessed+", guessed")
			}
			*p = Part{Type: "text", Text: fmt.Sprintf("<file name=%q%s>\n%s\n</file>", p.Name, guessed, text)}
			return nil
		}
	case !asked:
		*p = Part{Type: "text", Text: "[" + mediaNames[kind].one + " that this model cannot read]"}
		return nil
	}
	return &Error{
		Code: CodeInvalid, OfModel: true, Refused: true,
		Message: fmt.Sprintf("the model %s:%s does not accept %s; expected %s", g.provider, g.name, mediaNames[kind].many, kindsText(g.takes)),
		Notice:  fmt.Sprintf("This model reads %s, but no %s.", kindsText(g.takes), mediaNames[kind].many),
	}
}

// decodeText reads text by its byte order mark, else by the charset of its media type, else as UTF-8. What is none of these is read by its looks,
// mostly as Windows-1252; guessed is the name of that encoding.
func decodeText(data []byte, mediaType string) (text, guessed string) {
	code, name, certain := charset.DetermineEncoding(data, mediaType)
	switch {
	case !certain && utf8.Valid(data):
		return string(data), ""
	case !certain:
		guessed = name
	}
	decoded, err := code.NewDecoder().Bytes(data)
	if err != nil {
		decoded = data
	}
	return strings.TrimPrefix(strings.ToValidUTF8(string(decoded), "\uFFFD"), "\ufeff"), guessed
}

// mediaNames are what errors call a medium of a kind, and several.
var mediaNames = map[string]struct{ one, many string }{
	KindImage: {"an image", "images"},
	KindPDF:   {"a PDF", "PDF files"},
	KindAudio: {"a sound", "audio"},
	KindFile:  {"a file", "files of this type"},
	kindText:  {"a file", "addresses of text files"},
}

func kindsText(kinds []string) string {
	words := []string{"text"}
	for _, kind := range kinds {
		words = append(words, strings.TrimSuffix(mediaNames[kind].many, " of this type"))
	}
	if n := len(words); n > 1 {
		return strings.Join(words[:n-1], ", ") + " and " + words[n-1]
	}
	return "text only"
}
