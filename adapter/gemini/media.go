package gemini

import (
	"cmp"
	"errors"
	"net/url"
	"path"
	"regexp"
	"strconv"
	"strings"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/wire"
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
		switch at := cmp.Or(p.Image, p.File); {
		case at != "":
			f, err := m.file(at, p.Image != "")
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
	if strings.HasPrefix(at, "data:") {
		d, ok := wire.ReadData(at)
		if !ok {
			return nil, invalid("a file in the request is not a data: URL that can be read")
		}
		taken := takes(d.Type)
		if taken == "" {
			return nil, invalid(m.p.Prefix + " takes images, PDF, audio, video and text, but not files of the type " + strconv.QuoteToASCII(d.Type[:min(len(d.Type), 60)]))
		}
		return part{"inlineData": part{"mimeType": taken, "data": d.Base64}}, nil
	}
	u, err := url.Parse(at)
	if err != nil || !wire.IsWeb(at) && u.Scheme != "gs" {
		return nil, invalid("a file in the request has an address that is neither a data: URL nor http(s)")
	}
	f := part{"fileUri": at}
	if kind := kinds[strings.ToLower(path.Ext(u.Path))]; kind != "" {
		f["mimeType"] = kind
	} else if image {
		f["mimeType"] = "image/jpeg" // Vertex AI wants a type, and looks at the file itself
	}
	return part{"fileData": f}, nil
}

func invalid(message string) error {
	return &adapter.Error{Code: adapter.CodeInvalid, Message: message, Cause: errFile}
}

// takes returns the type under which a file is sent; "" where Gemini does not take such. Text of all kinds is text.
func takes(kind string) string {
	family, form, _ := strings.Cut(kind, "/")
	switch {
	case family == "image", family == "audio", family == "video", kind == "application/pdf":
		return kind
	case family == "text", textual.MatchString(form):
		return "text/plain"
	}
	return ""
}

var (
	errFile = errors.New("a file that cannot be sent")
	textual = regexp.MustCompile(`(json|xml|yaml|javascript)$`)
)

// kinds are the types of files by the ends of their names.
var kinds = map[string]string{
	".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".webp": "image/webp", ".gif": "image/gif", ".heic": "image/heic", ".heif": "image/heif",
	".pdf": "application/pdf", ".txt": "text/plain", ".md": "text/plain", ".csv": "text/csv", ".html": "text/html", ".json": "text/plain",
	".mp3": "audio/mp3", ".wav": "audio/wav", ".ogg": "audio/ogg", ".flac": "audio/flac", ".m4a": "audio/m4a", ".aac": "audio/aac",
	".mp4": "video/mp4", ".mov": "video/mov", ".webm": "video/webm",
}
