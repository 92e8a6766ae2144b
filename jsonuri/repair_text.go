package jsonuri

import (
	"bytes"
	"unicode/utf8"
)

// closing gives the length of what may be the closing quote of the open string at i; 0 where there is none.
func (r *repairer) closing(i int) int {
	if r.quote == '"' && r.b[i] != '"' {
		return 0
	}
	switch c, n := r.sym(i); {
	case c == r.quote, c == '"' && r.quote >= symDouble:
		return n
	case c == '"' && r.p.inKey && r.colonAt(i+1): // RP-13: 'name"
		return n
	case c == '\'' && r.quote == symSingle, c == symSingle && r.quote == '`': // RP-16: `a´
		return n
	}
	return 0
}

// openText begins a string value, with or without quotes.
func (r *repairer) openText(i int) int {
	r.beginValue()
	r.begin(r.a.quote, false)
	r.p.openString()
	return i + r.a.n
}

// openKey begins a key.
func (r *repairer) openKey(i int) int {
	r.keyFrom = r.p.base + int64(i)
	r.begin(r.a.quote, true)
	return i + r.a.n
}

func (r *repairer) begin(quote byte, key bool) {
	p := r.p
	r.quote, r.inner, r.longRun, r.nesting, r.keyKnown, r.last = quote, 0, false, 0, false, 0
	p.inKey = key
	p.carry = p.carry[:0]
	r.plain = quote == '"' && !key && !r.unescape
	r.maybeKey = !key && quote != 0 && r.inside() == '[' && r.p.top().stray&tuple == 0
	r.state = rpString
	switch quote {
	case '"':
	case 0:
		r.state = rpBare
	default:
		r.fix(fixQuotes)
	}
}

// endText ends the open string value.
func (r *repairer) endText(i int) int {
	r.flush()
	r.maybeKey = false
	r.p.closeString()
	r.goOn()
	return i + r.a.n
}

// innerQuote is a quote inside the string.
func (r *repairer) innerQuote(i int) int {
	switch {
	case r.nesting > 0:
	case r.quote == '"' && !r.p.inKey && (r.last == '{' || r.last == '['):
		r.nesting, r.inner = 1, 0
	default:
		r.inner++
	}
	r.longRun = false
	return r.give(i, i+r.a.n)
}

// certain is how much of the content from start on is certain while more is waited for. A run of commas, closing brackets and
// white space may turn out to stand behind the string, if its closing quote was left out; what follows a colon behind a key.
func (r *repairer) certain(start, end int) int {
	if !r.p.inKey {
		return min(r.runBefore(start, end), end)
	}
	if at := r.ownColon(start, end); at >= 0 {
		return at
	}
	return end
}

// decideString reads more of a string or key in quotes: up to the quote that ends it, or as far as the text goes.
func (r *repairer) decideString(i int) act {
	start := i
	for {
		if r.quote == '"' {
			i = skipPlain(r.b, i)
		}
		if i == len(r.b) {
			return r.decideCut(start, i)
		}
		c := r.b[i]
		if c == '\\' {
			if i+1 == len(r.b) {
				return r.decideCut(start, i+1)
			}
			i += 2
			continue
		}
		if c == '\n' && r.quote == '"' && !r.p.inKey && r.inside() == '[' {
			// RP-12: the line ends with a comma, and the next one is a number or a literal.
			if run := r.runBefore(start, i); run < i && bytes.IndexByte(r.b[run:i], ',') >= 0 && r.plainValue(r.next(i), true) {
				return act{do: (*repairer).endText, to: run, fix: fixMissQuote}
			}
		}
		n := r.closing(i)
		switch {
		case r.short:
			return act{to: i}
		case n == 0:
			i++
		case r.p.inKey:
			return r.decideKeyQuote(start, i, n)
		default:
			return r.decideQuote(start, i, n)
		}
	}
}

// decideQuote says what the quote at i of a string value is, of n bytes.
func (r *repairer) decideQuote(start, i, n int) act {
	end := act{do: (*repairer).endText, to: i, n: n}
	if r.nestingAfter(r.b[start:i]) > 0 {
		return act{do: (*repairer).innerQuote, to: i, n: n, fix: fixInner}
	}
	run := r.runBefore(start, i)
	after := byte(0)
	if run < i {
		after = r.kind(r.openAfter(run, i) - 1)
	}
	v := r.judge(i+n, after)
	if v == isInner && after == '[' && r.inner%2 == 0 && bytes.IndexByte(r.b[run:i], ',') >= 0 && bytes.IndexByte(r.b[run:i], '\n') >= 0 {
		v = isOpener // RP-12: the line before ends with a comma, and this one begins with the quote
	}
	switch v {
	case isInner: // RP-03
		return act{do: (*repairer).innerQuote, to: i, n: n, fix: fixInner}
	case isOpener: // RP-12, RP-13: the string's own closing quote is missing
		return act{do: (*repairer).endText, to: run, fix: fixMissQuote}
	case isExtra:
		end.n, end.fix = r.quotesAt(i)-i, fixExtraQuote
	case isMember:
		end.do = (*repairer).becomeMember
	case isJoin: // RP-03
		x := r.next(r.next(i + n).end)
		return act{do: (*repairer).join, to: i, n: x.end - i, quote: x.c, fix: fixJoin}
	}
	return end
}

