package jsonuri

import (
	"bytes"
	"strconv"
	"strings"
)

// How a container was written, in a frame's stray.
const (
	tuple   = 0x80 // an array with round brackets
	implied = 0x40 // an object without brackets, in an array
	strays  = 0x3F // the rest is a count
)

// to goes on in a state behind n bytes.
func to(state repairState, n int, fix string) act {
	return act{do: (*repairer).pass, state: state, n: n, fix: fix}
}

// skip passes x, which belongs to nothing.
func (r *repairer) skip(x sign, fix string) act { return to(r.state, x.end-x.at, fix) }

// pass passes the sign and makes the small changes.
func (r *repairer) pass(i int) int {
	a := &r.a
	r.calls += int(a.calls)
	r.inner += int(a.inner)
	r.nesting = min(r.nesting+int(a.nesting), 100)
	if r.closed = a.c; a.stray != 0 {
		r.p.top().stray += uint8(a.stray)
	}
	if r.state < rpProse {
		r.back = r.state
	}
	r.state = a.state
	return i + a.n
}

// inside says what the innermost container is: '{', '[' or 0.
func (r *repairer) inside() byte { return r.kind(len(r.p.stack) - 1) }

// kind is the kind of the container at index, 0 outside the document.
func (r *repairer) kind(index int) byte {
	if index < 0 {
		return 0
	}
	return r.p.stack[index].kind
}

func (r *repairer) inTuple() bool { return r.inside() == '[' && r.p.top().stray&tuple != 0 }

// common decides about what means the same wherever a sign of the structure is due.
func (r *repairer) common(x sign) (a act, ok bool) {
	switch {
	case r.fenceAt(x):
		return act{do: (*repairer).finish}, true
	case x.c == '#' && r.state == rpValue && r.inside() == '{' && !isBlank(r.byteAt(x.end)): // #fff
		return a, false
	case (x.c == '/' || x.c == '#') && r.comment(x): // RP-05
		if x.c == '/' && r.byteAt(x.end) == '*' {
			return to(rpBlock, 2, fixComment), true
		}
		return to(rpLine, 1, fixComment), true
	case x.c == '.' && r.has(x.at, "...") || x.c == symDots: // RP-05
		end := x.end
		for end < x.at+maxLook && x.c == '.' && r.byteAt(end) == '.' {
			end++
		}
		y := r.next(end)
		if r.state == rpValue && !ends(y.c) && !isQuote(y.c) && y.c != '{' && y.c != '[' && y.c != '/' {
			return a, false
		}
		return to(r.state, end-x.at, fixDots), true
	case x.c == '\\' && r.mayBeEscaped(x): // RP-14
		return act{do: (*repairer).startEscaped, fix: fixEscapedDoc}, true
	}
	return a, false
}

// decideComment finds the end of a comment.
func (r *repairer) decideComment(i int) act {
	from, n := i, 0
	for ; i < len(r.b); i++ {
		c := r.b[i]
		if r.state == rpBlock {
			if c == '*' && r.byteAt(i+1) == '/' {
				n = 2
				break
			}
		} else if c == '\n' || c == '\r' || (c == '}' || c == ']') && r.lastLine(i) {
			break // RP-11: a document on one line goes on behind a comment of its last member
		}
	}
	if i == len(r.b) && !r.eof {
		return to(r.state, i-from, "")
	}
	return to(r.back, i-from+n, "")
}

// lastLine says whether no line break follows.
func (l *look) lastLine(i int) bool {
	c, at := l.find(i, "\r\n")
	return c == 0 && at < i+maxLook
}

