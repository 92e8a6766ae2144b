package bot

import (
	"unicode/utf8"

	"github.com/lingserve/lingserve/jsonuri"
)

// escaper writes text that comes in pieces as the content of a JSON string. A UTF-8 sequence that a piece ends within waits
// for the next one; what is not UTF-8 becomes U+FFFD.
type escaper struct {
	carry [utf8.UTFMax]byte
	n     int // bytes of carry
}

// append appends text in its escaped form to dst.
func (e *escaper) append(dst []byte, text string) []byte {
	for e.n > 0 && len(text) > 0 { // the rest of a sequence that was cut
		e.carry[e.n] = text[0]
		if !utf8.RuneStart(text[0]) && !utf8.FullRune(e.carry[:e.n+1]) {
			e.n++
			text = text[1:]
			continue
		}
		r, size := utf8.DecodeRune(e.carry[:e.n+1])
		if r == utf8.RuneError && size <= 1 {
			dst = e.close(dst)
			break // text[0] is looked at again
		}
		dst = append(dst, e.carry[:e.n+1]...)
		e.n = 0
		text = text[1:]
	}
	whole := len(text) - cutOff(text)
	e.n += copy(e.carry[e.n:], text[whole:])
	return jsonuri.AppendEscaped(dst, text[:whole])
}

// cutOff counts the bytes at the end of text that are the beginning of a UTF-8 sequence.
func cutOff(text string) int {
	for n := 1; n < utf8.UTFMax && n <= len(text); n++ {
		if rest := text[len(text)-n:]; utf8.RuneStart(rest[0]) {
			if utf8.FullRuneInString(rest) {
				return 0
			}
			return n
		}
	}
	return 0
}

// close ends the text: a sequence that was cut off is replaced.
func (e *escaper) close(dst []byte) []byte {
	for ; e.n > 0; e.n-- { // one for each byte, as everywhere else
		dst = append(dst, "\uFFFD"...)
	}
	return dst
}
