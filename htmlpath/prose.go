package htmlpath

import (
	"bytes"
	"regexp"
	"strings"
	"unicode/utf8"
)

// The kinds of repair, as [Parser.Repairs] counts them.
const (
	fixProse    = "prose"            // text before the document
	fixTrailing = "trailing_text"    // text behind it
	fixFence    = "fence"            // a code fence
	fixThink    = "think"            // a thinking tag
	fixUTF8     = "invalid_utf8"     // text that is not UTF-8
	fixCut      = "cut_off"          // the text ended in the middle of a tag
	fixUnclosed = "unclosed_element" // an element without an end tag that needs one
	fixStray    = "stray_end_tag"    // an end tag without an element
)

// Repairs returns how many repairs of each kind were made; nil when there were none, or not in repair mode. It does not depend on where
// chunks end.
func (p *Parser) Repairs() map[string]int {
	if !p.repair || len(p.fixes) == 0 {
		return nil
	}
	return p.fixes
}

const (
	byteOrderMark = "\ufeff"
	maxFence      = 64  // of a code fence, in backticks
	maxMarkup     = 128 // more than any name or first line of a fence that matters before the document
)

// prelude is the state of a parser before the document, in repair mode.
type prelude struct {
	inLine   bool   // more than white space was before it in the line
	said     bool   // there was prose
	thinking string // the end tag of the thinking that is open
	ticks    int    // length of the fence whose first line was the last one
	space    []byte // white space and fences that are prose if more comes
}

var (
	// thinkTag is a tag around what a model thinks before it answers.
	thinkTag = regexp.MustCompile(`^<(/?)(think|thinking|reasoning)>`)
	// beginning is what a document begins with.
	beginning = regexp.MustCompile(`^(?i)<(?:!--|(!doctype|[a-z][a-z0-9-]*)[\s/>])`)
	// inLine is a tag that begins a document inside a line: one that is only mentioned is not followed by text.
	inLine    = regexp.MustCompile(`^<[\w-]+(?:\s[^<>]*)?/?>(?:[\w<\r\n]|[^\x00-\x7f])`)
	fenceLine = regexp.MustCompile("^(`{3,64})[ \t]*([A-Za-z]*)[ \t]*\r?\n")
)

// stepProse parses the next piece of the text before the document. It returns false if it needs more of the input.
func (p *Parser) stepProse(rest []byte, final bool) bool {
	if p.base+int64(p.pos) == 0 {
		if !final && len(rest) < len(byteOrderMark) && strings.HasPrefix(byteOrderMark, string(rest)) {
			return false
		}
		if bytes.HasPrefix(rest, []byte(byteOrderMark)) {
			p.pos += len(byteOrderMark)
			return true
		}
	}
	c := rest[0]
	undecided := !final && len(rest) < maxMarkup
	rest = rest[:min(len(rest), maxMarkup)] // what is decided must not depend on how much more there is
	switch {
	case isSpace(c):
		p.keep(1)
		p.inLine = p.inLine && c != '\n'
	case c == '<' && undecided && (!bytes.ContainsAny(rest, ">\n ") || p.inLine && !hasTextBehindTag(rest)):
		return false
	case c == '<':
		p.proseTag(rest)
	case c == '`' && !p.inLine && p.thinking == "" && undecided && bytes.IndexByte(rest, '\n') < 0:
		return false
	case c == '`' && !p.inLine && p.thinking == "" && fenceLine.Match(rest):
		line := fenceLine.FindSubmatch(rest)
		p.keep(len(line[0]))
		p.ticks = len(line[1])
		if name := strings.ToLower(string(line[2])); name == "html" || name == "htm" || name == "xhtml" {
			p.start()
		}
	default:
		n := 1
		for n < len(rest) && rest[n] != '<' && !isSpace(rest[n]) {
			n++
		}
		p.say(n)
	}
	return true
}

// hasTextBehindTag reports whether text, which begins with "<", has a whole character behind the next "<" or ">".
func hasTextBehindTag(text []byte) bool {
	i := bytes.IndexAny(text[1:], "<>")
	return i >= 0 && utf8.FullRune(text[i+2:])
}

// keep takes n bytes that are prose only if more comes.
func (p *Parser) keep(n int) {
	if len(p.space) < maxBlank {
		p.space = append(p.space, p.buf[p.pos:p.pos+n]...)
	}
	p.pos += n
	p.blank += n
}

// say makes prose of n bytes, with the white space that was stored before them.
func (p *Parser) say(n int) {
	if !p.said {
		p.space = bytes.TrimLeft(p.space, " \t\r\n\f")
	}
	p.text = append(append(p.text, p.space...), p.buf[p.pos:p.pos+n]...)
	p.space, p.blank, p.ticks = p.space[:0], 0, 0
	p.pos += n
	p.said, p.inLine = true, true
}

// proseTag decides whether the document begins with what may be a tag.
func (p *Parser) proseTag(rest []byte) {
	if m := thinkTag.FindSubmatch(rest); m != nil && (p.thinking == "" || len(m[1]) > 0 && string(m[2]) == p.thinking) {
		p.fixes[fixThink]++
		p.pos += len(m[0])
		p.thinking, p.inLine = "", false
		if len(m[1]) == 0 {
			p.thinking = string(m[2])
		}
		return
	}
	if m := beginning.FindSubmatch(rest); m != nil && p.thinking == "" {
		name := strings.ToLower(string(m[1]))
		first := !p.inLine && (name == "" || knownNames[name] || strings.Contains(name, "-"))
		if first || name == "!doctype" || knownNames[name] && inLine.Match(rest) {
			p.start()
			return
		}
	}
	p.say(1)
}

// start begins the document at the front of the buffer.
func (p *Parser) start() {
	p.flush(true)
	if p.fence = p.ticks; p.fence > 0 {
		p.fixes[fixFence]++
	}
	if p.said || p.fence > 0 {
		p.fixes[fixProse]++
	}
	p.blank, p.space = 0, nil
	p.mode, p.from = inText, p.pos
}

// end ends the document: what comes now is ignored.
func (p *Parser) end() {
	p.release()
	p.flush(true)
	p.closeTo(0, 0)
	p.mode, p.complete = atEnd, true
}