// decideKey reads a key or the end of the object.
func (r *repairer) decideKey(x sign) act {
	switch x.c {
	case 0:
		return act{do: (*repairer).finish}
	case '}', ']':
		return r.decideBracket(x)
	case ')':
		return r.skip(x, fixJunk)
	case ',', ';':
		return comma(x, r.state, fixExtraComma)
	case ':': // RP-02: the key is missing
		return act{do: (*repairer).emptyKey, fix: fixMissKey}
	case '[', '{':
		switch n := len(r.p.stack); {
		case !r.fresh && r.kind(n-2) == '[': // RP-13: an element of the array around the object, whose brace is missing
			return act{do: (*repairer).closeTo, index: n - 1, state: rpValue, fix: fixMissBracket}
		case x.c == '[' || !r.fresh: // the value stands for itself
			return act{do: (*repairer).emptyKey, fix: fixMissKey}
		}
		// RP-06: {{"a": 1}}, from a template whose brackets are doubled.
		a := r.skip(x, fixMoreBracket)
		if r.p.top().stray&strays < strays {
			a.stray = 1
		}
		return a
	}
	if a, ok := r.common(x); ok {
		return a
	}
	if !isQuote(x.c) {
		return act{do: (*repairer).openKey}
	}
	a := act{do: (*repairer).openKey, quote: x.c, n: x.end - x.at}
	if c, n := r.sym(x.end); c == x.c { // RP-02: ""name", one quote too many
		switch y := r.next(x.end + n); {
		case isQuote(y.c) && (r.quotedKey(y) || !y.space && r.byteAt(y.end) == y.c): // quotes around nothing, and then the key
			return to(rpKey, a.n+n, fixExtraQuote)
		case r.restOfKey(x.end + n), !y.space && y.c != ':' && y.c != '=' && y.c != ',' && y.c != '}' && y.c != 0:
			a.n, a.fix = a.n+n, fixExtraQuote
		}
	}
	return a
}

// emptyKey begins a member whose key is missing.
func (r *repairer) emptyKey(i int) int { return r.beginMember(nil, i) }

// beginMember begins a member, whose colon is at i or behind it. After a repair that may have led to the wrong object, a key that the
// object has already overwrites nothing (RP-11): it begins the next object of an array, or gets the number of the member as well.
func (r *repairer) beginMember(key []byte, i int) int {
	p := r.p
	name, escaped := key, bytes.IndexByte(key, '\\') >= 0
	for n := p.top().index; !p.member(name, escaped); n++ {
		if r.kind(len(p.stack)-2) != '[' || len(key) == 0 {
			name = append(r.token[:0], key...)
			if len(key) > 0 {
				name = append(name, '_')
			}
			name = strconv.AppendInt(name, int64(n), 10)
			continue
		}
		how := p.top().stray & implied
		r.fix(fixMissBracket)
		p.close()
		p.element()
		r.openContainer('{', how, i)
	}
	p.carry, p.inKey = p.carry[:0], false
	r.fresh, r.comma = false, false
	r.state = rpColon
	return i
}

// comma goes on in a state behind the comma x.
func comma(x sign, state repairState, fix string) act {
	return act{do: (*repairer).passComma, n: x.end - x.at, state: state, fix: fix}
}

// passComma passes the comma at i, and notes it: a second one is too many.
func (r *repairer) passComma(i int) int {
	r.comma = true
	return r.pass(i)
}

// decideColon reads the colon after a key.
func (r *repairer) decideColon(x sign) act {
	switch x.c {
	case 0:
		return act{do: (*repairer).finish}
	case ':', '=':
		fix := fixColon
		if r.b[x.at] == ':' {
			fix = ""
		}
		if r.byteAt(x.end) == '>' { // =>
			x.end++
		}
		return to(rpValue, x.end-x.at, fix)
	case ',', '}', ';':
		return r.null(fixMissValue)
	case '/', '#':
		if a, ok := r.common(x); ok {
			return a
		}
	}
	if isQuote(x.c) && r.next(x.end).c == ':' { // RP-02: name"":
		return r.skip(x, fixExtraQuote)
	}
	// RP-13: what stands before a colon on the same line, and could not be a value, is junk where a value follows.
	if c, k := r.find(x.at, ":\n{[,}]0123456789"+quotes); c == ':' && r.valueAt(r.next(k+1)) {
		return to(rpColon, k-x.at, fixKeyJunk)
	}
	return to(rpValue, 0, fixMissColon)
}

// null is a value that is missing.
func (r *repairer) null(fix string) act {
	return act{do: (*repairer).giveScalar, value: nullText, fix: fix}
}

