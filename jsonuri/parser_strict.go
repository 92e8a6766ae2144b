package jsonuri

import "unicode/utf8"

// state is what the grammar expects next.
type state uint8

const (
	stStart   state = iota // the document, maybe after a byte order mark
	stValue                // a value
	stElement              // a value or the end of the array that has just begun
	stFirst                // a key or the end of the object that has just begun
	stKey                  // a key
	stColon                // the colon after a key
	stAfter                // a comma or the end of the container
	stEnd                  // nothing but white space
	stString               // more of a string or key
	stNumber               // more of a number
	stLiteral              // more of a literal
)

// expected says for each state what could stand there.
var expected = [...]string{
	stStart:   "a JSON value",
	stValue:   "a JSON value",
	stElement: "a JSON value or ']'",
	stFirst:   "a key in quotes or '}'",
	stKey:     "a key in quotes",
	stColon:   "':'",
	stEnd:     "nothing more after the document",
}

// Where a number stands.
const (
	numStart uint8 = iota
	numMinus       // after its sign
	numZero
	numInt
	numDot // after the point
	numFrac
	numE // after e
	numSign
	numExp
)

// numExpected says for each position in a number what could stand there.
var numExpected = [...]string{
	numMinus: "a digit", numZero: "'.', an exponent or the end of the number", numInt: "a digit",
	numDot: "a digit", numFrac: "a digit", numE: "a digit or a sign", numSign: "a digit", numExp: "a digit",
}

func numComplete(sub uint8) bool {
	return sub == numZero || sub == numInt || sub == numFrac || sub == numExp
}

// strict parses b as RFC 8259 says and returns how much of it was read: all of it unless there is an error.
func (p *Parser) strict(b []byte) int {
	i := 0
	for i < len(b) {
		switch p.state {
		case stString:
			i = p.readString(b, i)
			if p.err != nil {
				return i
			}
			continue
		case stNumber:
			i = p.readNumber(b, i)
			if p.err != nil {
				return i
			}
			continue
		case stLiteral:
			for i < len(b) && p.litPos < len(p.lit) {
				if b[i] != p.lit[p.litPos] {
					return p.fail(i, b, "the rest of '"+string(p.lit)+"'")
				}
				i++
				p.litPos++
			}
			if p.litPos == len(p.lit) {
				p.scalar(p.lit)
				p.afterValue()
			}
			continue
		}

		c := b[i]
		if c <= ' ' {
			switch c {
			case '\n':
				p.line++
				p.lineFrom = p.offset + int64(i) + 1
			case ' ', '\t', '\r':
			default:
				return p.fail(i, b, p.expects())
			}
			if p.state == stStart {
				if p.sub != 0 {
					return p.fail(i, b, "the rest of a byte order mark")
				}
				p.state = stValue
			}
			i++
			p.blank++
			continue
		}
		p.blank = 0

		switch p.state {
		case stStart:
			if p.sub > 0 || c == byteOrderMark[0] {
				if c != byteOrderMark[p.sub] {
					return p.fail(i, b, "a JSON value")
				}
				i++
				if p.sub++; p.sub == 3 {
					p.sub, p.state = 0, stValue
				}
				continue
			}
			p.state = stValue
			continue
		case stElement, stValue:
			if p.state == stElement {
				if c == ']' {
					i++
					p.close()
					p.afterValue()
					continue
				}
			}
			if !startsValue[c] {
				return p.fail(i, b, p.expects())
			}
			if n := len(p.stack); n > 0 && p.stack[n-1].kind == '[' {
				p.element()
			}
			switch c {
			case '"':
				i++
				p.state, p.sub, p.inKey = stString, subPlain, false
				p.openString()
			case '{', '[':
				if !p.open(c) {
					p.err = &LimitError{Limit: "depth", Max: int64(p.depth), Offset: p.offset + int64(i)}
					return i
				}
				i++
				p.state = stFirst
				if c == '[' {
					p.state = stElement
				}
			case 't':
				p.state, p.lit, p.litPos = stLiteral, trueText, 0
			case 'f':
				p.state, p.lit, p.litPos = stLiteral, falseText, 0
			case 'n':
				p.state, p.lit, p.litPos = stLiteral, nullText, 0
			default:
				p.state, p.sub, p.carry = stNumber, numStart, p.carry[:0]
				if i = p.readNumber(b, i); p.err != nil {
					return i
				}
			}
		case stFirst, stKey:
			switch {
			case c == '"':
				i++
				p.state, p.sub, p.inKey, p.escKey = stString, subPlain, true, false
			case c == '}' && p.state == stFirst:
				i++
				p.close()
				p.afterValue()
			default:
				return p.fail(i, b, p.expects())
			}
		case stColon:
			if c != ':' {
				return p.fail(i, b, p.expects())
			}
			i++
			p.state = stValue
		case stAfter:
			kind := p.top().kind
			switch {
			case c == ',':
				p.state = stKey
				if kind == '[' {
					p.state = stValue
				}
			case c == kind+2:
				p.close()
				p.afterValue()
			default:
				return p.fail(i, b, p.expects())
			}
			i++
		case stEnd:
			return p.fail(i, b, p.expects())
		}
	}
	return i
}

