package htmlpath

import "golang.org/x/net/html"

// maxRef is longer than any named reference: a longer one is decided by its first letters.
const maxRef = 40

// startRef begins a character reference.
func (p *Parser) startRef() {
	p.newline, p.blank = false, 0
	p.ref = append(p.ref[:0], '&')
	p.inText, p.state = p.state, stRef
}

// stepRef reads a reference to its end. It is short, whatever its length: a number keeps no more digits than say that it is
// too large.
func (p *Parser) stepRef(c byte, i int) int {
	switch {
	case c == ';':
		p.ref = append(p.ref, c)
		p.resolve()
		return i + 1
	case len(p.ref) == 1 && c == '#', len(p.ref) == 2 && p.ref[1] == '#' && c|0x20 == 'x':
		p.ref = append(p.ref, c)
		return i + 1
	case len(p.ref) > 1 && p.ref[1] == '#':
		hex := len(p.ref) > 2 && p.ref[2]|0x20 == 'x'
		if isDigit(c) || hex && 'a' <= c|0x20 && c|0x20 <= 'f' {
			p.digit(c, hex)
			return i + 1
		}
	case (isLetter(c) || isDigit(c)) && len(p.ref) < maxRef:
		p.ref = append(p.ref, c)
		return i + 1
	}
	p.resolve()
	return i
}

// digit adds a digit to a numeric reference, unless it says nothing.
func (p *Parser) digit(c byte, hex bool) {
	first := 2
	if hex {
		first = 3
	}
	switch digits := p.ref[first:]; {
	case len(digits) == 1 && digits[0] == '0':
		digits[0] = c
	case len(digits) < 8:
		p.ref = append(p.ref, c)
	}
}

// resolve ends a reference.
func (p *Parser) resolve() {
	p.state = p.inText
	switch string(p.ref) { // what nearly all of them are
	case "&lt;":
		p.text = append(p.text, '<')
	case "&gt;":
		p.text = append(p.text, '>')
	case "&amp;":
		p.text = append(p.text, '&')
	case "&quot;":
		p.text = append(p.text, '"')
	default:
		p.text = append(p.text, html.UnescapeString(string(p.ref))...)
	}
}