// join goes on with the part behind a plus.
func (r *repairer) join(i int) int {
	r.quote, r.inner, r.longRun, r.plain = r.a.quote, 0, false, r.a.quote == '"' && !r.unescape
	return i + r.a.n
}

// becomeMember makes the string, an element, the key of an object whose opening brace is missing (RP-12).
func (r *repairer) becomeMember(i int) int {
	p := r.p
	if !r.maybeKey { // it is too long
		return r.endText(i)
	}
	r.flush()
	key := p.carry
	r.maybeKey = false
	p.dropString()
	if !r.openContainer('{', implied, i) {
		return i
	}
	r.fix(fixMissBracket)
	p.carry = key
	return r.endKey(i)
}

// decideCut is the end of b inside a string.
func (r *repairer) decideCut(start, end int) act {
	if !r.eof {
		r.short = true
		return act{to: end}
	}
	if r.p.inKey {
		if at := r.ownColon(start, end); at >= 0 {
			return act{do: (*repairer).endOpenKey, to: at, fix: fixMissQuote}
		}
		return act{do: (*repairer).cutKey, to: end}
	}
	for run := r.runBefore(start, end); run < end; run++ { // brackets before may belong to the text
		if r.openAfter(run, end) == 0 && bytes.IndexByte(r.b[run:end], ',') < 0 {
			return act{do: (*repairer).endText, to: run, fix: fixMissQuote}
		}
	}
	return act{do: (*repairer).endText, to: end, fix: fixCut}
}

// runBefore gives where a run of commas, closing brackets and white space before end begins, with one of the former or a
// line break; end where there is none or it is too long.
func (r *repairer) runBefore(start, end int) int {
	if r.quote != '"' || r.p.inKey {
		return end
	}
	run, all := runAtEnd(r.b[start:end])
	if end-start-run > maxLook || all && r.longRun {
		return end
	}
	return start + run
}

// openAfter gives how many containers are open behind the closing brackets in b[run:end]; -1 where one of them does not fit.
func (r *repairer) openAfter(run, end int) int {
	n := len(r.p.stack)
	for _, c := range r.b[run:end] {
		if c == '}' || c == ']' {
			if r.kind(n-1)+2 != c {
				return -1
			}
			n--
		}
	}
	return n
}

