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
	maxProseTag   = 128 // more than any doctype and attribute's name that matters before the document
	maxProseKey   = 128 // more than any first line of a fence that matters there
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
	switch c := rest[0]; {
	case p.base+int64(p.pos) == 0 && bytes.HasPrefix(rest, []byte(byteOrderMark)):
		p.pos += len(byteOrderMark)
	case isSpace(c):
		n := len(rest) - len(bytes.TrimLeft(rest, " \t\r\n\f"))
		p.keepSpace(rest[:n])
		p.pos += n
	case c == '<':
		return p.proseTag(rest, 0, 0, final)
	case c == '`':
		return p.ticks(rest, final)
	default:
		n := 1
		for n < len(rest) && rest[n] > ' ' && rest[n] != '<' && rest[n] != '`' {
			n++
		}
		p.say(rest[:n])
	}
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
	first := len(rest) - len(bytes.TrimLeft(rest[ticks+line:], " \t\r\n\f"))
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

var (
	// proseMarkup is the beginning of a tag, a doctype or a comment. Longer names do not matter before the document.
	proseMarkup = regexp.MustCompile(`^(?i)<(/?)([a-z][a-z0-9-]{0,23}|!doctype|!--)`)
	// attribute follows the name of a tag inside a line if it begins a document: a tag that is only mentioned has no attributes.
	attribute = regexp.MustCompile(`^[ \t\f]*(?:[\r\n]|[A-Za-z0-9_:@.-]+[=>/])`)
)

// proseTag decides whether the document begins with what may be a tag at rest[at:]. ticks is the length of the fence before it; 0 is none.
func (p *Parser) proseTag(rest []byte, at, ticks int, final bool) bool {
	text := rest[at:min(len(rest), at+maxProseTag)]
	end := 1 + bytes.IndexAny(text[1:], "<>") // inside a line, the byte behind it decides
	if len(text) < maxProseTag && (end == 0 || end+1 == len(text) && !p.lineStart && ticks == 0) && !final && (len(text) == 1 || isLetter(text[1]) || text[1] == '/' || text[1] == '!') {
		return false
	}
	m := proseMarkup.FindSubmatch(text)
	if m == nil {
		p.say(rest[:at+1])
		return true
	}
	tag, isEnd, name := len(m[0]), len(m[1]) > 0, strings.ToLower(string(m[2]))
	ends := tag < len(text) && text[tag] == '>'
	switch {
	case thinkTags[name] && ends && isEnd && (name == p.thinking || p.thinking == ""):
		p.dropTag(at+tag+1, "")
	case isEnd, p.thinking != "", p.inCode:
		p.say(rest[:at+1])
	case thinkTags[name] && ends:
		p.dropTag(at+tag+1, name)
	case p.beginsDocument(name, text[tag:], ticks > 0):
		p.pos += at
		p.start(ticks)
	default:
		p.say(rest[:at+1])
	}
	return true
}

// beginsDocument decides whether the document begins with a start tag, doctype or comment. behind is what follows its name.
func (p *Parser) beginsDocument(name string, behind []byte, inFence bool) bool {
	first := p.lineStart || inFence
	known := classes[known][name]
	switch {
	case name == "!--":
		return first
	case len(behind) == 0 || !endsName(behind[0]):
		return false
	case inFence, first && (name == "!doctype" || known || strings.Contains(name, "-")):
		return true
	case name == "!doctype", known && behind[0] == '>': // what is only mentioned is not followed by text
		_, behind, _ = bytes.Cut(behind, []byte(">"))
		if len(behind) == 0 {
			return false
		}
		c := behind[0]
		return isLetter(c) || isDigit(c) || c == '<' || c == '\n' || c == '\r' || c >= 0x80
	}
	return known && attribute.Match(behind)
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
