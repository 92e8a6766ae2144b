package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"mime"
	"path"
	"strings"
	"time"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/turn"
)

// Bounds of a message's media.
const (
	maxMedia      = 16               // pieces
	maxMediaBytes = 20 << 20         // of all together, before they are written as base64
	mediaTimeout  = 30 * time.Second // for each to be fetched
)

// BuildPrompt makes a prompt of a message. One that has neither facts nor media is its text, byte for byte, and so is a command.
func (a *Agent) BuildPrompt(ctx context.Context, e *turn.Envelope, _ turn.SessionID, _ turn.State) (turn.Prompt, bool, error) {
	if _, ok := a.match(e); ok {
		e.Kind = turn.KindCommand
		return turn.Prompt{Text: e.Content}, true, nil
	}
	if len(e.Context) == 0 && len(e.Media) == 0 {
		return turn.Prompt{Text: e.Content}, true, nil
	}
	if e.Content == "" && len(e.Media) == 0 { // facts alone ask nothing
		return turn.Prompt{}, true, nil
	}
	var text strings.Builder
	for _, f := range e.Context {
		if key := oneLine(f.Key, maxFact); key != "" && !strings.HasPrefix(key, "_") {
			fmt.Fprintf(&text, "%s: %s\n", key, oneLine(f.Value, maxFact))
		}
	}
	date := time.Now().In(cmp.Or(e.Timezone, time.UTC))
	text.WriteString("date: " + date.Format(time.RFC3339))
	if zone := date.Location(); zone != time.UTC {
		text.WriteString(" " + zone.String())
	}
	text.WriteString("\n")
	parts, missing := a.media(ctx, e.Media)
	if len(missing) > 0 {
		fmt.Fprintf(&text, "not attached: %s\n", strings.Join(missing, "; "))
	}
	text.WriteString("\n" + e.Content)
	if len(parts) == 0 {
		return turn.Prompt{Text: text.String()}, true, nil
	}
	return turn.Prompt{Parts: append([]turn.Part{{Type: "text", Text: text.String()}}, parts...)}, true, nil
}

// maxFact bounds the name and the value of a fact, in characters.
const maxFact = 1000

// media makes parts of a message's media, in order, and says what had to be left out.
func (a *Agent) media(ctx context.Context, media []turn.Media) (parts []turn.Part, missing []string) {
	left := maxMediaBytes
	for i, m := range media {
		if i == maxMedia {
			missing = append(missing, fmt.Sprintf("%d more (a message takes %d)", len(media)-i, maxMedia))
			break
		}
		name := cmp.Or(oneLine(m.Name, 100), oneLine(m.Type, 20))
		part, size, err := a.attach(ctx, m, left)
		if err != nil {
			a.log.InfoContext(ctx, "media left out of a prompt", "type", m.Type, "error", err.Error())
			why := "it could not be fetched"
			if errors.Is(err, errMediaSize) || errors.Is(err, errMediaType) {
				why = err.Error()
			}
			missing = append(missing, fmt.Sprintf("%s (%s)", name, why))
			continue
		}
		left -= size
		parts = append(parts, part)
	}
	return parts, missing
}

var (
	errMediaSize    = errors.New("it is too large")
	errMediaType    = errors.New("this kind of media is not known")
	errMediaAddress = errors.New("it has no address from which media of its kind can be read")
)

// attach makes a part of one piece.
func (a *Agent) attach(ctx context.Context, m turn.Media, left int) (turn.Part, int, error) {
	url, size := m.URL, 0
	switch {
	case url == "" && m.Fetch == nil:
		return turn.Part{}, 0, errMediaAddress
	case url == "":
		ctx, cancel := context.WithTimeout(ctx, mediaTimeout)
		defer cancel()
		data, err := m.Fetch(ctx)
		if err != nil {
			return turn.Part{}, 0, err
		}
		if size = len(data); size > left {
			return turn.Part{}, 0, errMediaSize
		}
		kind := mediaType(m)
		if m.MIME == "" || kind == "application/octet-stream" { // a platform that does not know
			if kind = adapter.SniffMedia(data, mime.TypeByExtension(path.Ext(m.Name))); m.Type == "file" && adapter.MediaKind(kind) == adapter.KindImage {
				m.Type = "image"
			} else if m.Type != "file" && adapter.MediaKind(kind) == adapter.KindFile {
				kind = mediaType(m)
			}
			m.MIME = kind
		}
		url = adapter.DataURL(kind, data)
	case strings.HasPrefix(url, "data:"):
		if size = len(url) / 4 * 3; size > left {
			return turn.Part{}, 0, errMediaSize
		}
	case !strings.HasPrefix(url, "https://") && !strings.HasPrefix(url, "http://"):
		return turn.Part{}, 0, errMediaAddress
	}
	switch m.Type {
	case "image":
		return turn.Part{Type: "image_url", ImageURL: &turn.PartURL{URL: url}}, size, nil
	case "video":
		return turn.Part{Type: "video_url", VideoURL: &turn.PartURL{URL: url}}, size, nil
	case "audio":
		if _, data, ok := strings.Cut(url, ";base64,"); ok {
			return turn.Part{Type: "input_audio", InputAudio: &turn.InputAudio{Data: data, Format: audioFormat(url)}}, size, nil
		}
		return turn.Part{}, 0, errMediaAddress
	case "file":
		if strings.HasPrefix(url, "data:") {
			return turn.Part{Type: "file", File: &turn.File{Name: oneLine(m.Name, 100), Data: url}}, size, nil
		}
		return turn.Part{}, 0, errMediaAddress
	}
	return turn.Part{}, 0, errMediaType
}

// mediaType is the MIME type for the data of m. It becomes a part of a URL, so only a well-formed one is used.
func mediaType(m turn.Media) string {
	if kind, _, err := mime.ParseMediaType(m.MIME); err == nil {
		return kind
	}
	usual := map[string]string{"image": "image/png", "audio": "audio/wav", "video": "video/mp4"}
	return cmp.Or(usual[m.Type], "application/octet-stream")
}

// audioFormat returns OpenAI's word for the format of a sound, by the type in its data URL.
func audioFormat(url string) string {
	kind, _, _ := strings.Cut(url, ";")
	_, format, _ := strings.Cut(kind, "/")
	return cmp.Or(map[string]string{"mpeg": "mp3", "x-wav": "wav", "wave": "wav"}[format], format)
}
