package jsonuri

import "unicode/utf8"

// quote is the kind of quotes a string stands in.
type quote uint8

const (
	noQuote quote = iota
	quDouble
	quSingle
	quBack
	quTypeDouble
	quTypeSingle
	quEntity
	quEscape
	quTriple // """
	quTripleSingle
	quFence // ```
)

// opening gives the quotes that begin at i with the sign c, and their length.
func (r *repairer) opening(i int, c byte, n int) (quote, int) {
	switch c {
	case '"':
		if r.has(i, `"""`) && !r.short {
			return quTriple, 3
		}
		return quDouble, n
	case '\'':
		if r.has(i, "'''") && !r.short {
			return quTripleSingle, 3
		}
		return quSingle, n
	case '`':
		return quBack, n
	case symDouble:
		return quTypeDouble, n
	case symSingle:
		return quTypeSingle, n
	case symEntity:
		return quEntity, n
	case symEscape:
		return quEscape, n
	}
	return noQuote, 0
}

// closing gives the length of what may be the closing quote of the open string at i; 0 where there is none.
func (r *repairer) closing(i int) int {
	c := r.b[i]
	switch r.quote {
	case quDouble:
		if c == '"' {
			return 1
		}
	case quSingle:
		if c == '\'' {
			return 1
		}
	case quBack:
		if s, n := r.sym(i); s == '`' || s == symSingle && c >= utf8.RuneSelf {
			return n
		}
	case quTriple:
		if c == '"' && r.has(i, `"""`) {
			return 3
		}
	case quTripleSingle:
		if c == '\'' && r.has(i, "'''") {
			return 3
		}
	case quFence:
		if c == '`' && r.has(i, "```") {
			return 3
		}
	default:
		if c == '"' {
			return 1
		}
		s, n := r.sym(i)
		if s == '\'' && r.quote == quTypeSingle || r.isQuote(s) && s >= utf8.RuneSelf && (s == symSingle) == (r.quote == quTypeSingle) {
			return n
		}
	}
	return 0
}

func (r *repairer) isQuote(c byte) bool {
	switch c {
	case '"', '\'', '`', symDouble, symSingle, symEntity, symEscape:
		return true
	}
	return false
}

func (r *repairer) openText(q quote, key bool) {
	p := r.p
	r.quote, r.inner, r.longRun, r.nesting, r.keyKnown, r.given = q, 0, false, 0, false, 0
	p.inKey = key
	r.plain = q == quDouble && !key && !r.unescape
	p.carry = p.carry[:0]
	r.maybeKey = !key && q != noQuote && r.inside() == '[' && r.p.top().stray&tuple == 0
	if !key {
		p.openString()
	}
	r.state = rpString
	switch q {
	case quDouble:
	case noQuote:
		r.state = rpBare
		if key {
			r.state = rpBareKey
		}
	default:
		r.fix(fixQuotes)
	}
}

