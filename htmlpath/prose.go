package htmlpath

import (
	"bytes"
	"regexp"
	"strings"
)

// Repairs, by the names that [Parser.Repairs] gives them.
const (
	fixProse    = iota // text before the document
	fixTrailing        // text behind it
	fixFence           // a code fence
	fixThink           // a thinking tag
	fixUTF8            // a byte that is not UTF-8
	fixCut             // the text ended in the middle of a tag
	fixUnclosed        // an element without an end tag that needs one
	fixStray           // an end tag without an element
	fixKinds
)

var fixNames = [fixKinds]string{
	"prose", "trailing_text", "fence", "think", "invalid_utf8", "cut_off", "unclosed_element", "stray_end_tag",
}

// Repairs returns how many repairs of each kind were made, by names as "prose" or "unclosed_element"; nil when there were
// none, or not in repair mode. It does not depend on where chunks end.
func (p *Parser) Repairs() (made map[string]int) {
	for i, n := range p.fixes {
		if n > 0 && p.repair {
			if made == nil {
				made = map[string]int{}
			}
			made[fixNames[i]] = n
		}
	}
	return made
}

const (
	byteOrderMark = "\ufeff"
	maxFence      = 64  // of a code fence, in backticks
	maxProseTag   = 24  // more than any name that matters before the document
	maxProseKey   = 128 // more than any doctype, attribute's name and first line of a fence that matters there
)

// prelude is the state of a parser before the document, in repair mode.
type prelude struct {
	lineStart bool   // only white space was before it in the line
	said      bool   // there was prose
	inCode    bool   // inside `code` in a line
	thinking  string // the end tag of the thinking that is open
	space     []byte // white space and fences that are prose if more comes
}

// thinkTags are those around what a model thinks before it answers.
var thinkTags = map[string]bool{"think": true, "thinking": true, "reasoning": true}

var htmlInfos = map[string]bool{"html": true, "htm": true, "xhtml": true}

// stepProse parses the next piece of the text before the document. It returns false if it needs more of the input.
func (p *Parser) stepProse(rest []byte, final bool) bool {
	if p.base+int64(p.pos) == 0 && !final && len(rest) < len(byteOrderMark) && strings.HasPrefix(byteOrderMark, string(rest)) {
		return false
	}
	n := 0
	switch c := rest[0]; {
	case p.base+int64(p.pos) == 0 && bytes.HasPrefix(rest, []byte(byteOrderMark)):
		p.pos += len(byteOrderMark)
		return true
	case isSpace(c):
		for n < len(rest) && isSpace(rest[n]) {
			n++
		}
		p.keepSpace(rest[:n])
		p.pos += n
		return true
	case c == '<':
		return p.proseTag(rest, 0, 0, final)
	case c == '`':
		return p.ticks(rest, final)
	}
	for n < len(rest) && rest[n] > ' ' && rest[n] != '<' && rest[n] != '`' {
		n++
	}
	p.say(rest[:max(n, 1)])
	return true
}

// keepSpace stores the beginning of white space, which is prose if more comes.
func (p *Parser) keepSpace(space []byte) {
	if bytes.ContainsAny(space, "\r\n") {
		p.lineStart, p.inCode = true, false
	}
	p.space = append(p.space, space[:min(len(space), max(0, maxBlank-len(p.space)))]...)
	p.blank += len(space)
}

// say makes prose of text at the front of the buffer, with the white space that was stored before it.
func (p *Parser) say(text []byte) {
	p.pos += len(text)
	p.blank = 0
	if !p.said {
		p.space = bytes.TrimLeft(p.space, " \t\r\n\f")
	}
	p.text = append(p.text, p.space...)
	p.space = p.space[:0]
	for len(text) > 0 {
		n := min(len(text), maxText)
		p.text = append(p.text, text[:n]...)
		if text = text[n:]; len(p.text) >= maxText {
			p.flush(false)
		}
	}
	p.said, p.lineStart = true, false
}

// ticks reads a run of backticks: the first line of a fence, or what stands around `code`.
func (p *Parser) ticks(rest []byte, final bool) bool {
	ticks := 0
	for ticks < len(rest) && rest[ticks] == '`' {
		ticks++
	}
	if ticks == len(rest) && ticks <= maxFence && !final {
		return false
	}
	if ticks < 3 || ticks > maxFence || p.thinking != "" {
		p.say(rest[:ticks])
		p.inCode = !p.inCode
		return true
	}
	line := bytes.IndexAny(rest[ticks:], "\r\n<")
	if line < 0 && len(rest) < maxProseKey && !final {
		return false
	}
	if line < 0 || line > maxProseKey {
		p.say(rest)
		return true
	}
	info := strings.ToLower(strings.TrimSpace(string(rest[ticks : ticks+line])))
	first := ticks + line
	for first < len(rest) && isSpace(rest[first]) {
		first++
	}
	switch {
	case first == len(rest) && first < ticks+line+maxBlank && !final:
		return false
	case first < len(rest) && rest[first] == '<':
		return p.proseTag(rest, first, ticks, final)
	case first < len(rest) && htmlInfos[info]:
		p.pos += first
		p.start(ticks)
		return true
	}
	p.keepSpace(rest[:first]) // with the line, it is prose only if prose follows
	p.pos += first
	return true
}

