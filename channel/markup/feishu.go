package markup

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// feishu is the markup of Feishu's cards: Markdown with tags. What has a meaning there is written as an entity, which the platform's own
// table of escapes asks for.
type feishu struct{}

func (feishu) tags(s style, list []tag) []tag { return linkedTags(s, list) }

func (feishu) open(b *strings.Builder, t tag) {
	switch t.kind {
	case tagLink:
		b.WriteString("[")
	case tagBlock:
		if b.Len() > 0 && lastRune(b) != '\n' {
			b.WriteByte('\n')
		}
		b.WriteString("```" + t.arg + "\n")
	default:
		b.WriteString(feishuMark(t.kind))
	}
}

var feishuLinks = strings.NewReplacer("(", "%28", ")", "%29", `\`, "%5C", " ", "%20")

func (feishu) close(b *strings.Builder, t tag) {
	switch t.kind {
	case tagLink:
		b.WriteString("](" + feishuLinks.Replace(t.arg) + ")")
	case tagBlock:
		b.WriteString("\n```")
	default:
		b.WriteString(feishuMark(t.kind))
	}
}

func feishuMark(k tagKind) string { return markOf(k, "**", "*", "~~") }

// feishuEntities are characters that mean something wherever they stand.
var feishuEntities = map[rune]string{
	'&': "&#38;", '<': "&#60;", '>': "&#62;", '*': "&#42;", '_': "&#95;", '~': "&#126;", '`': "&#96;", '[': "&#91;", ']': "&#93;",
	'\\': "&#92;", '#': "&#35;", '!': "&#33;", '$': "&#36;", '|': "&#124;",
}

func (feishu) text(b *strings.Builder, text string, s style, before, _ rune) {
	if s.quote {
		b.WriteString("> ")
		return
	}
	if s.block || s.code {
		// Entities are text in code, and a fence within would end it.
		text = BreakTags(text)
		if s.block {
			b.WriteString(strings.ReplaceAll(text, "```", "``"+zeroWidthSpace+"`"))
			return
		}
		b.WriteString(strings.ReplaceAll(text, "`", "\u02cb"))
		return
	}
	start := before == 0 || before == '\n' // of a line
	for i, r := range text {
		next := rune(0)
		if at := i + utf8.RuneLen(r); r != utf8.RuneError && at < len(text) {
			next, _ = utf8.DecodeRuneInString(text[at:])
		}
		r, _ := shownMark(r)
		switch entity := feishuEntities[r]; {
		case entity != "":
			b.WriteString(entity)
		case r == ' ' && start:
			b.WriteString("\u00a0") // four plain ones would make code of it
			continue
		case start && (r == '-' || r == '+' || r == '='):
			b.WriteString(map[rune]string{'-': "&#45;", '+': "&#43;", '=': "&#61;"}[r])
		case (r == '.' || r == ')') && numbered(text[:i], before):
			b.WriteString(map[rune]string{'.': "&#46;", ')': "&#41;"}[r])
		case r == ':' && (unicode.IsLetter(next) || unicode.IsDigit(next)):
			b.WriteString("&#58;") // the beginning of an emoji's name
		default:
			b.WriteRune(r)
		}
		start = r == '\n'
	}
}

// numbered says whether a line that begins so would be an item of a list with the point behind it.
func numbered(head string, before rune) bool {
	line := head[strings.LastIndexByte(head, '\n')+1:]
	if len(line) == len(head) && before != 0 && before != '\n' {
		return false
	}
	line = strings.TrimLeft(line, " ")
	return line != "" && len(line) <= 9 && strings.Trim(line, "0123456789") == ""
}

// webLinks writes the addresses of links behind them that lead to no page: the platform opens pages alone.
func webLinks(r runs) runs {
	var out runs
	for i := range r {
		s, link := r[i].style, r[i].link
		if link == "" || strings.HasPrefix(link, "https://") || strings.HasPrefix(link, "http://") {
			out.add(r[i].again+r[i].text, s)
			continue
		}
		s.link = ""
		out.add(r[i].text, s)
		if i == len(r)-1 || r[i+1].link != link {
			out.add(" ("+link+")", style{quote: s.quote})
		}
	}
	return out
}

// BreakTags makes text of what Feishu would take for the tag of a mention, in places where nothing can be escaped: an invisible
// character stands in it.
func BreakTags(text string) string {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		b.WriteByte(text[i])
		if text[i] != '<' {
			continue
		}
		name := strings.TrimPrefix(text[i+1:], "/")
		for _, tag := range []string{"at", "person"} {
			if len(name) < len(tag) || !strings.EqualFold(name[:len(tag)], tag) {
				continue
			}
			if rest := name[len(tag):]; rest == "" || !inWord(rune(rest[0])) {
				b.WriteString(zeroWidthSpace)
				break
			}
		}
	}
	return b.String()
}