// giveScalar gives out a number or literal.
func (r *repairer) giveScalar(i int) int {
	r.beginValue()
	r.p.scalar(r.a.value)
	r.goOn()
	return i + r.a.n
}

// beginValue makes room for a value where an element of an array is due.
func (r *repairer) beginValue() {
	if r.inside() == '[' {
		r.p.element()
	}
	r.closed = 0
}

// goOn goes on behind a complete value.
func (r *repairer) goOn() {
	r.fresh, r.comma, r.closed = false, false, 0
	r.state = rpAfter
}

// decideValue reads a value, or finds that there is none.
func (r *repairer) decideValue(x sign) act {
	n := x.end - x.at
	object := r.inside() == '{'
	switch x.c {
	case 0:
		return act{do: (*repairer).finish}
	case '{', '[':
		return act{do: (*repairer).open, c: x.c, n: n}
	case ']', '}', ')':
		if object { // RP-04
			return r.null(fixMissValue)
		}
		return to(rpAfter, 0, "")
	case ',', ';':
		if object {
			return r.null(fixMissValue)
		}
		return comma(x, r.state, fixExtraComma)
	case ':', '=':
		return r.skip(x, fixColon)
	case '(': // RP-14: a tuple or one value in brackets, unless a text begins with a bracket
		y := r.next(x.end)
		switch {
		case !isQuote(y.c) && !isDigit(y.c) && y.c != '-' && y.c != ')' && y.c != '(' && y.c != '[' && y.c != '{':
		case r.oneArgument(x.end):
			a := r.skip(x, fixBracket)
			a.calls = 1
			return a
		default:
			return act{do: (*repairer).open, c: '(', n: n, fix: fixBracket}
		}
	}
	if a, ok := r.common(x); ok {
		return a
	}
	if isQuote(x.c) {
		if end, ok := r.quoted(x); ok && r.outdented() && r.next(end).c == ':' {
			return act{do: (*repairer).closeTo, index: r.around(), state: rpKey, fix: fixMissBracket}
		}
		return r.decideOpening(x)
	}
	return r.decidePlain(x.at)
}

// outdented reports whether the sign that is due in an array is the first of its line, and no further to the right than the line in
// which the array began: by the look of it, it is no element (RP-06).
func (r *repairer) outdented() bool {
	top := len(r.p.stack) - 1
	return r.lineFirst && r.kind(top) == '[' && r.kind(top-1) == '{' && r.indent <= r.p.stack[top].indent
}

// around gives the index of the container in the object that the first sign of the line belongs to, by its indentation.
func (r *repairer) around() int {
	for i := len(r.p.stack) - 1; i > 0; i-- {
		if r.kind(i-1) == '{' && r.p.stack[i-1].indent < r.indent {
			return i
		}
	}
	return len(r.p.stack) - 1
}

// openContainer opens an object or array at i; how is how it was written. It returns false if that is too deep.
func (r *repairer) openContainer(kind byte, how uint8, i int) bool {
	p := r.p
	if !p.open(kind) {
		p.err = &LimitError{Limit: "depth", Max: int64(p.depth), Offset: p.base + int64(i)}
		return false
	}
	f := p.top()
	f.stray, f.indent = how, r.indent
	return true
}

func (r *repairer) open(i int) int {
	kind, round := r.a.c, uint8(0)
	if kind == '(' {
		kind, round = '[', tuple
	}
	r.beginValue()
	if !r.openContainer(kind, round, i) {
		return i
	}
	r.fresh, r.comma = true, false
	r.state = rpKey
	if kind == '[' {
		r.state = rpValue
	}
	return i + r.a.n
}

// decideOpening reads the opening quote x of a string, which may stand twice (RP-13) or three times.
func (r *repairer) decideOpening(x sign) act {
	a := act{do: (*repairer).openText, quote: x.c, n: x.end - x.at}
	if r.byteAt(x.end) != x.c {
		return a
	}
	end := x.end + 1
	if r.byteAt(end) == x.c {
		end++
	}
	y := r.next(end)
	empty := y.c == ',' || y.c == '}' || y.c == ']'
	switch n := end - x.at; {
	case n == 3 && empty:
		a.n, a.fix = 2, fixExtraQuote
	case n == 2 && (empty || y.space || y.c == 0 || y.c == symFar || isQuote(y.c) || strings.IndexByte(":;)+/#", y.c) >= 0):
	default:
		a.n, a.fix = n, fixExtraQuote
	}
	return a
}

