package htmlpath

// rawKind says what text an element holds.
type rawKind uint8

const (
	rawNone   rawKind = iota // text, references and elements
	rawText                  // text as it stands
	rawRefs                  // text and references
	rawScript                // text, with a rule of its own for where it ends
	rawPlain                 // text up to the end of the input
)

// stepRaw reads text up to its end tag.
func (p *Parser) stepRaw(b []byte, i int) int {
	c := b[i]
	switch p.state {
	case stPlain, stRaw:
		j := p.run(b, i)
		if j == len(b) {
			return j
		}
		switch c = b[j]; {
		case c == '<' && p.state == stRaw:
			p.newline = false
			p.hold(j)
			p.state = stRawLess
		case c == '&' && p.raw == rawRefs:
			p.startRef()
		default:
			p.put(c)
		}
		return j + 1
	case stRawLess:
		if c != '/' {
			p.unhold(b, i)
			return i
		}
		p.state, p.match = stRawEnd, 0
		return i + 1
	}
	return p.stepRawEnd(b, i, stRaw)
}

// stepRawEnd compares an end tag with the element's name; where it is another, the text goes on in the state back.
func (p *Parser) stepRawEnd(b []byte, i int, back state) int {
	c := b[i]
	name := p.top()
	switch {
	case p.match < len(name) && c|0x20 == name[p.match]:
		p.match++
		return i + 1
	case p.match == len(name) && endsName(c):
		p.begin(true)
	default:
		p.unhold(b, i)
		p.state = back
	}
	return i
}

func endsName(c byte) bool { return isSpace(c) || c == '/' || c == '>' }

// stepScript reads a script. An end tag inside <!-- --> ends it too, but not one that a second <script> in there has to
// itself (WHATWG HTML, 13.2.5.4 and 13.2.5.15 to 13.2.5.31).
func (p *Parser) stepScript(b []byte, i int) int {
	c := b[i]
	switch p.state {
	case stScript:
		j := p.run(b, i)
		if j == len(b) {
			return j
		}
		if c = b[j]; c == '<' {
			return p.scriptLess(j, stScriptLess)
		}
		p.put(c)
		return j + 1
	case stScriptLess:
		switch c {
		case '/':
			p.state, p.match = stScriptEnd, 0
			return i + 1
		case '!':
			p.unhold(b, i)
			return p.script(c, i, stEscapeStart)
		}
		p.unhold(b, i)
		return i
	case stScriptEnd:
		return p.stepRawEnd(b, i, stScript)
	case stEscapeStart, stEscapeStartDash:
		switch {
		case c != '-':
			p.state = stScript
			return i
		case p.state == stEscapeStart:
			return p.script(c, i, stEscapeStartDash)
		}
		return p.script(c, i, stEscapedDashes)
	case stEscaped, stEscapedDash, stEscapedDashes:
		if c == '<' {
			return p.scriptLess(i, stEscapedLess)
		}
		return p.script(c, i, afterDash(c, p.state, stEscaped))
	case stEscapedLess:
		switch {
		case c == '/':
			p.state, p.match = stEscapedEnd, 0
			return i + 1
		case isLetter(c):
			p.unhold(b, i)
			p.state, p.match = stDoubleStart, 0
		default:
			p.unhold(b, i) // back to the plain script, as the tokenizer does, where the standard stays
		}
		return i
	case stEscapedEnd:
		return p.stepRawEnd(b, i, stEscaped)
	case stDoubleStart:
		return p.stepDouble(c, i, stDouble, stEscaped)
	case stDouble, stDoubleDash, stDoubleDashes:
		if c == '<' {
			return p.script(c, i, stDoubleLess)
		}
		return p.script(c, i, afterDash(c, p.state, stDouble))
	case stDoubleLess:
		if c == '/' {
			p.match = 0
			return p.script(c, i, stDoubleEnd)
		}
		p.state = stDouble
		return i
	}
	return p.stepDouble(c, i, stEscaped, stDouble)
}

// script takes c as a byte of the script.
func (p *Parser) script(c byte, i int, next state) int {
	p.put(c)
	p.state = next
	return i + 1
}

func (p *Parser) scriptLess(i int, next state) int {
	p.newline = false
	p.hold(i)
	p.state = next
	return i + 1
}

// afterDash is the state after c in one of three that follow each other: plain, behind a dash, behind two.
func afterDash(c byte, s, plain state) state {
	switch {
	case c == '-' && s == plain:
		return plain + 1
	case c == '-':
		return plain + 2
	case c == '>' && s == plain+2:
		return stScript
	}
	return plain
}

// stepDouble compares with the name of a script inside a script.
func (p *Parser) stepDouble(c byte, i int, found, other state) int {
	const name = "script"
	switch {
	case p.match < len(name) && c|0x20 == name[p.match]:
		p.match++
		return p.script(c, i, p.state)
	case p.match == len(name) && endsName(c):
		return p.script(c, i, found)
	}
	p.state = other
	return i
}
