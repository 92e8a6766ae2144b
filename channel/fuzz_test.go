package channel

import (
	"bytes"
	"net/http"
	"strings"
	"testing"
)

// The kind of a file agrees with net/http, and depends on its beginning alone.
func FuzzSniff(f *testing.F) {
	for _, text := range []string{
		"\x89PNG\r\n\x1a\n", "\xff\xd8\xff\xe0", "GIF89a", "RIFF\x00\x00\x00\x00WEBPVP8 ", "RIFF\x00\x00\x00\x00WAVE", "RIFF\x00\x00\x00\x00AVI ", "BM\x00\x00\x00\x00\x00\x00\x00\x00\x36\x00\x00\x00",
		"ID3\x03", "OggS\x00", "\x00\x00\x00\x18ftypmp42\x00\x00\x00\x00mp42isom", "\x00\x00\x00\x18ftypavif", "\x00\x00\x00\x08ftyp", "\x1aE\xdf\xa3", "%PDF-1.7", "<html>", "MThd\x00\x00\x00\x06", "FORM\x00\x00\x00\x00AIFF", "\xff\xf1\x50\x80", "",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, head []byte) {
		is := sniff(head)
		said, _, _ := strings.Cut(http.DetectContentType(head), ";")
		major, _, _ := strings.Cut(said, "/")
		switch {
		case said == "image/bmp" || said == "image/x-icon" || said == "application/ogg" || said == "audio/basic":
			// a letter or two, which are not enough for us, or what we do not know
		case major == "image" && is != MediaImage,
			(major == "audio" || major == "video") && is != MediaAudio && is != MediaVideo,
			said == "application/pdf" && is != MediaDocument,
			said == "text/html" && is != MediaDocument:
			t.Errorf("%q is %s, and %s for net/http", head, is, said)
		}
		if more := sniff(append(bytes.Clone(head), "<html>GIF89a"...)); is != MediaUnknown && is != MediaDocument && more != is {
			t.Errorf("%q is %s, with more behind it %s", head, is, more)
		}
	})
}