// decideAfter reads what stands between a value and the next one.
func (r *repairer) decideAfter(x sign) act {
	n := x.end - x.at
	next := rpKey
	if r.inside() == '[' {
		next = rpValue
	}
	switch x.c {
	case 0:
		return act{do: (*repairer).finish}
	case ',', ';':
		if r.b[x.at] == ',' {
			return comma(x, next, "")
		}
		return comma(x, next, fixComma)
	case '}', ']':
		return r.decideBracket(x)
	case ')':
		switch {
		case r.calls > 0:
			a := r.skip(x, "")
			a.calls = -1
			return a
		case r.inTuple():
			return act{do: (*repairer).closeTo, index: len(r.p.stack) - 1, n: n, state: rpAfter}
		}
		return r.skip(x, fixJunk)
	}
	if a, ok := r.common(x); ok {
		return a
	}
	switch x.c {
	case ':', '=', '>', '\\', '*', '|', '+':
		return r.skip(x, fixJunk)
	}
	if m := len(r.p.stack); next == rpValue && r.kind(m-2) == '{' && r.quotedKey(x) {
		// RP-06: a member of the object around the array, which was not closed.
		return act{do: (*repairer).closeTo, index: m - 1, state: rpAfter, fix: fixMissBracket}
	}
	return to(next, 0, fixMissComma)
}

// decideBracket reads a closing bracket, which may not match (RP-06).
func (r *repairer) decideBracket(x sign) act {
	top := len(r.p.stack) - 1
	f := r.p.top()
	matches := f.kind+2 == x.c
	switch {
	case matches && f.stray&strays > 0:
		a := r.skip(x, fixMoreBracket)
		a.c, a.stray = x.c, -1
		return a
	case f.stray&implied != 0 && x.c == ']': // the object has no brackets of its own
		return act{do: (*repairer).closeTo, n: x.end - x.at, index: top - 1, c: x.c, state: rpAfter}
	}
	a := act{do: (*repairer).closeTo, n: x.end - x.at, index: r.closes(x.end, x.c), c: x.c, state: rpAfter}
	switch {
	case a.index > top && (matches || r.closed == x.c):
		a.do, a.state, a.fix = (*repairer).pass, r.state, fixMoreBracket
	case a.index > top:
		a.do, a.state, a.fix = (*repairer).pass, r.state, fixBracket
	case !matches:
		a.fix = fixBracket
	case r.comma:
		a.fix = fixExtraComma
	}
	return a
}

// closeTo ends the containers from the innermost one to the one that the action names (a.index), at the bracket at i. The document itself is not ended
// yet, because a member may follow.
func (r *repairer) closeTo(i int) int {
	for len(r.p.stack) > max(r.a.index, 1) {
		r.p.close()
	}
	r.goOn()
	r.closed = r.a.c
	if r.state = r.a.state; r.a.index == 0 {
		r.state = rpLast
	}
	return i + r.a.n
}

// closes gives the index of the outermost container that a closing bracket c ends, behind which stands i; the number of open
// containers if it ends none. Where it does not match the innermost one, or a bracket of its kind was the last thing, what
// stands behind it says which: the container that is left goes on with that.
func (r *repairer) closes(i int, c byte) int {
	top, match, doubled := len(r.p.stack)-1, r.matching(c), r.closed == c
	if match == top && (!doubled || top == 0 || r.kind(top-1) == r.kind(top)) {
		return top
	}
	for k := top; match != top && k >= 0 && r.lineFirst; k-- { // what began in a line of this indentation
		if r.p.stack[k].indent == r.indent {
			return k
		}
	}
	then := r.then(i)
	goesOn := byte('{')
	if then == thenValue || then == thenBracket {
		goesOn = '['
	}
	first, second := match, top
	if c == ']' && goesOn == '{' || c == '}' && then == thenBracket {
		first, second = top, match
	}
	switch {
	case then == thenEnd, match == top && then > thenValue:
		if match < 0 {
			return top
		}
		return match
	case doubled && r.kind(top) == goesOn:
		return top + 1
	case first >= 0 && r.kind(first-1) == goesOn:
		return first
	case second >= 0 && r.kind(second-1) == goesOn:
		return second
	}
	return top + 1
}