// runAtEnd gives where such a run begins, and whether there is nothing before it.
func runAtEnd(b []byte) (run int, all bool) {
	run = len(b)
	for i := run; i > 0 && len(b)-run <= maxLook; i-- {
		switch b[i-1] {
		case ',', '}', ']', '\n':
			run = i - 1
		case ' ', '\t', '\r':
		default:
			escapes := i - len(bytes.TrimRight(b[:i], `\`))
			if run == i && escapes%2 == 1 { // the first sign is escaped
				for run++; run < len(b) && isBlank(b[run]) && b[run] != '\n'; run++ {
				}
			}
			return run, false
		}
	}
	return run, true
}

// nestingAfter gives how many brackets of JSON or code in the string are open behind b (RP-11).
func (r *repairer) nestingAfter(b []byte) int {
	n := r.nesting
	for i := 0; i < len(b) && n > 0; i++ {
		switch b[i] {
		case '\\':
			i++
		case '{', '[':
			n++
		case '}', ']':
			n--
		}
	}
	return n
}

// verdict is what a quote inside a string turns out to be.
type verdict uint8

const (
	isInner  verdict = iota // content
	isClose                 // the end of the string
	isExtra                 // the end, with another quote behind it that means nothing
	isOpener                // the beginning of the next key or element: the string's own closing quote is missing
	isJoin                  // the end of a part; a plus and another part follow
	isMember                // the end of a key: the brace before it is missing
)

func closeIf(yes bool) verdict {
	if yes {
		return isClose
	}
	return isInner
}

// judge decides what a quote is, behind which stands i: it ends the string only where what follows can follow a value (RP-03).
// after is what is open where it stands, if its string ended before the run of commas, brackets and line breaks before it; 0 without such a run.
func (r *repairer) judge(i int, after byte) verdict {
	object := r.inside() == '{'
	odd := r.inner%2 == 1 // a quotation inside is open
	x := r.next(i)
	if isQuote(x.c) && !x.space && (x.c == '"' || r.quote != '"') {
		// Quotes in a row: the outer one is the last if the first closes a quotation.
		if y := r.next(r.quotesAt(i)); y.c != symFar && (ends(y.c) || y.c == ';') {
			if odd {
				return isInner
			}
			return isExtra
		}
	}
	switch x.c {
	case 0, symFar:
		return isClose
	case '}', ']':
		return r.judgeBracket(x, odd)
	case ',', ';':
		return r.judgeComma(x, object, odd)
	case ':':
		if !object {
			if r.maybeKey && !odd {
				return isMember
			}
			return isClose
		}
	case ')':
		if r.calls > 0 || r.inTuple() {
			return isClose
		}
	case '+':
		if isQuote(r.next(x.end).c) {
			return isJoin
		}
	case '/':
		if r.comment(x) {
			return isClose
		}
	case '#':
		if x.line || x.space && !odd {
			return isClose
		}
	case '`':
		if r.fenceAt(x) {
			return isClose
		}
	}
	switch {
	case object && r.memberAt(x, false, odd), !object && r.elementAt(x, false, odd):
		return isClose
	case after == '{' && r.restOfKey(i), after == '[' && !odd && r.restOfElement(i):
		return isOpener
	}
	return isInner
}

// judgeBracket goes on with the closing bracket x.
func (r *repairer) judgeBracket(x sign, odd bool) verdict {
	match := r.matching(x.c)
	y := r.next(x.end)
	if match < len(r.p.stack)-1 && isQuote(y.c) && !y.space && ends(r.next(y.end).c) {
		return isInner // code at the end of the string
	}
	return closeIf(!odd && match >= 0 || (y.line || ends(y.c)) && (match >= 0 || !odd))
}

// judgeComma goes on with the comma x.
func (r *repairer) judgeComma(x sign, object, odd bool) verdict {
	if x.c == ';' && odd {
		return isInner
	}
	y := r.next(x.end)
	switch {
	case ends(y.c), y.c == symDots, y.c == '.' && r.has(y.at, "..."), y.c == '#' && !odd, y.c == '/' && r.comment(y), r.fenceAt(y):
		return isClose
	case object:
		return closeIf(y.c == ':' || r.memberAt(y, true, odd))
	case r.inTuple() && r.wordThen(y.at).c == ')':
		return isClose
	}
	return closeIf(r.elementAt(y, true, odd))
}

// decideBare reads more of a string value without quotes: the next sign that is not simply content.
func (r *repairer) decideBare(i int) act {
	solid := i // behind the last byte that is not white space
	for {
		c, n := r.sym(i)
		end := act{do: (*repairer).endText, to: solid, n: i - solid}
		switch {
		case r.short:
			return act{to: solid}
		case n == 0, c == '\n', c == '\r':
			return end
		case isBlank(c):
			if i-solid > maxLook {
				return act{do: (*repairer).pass, state: rpBare, to: i} // too much to wait for
			}
			i += n
			continue
		case c == '\\':
			if d := r.byteAt(i + 1); d > ' ' && d < utf8.RuneSelf {
				n = 2 // an escape, or nearly
			}
		case c == '{' || c == '[' || c == '(':
			return act{do: (*repairer).pass, state: rpBare, to: i + n, nesting: 1}
		case c == '}' || c == ']' || c == ')':
			if r.nesting > 0 {
				return act{do: (*repairer).pass, state: rpBare, to: i + n, nesting: -1}
			}
			if r.matching(c) >= 0 {
				return end
			}
		case c == ',' || c == ';':
			if r.bareEnds(i, n) {
				return end
			}
		case isQuote(c) && c != '\'' && c != '`' && c != symSingle:
			switch v := r.judge(i+n, 0); {
			case v == isClose || v == isExtra:
				end.n, end.fix = end.n+n, fixMissQuote
				return end
			case v == isInner && i > solid && r.inside() == '{' && r.quotedKey(r.next(i)):
				return end // the comma before the key is missing
			}
			if r.short {
				return end
			}
			return act{do: (*repairer).pass, state: rpBare, to: i + n, inner: 1}
		case c == '/' && i > solid && r.comment(r.next(i)): // RP-16
			return end
		}
		if i += n; r.short {
			return act{to: solid}
		}
		solid = i
	}
}

// bareEnds says whether the comma at i, of n bytes, ends a string without quotes.
func (r *repairer) bareEnds(i, n int) bool {
	x := r.next(i + n)
	if r.inside() == '[' { // RP-12: with a quote at its end, the opening one alone is missing
		return r.nesting == 0 && r.b[i] == ',' && (x.line || r.inTuple() || !r.halfElement(x.at))
	}
	if isQuote(x.c) {
		end, ok := r.quoted(x)
		return !ok && end >= x.at+maxLook || ok && r.colonAt(end) || x.line
	}
	return x.line || x.c == 0 || x.c == '}' || x.c == ',' || r.bareKey(x.at)
}