var byteOrderMark = [3]byte{0xEF, 0xBB, 0xBF}

// startsValue marks the bytes with which a JSON value begins.
var startsValue = func() (t [256]bool) {
	for _, c := range `"{[tfn-0123456789` {
		t[c] = true
	}
	return t
}()

var (
	trueText  = []byte("true")
	falseText = []byte("false")
)

// afterValue goes on behind a complete value.
func (p *Parser) afterValue() {
	if len(p.stack) > 0 {
		p.state = stAfter
		return
	}
	p.state = stEnd
	p.complete = true
}

// expects says what could stand where the grammar is.
func (p *Parser) expects() string {
	if p.state == stAfter {
		if p.top().kind == '[' {
			return "',' or ']'"
		}
		return "',' or '}'"
	}
	return expected[p.state]
}

// fail notes a syntax error at b[i] and returns i.
func (p *Parser) fail(i int, b []byte, want string) int {
	found := endOfText
	if i < len(b) {
		found = describe(b[i])
	}
	at := p.offset + int64(i)
	p.err = &SyntaxError{Offset: at, Line: p.line, Column: int(at-p.lineFrom) + 1, Found: found, Expected: want}
	return i
}

// readNumber reads more of a number from b[i] on.
func (p *Parser) readNumber(b []byte, i int) int {
	start, sub := i, p.sub
	for ; i < len(b); i++ {
		next, ok := numberStep(sub, b[i])
		if !ok {
			break
		}
		sub = next
	}
	p.sub = sub
	if len(p.carry)+i-start > p.maxNumber {
		p.err = &LimitError{Limit: "number", Max: int64(p.maxNumber), Offset: p.offset + int64(start-len(p.carry)) + int64(p.maxNumber)}
		return i
	}
	if i == len(b) {
		p.carry = append(p.carry, b[start:]...)
		return i
	}
	if !numComplete(sub) || isWord(b[i]) {
		return p.fail(i, b, numExpected[sub])
	}
	text := b[start:i]
	if len(p.carry) > 0 {
		p.carry = append(p.carry, text...)
		text = p.carry
	}
	p.scalar(text)
	p.carry = p.carry[:0]
	p.afterValue()
	return i
}

// isWord says whether c can only be meant as part of the number before it.
func isWord(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '.' || c == '+' || c == '-' || c == '_'
}

// numberStep gives where a number stands after c; false where c is not part of it.
func numberStep(sub, c byte) (uint8, bool) {
	if c >= '0' && c <= '9' {
		switch sub {
		case numStart, numMinus:
			if c == '0' {
				return numZero, true
			}
			return numInt, true
		case numInt, numFrac, numExp:
			return sub, true
		case numDot:
			return numFrac, true
		case numE, numSign:
			return numExp, true
		}
		return sub, false // a digit after a leading zero
	}
	switch c {
	case '.':
		return numDot, sub == numZero || sub == numInt
	case 'e', 'E':
		return numE, sub == numZero || sub == numInt || sub == numFrac
	case '+', '-':
		if sub == numStart && c == '-' {
			return numMinus, true
		}
		return numSign, sub == numE
	}
	return sub, false
}

// readString reads more of a string or key from b[i] on, gives its content out as far as it may be cut, and returns
// where to go on.
func (p *Parser) readString(b []byte, i int) int {
	start := i
	i, closed := p.scanString(b, i)
	if p.inKey {
		return p.keyPart(b, start, i, closed)
	}
	if p.err != nil {
		p.passOn(b[start:i]) // so that what is given out does not depend on where chunks end
		return i
	}
	if !closed {
		p.passOn(b[start:i])
		return i
	}
	if i > start || len(p.carry) > 0 {
		p.sub = subPlain
		p.passOn(b[start:i])
	}
	p.closeString()
	p.afterValue()
	return i + 1
}

