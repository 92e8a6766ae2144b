package markup

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Cut cuts a plain text into pieces of at most limit units, where it can between paragraphs, else lines, sentences, words, and last
// characters; never within a character and the marks that belong to it, unless a limit is too small for both. White space at a cut is
// dropped, and pieces of nothing else are none. A character that is larger than the limit stands alone. A limit of 0 or less is none.
func Cut(text string, limit int, unit Unit) []string {
	var pieces []string
	for text = strings.TrimRightFunc(text, unicode.IsSpace); text != ""; {
		n := place(text, limit, unit)
		piece := strings.TrimRightFunc(text[:n], unicode.IsSpace)
		if piece != "" {
			pieces = append(pieces, piece)
		}
		if text = text[n:]; text != "" {
			text = skip(text)
		}
	}
	return pieces
}

// skip drops the white space that a piece would begin with: whole lines of nothing, but not how far the first one is indented.
func skip(text string) string {
	for {
		line, rest, more := strings.Cut(text, "\n")
		if !more || strings.TrimSpace(line) != "" {
			if !more && strings.TrimSpace(text) == "" {
				return ""
			}
			return text
		}
		text = rest
	}
}

// place is where text is cut so that what is before it has at most limit units: its length where all of it has.
func place(text string, limit int, unit Unit) int {
	end := fit(text, limit, unit)
	if end == len(text) {
		return end
	}
	head := text[:end]
	// A cut near the beginning makes many small pieces of a text; then a lesser place that is later is better.
	least := len(head) / 4
	if i := strings.LastIndex(head, "\n\n"); i > least {
		return i + 2
	}
	if i := strings.LastIndexByte(head, '\n'); i > least {
		return i + 1
	}
	if text[end] == '\n' || text[end] == ' ' { // it ends as it should
		return end
	}
	if i := sentence(head); i > least {
		return i
	}
	if i := strings.LastIndexFunc(head, unicode.IsSpace); i > 0 {
		_, size := utf8.DecodeRuneInString(head[i:])
		return i + size
	}
	return between(text, end)
}

// fit is the length of the longest beginning of text that has at most limit units, and at least one character.
func fit(text string, limit int, unit Unit) int {
	if limit <= 0 || len(text) <= limit { // no unit is more than the bytes
		if limit <= 0 || unit(text) <= limit {
			return len(text)
		}
	}
	used, end := 0, 0
	for end < len(text) {
		_, size := utf8.DecodeRuneInString(text[end:])
		used += unit(text[end : end+size])
		if used > limit && end > 0 {
			return end
		}
		end += size
	}
	return end
}

// sentence is the end of the last sentence in head; 0 for none.
func sentence(head string) int {
	for i := len(head); i > 0; {
		r, size := utf8.DecodeLastRuneInString(head[:i])
		switch r {
		case '。', '！', '？', '…': // nothing follows these
			return i
		case ' ', '\t':
			before := strings.TrimRight(head[:i-size], `"')]”’»`)
			if before != "" && strings.IndexByte(".!?", before[len(before)-1]) >= 0 {
				return i
			}
		}
		i -= size
	}
	return 0
}

// between moves a cut so that it does not part a character from the marks behind it, if there is a place at all.
func between(text string, end int) int {
	for at := end; at > 0; {
		r, _ := utf8.DecodeRuneInString(text[at:])
		before, size := utf8.DecodeLastRuneInString(text[:at])
		if !joins(r) && before != zeroWidthJoiner {
			return at
		}
		if end-at > 64 { // this is no character of any language
			break
		}
		at -= size
	}
	return end
}

const zeroWidthJoiner = '\u200d'

// joins says whether a character belongs to the one before it.
func joins(r rune) bool {
	return unicode.In(r, unicode.Mn, unicode.Me, unicode.Mc) || r == zeroWidthJoiner || r == '\ufe0f' || 0x1f3fb <= r && r <= 0x1f3ff
}
