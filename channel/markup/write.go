package markup

import (
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// write writes runs in a format.
func write(r runs, to Format) string {
	w := writer{to: to}
	switch to {
	case Plain:
		w.plain(r)
	case TelegramHTML:
		w.runs(r)
	default:
		w.runs(perLine(r))
	}
	return w.String()
}

type writer struct {
	strings.Builder
	to   Format
	tags []tag // that are open
}

func (w *writer) plain(r runs) {
	for i, one := range r {
		w.WriteString(one.repeat + one.text)
		if one.link != "" && (i == len(r)-1 || r[i+1].link != one.link) { // the text of a link can have several runs
			w.WriteString(" (" + one.link + ")")
		}
	}
}

// runs writes runs with their markup.
func (w *writer) runs(r runs) {
	for _, one := range r {
		if one.text == "" { // the start of a line in a quote, from perLine
			w.setTags(nil)
			w.WriteString(quotes[w.to])
			continue
		}
		w.setTags(styleTags(one, w.to))
		w.text(one.repeat+one.text, one.style)
	}
	w.setTags(nil)
}

// last returns the last character that was written, or the end of a line if it is missing.
func (w *writer) last() rune {
	if w.Len() == 0 {
		return '\n'
	}
	r, _ := utf8.DecodeLastRuneInString(w.String())
	return r
}

// tag is the markup that opens and closes a part of a style.
type tag struct{ open, close string }

// marks are the marks of a format for bold, italic and struck text and for code.
var marks = [...][4]tag{
	TelegramHTML: {{"<b>", "</b>"}, {"<i>", "</i>"}, {"<s>", "</s>"}, {"<code>", "</code>"}},
	SlackMrkdwn:  {{"*", "*"}, {"_", "_"}, {"~", "~"}, {"`", "`"}},
	FeishuCard:   {{"**", "**"}, {"*", "*"}, {"~~", "~~"}, {"`", "`"}},
	Discord:      {{"**", "**"}, {"*", "*"}, {"~~", "~~"}, {"`", "`"}},
}

// quotes begin each line of a quote.
var quotes = [...]string{SlackMrkdwn: "> ", FeishuCard: "> ", Discord: "> "}

// styleTags returns the tags of a run, outermost first.
func styleTags(one run, to Format) (list []tag) {
	s := one.style
	if s.quote {
		list = append(list, tag{"<blockquote>", "</blockquote>"})
	}
	switch { // code has no other style
	case s.block:
		return append(list, blockTag(s.lang, to))
	case s.code && to == Discord && strings.Contains(one.text, "`"): // such code cannot be marked
		return list
	case s.code:
		return append(list, marks[to][3])
	}
	if s.heading > 0 {
		list = append(list, tag{strings.Repeat("#", s.heading) + " ", ""})
	}
	linkInside := to == SlackMrkdwn || to == FeishuCard
	if s.link != "" && !linkInside {
		list = append(list, linkTag(s.link, to))
	}
	for i, is := range []bool{s.bold, s.italic, s.strike} {
		if is {
			list = append(list, marks[to][i])
		}
	}
	if s.link != "" && linkInside {
		list = append(list, linkTag(s.link, to))
	}
	return list
}

func blockTag(lang string, to Format) tag {
	switch {
	case to == TelegramHTML && lang != "":
		return tag{`<pre><code class="language-` + lang + `">`, "</code></pre>"}
	case to == TelegramHTML:
		return tag{"<pre>", "</pre>"}
	case to == SlackMrkdwn:
		lang = ""
	}
	return tag{"```" + lang + "\n", "\n```"}
}

func linkTag(address string, to Format) tag {
	switch to {
	case TelegramHTML:
		return tag{`<a href="` + htmlText.Replace(address) + `">`, "</a>"}
	case SlackMrkdwn:
		return tag{"<" + slackText.Replace(address) + "|", ">"}
	}
	return tag{"[", "](" + link.Replace(address) + ")"}
}

// setTags closes and opens tags until those of the list are open. Tags are closed in the reverse order of their opening.
func (w *writer) setTags(list []tag) {
	same := 0
	for same < len(w.tags) && same < len(list) && w.tags[same] == list[same] {
		same++
	}
	for i := len(w.tags) - 1; i >= same; i-- {
		w.WriteString(w.tags[i].close)
	}
	closed := len(w.tags) > same
	for _, t := range list[same:] {
		mark := t.open == t.close
		switch {
		case strings.HasPrefix(t.open, "```") && (w.to == FeishuCard || w.to == Discord) && w.last() != '\n':
			w.WriteString("\n")
		case mark && (w.to == SlackMrkdwn && inWord(w.last()) || w.to == Discord && closed):
			w.WriteString(zeroWidthSpace)
		}
		w.WriteString(t.open)
		closed = false
	}
	w.tags = list
}

// zeroWidthSpace is invisible. It ends a word for Slack, which has no other way to say that a mark is a character or that a mark within a
// word is one, and it separates marks and breaks what cannot be escaped.
const zeroWidthSpace = "\u200b"

var (
	htmlText    = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;")
	slackText   = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")
	discordText = escaper("<>*_~`[]\\#|", backslash)
	feishuText  = escaper("<>*_~`[]\\#|&!$", entity)
	literal     = escaper("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~", backslash)
	link        = strings.NewReplacer("(", "%28", ")", "%29", `\`, "%5C", " ", "%20")
)

func escaper(characters string, escape func(string) string) *strings.Replacer {
	var pairs []string
	for _, r := range characters {
		pairs = append(pairs, string(r), escape(string(r)))
	}
	return strings.NewReplacer(pairs...)
}

func backslash(s string) string { return `\` + s }

func entity(s string) string { return "&#" + strconv.Itoa(int(s[0])) + ";" }

// text writes and escapes the text of a run.
func (w *writer) text(text string, s style) {
	switch code := s.code || s.block; {
	case w.to == TelegramHTML:
		w.WriteString(htmlText.Replace(text))
	case w.to == SlackMrkdwn && s.block:
		w.WriteString(breakFences(slackText.Replace(text)))
	case w.to == SlackMrkdwn:
		w.slack(text, s)
	case !code || w.to == Discord && s.code && strings.Contains(text, "`"):
		w.lines(text)
	case w.to == FeishuCard && s.code:
		w.WriteString(strings.ReplaceAll(BreakTags(text), "`", "\u02cb"))
	case w.to == FeishuCard:
		w.WriteString(breakFences(BreakTags(text)))
	default:
		w.WriteString(breakFences(text))
	}
}

// breakFences changes backticks that would end a block of code.
func breakFences(code string) string { return strings.ReplaceAll(code, "```", "``"+zeroWidthSpace+"`") }

// BreakTags breaks what Feishu would read as the tag of a mention, for places that have no escapes.
func BreakTags(text string) string {
	return mentionTag.ReplaceAllString(text, "<"+zeroWidthSpace+"$1")
}

var (
	mentionTag = regexp.MustCompile(`(?i)<(/?(?:at|person)(?:\b|_))`)
	blockMark  = regexp.MustCompile(`^(?:[-+=]|\d{1,9}[.)])`) // at the start of a line
	emojiStart = regexp.MustCompile(`:([\pL\pN])`)
)

// lines writes text for Feishu and Discord. Some characters are marks only at the start of a line.
func (w *writer) lines(text string) {
	escape, escapeLine := entity, escapeFeishu
	if w.to == Discord {
		escape, escapeLine = backslash, escapeDiscord
	}
	for line := range strings.Lines(text) {
		if w.last() == '\n' {
			rest := strings.TrimLeft(line, " ") // four plain spaces begin a block of code
			w.WriteString(strings.Repeat("\u00a0", len(line)-len(rest)))
			mark := blockMark.FindString(rest)
			if line = rest[len(mark):]; mark != "" {
				w.WriteString(mark[:len(mark)-1] + escape(mark[len(mark)-1:]))
			}
		}
		w.WriteString(escapeLine(line))
	}
}

func escapeFeishu(line string) string {
	return emojiStart.ReplaceAllString(feishuText.Replace(line), "&#58;$1")
}

// escapeDiscord escapes a line, except for addresses.
func escapeDiscord(line string) string {
	for i := range len(line) {
		if n := addressRest(line[:i], line[i:]); n > 0 {
			return escapeDiscord(line[:i]) + line[i:i+n] + escapeDiscord(line[i+n:])
		}
	}
	return emojiStart.ReplaceAllString(discordText.Replace(line), `\:$1`)
}

// slack writes text for Slack. A zero width space follows each character that could be a mark: one that is neither within a word nor between
// spaces.
func (w *writer) slack(text string, s style) {
	last := w.last()
	first, _ := utf8.DecodeRuneInString(text)
	if s == (style{}) && strings.ContainsRune("*_~`", last) && inWord(first) {
		w.WriteString(zeroWidthSpace)
	}
	start, address := 0, 0 // of what is not written yet; the end of the address at i
	for i, r := range text {
		if i >= address {
			address = i + addressRest(text[:i], text[i:])
		}
		if strings.ContainsRune("*_~`", r) && i >= address && (!s.code || r == '`') {
			next, size := utf8.DecodeRuneInString(text[i+1:])
			if !(inWord(last) && inWord(next)) && !(unicode.IsSpace(last) && unicode.IsSpace(next)) || size == 0 {
				w.WriteString(slackText.Replace(text[start:i+1]) + zeroWidthSpace)
				start = i + 1
			}
		}
		last = r
	}
	w.WriteString(slackText.Replace(text[start:]))
}

// perLine returns runs for formats that mark each line of a quote. It also moves white space out of marked text: marks next to white
// space, and around the end of a line, are characters there.
func perLine(r runs) (out runs) {
	lineStart := true
	for _, one := range r {
		inner := one.style
		inner.quote = false
		if one.block { // in a quote, too, its fence marks it
			out.add(one.repeat+one.text, inner)
			lineStart = false
			continue
		}
		outer := inner
		if !one.code {
			outer.bold, outer.italic, outer.strike = false, false, false
		}
		for line := range strings.Lines(one.text) {
			if one.quote && lineStart {
				out = append(out, run{style: style{quote: true}})
			}
			line, lineStart = strings.CutSuffix(line, "\n")
			left := strings.TrimLeftFunc(line, unicode.IsSpace)
			text := strings.TrimRightFunc(left, unicode.IsSpace)
			out.add(line[:len(line)-len(left)], outer)
			out.add(text, inner)
			out.add(left[len(text):], outer)
			if lineStart && one.quote {
				out.add("\n", style{})
			} else if lineStart {
				out.add("\n", outer)
			}
		}
	}
	return out
}