// passOn gives out string content up to the unit that is not complete, which it keeps.
func (p *Parser) passOn(raw []byte) {
	unit := int(p.sub)
	if p.sub == subUTF8 {
		unit = p.seen
	}
	if len(p.carry) == 0 {
		n := len(raw) - unit
		if n > 0 {
			p.content(raw[:n])
		}
		if unit > 0 {
			p.carry = append(p.carry, raw[n:]...)
		}
		return
	}
	p.carry = append(p.carry, raw...)
	n := len(p.carry) - unit
	if n > 0 {
		p.content(p.carry[:n])
		p.carry = p.carry[:copy(p.carry, p.carry[n:])]
	}
}

// keyPart takes b[start:i] as more of a key.
func (p *Parser) keyPart(b []byte, start, i int, closed bool) int {
	raw := b[start:i]
	if len(p.carry)+len(raw) > p.maxKey {
		p.err = &LimitError{Limit: "key", Max: int64(p.maxKey), Offset: p.offset + int64(start-len(p.carry)) + int64(p.maxKey)}
		return i
	}
	if p.err != nil {
		return i
	}
	if !closed {
		p.carry = append(p.carry, raw...)
		return i
	}
	if len(p.carry) > 0 {
		p.carry = append(p.carry, raw...)
		raw = p.carry
	}
	p.member(raw, p.escKey)
	p.carry = p.carry[:0]
	p.state = stColon
	return i + 1
}

// scanString checks string content from b[i] on. It returns where the content ends: at the closing quote, at an error,
// or at the end of b.
func (p *Parser) scanString(b []byte, i int) (end int, closed bool) {
	for i < len(b) {
		c := b[i]
		switch sub := p.sub; {
		case sub == subPlain:
			if plainByte[c] {
				if i = skipPlain(b, i+1); i == len(b) {
					return i, false
				}
				c = b[i]
			}
			switch {
			case c == '"':
				return i, true
			case c == '\\':
				p.sub = subEsc
				p.escKey = true
			case c < ' ':
				return p.fail(i, b, "string content; control characters must be escaped"), false
			default:
				if _, n := utf8.DecodeRune(b[i:]); n > 1 {
					i += n
					continue
				}
				if utf8.FullRune(b[i : i+1]) {
					return p.fail(i, b, "valid UTF-8"), false
				}
				p.sub, p.seq[0], p.seen = subUTF8, c, 1
			}
		case sub == subUTF8:
			p.seq[p.seen] = c
			seq := p.seq[:p.seen+1]
			if _, n := utf8.DecodeRune(seq); n > 1 {
				p.sub = subPlain
			} else if utf8.FullRune(seq) {
				return p.fail(i, b, "the rest of a UTF-8 sequence"), false
			}
			p.seen++
		case sub == subEsc || sub == subHighE:
			switch c {
			case 'u':
				p.sub++
				p.hex = 0
			case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
				p.sub = subPlain
			default:
				return p.fail(i, b, `an escape: one of "\/bfnrtu`), false
			}
		case sub == subHigh:
			if c != '\\' {
				p.sub = subPlain // half a pair: its other half is not here
				continue
			}
			p.sub = subHighE
		default: // the digits of \u
			v := hexValue(c)
			if v == 0xFF {
				return p.fail(i, b, "a hexadecimal digit"), false
			}
			p.hex = p.hex<<4 | uint16(v)
			switch {
			case sub != subU+3 && sub != subHighU3:
				p.sub++
			case isHigh(p.hex):
				p.sub = subHigh
			default:
				p.sub = subPlain
			}
		}
		i++
	}
	return i, false
}

// closeStrict ends the input: what is missing is an error.
func (p *Parser) closeStrict() {
	if p.state == stNumber && numComplete(p.sub) && len(p.stack) == 0 {
		p.scalar(p.carry)
		p.afterValue()
	}
	want := ""
	switch p.state {
	case stEnd:
		return
	case stString:
		want = "the rest of the string"
		if p.inKey {
			want = "the rest of the key"
		}
	case stNumber:
		want = numExpected[p.sub]
		if numComplete(p.sub) {
			want = "',' or '" + string(rune(p.top().kind+2)) + "'"
		}
	case stLiteral:
		want = "the rest of '" + string(p.lit) + "'"
	default:
		want = p.expects()
	}
	p.fail(0, nil, want)
}
