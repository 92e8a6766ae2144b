package markup

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// write writes runs in a format.
func write(r runs, to Format) string {
	var b strings.Builder
	switch to {
	case TelegramHTML:
		writeNested(&b, r, html{})
	case TelegramMarkdownV2:
		writeNested(&b, lines(r), markdownV2{})
	case SlackMrkdwn:
		writeNested(&b, lines(spaced(r)), mrkdwn{})
	case FeishuCard:
		writeNested(&b, lines(spaced(webLinks(r))), feishu{})
	case Discord:
		writeNested(&b, lines(spaced(webLinks(r))), discord{})
	default:
		for i := range r {
			b.WriteString(r[i].again)
			b.WriteString(r[i].text)
			// A link's text is often in several runs.
			if r[i].link != "" && (i == len(r)-1 || r[i+1].link != r[i].link) {
				b.WriteString(" (" + r[i].link + ")")
			}
		}
	}
	return showMarks.Replace(b.String())
}

// tag is one thing that a style is made of, in the order in which they nest.
type tag struct {
	kind tagKind
	arg  string
}

type tagKind uint8

const (
	tagQuote tagKind = iota
	tagLink
	tagBold
	tagItalic
	tagStrike
	tagCode
	tagBlock
)

// language of a format.
type format interface {
	open(*strings.Builder, tag)
	close(*strings.Builder, tag)
	text(b *strings.Builder, text string, s style, before, after rune)
	// tags are those of a style that the format has together.
	tags(style, []tag) []tag
}

// writeNested writes runs so that whatever is opened is closed in the opposite order.
func writeNested(b *strings.Builder, r runs, f format) {
	var open, next []tag
	before := rune(0)
	for i := range r {
		next = f.tags(r[i].style, next[:0])
		same := 0
		for same < len(open) && same < len(next) && open[same] == next[same] {
			same++
		}
		for j := len(open) - 1; j >= same; j-- {
			f.close(b, open[j])
		}
		for _, t := range next[same:] {
			f.open(b, t)
		}
		open, next = next, open
		after := rune(0)
		if i+1 < len(r) {
			after, _ = utf8.DecodeRuneInString(r[i+1].text)
		}
		f.text(b, r[i].again+r[i].text, r[i].style, before, after)
		before, _ = utf8.DecodeLastRuneInString(r[i].text)
	}
	for j := len(open) - 1; j >= 0; j-- {
		f.close(b, open[j])
	}
}

// marks appends the tags of what is in a line.
func marks(s style, list []tag) []tag {
	if s.link != "" {
		list = append(list, tag{tagLink, s.link})
	}
	if s.bold {
		list = append(list, tag{kind: tagBold})
	}
	if s.italic {
		list = append(list, tag{kind: tagItalic})
	}
	if s.strike {
		list = append(list, tag{kind: tagStrike})
	}
	return list
}

// html is Telegram's.
type html struct{}

func (html) tags(s style, list []tag) []tag {
	if s.quote {
		list = append(list, tag{kind: tagQuote})
	}
	switch { // nothing else is in code, nor around it
	case s.block:
		return append(list, tag{tagBlock, s.lang})
	case s.code:
		return append(list, tag{kind: tagCode})
	}
	return marks(s, list)
}

func (html) open(b *strings.Builder, t tag) {
	switch t.kind {
	case tagQuote:
		b.WriteString("<blockquote>")
	case tagLink:
		b.WriteString(`<a href="` + escapeHTML(t.arg) + `">`)
	case tagBold:
		b.WriteString("<b>")
	case tagItalic:
		b.WriteString("<i>")
	case tagStrike:
		b.WriteString("<s>")
	case tagCode:
		b.WriteString("<code>")
	case tagBlock:
		b.WriteString("<pre>")
		if t.arg != "" {
			b.WriteString(`<code class="language-` + escapeHTML(t.arg) + `">`)
		}
	}
}

func (html) close(b *strings.Builder, t tag) {
	switch t.kind {
	case tagQuote:
		b.WriteString("</blockquote>")
	case tagLink:
		b.WriteString("</a>")
	case tagBold:
		b.WriteString("</b>")
	case tagItalic:
		b.WriteString("</i>")
	case tagStrike:
		b.WriteString("</s>")
	case tagCode:
		b.WriteString("</code>")
	case tagBlock:
		if t.arg != "" {
			b.WriteString("</code>")
		}
		b.WriteString("</pre>")
	}
}

func (html) text(b *strings.Builder, text string, _ style, _, _ rune) {
	b.WriteString(escapeHTML(text))
}

var htmlEscapes = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;")

func escapeHTML(s string) string { return htmlEscapes.Replace(s) }

// lines gives every line of a quote, which the formats below mark by itself, a run of its own.
func lines(r runs) runs {
	var out runs
	for i := range r {
		s := r[i].style
		if !s.quote || s.block { // a block of code is marked by its fence
			s.quote = false
			out.add(r[i].again+r[i].text, s)
			continue
		}
		for line := range strings.Lines(r[i].text) {
			line, end := strings.CutSuffix(line, "\n")
			start := len(out) == 0 || strings.HasSuffix(out[len(out)-1].text, "\n")
			if start {
				out = append(out, run{style: style{quote: true}})
			}
			s := s
			s.quote = false
			if line != "" {
				out = append(out, run{text: line, style: s})
			}
			if end {
				out = append(out, run{text: "\n"})
			}
		}
	}
	return out
}

// markdownV2 is Telegram's.
type markdownV2 struct{}

