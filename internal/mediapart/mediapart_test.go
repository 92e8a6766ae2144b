package mediapart

import (
	"strings"
	"testing"

	"github.com/lingserve/lingserve/adapter"
)

// MO-25: whatever a part says, what is read of it is text, data of a known form, or an id.
func FuzzParts(f *testing.F) {
	for _, text := range []string{
		`{"type":"text","text":"x"}`, `{"type":"image_url","image_url":{"url":"data:image/png;base64,AA=="}}`, `{"type":"image_url","image_url":"data:,a%20b"}`,
		`{"type":"input_audio","input_audio":{"data":"UklGRgAAAABXQVZF","format":"wav"}}`, `{"type":"file","file":{"file_data":"JVBERi0=","filename":"a"}}`,
		`{"type":"file","url":"/v1/files/file_a/content"}`, `{"type":"binary","mimeType":"a","data":","}`, `{"type":"image","source":{"value":"https://x"}}`, `{"type":"file","file_id":"x"}`, `[]`,
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, _, detail := Read([]byte(text))
		if detail != "" {
			if p != (adapter.Part{}) {
				t.Errorf("%s: %+v beside %s", text, p, detail)
			}
			return
		}
		address := p.Image + p.File
		switch {
		case p.Type == "text":
		case Ref(&p) != "":
		case !strings.HasPrefix(address, "data:") || strings.Contains(address, "://"):
			t.Errorf("%s: %+v", text, p)
		default:
			if _, data, ok := adapter.OpenDataURL(address); !ok || len(data) == 0 {
				t.Errorf("%s: %+v", text, p)
			}
		}
	})
}
