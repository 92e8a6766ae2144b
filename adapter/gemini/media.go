package gemini

import (
	"encoding/base64"
	"errors"
	"mime"
	"net/url"
	"path"
	"strings"

	"github.com/lingserve/lingserve/adapter"
)

// parts returns the parts of a message that is not the model's.
func (m *model) parts(msg *adapter.Message) (parts []part, err error) {
	if len(msg.Parts) == 0 {
		if msg.Content != "" || msg.Role == adapter.ToolRole {
			parts = []part{{"text": msg.Content}}
		}
		return parts, nil
	}
	for _, p := range msg.Parts {
		at, image := p.File, false
		if p.Image != "" {
			at, image = p.Image, true
		}
		switch {
		case at != "":
			f, err := m.file(at, image)
			if err != nil {
				return nil, err
			}
			parts = append(parts, f)
		case p.Text != "":
			parts = append(parts, part{"text": p.Text})
		}
	}
	return parts, nil
}

// file makes a part of a data: URL, or of the address of a file.
func (m *model) file(at string, image bool) (part, error) {
	if rest, ok := strings.CutPrefix(at, "data:"); ok {
		kind, data, err := readData(rest)
		if err != nil {
			return nil, invalid("a file in the request is not a data: URL that can be read", err)
		}
		taken := takes(kind)
		if taken == "" {
			return nil, invalid(m.p.Prefix+" takes images, PDF, audio, video and text, but not files of the type "+printable(kind), errors.New(printable(kind)))
		}
		return part{"inlineData": part{"mimeType": taken, "data": data}}, nil
	}
	u, err := url.Parse(at)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" && u.Scheme != "gs" {
		return nil, invalid("a file in the request has an address that is neither a data: URL nor http(s)", errors.New("another scheme"))
	}
	f := part{"fileUri": at}
	if kind := kinds[strings.ToLower(path.Ext(u.Path))]; kind != "" {
		f["mimeType"] = kind
	} else if image {
		f["mimeType"] = "image/jpeg" // Vertex AI wants a type, and looks at the file itself
	}
	return part{"fileData": f}, nil
}

func invalid(message string, cause error) error {
	return &adapter.Error{Code: adapter.CodeInvalid, Message: message, Cause: cause}
}

// readData takes a data: URL apart; the data is in base64.
func readData(rest string) (kind, data string, err error) {
	head, data, ok := strings.Cut(rest, ",")
	if !ok {
		return "", "", errors.New("no comma")
	}
	head, isBase64 := strings.CutSuffix(head, ";base64")
	if kind, _, err = mime.ParseMediaType(head); err != nil {
		kind = "text/plain" // what the standard takes for no type
		if head != "" && head[0] != ';' {
			return "", "", err
		}
	}
	if isBase64 {
		return kind, data, nil
	}
	plain, err := url.PathUnescape(data)
	return kind, base64.StdEncoding.EncodeToString([]byte(plain)), err
}

// takes returns the type under which a file is sent; "" where Gemini does not take such. Text of all kinds is text.
func takes(kind string) string {
	family, _, _ := strings.Cut(kind, "/")
	switch {
	case family == "image", family == "audio", family == "video", kind == "application/pdf":
		return kind
	case kind == "text/html", kind == "text/css", kind == "text/csv", kind == "text/xml", kind == "text/rtf":
		return kind
	case family == "text", strings.HasSuffix(kind, "json"), strings.HasSuffix(kind, "xml"), strings.HasSuffix(kind, "yaml"), strings.HasSuffix(kind, "javascript"):
		return "text/plain"
	}
	return ""
}

// printable shortens the type of a file to what can be shown.
func printable(kind string) string {
	if len(kind) > 60 || strings.ContainsAny(kind, "<{:\r\n") {
		return "unknown"
	}
	return kind
}

// kinds are the types of files by the ends of their names.
var kinds = map[string]string{
	".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".webp": "image/webp", ".gif": "image/gif", ".heic": "image/heic", ".heif": "image/heif",
	".pdf": "application/pdf", ".txt": "text/plain", ".md": "text/plain", ".csv": "text/csv", ".html": "text/html", ".json": "text/plain",
	".mp3": "audio/mp3", ".wav": "audio/wav", ".ogg": "audio/ogg", ".flac": "audio/flac", ".m4a": "audio/m4a", ".aac": "audio/aac",
	".mp4": "video/mp4", ".mov": "video/mov", ".webm": "video/webm",
}
