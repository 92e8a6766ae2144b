// Package mediapart reads the parts of messages as the clients of several servers write them: text, images, sounds and files.
package mediapart

import (
	"encoding/json"
	"strings"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/internal/rawjson"
	"github.com/lingserve/lingserve/internal/wording"
)

// maxName bounds the name of a file, in bytes.
const maxName = 200

// Scheme begins the address of a part that names an uploaded file: "file:file_…".
const Scheme = "file:"

// Ref returns the id of the uploaded file that a part names; "" where the part holds its data itself.
func Ref(p *adapter.Part) string {
	for _, address := range []string{p.Image, p.File} {
		if id, ok := strings.CutPrefix(address, Scheme); ok {
			return id
		}
	}
	return ""
}

// part has the members of all shapes:
//
//	{"type":"text","text":…}
//	{"type":"image_url","image_url":{"url":"data:…"}}                             OpenAI
//	{"type":"input_audio","input_audio":{"data":…,"format":"wav"}}                OpenAI
//	{"type":"file","file":{"filename":…,"file_data":"data:…"}} or {"file_id":…}   OpenAI
//	{"type":"file","file_id":…} and {"type":"image","file_id":…}                  ours
//	{"type":"file","mediaType":…,"filename":…,"url":"data:…"}                     AI SDK
//	{"type":"image","source":{"type":"data","value":…,"mimeType":…}}              AG-UI, also audio and document
//	{"type":"binary","mimeType":…,"data":…,"filename":…}                          AG-UI, older
type part struct {
	Type string `json:"type"`
	Text string `json:"text"`

	Image json.RawMessage `json:"image_url"`
	Audio *struct {
		Data   string `json:"data"`
		Format string `json:"format"`
	} `json:"input_audio"`
	File *struct {
		Name string `json:"filename"`
		Data string `json:"file_data"`
		ID   string `json:"file_id"`
	} `json:"file"`

	ID        string `json:"file_id"`
	Name      string `json:"filename"`
	URL       string `json:"url"`
	MediaType string `json:"mediaType"`
	MIMEType  string `json:"mimeType"`
	Data      string `json:"data"`
	Source    *struct {
		Value    string `json:"value"`
		MIMEType string `json:"mimeType"`
	} `json:"source"`
}

// IsMedia says whether parts of a type hold an image or a file, or name one.
func IsMedia(kind string) bool {
	switch kind {
	case "image_url", "input_audio", "file", "image", "audio", "document", "binary", "input_file", "input_image":
		return true
	}
	return false
}

// Read reads a part. What it returns is text, or an image or file that holds its data or names an uploaded file; the type of data is what is
// in them. detail says what was expected where it cannot be read, and at is where in the part.
func Read(raw json.RawMessage) (p adapter.Part, at, detail string) {
	var in part
	if len(raw) == 0 || raw[0] != '{' {
		return p, "", "expected an object, found " + rawjson.Kind(raw)
	}
	if json.Unmarshal(raw, &in) != nil || in.Type == "" {
		return p, "", "expected a part: an object with type and the fields of that type"
	}
	name, kind, data, id := in.Name, "", "", in.ID
	switch in.Type {
	case "text", "refusal":
		return adapter.Part{Type: "text", Text: in.Text}, "", ""
	case "image_url":
		at = "/image_url"
		var inner struct{ URL string }
		if json.Unmarshal(in.Image, &data) != nil {
			_ = json.Unmarshal(in.Image, &inner) // one that has no url names none
			data, at = inner.URL, "/image_url/url"
		}
	case "input_audio":
		at = "/input_audio"
		if in.Audio != nil {
			kind, data = "audio/"+in.Audio.Format, in.Audio.Data
		}
	default:
		if !IsMedia(in.Type) {
			return p, "/type", "expected text, image_url, input_audio or file"
		}
		at = "/url"
		kind, data = in.MediaType+in.MIMEType, in.URL+in.Data
		switch {
		case in.File != nil:
			at = "/file"
			name, data, id = in.File.Name, in.File.Data, in.File.ID
		case in.Source != nil:
			at = "/source"
			kind, data = in.Source.MIMEType, in.Source.Value
		case id != "":
			at = "/file_id"
		}
	}
	if id == "" {
		id = fileID(data)
	}
	switch {
	case id != "":
		p = adapter.Part{Type: "file", File: Scheme + id, Name: wording.ClipTo(name, maxName)}
		if in.Type == "image_url" || in.Type == "image" {
			p = adapter.Part{Type: "image_url", Image: Scheme + id}
		}
		return p, "", ""
	case data == "":
		return p, at, "expected the data, or the id of an uploaded file as file_id"
	case strings.Contains(data, "://"):
		return p, at, "expected data:…;base64,…, or the id of an uploaded file; the server does not fetch addresses"
	}
	if !strings.HasPrefix(data, "data:") {
		data = "data:" + kind + ";base64," + data
	}
	claimed, bytes, ok := adapter.OpenDataURL(data)
	if !ok || len(bytes) == 0 {
		return p, at, "expected data in base64, data:…;base64,…"
	}
	found := adapter.SniffMedia(bytes, claimed)
	if adapter.MediaKind(found) == adapter.KindFile && adapter.MediaKind(claimed) != "text" {
		found = claimed // which is all that is known
	}
	if found != claimed || !strings.Contains(data[:strings.IndexByte(data, ',')], ";base64") {
		data = adapter.DataURL(found, bytes)
	}
	if p = (adapter.Part{Type: "file", File: data, Name: wording.ClipTo(name, maxName)}); p.Kind() == adapter.KindImage {
		p = adapter.Part{Type: "image_url", Image: data}
	} else if in.Type == "image_url" {
		return adapter.Part{}, at, "expected an image, found " + found
	}
	return p, "", ""
}

// fileID is the id in an address of an uploaded file, as a run's media have it; "" in any other.
func fileID(address string) string {
	id := strings.TrimSuffix(strings.TrimPrefix(address, "/v1/files/"), "/content")
	if strings.HasPrefix(id, "file_") && len(id) < 64 && !strings.ContainsAny(id, "/:,") {
		return id
	}
	return ""
}

// ReadAll reads a list of parts: their texts, on a line each, and their media. at is the place of a part that cannot be read.
func ReadAll(list []json.RawMessage) (text string, media []adapter.Part, index int, at, detail string) {
	var texts []string
	for i, raw := range list {
		p, at, detail := Read(raw)
		if detail != "" {
			return "", nil, i, at, detail
		}
		if p.Type == "text" {
			texts = append(texts, p.Text)
		} else {
			media = append(media, p)
		}
	}
	return strings.Join(texts, "\n"), media, 0, "", ""
}