func (markdownV2) tags(s style, list []tag) []tag {
	s.quote = false
	return html{}.tags(s, list)
}

func (f markdownV2) open(b *strings.Builder, t tag) {
	switch t.kind {
	case tagLink:
		b.WriteString("[")
	case tagBlock:
		b.WriteString("```" + t.arg + "\n")
	default:
		f.close(b, t)
	}
}

var linkEscapes = strings.NewReplacer(`\`, `\\`, ")", `\)`)

func (markdownV2) close(b *strings.Builder, t tag) {
	switch t.kind {
	case tagLink:
		b.WriteString("](" + linkEscapes.Replace(t.arg) + ")")
	case tagBold:
		b.WriteString("*")
	case tagItalic:
		b.WriteString("_")
	case tagStrike:
		b.WriteString("~")
	case tagCode:
		b.WriteString("`")
	case tagBlock:
		b.WriteString("\n```")
	}
}

func (markdownV2) text(b *strings.Builder, text string, s style, _, _ rune) {
	if s.quote {
		b.WriteByte('>')
		return
	}
	escaped := "_*[]()~`>#+-=|{}.!\\"
	if s.code || s.block {
		escaped = "`\\"
	}
	for _, r := range text {
		r, _ := shownMark(r)
		if strings.ContainsRune(escaped, r) {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
}

// zeroWidthSpace ends a word for Slack, and nobody sees it. Slack has no other way to say that a mark is a character, or that one
// within a word is a mark.
const zeroWidthSpace = "\u200b"

// mrkdwn is Slack's.
type mrkdwn struct{}

func (mrkdwn) tags(s style, list []tag) []tag { return linkedTags(s, list) }

// linkedTags are those of dialects whose marks stand around a link, not in it.
func linkedTags(s style, list []tag) []tag {
	switch {
	case s.block:
		return append(list, tag{tagBlock, s.lang})
	case s.code:
		if s.link != "" {
			list = append(list, tag{tagLink, s.link})
		}
		return append(list, tag{kind: tagCode})
	}
	list = marks(style{bold: s.bold, italic: s.italic, strike: s.strike}, list)
	if s.link != "" {
		list = append(list, tag{tagLink, s.link})
	}
	return list
}

// markOf is the mark of a kind, of those for bold, italic and struck text; the others are code.
func markOf(k tagKind, bold, italic, strike string) string {
	switch k {
	case tagBold:
		return bold
	case tagItalic:
		return italic
	case tagStrike:
		return strike
	}
	return "`"
}

func (f mrkdwn) open(b *strings.Builder, t tag) {
	switch t.kind {
	case tagLink:
		b.WriteString("<" + slackEscapes.Replace(t.arg) + "|")
	case tagBlock:
		b.WriteString("```\n")
	default:
		if inWord(lastRune(b)) {
			b.WriteString(zeroWidthSpace)
		}
		b.WriteString(slackMark(t.kind))
	}
}

func (mrkdwn) close(b *strings.Builder, t tag) {
	switch t.kind {
	case tagLink:
		b.WriteString(">")
	case tagBlock:
		b.WriteString("\n```")
	default:
		b.WriteString(slackMark(t.kind))
	}
}

func slackMark(k tagKind) string { return markOf(k, "*", "_", "~") }

var slackEscapes = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

func (mrkdwn) text(b *strings.Builder, text string, s style, before, after rune) {
	if s.quote {
		b.WriteString("> ")
		return
	}
	if before != 0 && s == (style{}) && strings.ContainsRune("*_~`", lastRune(b)) {
		if r, _ := utf8.DecodeRuneInString(text); inWord(r) {
			b.WriteString(zeroWidthSpace)
		}
	}
	if s.block {
		// A fence within would end the block.
		b.WriteString(strings.ReplaceAll(slackEscapes.Replace(text), "```", "``"+zeroWidthSpace+"`"))
		return
	}
	last := before
	for i, r := range text {
		switch r {
		case '&':
			b.WriteString("&amp;")
		case '<':
			b.WriteString("&lt;")
		case '>':
			b.WriteString("&gt;")
		case '*', '_', '~', '`':
			next, _ := utf8.DecodeRuneInString(text[i+1:])
			if i+1 == len(text) {
				next = after
			}
			b.WriteRune(r)
			if s.code && r != '`' || inWord(last) && inWord(next) || isSpace(last) && isSpace(next) {
				break // it marks nothing
			}
			b.WriteString(zeroWidthSpace)
		default:
			b.WriteRune(r)
		}
		last = r
	}
}

func isSpace(r rune) bool { return r == 0 || r == utf8.RuneError || unicode.IsSpace(r) }

func inWord(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }

func lastRune(b *strings.Builder) rune {
	r, _ := utf8.DecodeLastRuneInString(b.String())
	return r
}

// spaced moves white space to the outside of marks: Slack has none right behind a mark, nor before its end.
func spaced(r runs) runs {
	var out runs
	for i := range r {
		s := r[i].style
		if !s.bold && !s.italic && !s.strike || s.code || s.block {
			out.add(r[i].again+r[i].text, s)
			continue
		}
		outside := style{quote: s.quote, link: s.link}
		// Nor do marks go over the ends of lines.
		for line := range strings.Lines(r[i].text) {
			left := strings.TrimLeftFunc(line, unicode.IsSpace)
			inner := strings.TrimRightFunc(left, unicode.IsSpace)
			out.add(line[:len(line)-len(left)], outside)
			out.add(inner, s)
			out.add(left[len(inner):], outside)
		}
	}
	return out
}
