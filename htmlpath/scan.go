package htmlpath

import "bytes"

// state is where a parser stands in the text.
type state uint8

const (
	// Before the document, in repair mode: see prose.go.
	stProse      state = iota
	stProseTicks       // in a run of backticks
	stProseTag         // behind "<", in what may be a name
	stProseKey         // in what may be an attribute of a tag inside a line
	stProseDecl        // in a doctype inside a line
	stProseAfter       // behind a tag that may be no more than mentioned
	stProseFence       // behind the backticks of a fence, in its first line
	stProseFirst       // in the lines of a fence before anything stands there

	stText
	stRef     // in a character reference
	stTagOpen // behind "<"
	stEndOpen // behind "</"
	stFence   // in what may be the line that ends the fence

	stDecl     // behind "<!"
	stDeclDash // behind "<!-"
	stComment
	stCommentBang // behind "--!" in a comment
	stBogus       // in what ends with the next ">"
	stCDATAOpen   // behind "<![", in what may be "CDATA["
	stCDATA

	stName // of a tag
	stBefore
	stKeyFirst
	stKey
	stAfterKey
	stBeforeValue
	stQuoted
	stUnquoted

	stRaw // in text that only its end tag ends
	stRawLess
	stRawEnd
	stPlain // in text that nothing ends

	// In a script: see script.go.
	stScript
	stScriptLess
	stScriptEnd
	stEscapeStart
	stEscapeStartDash
	stEscaped
	stEscapedDash
	stEscapedDashes
	stEscapedLess
	stEscapedEnd
	stDoubleStart
	stDouble
	stDoubleDash
	stDoubleDashes
	stDoubleLess
	stDoubleEnd

	stOver // nothing more counts

	stLastOfProse = stProseFirst
)

func (s state) inTag() bool { return stName <= s && s <= stUnquoted }

func isSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\t' || c == '\r' || c == '\f' }

func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// special marks the bytes of text that may be more than themselves.
var special = [256]bool{'<': true, '&': true, '\r': true, '\n': true, 0: true}

// step parses b from i on and returns how far it came. A byte that is of no use in one state is looked at again in the next.
func (p *Parser) step(b []byte, i int) int {
	c := b[i]
	switch p.state {
	case stText:
		return p.stepText(b, i)
	case stRef:
		return p.stepRef(c, i)
	case stTagOpen:
		switch {
		case isLetter(c):
			p.begin(false)
		case c == '/':
			p.state = stEndOpen
			return i + 1
		case c == '!':
			p.aside(stDecl)
			return i + 1
		case c == '?':
			p.aside(stBogus)
			return i + 1
		default:
			p.unhold(b, i)
		}
		return i
	case stEndOpen:
		switch {
		case isLetter(c):
			p.begin(true)
		case c == '>':
			p.aside(stText)
			return i + 1
		default:
			p.aside(stBogus)
		}
		return i
	case stFence:
		return p.stepFence(b, i)
	case stDecl, stDeclDash, stComment, stCommentBang, stBogus, stCDATAOpen, stCDATA:
		return p.stepAside(b, i)
	case stRaw, stRawLess, stRawEnd, stPlain:
		return p.stepRaw(b, i)
	}
	if p.state.inTag() {
		return p.stepTag(b, i)
	}
	return p.stepScript(b, i)
}

// stepText reads text with references.
func (p *Parser) stepText(b []byte, i int) int {
	j := p.run(b, i)
	if j == len(b) {
		return j
	}
	switch c := b[j]; {
	case c == '<':
		p.newline = false
		p.hold(j)
		p.state = stTagOpen
	case c == '&':
		p.startRef()
	case (c == '\n' || c == '\r') && p.fence > 0 && p.kept == 0:
		p.hold(j)
		p.state, p.match, p.dashes, p.bare = stFence, 0, 0, c == '\r'
	default:
		p.put(c)
	}
	return j + 1
}

