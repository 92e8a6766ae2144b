package cli

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/lingserve/lingserve/internal/cells"
)

// term.Terminal edits one row of characters that each take one cell. So the line that it has is an encoding of the text:
//   - A newline and a tab are a picture.
//   - A character of two cells is followed by secondCell, which is not written.
//   - A character of no cell has markBase added, and is written with a space.
//
// Characters from markBase on are for private use; none of a text is kept.
const (
	markBase   = 0xf0000
	secondCell = 0x10f000
	newline    = '␤'
	tab        = '␉'
)

// maxLine limits the line that is typed, in bytes.
const maxLine = 1 << 20

func encode(text string) string {
	var b strings.Builder
	for _, r := range norm.NFC.String(strings.ToValidUTF8(text, "\ufffd")) {
		switch {
		case r == '\n':
			b.WriteRune(newline)
		case r == '\t':
			b.WriteRune(tab)
		case r >= markBase, unicode.IsControl(r):
		case cells.Of(r) == 2:
			b.WriteRune(r)
			b.WriteRune(secondCell)
		case cells.Of(r) == 1:
			b.WriteRune(r)
		case r < 0x10000:
			b.WriteRune(markBase + r)
		}
	}
	return b.String()
}

func decode(line string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == newline:
			return '\n'
		case r == tab:
			return '\t'
		case r == secondCell:
			return -1
		case r >= markBase:
			return r - markBase
		}
		return r
	}, line)
}

// display returns what the terminal is sent for a part of the line. Where the end of a row parts a character of two cells, it is written as < and >.
func display(part string) string {
	var b strings.Builder
	for i, r := range part {
		rest := part[i+utf8.RuneLen(r):]
		switch {
		case r == secondCell:
			if before, _ := utf8.DecodeLastRuneInString(part[:i]); cells.Of(before) != 2 {
				b.WriteByte('>')
			}
		case r >= markBase:
			b.WriteRune(r - markBase)
			b.WriteByte(' ')
		case cells.Of(r) == 2 && !strings.HasPrefix(rest, string(rune(secondCell))):
			b.WriteByte('<')
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// insert inserts a text into a line.
func insert(line string, pos int, text string) (string, int) {
	if len(line)+len(text) > maxLine {
		text = text[:max(0, maxLine-len(line))]
	}
	before := encode(decode(line[:pos]) + text)
	return before + line[pos:], len(before)
}

// previous and following return where the character before pos begins, and where the one at pos ends.
func previous(line string, pos int) int {
	for pos > 0 {
		r, n := utf8.DecodeLastRuneInString(line[:pos])
		if pos -= n; r < markBase {
			break
		}
	}
	return pos
}

func following(line string, pos int) int {
	_, n := utf8.DecodeRuneInString(line[pos:])
	for pos += n; pos < len(line); pos += n {
		var r rune
		if r, n = utf8.DecodeRuneInString(line[pos:]); r < markBase {
			break
		}
	}
	return pos
}

// complete returns what completes the name of a command at the end of a text; names are sorted. If several names begin like that and agree in
// nothing more, it returns them.
func complete(text string, names []string) (rest string, several []string) {
	word, isCommand := cutComma(text)
	word = strings.TrimPrefix(word, "help ")
	if !isCommand || strings.ContainsAny(word, " \n\t") {
		return "", nil
	}
	var rests []string
	for _, name := range names {
		if rest, ok := strings.CutPrefix(name, strings.ToLower(word)); ok {
			several, rests = append(several, name), append(rests, rest)
		}
	}
	switch len(several) {
	case 0:
		return "", nil
	case 1:
		return rests[0] + " ", nil
	}
	common := rests[0]
	for !strings.HasPrefix(rests[len(rests)-1], common) {
		common = common[:len(common)-1]
	}
	if common != "" {
		return common, nil
	}
	return "", several
}
