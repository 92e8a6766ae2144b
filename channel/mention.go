package channel

import (
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// Names finds the names of an agent in texts, where a platform does not say who is mentioned. Upper and lower case are the same. A name
// is a word of its own: Ling is neither in "Lingering" nor in "Éling". Scripts that do not put spaces between words need no such
// border, so that 小灵 is in "小灵你好", and Ling in "请Ling帮忙".
type Names struct{ names []name }

// name is one of them, folded.
type name struct {
	runes       []rune
	left, right bool // a border is needed there
}

// NewNames prepares names; blank ones are left out.
func NewNames(patterns []string) Names {
	var n Names
	for _, p := range patterns {
		var one name
		for _, r := range norm.NFC.String(p) {
			one.runes = append(one.runes, fold(r))
		}
		one.runes = trim(one.runes)
		if len(one.runes) == 0 {
			continue
		}
		first, last := one.runes[0], one.runes[len(one.runes)-1]
		one.left = spaced(first) || first == '@' // "a@ling" is an address, not the name "@ling"
		one.right = spaced(last)
		n.names = append(n.names, one)
	}
	return n
}

// In says whether one of the names is in the text.
func (n Names) In(text string) bool {
	if len(n.names) == 0 {
		return false
	}
	if !norm.NFC.IsNormalString(text) {
		text = norm.NFC.String(text)
	}
	before := rune(-1) // the last rune that shows; -1 at the start
	for at, r := range text {
		for i := range n.names {
			if n.names[i].at(text[at:], fold(r), before) {
				return true
			}
		}
		if !silent(r) {
			before = r
		}
	}
	return false
}

// at says whether the text begins with the name, after the rune before.
func (n *name) at(text string, first, before rune) bool {
	if first != n.runes[0] || n.left && before >= 0 && spaced(before) {
		return false
	}
	for _, want := range n.runes {
		r, size := utf8.DecodeRuneInString(text)
		if size == 0 || fold(r) != want {
			return false
		}
		text = text[size:]
	}
	for _, r := range text {
		switch {
		case silent(r):
			continue
		case unicode.IsMark(r):
			return false // it makes another letter of the last one
		}
		return !n.right || !spaced(r)
	}
	return true
}

// fold is the same rune for all that differ in case alone.
func fold(r rune) rune {
	if r < utf8.RuneSelf {
		if 'A' <= r && r <= 'Z' {
			r += 'a' - 'A'
		}
		return r
	}
	least := r
	for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
		least = min(least, f)
	}
	if 'A' <= least && least <= 'Z' { // such as the sign for Kelvin, which folds to k
		least += 'a' - 'A'
	}
	return least
}

// unspaced are the scripts that do not put spaces between words.
var unspaced = []*unicode.RangeTable{
	unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Bopomofo, unicode.Yi, unicode.Thai, unicode.Lao, unicode.Khmer,
	unicode.Myanmar, unicode.Tibetan, unicode.Javanese, unicode.Balinese, unicode.New_Tai_Lue, unicode.Tai_Tham, unicode.Tai_Viet,
}

// spaced says whether a rune is part of a word of a script that puts spaces between words.
func spaced(r rune) bool {
	if r < utf8.RuneSelf {
		return 'a' <= r|0x20 && r|0x20 <= 'z' || '0' <= r && r <= '9' || r == '_'
	}
	return (unicode.IsLetter(r) || unicode.IsNumber(r) || unicode.IsMark(r) || unicode.Is(unicode.Pc, r)) && !unicode.In(r, unspaced...)
}

// silent says whether a rune does not show, and separates nothing.
func silent(r rune) bool { return r >= 0x80 && r != '\u200b' && unicode.Is(unicode.Cf, r) }

func trim(r []rune) []rune {
	for len(r) > 0 && unicode.IsSpace(r[0]) {
		r = r[1:]
	}
	for len(r) > 0 && unicode.IsSpace(r[len(r)-1]) {
		r = r[:len(r)-1]
	}
	return r
}
