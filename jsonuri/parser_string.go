package jsonuri

import (
	"encoding/binary"
	"math/bits"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// plainByte marks the bytes that are string content by themselves.
var plainByte = func() (t [256]bool) {
	for c := range t {
		t[c] = c >= 0x20 && c < 0x80 && c != '"' && c != '\\'
	}
	return t
}()

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// skipPlain returns the first index from i on that is not plain string content, or len(b).
func skipPlain(b []byte, i int) int {
	for ; i+8 <= len(b); i += 8 {
		w := binary.LittleEndian.Uint64(b[i:])
		// The top bit of each byte that is not ASCII, below space, a quote or a backslash. A borrow can only mark bytes
		// after a true one, and the first mark is what counts.
		q := w ^ ones*'"'
		s := w ^ ones*'\\'
		m := (w | (w - ones*0x20) | ((q - ones) &^ q) | ((s - ones) &^ s)) & highs
		if m != 0 {
			return i + bits.TrailingZeros64(m)>>3
		}
	}
	for i < len(b) && plainByte[b[i]] {
		i++
	}
	return i
}

// hexValue is the value of a hexadecimal digit, or 0xFF.
func hexValue(c byte) byte {
	switch {
	case c >= '0' && c <= '9':
		return c - '0'
	case c|0x20 >= 'a' && c|0x20 <= 'f': // of both cases
		return c | 0x20 - 'a' + 10
	}
	return 0xFF
}

// hexDigitsIn is where the hexadecimal digits of b from i on end, at most at end.
func hexDigitsIn(b []byte, i, end int) int {
	for i < end && i < len(b) && hexValue(b[i]) != 0xFF {
		i++
	}
	return i
}

// shortEscape has the characters that are an escape behind a backslash by themselves.
var shortEscape = [256]bool{'"': true, '\\': true, '/': true, 'b': true, 'f': true, 'n': true, 'r': true, 't': true}

// scanUnit returns the length of the escape or character that b, inside a string, begins with: the unit that a delta is
// never cut in. The escapes of a surrogate pair are one. n is 0 where it goes on behind b, which is the end of the input if
// end is set. want says what was expected at b[n] where that is wrong.
func scanUnit(b []byte, end bool) (n int, want string) {
	switch c := b[0]; {
	case c < ' ' || c == '"':
		return 0, "string content; control characters must be escaped"
	case c >= utf8.RuneSelf:
		return scanRune(b)
	case c != '\\':
		return 1, ""
	case len(b) == 1:
		return 0, ""
	case shortEscape[b[1]]:
		return 2, ""
	case b[1] != 'u':
		return 1, `an escape: one of "\/bfnrtu`
	}
	if n = hexDigitsIn(b, 2, 6); n < 6 {
		if n == len(b) {
			return 0, ""
		}
		return n, "a hexadecimal digit"
	}
	if !isHigh(hex4(b[2:])) {
		return 6, ""
	}
	rest := b[6:]
	switch half := hexDigitsIn(rest, 2, 6); {
	case !end && half >= len(rest) && len(rest) < 6 && strings.HasPrefix(`\u`, string(rest[:min(2, len(rest))])):
		return 0, ""
	case half == 6 && rest[0] == '\\' && rest[1] == 'u' && isLow(hex4(rest[2:])):
		return 12, ""
	}
	return 6, ""
}

// scanRune is scanUnit for a character beyond ASCII.
func scanRune(b []byte) (n int, want string) {
	switch _, n = utf8.DecodeRune(b); {
	case n > 1:
		return n, ""
	case !utf8.FullRune(b):
		return 0, ""
	case utf8.FullRune(b[:1]):
		return 0, "valid UTF-8"
	}
	for !utf8.FullRune(b[:n+1]) {
		n++
	}
	return n, "the rest of a UTF-8 sequence"
}

func isHigh(r uint16) bool { return r >= 0xD800 && r < 0xDC00 }
func isLow(r uint16) bool  { return r >= 0xDC00 && r < 0xE000 }

// appendUnescaped appends to dst the value of valid string content in its escaped form. Half surrogate pairs become
// U+FFFD, as with encoding/json.
func appendUnescaped(dst, raw []byte) []byte {
	for i := 0; i < len(raw); {
		c := raw[i]
		if c != '\\' {
			j := i + 1
			for j < len(raw) && raw[j] != '\\' {
				j++
			}
			dst = append(dst, raw[i:j]...)
			i = j
			continue
		}
		i++
		c = raw[i]
		i++
		if k := strings.IndexByte("bfnrt", c); k >= 0 {
			c = "\b\f\n\r\t"[k]
		}
		if c == 'u' {
			r := rune(hex4(raw[i:]))
			i += 4
			if utf16.IsSurrogate(r) {
				full := rune(utf8.RuneError)
				if i+6 <= len(raw) && raw[i] == '\\' && raw[i+1] == 'u' {
					full = utf16.DecodeRune(r, rune(hex4(raw[i+2:])))
				}
				if full != utf8.RuneError {
					i += 6
				}
				r = full
			}
			dst = utf8.AppendRune(dst, r)
			continue
		}
		dst = append(dst, c)
	}
	return dst
}

func hex4(b []byte) uint16 {
	_ = b[3]
	return uint16(hexValue(b[0]))<<12 | uint16(hexValue(b[1]))<<8 | uint16(hexValue(b[2]))<<4 | uint16(hexValue(b[3]))
}

const hexDigits = "0123456789abcdef"

// appendEscapedByte appends the escape of an ASCII byte that cannot stand in a string by itself.
func appendEscapedByte(dst []byte, c byte) []byte {
	if k := strings.IndexByte("\b\f\n\r\t\"\\", c); k >= 0 {
		return append(dst, '\\', "bfnrt\"\\"[k])
	}
	return append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
}

// AppendEscaped appends text as the content of a JSON string (RFC 8259, section 7), without quotes. What is not UTF-8 becomes
// U+FFFD, one for each byte.
func AppendEscaped[T string | []byte](dst []byte, s T) []byte {
	text := []byte(s) // which copies nothing
	for i := 0; i < len(text); {
		j := skipPlain(text, i)
		dst = append(dst, text[i:j]...)
		if i = j; i == len(text) {
			break
		}
		if text[i] < utf8.RuneSelf {
			dst = appendEscapedByte(dst, text[i])
			i++
			continue
		}
		r, n := utf8.DecodeRune(text[i:])
		dst = utf8.AppendRune(dst, r)
		i += n
	}
	return dst
}

// readString reads more of a string or key from b[i] on, gives a string's content out, and returns where to go on: before
// an escape or a character that goes on behind b.
func (p *Parser) readString(b []byte, i int) int {
	start, n, want := i, 1, ""
	for n > 0 && want == "" {
		if i < len(b) && plainByte[b[i]] {
			i = skipPlain(b, i+1)
		}
		if i == len(b) || b[i] == '"' {
			break
		}
		if b[i] == '\\' {
			p.escKey = true
			if i+1 < len(b) && shortEscape[b[i+1]] { // as most often
				i += 2
				continue
			}
		} else if _, size := utf8.DecodeRune(b[i:]); size > 1 {
			i += size
			continue
		}
		if n, want = scanUnit(b[i:], false); want == "" {
			i += n
		}
	}
	text := b[start:i]
	closed := i < len(b) && b[i] == '"'
	switch {
	case !p.inKey && len(text) > 0:
		p.content(text)
	case p.inKey && len(p.carry)+len(text) > p.maxKey:
		p.err = &LimitError{Limit: "key", Max: int64(p.maxKey), Offset: p.base + int64(start-len(p.carry)+p.maxKey)}
		return i
	case p.inKey && (len(p.carry) > 0 || !closed):
		p.carry = append(p.carry, text...)
		text = p.carry
	}
	switch {
	case want != "":
		return p.fail(i+n, b, want)
	case !closed:
		return i
	case p.inKey:
		p.member(text, p.escKey)
		p.state = stColon
	default:
		p.closeString()
		p.afterValue()
	}
	return i + 1
}
