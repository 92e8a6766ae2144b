package channel

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// Names finds the names of an agent in texts, for platforms that do not mark mentions. Case does not matter. A name must be a word: Ling is
// neither in "Lingering" nor in "Éling". In scripts without spaces between words it need not be: 小灵 is in "小灵你好", and Ling in "请Ling帮忙".
type Names []string

// NewNames prepares names. Blank names are ignored.
func NewNames(patterns []string) (n Names) {
	for _, pattern := range patterns {
		if name := foldText(strings.TrimSpace(pattern)); name != "" {
			n = append(n, name)
		}
	}
	return n
}

// In reports whether a name is in the text.
func (n Names) In(text string) bool {
	text = foldText(text)
	return slices.ContainsFunc(n, func(name string) bool { return hasWord(text, name) })
}

// hasWord reports whether a name is in a text and is not a part of a longer word.
func hasWord(text, name string) bool {
	first, size := utf8.DecodeRuneInString(name)
	last, _ := utf8.DecodeLastRuneInString(name)
	for from := 0; ; from += size {
		i := strings.Index(text[from:], name)
		if i < 0 {
			return false
		}
		from += i
		before, _ := utf8.DecodeLastRuneInString(text[:from])
		after, _ := utf8.DecodeRuneInString(text[from+len(name):])
		goesOnBefore := inSpacedWord(before) && (inSpacedWord(first) || first == '@') // "a@ling" is an address, not the name "@ling"
		goesOnAfter := inSpacedWord(after) && inSpacedWord(last) || unicode.IsMark(after)
		if !goesOnBefore && !goesOnAfter {
			return true
		}
	}
}

// foldText makes texts that differ only in case equal, and removes invisible characters.
func foldText(text string) string {
	return strings.Map(func(r rune) rune {
		if invisible(r) {
			return -1
		}
		return r
	}, cases.Fold().String(norm.NFC.String(text)))
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
