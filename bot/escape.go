package bot

import (
	"strings"

	"github.com/lingserve/lingserve/internal/wording"
	"github.com/lingserve/lingserve/jsonuri"
)

// escaper writes text that comes in pieces as the content of a JSON string. A UTF-8 sequence that a piece ends within waits
// for the next one; what is not UTF-8 becomes U+FFFD.
type escaper struct{ cut string }

// append appends text in its escaped form to dst.
func (e *escaper) append(dst []byte, text string) []byte {
	text = e.cut + text
	end := len(text) - wording.CutOff(text)
	e.cut = strings.Clone(text[end:]) // nothing where it is empty
	return jsonuri.AppendEscaped(dst, text[:end])
}

// close ends the text: a sequence that was cut off is replaced.
func (e *escaper) close(dst []byte) []byte {
	dst = jsonuri.AppendEscaped(dst, e.cut)
	e.cut = ""
	return dst
}
