package markup

import (
	"strings"
	"unicode/utf8"
)

// discord is the Markdown that Discord shows. Its marks are those of Feishu's cards; characters are escaped by backslashes.
type discord struct{ feishu }

func (discord) text(b *strings.Builder, text string, s style, before, _ rune) {
	switch {
	case s.quote:
		b.WriteString("> ")
		return
	case s.block: // a fence within would end it
		b.WriteString(strings.ReplaceAll(text, "```", "``"+zeroWidthSpace+"`"))
		return
	case s.code:
		b.WriteString(strings.ReplaceAll(text, "`", "\u02cb"))
		return
	}
	start := before == 0 || before == '\n' // of a line
	for i, r := range text {
		mark, inAddress := shownMark(r)
		next, _ := utf8.DecodeRuneInString(text[i+utf8.RuneLen(r):])
		switch {
		case inAddress: // nothing is a mark there
		case strings.ContainsRune("\\*_~`|[]<", mark), start && strings.ContainsRune("#>", mark), start && (mark == '-' || mark == '+') && isSpace(next), start && mark == '-' && next == '#':
			b.WriteByte('\\')
		}
		b.WriteRune(mark)
		start = mark == '\n' || start && mark == ' '
	}
}
