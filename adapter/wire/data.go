package wire

import (
	"encoding/base64"
	"errors"
	"strings"
	"unicode/utf8"

	"github.com/lingserve/lingserve/adapter"
)

// Data is what a data: URL holds in base64.
type Data struct {
	Type   string // the media type, without parameters
	Base64 string
}

// ReadData takes a data: URL apart; false where it is none. Other data than in base64 is never sent: see [adapter.DataURL].
func ReadData(address string) (d Data, ok bool) {
	head, data, encoded := strings.Cut(address, ";base64,")
	kind, ok := strings.CutPrefix(head, "data:")
	kind, _, _ = strings.Cut(kind, ";")
	return Data{Type: strings.ToLower(kind), Base64: data}, ok && encoded
}

// Text returns data that is text; false where it is none.
func (d *Data) Text() (string, bool) {
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
