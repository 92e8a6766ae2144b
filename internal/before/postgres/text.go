package postgres

import (
	"strings"
	"unicode/utf8"
)

// pack writes a text so that a column takes it: a backslash is two, NUL is \0, and a byte that is no UTF-8 is \x and two digits. The
// beginning of a text is the beginning of what is packed.
func pack(s string) string {
	if utf8.ValidString(s) && !strings.ContainsAny(s, "\\\x00") {
		return s
	}
	const hex = "0123456789abcdef"
	var b strings.Builder
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == '\\':
			b.WriteString(`\\`)
		case r == 0:
			b.WriteString(`\0`)
		case r == utf8.RuneError && size == 1:
			b.WriteString(`\x`)
			b.WriteByte(hex[s[i]>>4])
			b.WriteByte(hex[s[i]&15])
		default:
			b.WriteString(s[i : i+size])
		}
		i += size
	}
	return b.String()
}

// unpack is the text that pack was given.
func unpack(s string) string {
	if strings.IndexByte(s, '\\') < 0 {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			b.WriteByte(s[i])
			continue
		}
		i++
		switch {
		case s[i] == '0':
			b.WriteByte(0)
		case s[i] == 'x' && i+2 < len(s):
			b.WriteByte(digit(s[i+1])<<4 | digit(s[i+2]))
			i += 2
		default:
			b.WriteByte(s[i])
		}
	}
	return b.String()
}

func digit(c byte) byte {
	if c >= 'a' {
		return c - 'a' + 10
	}
	return c - '0'
}