// matching gives the index of the innermost container that a closing bracket c fits; -1 if there is none.
func (r *repairer) matching(c byte) int {
	match := len(r.p.stack) - 1
	for match >= 0 && r.kind(match)+2 != c {
		match--
	}
	return match
}

// What stands behind a place between two values.
const (
	thenEnd     = iota // the end of the text, or nothing that goes on with a document
	thenKey            // a key, with a comma before it or not
	thenValue          // a container, or a comma and a value
	thenBrace          // }
	thenBracket        // ]
)

// commas is the sign behind the comma x, which may be doubled.
func (l *look) commas(x sign) sign {
	if x = l.next(x.end); x.c == ',' {
		x = l.next(x.end)
	}
	return x
}

func (l *look) then(i int) int {
	x := l.next(i)
	comma := x.c == ','
	if comma {
		x = l.commas(x)
	}
	switch {
	case x.c == '}':
		return thenBrace
	case x.c == ']':
		return thenBracket
	case isQuote(x.c):
		end, ok := l.quoted(x)
		switch c := l.next(end).c; {
		case !ok || c == symFar: // it may be a key or not
		case c == ':' || c == '=':
			return thenKey
		case comma && ends(c):
			return thenValue
		}
	case l.bareKey(x.at):
		return thenKey
	case x.c == '{', x.c == '[', comma && l.plainValue(x, false):
		return thenValue
	}
	return thenEnd
}

// finish ends the document at the end of the text, or where a fence says that there is no more of it.
func (r *repairer) finish(i int) int {
	p := r.p
	if r.inside() == '{' && (r.state == rpColon || r.state == rpValue) { // RP-07
		r.fix(fixCut)
		p.scalar(nullText)
	}
	for len(p.stack) > 0 {
		r.fix(fixMissBracket)
		p.close()
	}
	r.state, r.comma = rpDone, false
	p.complete = false
	return i
}

// ended says whether the bracket that ends the document has come, and nothing that may go on with it.
func (r *repairer) ended() bool { return r.state == rpDone || r.state == rpLast && len(r.p.pend) == 0 }

// decideLast reads what stands behind the bracket that ends the document: one that came too early if the document goes on (RP-13).
func (r *repairer) decideLast(x sign) act {
	if x.c == '}' || x.c == ']' {
		return r.skip(x, fixMoreBracket)
	}
	then, y := r.then(x.at), r.commas(x)
	goesOn := then == thenKey && (x.c == ',' || isQuote(x.c)) // else it is more likely prose
	switch {
	case r.inside() == '[':
		goesOn = x.c == ',' && (goesOn || then == thenValue)
	case x.c == ',': // RP-11: a key with a part missing, or a string
		goesOn = goesOn || isQuote(y.c) || isDigit(y.c) || y.c == '{' || y.c == '[' || r.halfKey(y.at)
	}
	if goesOn {
		return to(rpAfter, 0, fixMoreBracket)
	}
	return act{do: (*repairer).endDocument}
}

func (r *repairer) endDocument(i int) int {
	r.p.close()
	r.p.complete = true
	r.state, r.comma = rpDone, false
	return i
}

// decideDone passes what stands behind the document; comma says that it was counted.
func (r *repairer) decideDone(i int) act {
	a := act{do: (*repairer).passRest}
	if !r.comma && i < len(r.b) && r.b[i] != '`' {
		a.fix = fixTrailing
	}
	return a
}

func (r *repairer) passRest(i int) int {
	r.comma = r.comma || i < len(r.b)
	return len(r.b)
}
