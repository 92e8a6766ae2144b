package channel

import (
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	maxLabel   = 64 // how long names and labels of other people may be, in runes
	maxPreview = 80 // how much of a message a log may have (CH-122)
)

// clean is a text as an agent may read it: line ends are LF, control characters but those and tabs are gone, and what is not UTF-8 is
// U+FFFD. All else stays as it was written. A text that is clean already is returned as it is.
func clean(s string) string {
	at := dirty(s)
	if at < 0 {
		return s
	}
	var b strings.Builder
	b.Grow(len(s))
	b.WriteString(s[:at])
	for i := at; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		i += size
		switch {
		case r == '\r':
			if i == len(s) || s[i] != '\n' {
				b.WriteByte('\n')
			}
		case r == '\n' || r == '\t' || !unicode.IsControl(r):
			b.WriteRune(r) // of bytes that are no UTF-8: U+FFFD
		}
	}
	return b.String()
}

// dirty is where the first byte is that clean changes, -1 for none.
func dirty(s string) int {
	for i := 0; i < len(s); {
		if c := s[i]; c < utf8.RuneSelf {
			if c < ' ' && c != '\n' && c != '\t' || c == 0x7f {
				return i
			}
			i++
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && size == 1 || unicode.IsControl(r) {
			return i
		}
		i += size
	}
	return -1
}

// label is a name or a label that somebody else chose: one line of at most [maxLabel] runes.
func label(s string) string { return line(s, maxLabel) }

// Preview is the beginning of a text for [MessageFacts].Preview: one line of at most 80 runes, without control characters (CH-122).
func Preview(text string) string { return line(text, maxPreview) }

// line is a text of somebody else in one line of at most limit runes. Control characters are gone, and so are marks that turn the
// direction of writing: with them a text can look like the line it stands in.
func line(s string, limit int) string {
	if plain(s, limit) {
		return s
	}
	var b strings.Builder
	n, space := 0, false
	for _, r := range s {
		switch {
		case r == '\u2028' || r == '\u2029' || unicode.IsSpace(r):
			space = n > 0
			continue
		case unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r):
			continue
		}
		need := 1
		if space {
			need = 2
		}
		if n+need > limit {
			return b.String()
		}
		if space {
			b.WriteByte(' ')
		}
		b.WriteRune(r)
		n, space = n+need, false
	}
	return b.String()
}

// plain says that a text is a short one of one line already, in ASCII: most names are.
func plain(s string, limit int) bool {
	if len(s) > limit || strings.HasPrefix(s, " ") || strings.HasSuffix(s, " ") || strings.Contains(s, "  ") {
		return false
	}
	for i := range len(s) {
		if s[i] < ' ' || s[i] >= 0x7f {
			return false
		}
	}
	return true
}

// bare is an address without credentials. One that cannot be read and may have some is none.
func bare(address string) string {
	if !strings.Contains(address, "@") {
		return address
	}
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	if u.User == nil {
		return address
	}
	u.User = nil
	return u.String()
}