// run takes the bytes from i on that stand for themselves as text, and returns where they end.
func (p *Parser) run(b []byte, i int) int {
	j := i
	for j < len(b) && !special[b[j]] {
		j++
	}
	if j == i {
		return i
	}
	p.newline = false
	if len(p.stack) == 0 {
		p.countBlank(b[i:j])
	}
	for i < j {
		n := min(j-i, max(maxText-len(p.text), utf8Max))
		p.text = append(p.text, b[i:i+n]...)
		if i += n; len(p.text) >= maxText {
			p.flush(false)
		}
	}
	return j
}

const utf8Max = 4

func (p *Parser) countBlank(text []byte) {
	for _, c := range text {
		if isSpace(c) {
			p.blank++
		} else {
			p.blank = 0
		}
	}
}

// put adds one byte of source to the text, line breaks made one kind.
func (p *Parser) put(c byte) {
	if !isSpace(c) {
		p.blank = 0
	} else if len(p.stack) == 0 {
		p.blank++
	}
	after := p.newline
	p.newline = c == '\r'
	switch {
	case c == '\n' && after:
		return
	case c == '\r':
		c = '\n'
	case c == 0 && p.raw != rawNone:
		p.text = append(p.text, "\uFFFD"...)
		return
	}
	if p.text = append(p.text, c); len(p.text) >= maxText {
		p.flush(false)
	}
}

// unhold makes text of what was held back; b[i] is looked at again.
func (p *Parser) unhold(b []byte, i int) {
	for _, c := range p.held {
		p.put(c)
	}
	for _, c := range b[p.mark:i] {
		p.put(c)
	}
	p.release()
	p.state = p.textState()
}

// textState is the state of text where no tag is open.
func (p *Parser) textState() state {
	switch p.raw {
	case rawNone:
		return stText
	case rawScript:
		return stScript
	case rawPlain:
		return stPlain
	}
	return stRaw
}

// aside begins a comment or the like.
func (p *Parser) aside(s state) {
	p.endText()
	p.release()
	p.state = s
}

func (p *Parser) endText() {
	p.flush(true)
	p.newline, p.blank = false, 0
}

// stepAside reads what has no events, as the tokenizer does.
func (p *Parser) stepAside(b []byte, i int) int {
	c := b[i]
	switch p.state {
	case stDecl:
		switch {
		case c == '-':
			p.state = stDeclDash
			return i + 1
		case c == '[' && p.foreign():
			p.state, p.match = stCDATAOpen, 0
			return i + 1
		}
		p.state = stBogus
		return i
	case stDeclDash:
		if c != '-' {
			p.state = stBogus
			return i
		}
		p.state, p.dashes, p.bare = stComment, 0, true
		return i + 1
	case stComment:
		switch {
		case c == '-':
			p.dashes++
			return i + 1
		case c == '>' && (p.dashes >= 2 || p.bare):
			p.state = stText
			return i + 1
		case c == '!' && p.dashes >= 2:
			p.state = stCommentBang
			return i + 1
		}
		p.dashes, p.bare = 0, false
		if n := bytes.IndexByte(b[i:], '-'); n > 0 {
			return i + n
		} else if n < 0 {
			return len(b)
		}
		return i + 1
	case stCommentBang:
		p.state = stComment
		switch c {
		case '>':
			p.state = stText
		case '-':
			p.dashes = 1
		default:
			p.dashes = 0
		}
		p.bare = false
		return i + 1
	case stCDATAOpen:
		const rest = "CDATA["
		if c != rest[p.match] {
			p.state = stBogus
			return i
		}
		if p.match++; p.match == len(rest) {
			p.state, p.dashes = stCDATA, 0
		}
		return i + 1
	case stCDATA:
		switch {
		case c == ']':
			p.dashes++
			return i + 1
		case c == '>' && p.dashes >= 2:
			p.brackets(p.dashes - 2)
			p.endText()
			p.state = stText
			return i + 1
		}
		p.brackets(p.dashes)
		p.dashes = 0
		if c == 0 {
			p.text = append(p.text, "\uFFFD"...)
		} else {
			p.put(c)
		}
		return i + 1
	}
	n := bytes.IndexByte(b[i:], '>')
	if n < 0 {
		return len(b)
	}
	p.state = stText
	return i + n + 1
}

// brackets adds brackets to the text of a CDATA section, which do not end it.
func (p *Parser) brackets(n int) {
	for range n {
		p.put(']')
	}
}
