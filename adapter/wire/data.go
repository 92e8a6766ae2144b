package wire

import (
	"encoding/base64"
	"errors"
	"mime"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/lingserve/lingserve/adapter"
)

// Data is what a data: URL holds (RFC 2397).
type Data struct {
	Type   string // the media type, without parameters
	Base64 string
	plain  string
}

// ReadData takes a data: URL apart; false where it is none.
func ReadData(address string) (d Data, ok bool) {
	rest, ok := strings.CutPrefix(address, "data:")
	head, data, comma := strings.Cut(rest, ",")
	if !ok || !comma {
		return d, false
	}
	head, encoded := strings.CutSuffix(head, ";base64")
	if d.Type, _, _ = mime.ParseMediaType(head); d.Type == "" {
		if d.Type = head; head == "" || head[0] == ';' {
			d.Type = "text/plain" // what the standard takes for no type
		}
	}
	if encoded {
		d.Base64 = data
		return d, true
	}
	plain, err := url.PathUnescape(data)
	d.plain, d.Base64 = plain, base64.StdEncoding.EncodeToString([]byte(plain))
	return d, err == nil
}

// Text returns data that is text; false where it is none.
func (d *Data) Text() (string, bool) {
	if d.plain != "" || d.Base64 == "" {
		return d.plain, utf8.ValidString(d.plain)
	}
	text, err := base64.StdEncoding.DecodeString(d.Base64)
	return string(text), err == nil && utf8.Valid(text)
}

// Sound is how OpenAI's APIs call the format of a sound: mp3 for audio/mpeg; "" where the data is none.
func (d *Data) Sound() string {
	form, ok := strings.CutPrefix(d.Type, "audio/")
	if !ok {
		return ""
	}
	form = strings.TrimPrefix(form, "x-")
	if known := map[string]string{"mpeg": "mp3", "wave": "wav", "vnd.wave": "wav"}[form]; known != "" {
		return known
	}
	return form
}

// IsWeb says whether an address is http(s).
func IsWeb(address string) bool {
	return strings.HasPrefix(address, "https://") || strings.HasPrefix(address, "http://")
}

// errFile is the cause of an error about a file.
var errFile = errors.New("a file of a kind that the API does not take")

// CannotTake makes the error of a file that the server does not take. why comes after the server's name.
func (s *Server) CannotTake(why string) error {
	return &adapter.Error{Code: adapter.CodeInvalid, Message: s.Name() + " " + why, Cause: errFile}
}
