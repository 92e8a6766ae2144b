package bot

import "unicode/utf8"

// escaper writes text that comes in pieces as the content of a JSON string. A UTF-8 sequence that a piece ends within waits
// for the next one; what is not UTF-8 becomes U+FFFD.
type escaper struct {
	carry [utf8.UTFMax]byte
	n     int // bytes of carry
}

// stays marks the bytes that stand for themselves in a JSON string.
var stays = func() (t [256]bool) {
	for c := 0x20; c < utf8.RuneSelf; c++ {
		t[c] = c != '"' && c != '\\'
	}
	return t
}()

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
	start := 0
	for i := 0; i < len(text); {
		c := text[i]
		if stays[c] {
			i++
			continue
		}
		if c >= utf8.RuneSelf {
			r, size := utf8.DecodeRuneInString(text[i:])
			if r != utf8.RuneError || size > 1 {
				i += size
				continue
			}
			dst = append(dst, text[start:i]...)
			if rest := text[i:]; len(rest) < utf8.UTFMax && !utf8.FullRuneInString(rest) {
				e.n = copy(e.carry[:], rest)
				return dst
			}
			dst = append(dst, "\uFFFD"...)
			i++
			start = i
			continue
		}
		dst = append(dst, text[start:i]...)
		dst = appendControl(dst, c)
		i++
		start = i
	}
	return append(dst, text[start:]...)
}

// close ends the text: a sequence that was cut off is replaced.
func (e *escaper) close(dst []byte) []byte {
	for ; e.n > 0; e.n-- { // one for each byte, as everywhere else
		dst = append(dst, "\uFFFD"...)
	}
	return dst
}

func appendControl(dst []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(dst, '\\', c)
	case '\n':
		return append(dst, '\\', 'n')
	case '\r':
		return append(dst, '\\', 'r')
	case '\t':
		return append(dst, '\\', 't')
	}
	const hex = "0123456789abcdef"
	return append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
}