// stepValue reads a value, or finds that there is none.
func (r *repairer) stepValue(i int) (int, bool) {
	c, n, i, wait := r.peek(i)
	if wait {
		return i, false
	}
	in := r.inside()
	switch c {
	case 0:
		if in == '{' {
			r.null(fixCut)
		}
		return r.finish(i)
	case '{', '[':
		if !r.open(i, c) {
			return i, false
		}
		return i + n, true
	case '(': // a tuple, unless a text begins with a bracket
		j, _ := r.skip(i + n)
		d, _ := r.sym(j)
		if r.short {
			return i, false
		}
		if !r.isQuote(d) && d != ')' && d != '(' && d != '[' && d != '{' && d != '-' && (d < '0' || d > '9') {
			break
		}
		single := r.call(i)
		if r.short {
			return i, false
		}
		if single { // RP-14: one value in brackets
			r.fix(fixBracket)
			r.calls++
			return i + n, true
		}
		if !r.open(i, '[') {
			return i, false
		}
		r.p.top().stray |= tuple
		r.fix(fixBracket)
		return i + n, true
	case ']', '}', ')':
		if in == '{' {
			r.null(fixMissValue)
			return i, true
		}
		r.state = rpAfter
		return i, true
	case ',', ';':
		if in == '{' {
			r.null(fixMissValue)
			return i, true
		}
		r.anotherComma()
		return i + n, true
	case ':', '=':
		r.fix(fixColon)
		return i + n, true
	case '.', symDots:
		if n, ok := r.dots(i, c, n); n > 0 {
			if r.short {
				return i, false
			}
			if ok {
				r.leftOut()
				return i + n, true
			}
		}
	case '/', '#':
		if c == '#' && r.color(i) {
			break
		}
		if r.short {
			return i, false
		}
		n := r.comment(i, c)
		if r.short {
			return i, false
		}
		if n > 0 {
			return i + n, true
		}
	case '`':
		if r.has(i, "```") {
			// A string in a fence goes on at once; a line break behind the fence says that this is the end of the answer.
			c := r.at(i + 3)
			if r.short {
				return i, false
			}
			if in == '{' && c != 0 && !isBlank(c) {
				r.beginValue()
				r.openText(quFence, false)
				return i + 3, true
			}
			if in == '{' {
				r.null(fixCut)
			}
			return r.finish(i)
		}
	case symEscape, '\\':
		if r.startEscaped(i) {
			return 0, true
		}
	}
	if r.short {
		return i, false
	}
	if q, n := r.opening(i, c, n); q != noQuote {
		next, empty := r.doubled(i, q, n)
		if r.short {
			return i, false
		}
		if next > i+n || empty {
			r.fix(fixExtraQuote)
			n = next - i
			if q == quTriple || q == quTripleSingle {
				q = quDouble
			}
		}
		if empty {
			r.beginValue()
			r.p.openString()
			r.endText()
			return i + n, true
		}
		r.beginValue()
		r.openText(q, false)
		return i + n, true
	}
	if r.short {
		return i, false
	}
	return r.plainValue(i)
}

// doubled says where a string begins whose opening quote, of n bytes at i, stands twice; empty, that it is an empty string with a quote too many.
func (r *repairer) doubled(i int, q quote, n int) (next int, empty bool) {
	if q == quTriple || q == quTripleSingle {
		j, _ := r.skip(i + n)
		c, _ := r.sym(j)
		return i + n, c == ',' || c == '}' || c == ']'
	}
	c, _ := r.sym(i)
	d, m := r.sym(i + n)
	if d != c || q != quDouble && q != quSingle {
		return i + n, false
	}
	j, _ := r.skip(i + n + m)
	switch e, _ := r.sym(j); {
	case e == 0, e == ',', e == '}', e == ']', e == ':', e == ';', e == ')', e == '+', e == '/', e == '#', r.isQuote(e), j > i+n+m:
		return i + n, false
	}
	return i + n + m, false
}

// leftOut notes an ellipsis; a comma may follow it.
func (r *repairer) leftOut() {
	r.fix(fixDots)
	r.fresh, r.comma = false, false
}

// anotherComma notes a comma where a key or value should be.
func (r *repairer) anotherComma() {
	if r.fresh || r.comma {
		r.fix(fixExtraComma)
	}
	r.comma = true
}

// How a container was written, in a frame's stray.
const (
	tuple   = 0x80 // an array with round brackets
	implied = 0x40 // an object without brackets, in an array
	strays  = 0x3F // the rest is a count
)

// dots says whether an ellipsis stands at i: three dots or one sign, with nothing but a sign of the structure behind it.
func (r *repairer) dots(i int, c byte, n int) (int, bool) {
	if c == '.' {
		if !r.has(i, "...") {
			return 0, false
		}
		n = 3
		for n < maxLook && r.at(i+n) == '.' {
			n++
		}
	}
	j, _ := r.skip(i + n)
	switch d, _ := r.sym(j); d {
	case ',', ']', '}', '"', '\'', '{', '[', 0, '/', '`':
		return n, true
	}
	return n, r.inside() == '{' && r.state == rpKey
}
