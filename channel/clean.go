package channel

import (
	"net/url"
	"strings"
	"unicode"
)

const (
	maxLabel   = 64 // characters of names and labels that other people chose
	maxPreview = 80 // characters of a message in a log (CH-122)
)

var lineEnds = strings.NewReplacer("\r\n", "\n", "\r", "\n")

// clean returns a text for an agent: line ends are LF, other control characters except tabs are removed, and invalid UTF-8 becomes U+FFFD.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && unicode.IsControl(r) {
			return -1
		}
		return r
	}, lineEnds.Replace(s))
}

// label returns a name or a label that another person chose as one line of at most [maxLabel] characters.
func label(s string) string { return line(s, maxLabel) }

// Preview returns the beginning of a text for [MessageFacts].Preview: one line of at most 80 characters (CH-122).
func Preview(text string) string { return line(text, maxPreview) }

// line returns the beginning of a text as one line of at most limit characters. It removes control characters and marks that change the
// direction of writing, with which a text can look like the line around it.
func line(s string, limit int) string {
	s = strings.Map(func(r rune) rune {
		if !unicode.IsSpace(r) && (unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)) {
			return -1
		}
		return r
	}, s)
	s = strings.Join(strings.Fields(s), " ")
	for i := range s {
		if limit == 0 {
			return strings.TrimSuffix(s[:i], " ")
		}
		limit--
	}
	return s
}

// bare returns an address without credentials, or "" if it cannot be parsed and may have some.
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
