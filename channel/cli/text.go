package cli

import (
	"fmt"
	"strings"
	"unicode"

	"github.com/lingserve/lingserve/internal/wording"
)

// Visible returns a text as a terminal may be sent it: control characters, and characters that turn the direction of writing, are shown and not obeyed.
// Newlines and tabs stay, a carriage return before a newline goes, and invalid bytes become U+FFFD.
func Visible(text string) string {
	var b strings.Builder
	for _, r := range strings.ReplaceAll(text, "\r\n", "\n") {
		switch {
		case r == '\n' || r == '\t':
			b.WriteRune(r)
		case r < ' ':
			b.WriteRune(0x2400 + r) // Unicode has a picture of each control character
		case r == 0x7f:
			b.WriteRune('\u2421')
		case unicode.IsControl(r), r >= '\u2028' && r <= '\u202e', r >= '\u2066' && r <= '\u2069':
			fmt.Fprintf(&b, "<%04X>", r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// oneLine returns a visible text in one line, and at most n characters of it.
func oneLine(text string, n int) string {
	return wording.ClipChars(strings.Join(strings.Fields(Visible(text)), " "), n)
}
