package markup

import (
	"regexp"
	"strings"
)

// Characters of addresses that are marks elsewhere. While Markdown is parsed and written, others stand for them, which no text has.
var (
	hideMarks = strings.NewReplacer("*", "\ufdd0", "_", "\ufdd1", "~", "\ufdd2")
	showMarks = strings.NewReplacer("\ufdd0", "*", "\ufdd1", "_", "\ufdd2", "~")
	noHidden  = strings.NewReplacer("\ufdd0", "\ufffd", "\ufdd1", "\ufffd", "\ufdd2", "\ufffd")
)

// shownMark is the mark that a character stands for; others stand for themselves.
func shownMark(r rune) (mark rune, hidden bool) {
	if '\ufdd0' <= r && r <= '\ufdd2' {
		return rune("*_~"[r-'\ufdd0']), true
	}
	return r, false
}

var addressBegins = regexp.MustCompile(`(?i)(?:https?://|ftp://|www\.)`)

// hideAddresses hides the marks in addresses, which are none there.
func hideAddresses(source string) string {
	source = noHidden.Replace(source)
	if !strings.Contains(source, "://") && !strings.Contains(source, "www.") {
		return source
	}
	var b strings.Builder
	for {
		found := addressBegins.FindStringIndex(source)
		if found == nil {
			break
		}
		start, end := found[0], found[1]
		within := start > 0 && inASCIIWord(source[start-1])
		if !within {
			end = start + len(address(source[start:]))
		}
		b.WriteString(source[:start])
		b.WriteString(hideMarks.Replace(source[start:end]))
		source = source[end:]
	}
	b.WriteString(source)
	return b.String()
}

func inASCIIWord(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}

// address is the address that a text begins with, without the marks and brackets around it. It has no characters beyond ASCII: in languages
// without spaces the text goes on there.
func address(text string) string {
	round, square, end := 0, 0, 0
scan:
	for ; end < len(text); end++ {
		switch c := text[end]; {
		case c == '(':
			round++
		case c == '[':
			square++
		case c == ')':
			if round--; round < 0 {
				break scan
			}
		case c == ']':
			if square--; square < 0 {
				break scan
			}
		case inASCIIWord(c), strings.IndexByte("!#$%&'*+,-./:;=?@_~", c) >= 0:
		default:
			break scan
		}
	}
	found := strings.TrimRight(text[:end], "?!.,:;*_~'")
	if segment := found[strings.LastIndexByte(found, '/')+1:]; strings.HasPrefix(segment, "_") { // __init__
		behind := text[len(found):end]
		found = text[:end-len(strings.TrimLeft(behind, "_"))]
	}
	return found
}