// attribute is what makes a document of a tag inside a line: what is only mentioned has no attributes.
var (
	attribute      = regexp.MustCompile(`^[ \t\f]*(?:[\r\n]|[A-Za-z0-9_:@.-]+[=>/])`)
	maybeAttribute = regexp.MustCompile(`^[ \t\f]*[A-Za-z0-9_:@.-]*$`)
)

// proseTag decides whether the document begins with what may be a tag at rest[at:]. ticks is the length of the fence before it; 0 is none.
func (p *Parser) proseTag(rest []byte, at, ticks int, final bool) bool {
	text := rest[at:]
	n := 1
	for n < len(text) && n <= maxProseTag && (isLetter(text[n]) || isDigit(text[n]) || text[n] == '-' || text[n] == '/' || text[n] == '!') {
		n++
	}
	if n == len(text) && n <= maxProseTag && !final {
		return false
	}
	name := strings.ToLower(string(text[1:n]))
	next := byte(0)
	if n < len(text) {
		next = text[n]
	}
	end, isEnd := strings.CutPrefix(name, "/")
	fits := endsName(next)
	letter := name != "" && isLetter(name[0])
	first := p.lineStart || ticks > 0
	switch {
	case isEnd && thinkTags[end] && next == '>' && (end == p.thinking || p.thinking == ""):
		p.dropTag(at+n+1, "")
		return true
	case isEnd, p.thinking != "", p.inCode:
	case thinkTags[name] && next == '>':
		p.dropTag(at+n+1, name)
		return true
	case first && (name == "!doctype" && fits || strings.HasPrefix(name, "!--")),
		ticks > 0 && letter && fits,
		p.lineStart && fits && (classes[known][name] || letter && strings.Contains(name, "-")):
		p.pos += at
		p.start(ticks)
		return true
	case name == "!doctype" && fits:
		if n = bytes.IndexByte(text[:min(len(text), maxProseKey)], '>'); n >= 0 {
			return p.mentionedTag(rest, at, n+1, final)
		}
		if len(text) < maxProseKey && !final {
			return false
		}
	case classes[known][name] && next == '>':
		return p.mentionedTag(rest, at, n+1, final)
	case classes[known][name] && fits:
		behind := text[n:min(len(text), n+maxProseKey)]
		if attribute.Match(behind) {
			p.start(0)
			return true
		}
		if len(behind) < maxProseKey && !final && maybeAttribute.Match(behind) {
			return false
		}
		n = len(text) - len(bytes.TrimLeft(text[n:], " \t\f")) // no prose ends with white space
	}
	p.say(rest[:at+max(n, 1)])
	return true
}

// mentionedTag decides whether the document begins with the tag rest[at:at+n] inside a line: what is only mentioned is not followed by text.
func (p *Parser) mentionedTag(rest []byte, at, n int, final bool) bool {
	if at+n == len(rest) && !final {
		return false
	}
	if at+n < len(rest) {
		if c := rest[at+n]; isLetter(c) || isDigit(c) || c == '<' || c == '\n' || c == '\r' || c >= 0x80 {
			p.start(0)
			return true
		}
	}
	p.say(rest[:at+n])
	return true
}

// dropTag leaves a thinking tag out, which ends before rest[n]; thinking is the end tag that is awaited then.
func (p *Parser) dropTag(n int, thinking string) {
	p.fixes[fixThink]++
	p.pos += n
	p.thinking, p.lineStart, p.inCode = thinking, true, false
}

// start begins the document at the front of the buffer; ticks is the length of the fence around it, 0 is none.
func (p *Parser) start(ticks int) {
	p.flush(true)
	if p.said || ticks > 0 {
		p.fixes[fixProse]++
	}
	if ticks > 0 {
		p.fixes[fixFence]++
		p.fence = ticks
	}
	p.blank, p.space = 0, nil
	p.mode, p.from = inText, p.pos
}

// lastLine returns the length of the last line of the fence around the document, if text, which follows a line break, begins with it;
// 0 otherwise. It is not known where more of the input is needed.
func (p *Parser) lastLine(text []byte, final bool) (length int, known bool) {
	spaces := 0
	for spaces < len(text) && spaces < 3 && text[spaces] == ' ' {
		spaces++
	}
	n := spaces
	for n < len(text) && text[n] == '`' && n-spaces <= maxFence {
		n++
	}
	switch {
	case n == len(text) && !final:
		return 0, false
	case n-spaces < p.fence, n-spaces > maxFence, n < len(text) && (isLetter(text[n]) || isDigit(text[n])):
		return 0, true
	}
	return n, true
}

// end ends the document: what comes now is ignored.
func (p *Parser) end() {
	p.release()
	p.flush(true)
	p.fixes[fixUnclosed] += p.unclosed(0)
	p.closeTo(0)
	p.mode, p.complete = atEnd, true
}
