package htmlpath

import (
	"bytes"
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

const byteOrderMark = "\ufeff"

// maxFence is how long a code fence may be, in backticks.
const maxFence = 64

// maxProseTag is longer than any name that matters before the document.
const maxProseTag = 24

// maxProseKey is longer than any doctype and any attribute's name that matters there, white space included.
const maxProseKey = 128

// prelude is what stands before the document, in repair mode.
type prelude struct {
	marked    int    // bytes of a byte order mark that were seen
	lineStart bool   // nothing but white space stands before it in the line
	said      bool   // there was prose
	inCode    bool   // inside `code` in a line
	thinking  string // the end tag of the thinking that is open
	space     []byte // white space that is prose if more comes
	ticks     int    // backticks in a row
	tagName   []byte // what stands behind "<"
	info      []byte // the first line of a fence
	fencedTag bool   // what stands behind "<" is the first thing in a fence
}

// thinkTags are those around what a model thinks before it answers.
var thinkTags = map[string]bool{"think": true, "thinking": true, "reasoning": true}

var htmlInfos = map[string]bool{"html": true, "htm": true, "xhtml": true}

// stepProse parses what stands before the document.
func (p *Parser) stepProse(b []byte, i int) int {
	c := b[i]
	switch p.state {
	case stProse:
		return p.prose(b, i)
	case stProseTicks:
		if c == '`' {
			p.ticks++
			return i + 1
		}
		ticks := []byte(strings.Repeat("`", min(p.ticks, maxText)))
		if 3 <= p.ticks && p.ticks <= maxFence && p.thinking == "" {
			p.space = append(p.space, ticks...) // with the line, it is prose only if prose follows
			p.state, p.info = stProseFence, p.info[:0]
			return i
		}
		p.say(ticks)
		p.state, p.lineStart = stProse, false
		p.inCode = !p.inCode
		return i
	case stProseFence:
		switch {
		case c == '\n' || c == '\r':
			p.state = stProseFirst
			p.space = append(p.space, c)
			return i + 1
		case c == '<':
			p.state = stProseFirst
			return i
		case len(p.info) < maxProseTag && !isSpace(c):
			p.info = append(p.info, c|0x20)
		}
		if len(p.space) < maxBlank {
			p.space = append(p.space, b[i])
		}
		return i + 1
	case stProseFirst:
		switch {
		case isSpace(c):
			return i + p.skipBlank(b[i:])
		case c == '<':
			p.startProseTag(i)
			return i + 1
		case htmlInfos[string(p.info)]:
			p.start(b, i, true)
			return i
		}
		p.state, p.lineStart = stProse, true // a fence with something else
		return i
	case stProseTag:
		if len(p.tagName) < maxProseTag && (isLetter(c) || isDigit(c) || c == '-' || c == '/' || c == '!') {
			p.tagName = append(p.tagName, c)
			return i + 1
		}
		return p.judge(b, i)
	case stProseKey:
		p.dashes++
		switch {
		case p.match > 0 && (c == '=' || c == '>' || c == '/'):
			return p.start(b, i, false)
		case p.dashes == maxProseKey, !isSpace(c) && !isLetter(c) && !isDigit(c) && strings.IndexByte("-_:@.", c) < 0, isSpace(c) && p.match > 0:
			return p.noStart(b, i)
		case !isSpace(c):
			p.match++
		case c == '\n' || c == '\r':
			return p.start(b, i, false)
		}
		return i + 1
	case stProseDecl:
		if p.match++; c == '>' {
			p.state = stProseAfter
		} else if p.match == maxProseKey {
			return p.noStart(b, i)
		}
		return i + 1
	}
	if isLetter(c) || isDigit(c) || c == '<' || c == '\n' || c == '\r' || c >= 0x80 {
		return p.start(b, i, false)
	}
	return p.noStart(b, i)
}

// prose takes the next piece of prose.
func (p *Parser) prose(b []byte, i int) int {
	switch c := b[i]; {
	case isSpace(c):
		return i + p.skipBlank(b[i:])
	case p.marked < len(byteOrderMark) && p.base+int64(i) == int64(p.marked) && c == byteOrderMark[p.marked]:
		p.marked++
		return i + 1
	case c == '<':
		p.startProseTag(i)
		return i + 1
	case c == '`':
		p.state, p.ticks = stProseTicks, 1
		return i + 1
	}
	j := i + 1
	for j < len(b) && b[j] > ' ' && b[j] != '<' && b[j] != '`' {
		j++
	}
	p.say(b[i:j])
	p.lineStart = false
	return j
}

// skipBlank keeps the white space that text begins with and returns its length.
func (p *Parser) skipBlank(text []byte) int {
	for i, c := range text {
		if !isSpace(c) {
			return i
		}
		if c == '\n' || c == '\r' {
			p.lineStart, p.inCode = true, false
		}
		if len(p.space) < maxBlank {
			p.space = append(p.space, c)
		}
		p.blank++
	}
	return len(text)
}

// say gives out prose, with the white space that was kept back before it.
func (p *Parser) say(text []byte) {
	if len(text) == 0 {
		return
	}
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
	p.said = true
}

func (p *Parser) startProseTag(i int) {
	p.fencedTag = p.state == stProseFirst
	p.hold(i)
	p.state, p.tagName = stProseTag, p.tagName[:0]
}

// judge says whether the document begins with the tag whose name has been read up to b[i].
func (p *Parser) judge(b []byte, i int) int {
	c := b[i]
	name := strings.ToLower(string(p.tagName))
	if end, ok := strings.CutPrefix(name, "/"); ok {
		if thinkTags[end] && (end == p.thinking || p.thinking == "") && c == '>' {
			p.thinking = ""
			return p.dropTag(i)
		}
		return p.noStart(b, i)
	}
	fits := endsName(c)
	switch {
	case p.thinking != "" || p.inCode:
	case thinkTags[name] && c == '>':
		p.thinking = name
		return p.dropTag(i)
	case (name == "!doctype" && fits || strings.HasPrefix(name, "!--")) && (p.lineStart || p.fencedTag):
		return p.start(b, i, p.fencedTag)
	case name == "!doctype" && fits:
		p.state, p.match = stProseDecl, 0
		return i
	case !fits:
	case p.fencedTag && name != "" && isLetter(name[0]):
		return p.start(b, i, true)
	case p.lineStart && (classes[known][name] || name != "" && isLetter(name[0]) && strings.Contains(name, "-")):
		return p.start(b, i, false)
	case classes[known][name] && c == '>':
		p.state = stProseAfter
		return i + 1
	case classes[known][name]:
		p.state, p.match, p.dashes = stProseKey, 0, 0 // what is only mentioned has no attributes
		return i
	}
	return p.noStart(b, i)
}

// dropTag leaves a thinking tag out, whose last byte is b[i].
func (p *Parser) dropTag(i int) int {
	p.fixes[fixThink]++
	p.held, p.mark = p.held[:0], -1
	p.state, p.lineStart, p.inCode = stProse, true, false
	return i + 1
}

// noStart makes prose of what was held back.
func (p *Parser) noStart(b []byte, i int) int {
	p.say(p.held)
	p.say(b[p.mark:i])
	p.held, p.mark = p.held[:0], -1
	p.state, p.lineStart = stProse, false
	return i
}

// start begins the document with what is held back, and returns where in b it goes on.
func (p *Parser) start(b []byte, i int, fenced bool) int {
	p.flush(true)
	if p.said || fenced {
		p.fixes[fixProse]++
	}
	if fenced {
		p.fixes[fixFence]++
		p.fence = max(p.ticks, 3)
	}
	p.blank, p.space = 0, nil
	p.state = stText
	if p.mark < 0 {
		p.from = i
		return i
	}
	i, p.mark = p.mark, -1
	p.from = i
	if len(p.held) > 0 {
		held := append([]byte(nil), p.held...)
		p.held = p.held[:0]
		p.base -= int64(len(held))
		p.chunk(held) // adds to base what was taken from it
		if p.mark >= 0 {
			p.mark = 0
		}
		p.from = 0
	}
	return i
}

// closeProse ends the input where there was no document.
func (p *Parser) closeProse() {
	if p.mark >= 0 {
		p.say(p.held)
		p.held, p.mark = p.held[:0], -1
	}
	p.flush(true)
}

// stepFence reads what may be the last line of the fence that the document stands in.
func (p *Parser) stepFence(b []byte, i int) int {
	c := b[i]
	bare := p.bare
	p.bare = false
	switch {
	case c == '\n' && bare:
		return i + 1
	case c == ' ' && p.match == 0 && p.dashes < 3:
		p.dashes++
		return i + 1
	case c == '`' && p.match < maxFence:
		p.match++
		return i + 1
	case p.fenceEnds() && c != '`' && !isLetter(c) && !isDigit(c):
		p.source(b[p.from:max(p.mark, p.from)])
		p.over()
		return i
	}
	p.unhold(b, i)
	return i
}

func (p *Parser) fenceEnds() bool { return p.match >= p.fence }

// over ends the document: what comes now is ignored.
func (p *Parser) over() {
	p.flush(true)
	p.fixes[fixUnclosed] += p.unclosed(0)
	p.closeTo(0)
	p.held, p.mark = p.held[:0], -1
	p.state, p.complete = stOver, true
}
