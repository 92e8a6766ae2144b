package jsonuri

// state is what the grammar expects next.
type state uint8

const (
	stValue   state = iota // a value, maybe after a byte order mark
	stElement              // a value or the end of the array that has just begun
	stFirst                // a key or the end of the object that has just begun
	stKey                  // a key
	stColon                // the colon after a key
	stAfter                // a comma or the end of the container
	stEnd                  // nothing but white space
	stString               // more of a string or key
	stNumber               // more of a number
	stLiteral              // more of a literal or of the byte order mark
)

// expected says for each state what could stand there.
var expected = [...]string{
	stValue:   "a JSON value",
	stElement: "a JSON value or ']'",
	stFirst:   "a key in quotes or '}'",
	stKey:     "a key in quotes",
	stColon:   "':'",
	stEnd:     "nothing more after the document",
	stString:  "the rest of the string",
	stLiteral: "a JSON value",
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

// strict parses b as RFC 8259 says and returns how much of it was read: all of it, unless there is an error or its end is a
// part of an escape or a character.
func (p *Parser) strict(b []byte) int {
	i := 0
	switch p.state {
	case stString:
		i = p.readString(b, i)
	case stNumber:
		i = p.readNumber(b, i)
	case stLiteral:
		i = p.readLiteral(b, i)
	}
	for i < len(b) && p.state < stString && p.err == nil { // else it goes on behind b
		c := b[i]
		if c == ' ' || c == '\n' || c == '\t' || c == '\r' {
			if c == '\n' {
				p.line++
				p.lineFrom = p.base + int64(i) + 1
			}
			p.blank++
			i++
			continue
		}
		p.blank = 0
		switch state := p.state; {
		case state <= stElement && (c != ']' || state == stValue):
			i = p.beginValue(b, i)
			continue
		case state == stAfter && c == ',':
			p.state = stKey
			if p.top().kind == '[' {
				p.state = stValue
			}
		case state == stColon && c == ':':
			p.state = stValue
		case c == '"' && (state == stKey || state == stFirst):
			p.state, p.inKey, p.escKey, p.carry = stString, true, false, p.carry[:0]
			i = p.readString(b, i+1)
			continue
		case state == stElement, state == stFirst && c == '}', state == stAfter && c == p.top().kind+2:
			p.close()
			p.afterValue()
		default:
			return p.fail(i, b, p.expects())
		}
		i++
	}
	return i
}

// beginValue reads the first byte of a value.
func (p *Parser) beginValue(b []byte, i int) int {
	c := b[i]
	if c == byteOrderMark[0] && p.base+int64(i) == 0 {
		p.state, p.lit, p.litPos = stLiteral, byteOrderMark, 0
		return p.readLiteral(b, i)
	}
	if !startsValue[c] {
		return p.fail(i, b, p.expects())
	}
	if len(p.stack) > 0 && p.top().kind == '[' {
		p.element()
	}
	switch c {
	case '"':
		p.state, p.inKey = stString, false
		p.openString()
		return p.readString(b, i+1)
	case '{', '[':
		if !p.open(c) {
			p.err = &LimitError{Limit: "depth", Max: int64(p.depth), Offset: p.base + int64(i)}
			return i
		}
		p.state = stFirst
		if c == '[' {
			p.state = stElement
		}
		return i + 1
	case 't', 'f', 'n':
		p.state, p.lit, p.litPos = stLiteral, literalsByFirst[c], 0
		return p.readLiteral(b, i)
	}
	p.state, p.number, p.carry = stNumber, numStart, p.carry[:0]
	return p.readNumber(b, i)
}

// readLiteral reads more of a literal, or of the byte order mark.
func (p *Parser) readLiteral(b []byte, i int) int {
	for ; i < len(b) && p.litPos < len(p.lit); i++ {
		if b[i] != p.lit[p.litPos] {
			return p.fail(i, b, p.expects())
		}
		p.litPos++
	}
	switch {
	case p.litPos < len(p.lit):
	case p.lit[0] == byteOrderMark[0]:
		p.state = stValue
	default:
		p.scalar(p.lit)
		p.afterValue()
	}
	return i
}

var byteOrderMark = []byte("\ufeff")

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

	literalsByFirst = [...][]byte{'t': trueText, 'f': falseText, 'n': nullText}
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
	switch {
	case p.state == stAfter:
		return "',' or '" + string(rune(p.top().kind+2)) + "'"
	case p.state == stString && p.inKey:
		return "the rest of the key"
	case p.state == stLiteral && p.lit[0] != byteOrderMark[0]:
		return "the rest of '" + string(p.lit) + "'"
	}
	return expected[p.state]
}

// fail notes a syntax error at b[i] and returns i.
func (p *Parser) fail(i int, b []byte, want string) int {
	found := endOfText
	if i < len(b) {
		found = describe(b[i])
	}
	at := p.base + int64(i)
	p.err = &SyntaxError{Offset: at, Line: p.line, Column: int(at-p.lineFrom) + 1, Found: found, Expected: want}
	return i
}

// readNumber reads more of a number from b[i] on.
func (p *Parser) readNumber(b []byte, i int) int {
	start := i
	for ; i < len(b); i++ {
		next, ok := numberStep(p.number, b[i])
		if !ok {
			break
		}
		p.number = next
	}
	if len(p.carry)+i-start > p.maxNumber {
		p.err = &LimitError{Limit: "number", Max: int64(p.maxNumber), Offset: p.base + int64(start-len(p.carry)+p.maxNumber)}
		return i
	}
	text := b[start:i]
	if i == len(b) || len(p.carry) > 0 {
		p.carry = append(p.carry, text...)
		text = p.carry
	}
	if i == len(b) {
		return i
	}
	if !numComplete(p.number) || isWord(b[i]) {
		return p.fail(i, b, numExpected[p.number])
	}
	p.scalar(text)
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

// closeStrict ends the input: what is missing is an error.
func (p *Parser) closeStrict() {
	want := p.expects()
	switch {
	case p.state == stNumber && numComplete(p.number) && len(p.stack) == 0:
		p.scalar(p.carry)
		p.afterValue()
		return
	case p.state == stNumber && numComplete(p.number):
		p.state = stAfter
		want = p.expects()
	case p.state == stNumber:
		want = numExpected[p.number]
	case p.state == stEnd:
		return
	}
	p.base = p.offset
	p.fail(0, nil, want)
}
