package agui

import (
	"unicode/utf8"

	"github.com/lingserve/lingserve/web/wire/frame"
)

// content appends a member whose value is a string of escaped content.
func content(dst []byte, name string, value []byte) []byte {
	dst = append(frame.Key(dst, name), '"')
	dst = append(dst, value...)
	return append(dst, '"')
}

// cut splits the escaped content of a string, so that the first part has at most limit bytes and no character or escape, and no
// pair of escapes that are one character, is cut in two. A limit that is too small for the first of them is passed over.
func cut(text []byte, limit int) (first, rest []byte) {
	if len(text) <= limit {
		return text, nil
	}
	at := 0
	for at < len(text) {
		size := 1
		switch c := text[at]; {
		case c == '\\' && at+1 < len(text) && text[at+1] == 'u':
			size = 6
			if high(text[at:]) && at+7 < len(text) && text[at+6] == '\\' && text[at+7] == 'u' {
				size = 12
			}
		case c == '\\':
			size = 2
		case c >= utf8.RuneSelf:
			_, size = utf8.DecodeRune(text[at:])
		}
		if at > 0 && at+size > limit {
			break
		}
		at = min(at+size, len(text))
	}
	return text[:at], text[at:]
}

// high says whether text begins with the escape of a high surrogate.
func high(text []byte) bool {
	return len(text) >= 6 && text[2]|0x20 == 'd' && (text[3] == '8' || text[3] == '9' || text[3]|0x20 == 'a' || text[3]|0x20 == 'b')
}
