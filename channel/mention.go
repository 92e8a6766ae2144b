package channel

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// Names finds the names of an agent in texts, for platforms that do not mark mentions. Case does not matter. A name must be a word: Ling is
// neither in "Lingering" nor in "Éling". In scripts without spaces between words it need not be: 小灵 is in "小灵你好", and Ling in "请Ling帮忙".
type Names struct{ names []name }

// name is a folded name.
type name struct {
	runes       []rune
	left, right bool // a letter must not be next to it there
}

// NewNames prepares names. Blank names are ignored.
func NewNames(patterns []string) Names {
	var n Names
	for _, pattern := range patterns {
		var runes []rune
		for _, r := range norm.NFC.String(strings.TrimSpace(pattern)) {
			runes = append(runes, fold(r))
		}
		if len(runes) > 0 {
			left := inSpacedWord(runes[0]) || runes[0] == '@' // "a@ling" is an address, not the name "@ling"
			n.names = append(n.names, name{runes, left, inSpacedWord(runes[len(runes)-1])})
		}
	}
	return n
}

// In reports whether a name is in the text.
func (n Names) In(text string) bool {
	if len(n.names) == 0 {
		return false
	}
	text = norm.NFC.String(text)
	before := rune(-1) // the last visible character
	for i, r := range text {
		first := fold(r)
		for j := range n.names {
			if n.names[j].begins(text[i:], first, before) {
				return true
			}
		}
		if !invisible(r) {
			before = r
		}
	}
	return false
}

// begins reports whether the text, whose first character is first, begins with the name.
func (n *name) begins(text string, first, before rune) bool {
	if first != n.runes[0] || n.left && inSpacedWord(before) {
		return false
	}
	for _, want := range n.runes {
		r, size := utf8.DecodeRuneInString(text)
		if size == 0 || fold(r) != want {
			return false
		}
		text = text[size:]
	}
	next, _ := utf8.DecodeRuneInString(strings.TrimLeftFunc(text, invisible))
	return !unicode.IsMark(next) && !(n.right && inSpacedWord(next)) // a mark changes the last letter
}

// fold returns the same character for all that differ only in case.
func fold(r rune) rune {
	least := r
	for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
		least = min(least, f)
	}
	return unicode.ToLower(least)
}

// unspaced are the scripts without spaces between words.
var unspaced = []*unicode.RangeTable{
	unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Bopomofo, unicode.Yi, unicode.Thai, unicode.Lao, unicode.Khmer,
	unicode.Myanmar, unicode.Tibetan, unicode.Javanese, unicode.Balinese, unicode.New_Tai_Lue, unicode.Tai_Tham, unicode.Tai_Viet,
}

// inSpacedWord reports whether a character is part of a word in a script with spaces between words.
func inSpacedWord(r rune) bool {
	return (unicode.IsLetter(r) || unicode.IsNumber(r) || unicode.IsMark(r) || unicode.Is(unicode.Pc, r)) && !unicode.In(r, unspaced...)
}

// invisible reports whether a character is not visible and does not separate words.
func invisible(r rune) bool { return r >= 0x80 && r != '\u200b' && unicode.Is(unicode.Cf, r) }
