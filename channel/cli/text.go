package cli

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/lingserve/lingserve/internal/cells"
)

// Visible is a text as a terminal may be given it: what would move the cursor, change colours or names, or turn the direction of
// writing is shown instead of obeyed. Newlines and tabs stay, a carriage return before a newline goes, and bytes that are no text
// become U+FFFD.
func Visible(text string) string {
	var v visible
	return v.add(text) + v.end()
}

// visible makes text visible that comes in pieces, cut anywhere. The zero value is ready.
type visible struct {
	held string // a carriage return, or the beginning of a character
}

// add returns what can be shown so far.
func (v *visible) add(text string) string {
	if v.held == "" && isPlain(text) {
		return text
	}
	text = v.held + text
	v.held = ""
	var b strings.Builder
	b.Grow(len(text))
	for len(text) > 0 {
		if !utf8.FullRuneInString(text) || text == "\r" {
			v.held = text
			break
		}
		r, n := utf8.DecodeRuneInString(text)
		if r == '\r' && text[n] == '\n' {
			text = text[n:]
			continue
		}
		show(&b, r)
		text = text[n:]
	}
	return b.String()
}

// end returns what was held back.
func (v *visible) end() string {
	var b strings.Builder
	for _, r := range v.held {
		show(&b, r)
	}
	v.held = ""
	return b.String()
}

// isPlain says whether a text is one that nothing has to be done to, as nearly all are.
func isPlain(text string) bool {
	for i := range len(text) {
		if c := text[i]; c < ' ' && c != '\n' && c != '\t' || c >= 0x7f {
			return false
		}
	}
	return true
}

// show writes a character, or its picture. The picture of a control character is the one that Unicode has for it.
func show(b *strings.Builder, r rune) {
	switch {
	case r == '\n' || r == '\t':
		b.WriteRune(r)
	case r < ' ':
		b.WriteRune(0x2400 + r)
	case r == 0x7f:
		b.WriteRune('\u2421')
	case unicode.IsControl(r), turns(r), r == '\u2028', r == '\u2029':
		fmt.Fprintf(b, "<%04X>", r)
	default:
		b.WriteRune(r) // U+FFFD for what is no text
	}
}

// turns says whether a character changes the direction of those that follow, so that text is not read as it is written.
func turns(r rune) bool {
	return r >= '\u202a' && r <= '\u202e' || r >= '\u2066' && r <= '\u2069'
}

// fit returns the beginning of a one-line text that takes at most width cells.
func fit(text string, width int) string {
	n := 0
	for i, r := range text {
		w := cells.Of(r)
		if n+w > width {
			// The mark that something is missing takes the place of the last character.
			for n+1 > width && i > 0 {
				last, size := utf8.DecodeLastRuneInString(text[:i])
				i -= size
				n -= cells.Of(last)
			}
			return text[:i] + "…"
		}
		n += w
	}
	return text
}

// oneLine returns a text in one line, without what a terminal would obey.
func oneLine(text string) string { return strings.Join(strings.Fields(Visible(text)), " ") }
