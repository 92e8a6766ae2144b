package markup

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// cut cuts a text into pieces that fit in a message. It changes r.
func cut(r runs, to Format, l Limit) (pieces []runs) {
	for text := r.text(); text != ""; {
		if l.Unit(r[0].repeat) > l.N/4 {
			r[0].repeat = ""
		}
		limit := l.N - l.Unit(r[0].repeat)
		n := cutIndex(text, limit, l.Unit)
		part := r.first(n).trim()
		for l.Marked && limit > 1 {
			// The size of the markup is known when it is written. If it is too large, try a smaller part.
			written := l.Unit(write(part, to))
			if written <= l.N {
				break
			}
			visible := min(l.Unit(text[:n]), limit)
			limit = max(1, min(visible-1, visible*l.N/written))
			n = cutIndex(text, limit, l.Unit)
			part = r.first(n).trim()
		}
		if len(part) > 0 {
			pieces = append(pieces, part)
		}
		n = len(text) - len(trimLines(text[n:]))
		text, r = text[n:], r.drop(n)
	}
	return pieces
}

// cutIndex returns the best index to cut text so that the part before it has at most limit units.
func cutIndex(text string, limit int, unit Unit) int {
	end := fit(text, limit, unit)
	if end == len(text) {
		return end
	}
	head := text[:end]
	// Cuts near the beginning make many small pieces. There, a worse place further on is better.
	least := len(head) / 4
	if i := strings.LastIndex(head, "\n\n"); i > least {
		return i + 2
	}
	if i := strings.LastIndexByte(head, '\n'); i > least {
		return i + 1
	}
	if text[end] == '\n' || text[end] == ' ' {
		return end + 1
	}
	if i := len(sentences.FindString(head)); i > least {
		return i
	}
	if i := strings.LastIndexFunc(head, unicode.IsSpace); i > 0 {
		_, size := utf8.DecodeRuneInString(head[i:])
		return i + size
	}
	return end
}

var sentences = regexp.MustCompile(`(?s)^.*(?:[。！？…]|[.!?]["')\]”’»]*[ \t])`)

// fit returns the length of the longest beginning of text that has at most limit units, and at least one character.
func fit(text string, limit int, unit Unit) int {
	if limit <= 0 {
		return len(text)
	}
	used, end := 0, 0
	for end < len(text) {
		_, size := utf8.DecodeRuneInString(text[end:])
		if used += unit(text[end : end+size]); used > limit && end > 0 {
			return end
		}
		end += size
	}
	return end
}
