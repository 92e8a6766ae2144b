package jsonuri

import (
	"bytes"
	"unicode/utf8"
)

// verdict is what a quote inside a string turns out to be.
type verdict uint8

const (
	isInner  verdict = iota // content
	isClose                 // the end of the string
	isExtra                 // the end, with another quote behind it that means nothing
	isOpener                // the beginning of the next key: the string's own closing quote is missing
	isJoin                  // the end of a part; a plus and another part follow
)

// stepString reads more of a string or key in quotes: up to the quote that ends it, or as far as the text goes. A run of
// commas, closing brackets and white space at the end of what is here is kept back: it may turn out to stand behind the
// string, if the closing quote was left out.
func (r *repairer) stepString(i int) (int, bool) {
	b := r.b
	start := i
	clean := true
	for {
		j := r.skipText(i)
		if j == len(b) {
			return r.textEnds(start, clean)
		}
		c := b[j]
		i = j
		if c == '\\' {
			clean = false
			if r.quote == quEscape && r.at(i+1) == '"' {
				// falls to the closing quotes below
			} else if i+1 == len(b) {
				return r.textEnds(start, clean)
			} else {
				i += 2
				continue
			}
		}
		if c < ' ' || c >= utf8.RuneSelf {
			clean = false
		}
		n := r.closing(i)
		if r.short {
			return r.pause(start, i, clean)
		}
		if n == 0 {
			if c == '"' {
				clean = false // a quote of another kind needs its escape
			}
			i++
			continue
		}
		if r.p.inKey {
			return r.keyQuote(start, i, n, clean)
		}
		run := r.runBefore(start, i)
		v := isClose
		if r.quote != quTriple && r.quote != quTripleSingle && r.quote != quFence {
			v = r.judge(i, n, run < i)
		}
		if r.short {
			return r.pause(start, min(run, i), clean)
		}
		switch v {
		case isInner:
			r.fix(fixInner)
			r.inner++
			r.give(start, i, clean)
			r.longRun = false
			for k := i; k < i+n; k++ {
				if b[k] == '"' {
					r.piece([]byte(`\"`))
				} else if b[k] != '\\' {
					r.piece(b[k : k+1])
				}
			}
			return i + n, true
		case isOpener:
			r.fix(fixMissQuote)
			r.give(start, run, clean)
			r.endText()
			return run, true
		case isJoin:
			r.fix(fixJoin)
			r.give(start, i, clean)
			k, _ := r.skip(i + n)
			k, _ = r.skip(k + 1)
			q, m := r.joined(k)
			r.quote, r.inner, r.longRun = q, 0, false
			return k + m, true
		}
		r.give(start, i, clean)
		next := i + n
		if v == isExtra {
			r.fix(fixExtraQuote)
			_, m := r.sym(next)
			next += m
		}
		r.endText()
		r.wasText = true
		return next, true
	}
}

// skipText is skipPlain that stops at what may be the closing quote, too.
func (r *repairer) skipText(i int) int {
	var stop byte
	switch r.quote {
	case quSingle, quTripleSingle, quTypeSingle:
		stop = '\''
	case quBack, quFence:
		stop = '`'
	case quEntity:
		stop = '&'
	default:
		return skipPlain(r.b, i)
	}
	for i < len(r.b) && plainByte[r.b[i]] && r.b[i] != stop {
		i++
	}
	return i
}

// joined gives the quotes of the part behind a plus.
func (r *repairer) joined(k int) (quote, int) {
	c, m := r.sym(k)
	return r.opening(k, c, m)
}

// endText ends the open string value.
func (r *repairer) endText() {
	r.flush()
	r.p.closeString()
	r.ended()
}

// pause gives out content up to stop, which waits with what follows it.
func (r *repairer) pause(start, stop int, clean bool) (int, bool) {
	if r.p.inKey {
		return r.pauseKey(start, stop, clean)
	}
	return r.give(start, stop, clean), false
}

// textEnds is the end of b inside a string.
func (r *repairer) textEnds(start int, clean bool) (int, bool) {
	end := len(r.b)
	run := end
	if !r.p.inKey {
		run = r.runBefore(start, end)
	}
	switch {
	case r.p.inKey && r.eof:
		return r.keyCut(start, end, clean)
	case r.p.inKey:
		return r.pauseKey(start, end, clean)
	case !r.eof:
		return r.pause(start, run, clean)
	}
	if run < end && r.closesAll(run) {
		r.fix(fixMissQuote)
		r.give(start, run, clean)
		r.endText()
		return run, true
	}
	r.fix(fixCut)
	r.give(start, end, clean)
	r.endText()
	return end, true
}

// closesAll says whether the run at i closes every open container.
func (r *repairer) closesAll(i int) bool {
	n := len(r.p.stack)
	for ; i < len(r.b); i++ {
		switch c := r.b[i]; c {
		case '}', ']':
			if n == 0 || r.p.stack[n-1].kind+2 != c {
				return false
			}
			n--
		case ',':
			return false
		}
	}
	return n == 0
}

// runBefore gives where a run of commas, closing brackets and white space before end begins, with one of the former or a
// line break; end where there is none or it is too long.
func (r *repairer) runBefore(start, end int) int {
	if r.quote != quDouble {
		return end
	}
	i, run := end, end
	for i > start {
		switch r.b[i-1] {
		case ',', '}', ']', '\n':
			run = i - 1
		case ' ', '\t', '\r':
		default:
			if r.b[i-1] == '\\' && run == i && r.isEscaped(start, i) {
				return r.afterEscape(i, end)
			}
			r.longRun = false
			if end-run > maxLook {
				return end
			}
			return run
		}
		i--
		if end-run > maxLook {
			r.longRun = true
			return end
		}
	}
	if r.longRun {
		return end
	}
	return run
}

// isEscaped says whether the byte at i is the second of an escape.
func (r *repairer) isEscaped(start, i int) bool {
	k := i
	for k > start && r.b[k-1] == '\\' {
		k--
	}
	return (i-k)%2 == 1
}

// afterEscape is runBefore for a run whose first sign at i is escaped.
func (r *repairer) afterEscape(i, end int) int {
	run := end
	for k := end; k > i+1; k-- {
		switch r.b[k-1] {
		case ',', '}', ']', '\n':
			run = k - 1
		}
	}
	return run
}

// judge decides what the quote at i, of n bytes, is. It looks at what follows: a quote ends a string only where what
// follows can follow a value. run says that the quote stands behind a comma, a closing bracket or a line break.
func (r *repairer) judge(i, n int, run bool) verdict {
	next := i + n
	in := r.inside()
	odd := r.inner%2 == 1 // a quote inside is open
	c, m := r.sym(next)
	if c == '"' || m > 0 && r.quote != quDouble && r.isQuote(c) && c != symEscape {
		// Two quotes in a row: the outer one is the second if the first closes a quotation.
		k, _ := r.skip(next + m)
		switch d, _ := r.sym(k); d {
		case 0, ',', '}', ']', ';':
			if odd {
				return isInner
			}
			return isExtra
		}
	}
	j, lineBreak := r.skip(next)
	if j-next >= maxLook {
		return isClose
	}
	c, m = r.sym(j)
	switch c {
	case 0:
		return isClose
	case '}', ']':
		return r.judgeBracket(j, m, c, odd)
	case ',', ';':
		if c == ';' && odd {
			return isInner
		}
		return r.judgeComma(j+m, in, odd)
	case ':':
		if in == '[' {
			return isClose
		}
	case ')':
		if r.calls > 0 || in == '[' && r.p.top().stray&tuple != 0 {
			return isClose
		}
	case '+':
		k, _ := r.skip(j + m)
		if d, _ := r.sym(k); r.isQuote(d) {
			return isJoin
		}
	case '/':
		if d := r.at(j + 1); d == '/' || d == '*' {
			return isClose
		}
	case '#':
		if lineBreak || j > next && !odd {
			return isClose
		}
	case '`':
		if lineBreak && r.has(j, "```") {
			return isClose
		}
	}
	if in == '{' {
		switch {
		case r.isQuote(c):
			if j > next && r.keyAt(j, m, odd) {
				return isClose
			}
		case lineBreak && r.bareKeyAt(j):
			return isClose
		}
		if run && r.quote == quDouble && r.restOfKey(next) {
			return isOpener
		}
		return isInner
	}
	switch {
	case r.isQuote(c):
		if j > next && !odd && (lineBreak || r.elementAt(j, m, true)) {
			return isClose
		}
	case c == '{' || c == '[':
		if j > next && !odd {
			return isClose
		}
	case lineBreak && !odd && (c == '-' || c >= '0' && c <= '9'):
		return isClose
	}
	return isInner
}

// judgeBracket goes on behind the closing bracket c at j.
func (r *repairer) judgeBracket(j, m int, c byte, odd bool) verdict {
	to := r.enclosing(c - 2)
	if to == 0 && !odd {
		return isClose // the document's end: anything may follow
	}
	k, lineBreak := r.skip(j + m)
	d, _ := r.sym(k)
	end := lineBreak || d == 0 || d == ',' || d == '}' || d == ']' || d == ';' || d == ')' || k-j-m >= maxLook
	if end {
		if to < 0 && odd {
			return isInner
		}
		return isClose
	}
	if odd || to < 0 {
		return isInner
	}
	switch {
	case r.isQuote(d) || d == '{' || d == '[' || d == '/' || d == '#':
		return isClose
	}
	return isInner
}

// judgeComma goes on behind a comma, which ends at i.
func (r *repairer) judgeComma(i int, in byte, odd bool) verdict {
	j, lineBreak := r.skip(i)
	if j-i >= maxLook {
		return isClose
	}
	c, m := r.sym(j)
	switch c {
	case 0, '}', ']', ',':
		return isClose
	case symDots:
		return isClose
	case '.':
		if r.has(j, "...") {
			return isClose
		}
	case '/':
		if d := r.at(j + 1); d == '/' || d == '*' {
			return isClose
		}
	case '#':
		if !odd {
			return isClose
		}
	case '`':
		if r.has(j, "```") {
			return isClose
		}
	}
	if in == '{' {
		switch {
		case c == ':':
			return isClose
		case r.isQuote(c):
			if lineBreak && !odd || r.keyAt(j, m, odd) {
				return isClose
			}
		case c == '{' || c == '[':
			if !odd {
				return isClose
			}
		case !odd && r.bareKeyAt(j):
			return isClose
		}
		return isInner
	}
	switch {
	case r.isQuote(c):
		if !odd || r.elementAt(j, m, false) {
			return isClose
		}
	case c == '{' || c == '[':
		return isClose
	case isTokenByte(c) || c == symOther:
		if r.plainElementAt(j, odd) {
			return isClose
		}
	}
	return isInner
}

// pastQuoted passes the string in quotes at i, whose opening quote has m bytes. sure is false where its end is too far.
func (r *repairer) pastQuoted(i, m int) (next int, sure bool) {
	open, _ := r.sym(i)
	for k := i + m; k < i+maxLook; {
		c, n := r.sym(k)
		switch {
		case n == 0:
			return k, false
		case c == open || open == symDouble && c == '"' || open == symSingle && c == '\'':
			return k + n, true
		case c == '\\':
			n++
		}
		k += n
	}
	return i + maxLook, false
}

// keyAt says whether the quotes at i hold a key.
func (r *repairer) keyAt(i, m int, odd bool) bool {
	k, sure := r.pastQuoted(i, m)
	if !sure {
		return true
	}
	j, _ := r.skip(k)
	c, _ := r.sym(j)
	switch c {
	case 0, ':', '=', ' ':
		return true
	case '{', '[', '"', '-':
		return !odd // the colon is missing
	case ',', '}':
		return !odd // the value is missing
	}
	return !odd && c >= '0' && c <= '9'
}

// elementAt says whether the quotes at i hold a whole element; loose, that the comma behind it may be missing.
func (r *repairer) elementAt(i, m int, loose bool) bool {
	k, sure := r.pastQuoted(i, m)
	if !sure {
		return true
	}
	j, _ := r.skip(k)
	switch c, _ := r.sym(j); c {
	case 0, ',', ']', '}', ' ':
		return true
	case '{', '[', '"':
		return loose
	}
	return false
}

// plainElementAt says whether a token at i is a whole element.
func (r *repairer) plainElementAt(i int, odd bool) bool {
	k := i
	for k < i+maxLook {
		c, n := r.sym(k)
		if !isTokenByte(c) && c != symOther {
			break
		}
		k += max(n, 1)
	}
	if k >= i+maxLook {
		return true
	}
	j, _ := r.skip(k)
	c, _ := r.sym(j)
	if c != 0 && c != ',' && c != ']' && c != '}' && c != ' ' {
		return false
	}
	if k > len(r.b) {
		return true
	}
	_, _, ok := r.tokenValue(r.b[i:min(k, len(r.b))], true)
	return ok || !odd
}

// restOfKey says whether the text at i goes on to a quote and a colon: it is the inside of a key.
func (r *repairer) restOfKey(i int) bool {
	for k := i; k < i+maxLook; k++ {
		switch c := r.at(k); c {
		case '"':
			if k == i {
				return false
			}
			j, _ := r.skip(k + 1)
			return r.at(j) == ':'
		case 0, '\n', '{', '}', '[', ']', ':', '\\':
			return false
		}
	}
	return false
}

// keyQuote decides what the quote at i inside a key is.
func (r *repairer) keyQuote(start, i, n int, clean bool) (int, bool) {
	if j := i + n; clean && j < len(r.b) && r.b[j] == ':' { // nearly always
		r.give(start, i, clean)
		if r.p.err == nil {
			r.endKey()
		}
		return j, true
	}
	end := r.colonFollows(i + n)
	if at := r.colonBefore(start, i); !end && !r.short && at >= 0 && i-at <= maxLook && blank(r.b[at+1:i]) {
		return r.endKeyAt(start, at, clean) // "age : "10"
	}
	end = end || r.keyEnds(i+n)
	if r.short {
		return r.pauseKey(start, i, clean)
	}
	// A colon before the quote may be the key's own, when the closing quote was left out.
	if !end && !r.keyKnown {
		if at := r.colonBefore(start, i); at >= 0 && i-at <= maxLook {
			return r.endKeyAt(start, at, clean)
		}
	}
	r.give(start, i, clean)
	if r.p.err != nil {
		return i, false
	}
	if !end {
		r.fix(fixInner)
		r.inner++
		r.p.carry = append(r.p.carry, '\\', '"')
		return i + n, true
	}
	r.endKey()
	return i + n, true
}

// endKeyAt ends a key whose closing quote is missing before the colon at i.
func (r *repairer) endKeyAt(start, i int, clean bool) (int, bool) {
	r.fix(fixMissQuote)
	r.give(start, i, clean)
	if r.p.err != nil {
		return i, false
	}
	r.p.carry = bytes.TrimRight(r.p.carry, " ")
	r.endKey()
	return i, true
}

func blank(b []byte) bool { return len(bytes.Trim(b, " \t")) == 0 }

// pauseKey waits inside a key. What may be its colon waits too.
func (r *repairer) pauseKey(start, stop int, clean bool) (int, bool) {
	if at := r.colonBefore(start, stop); at >= 0 && !r.keyKnown {
		if stop-at <= maxLook {
			stop = at
		} else {
			r.keyKnown = true
		}
	}
	return r.give(start, stop, clean), false
}

// colonBefore is where the first colon of the key stands, from start on; -1 where there is none.
func (r *repairer) colonBefore(start, end int) int {
	if k := bytes.IndexByte(r.b[start:end], ':'); k >= 0 {
		return start + k
	}
	return -1
}

// keyEnds says whether a quote before i ends a key.
func (r *repairer) keyEnds(i int) bool {
	j, lineBreak := r.skip(i)
	c, n := r.sym(j)
	switch c {
	case 0, ':', '=', '{', '[', ',', '}', ']', '/', '#', '-':
		return true
	}
	if r.isQuote(c) {
		return j > i || r.inner%2 == 0 && r.colonFollows(j+n) // else the second one closes
	}
	if lineBreak || c >= '0' && c <= '9' && j > i {
		return true
	}
	// Text: either the quote was inside the key, or the text is junk before the colon.
	for k := j; k < j+maxLook; {
		c, n := r.sym(k)
		switch {
		case c == ':':
			return true
		case n == 0 || c == '\n' || c == ',' || c == '}':
			return true
		case c == '"' && r.colonFollows(k+n):
			return false
		}
		k += n
	}
	return true
}

func (r *repairer) colonFollows(i int) bool {
	j, _ := r.skip(i)
	c, _ := r.sym(j)
	return c == ':' || c == '=' || c == ' ' // more white space than is looked at
}

// keyCut is the end of the text inside a key, which is read to its end only for what is wrong in it.
func (r *repairer) keyCut(start, end int, clean bool) (int, bool) {
	r.give(start, end, clean)
	r.fix(fixCut)
	r.p.carry = r.p.carry[:0]
	r.state = rpKey
	return end, true
}

// give passes on the content r.b[start:end] and returns how far it came: an escape or a character that is not whole at
// the end of what is here waits.
func (r *repairer) give(start, end int, clean bool) int {
	if clean {
		r.piece(r.b[start:end])
		return end
	}
	return r.giveUnits(start, end, end == len(r.b) && !r.eof)
}

// giveUnits is give, unit by unit. open says that the last one may go on.
func (r *repairer) giveUnits(start, end int, open bool) int {
	b := r.b[:end]
	for i := start; i < end; {
		if plainByte[b[i]] {
			j := skipPlain(b, i)
			r.piece(b[i:j])
			i = j
			continue
		}
		c := b[i]
		switch {
		case c >= utf8.RuneSelf:
			if open && !utf8.FullRune(b[i:]) {
				return i
			}
			j := i
			for j < end && b[j] >= utf8.RuneSelf {
				_, n := utf8.DecodeRune(b[j:])
				if n == 1 {
					break
				}
				j += n
				if open && !utf8.FullRune(b[j:]) {
					break
				}
			}
			if j == i {
				r.fix(fixUTF8)
				r.piece(replacement)
				i++
				continue
			}
			r.piece(b[i:j])
			i = j
		case c == '\\':
			n, wait := r.escape(b[i:], open, end == len(r.b) && r.eof)
			if wait {
				return i
			}
			i += n
		case c == '"':
			r.piece(escapedQuote)
			i++
		default:
			r.fix(fixControl)
			r.mended = appendEscapedByte(r.mended[:0], c)
			r.pieceCopy(r.mended)
			i++
		}
	}
	return end
}

var (
	replacement   = []byte("\ufffd")
	escapedQuote  = []byte(`\"`)
	escapedEscape = []byte(`\\`)
)

// escape passes on the escape at the start of b, mended if need be, and says how long it is; wait says that it is not
// whole yet, cut that the text has ended.
func (r *repairer) escape(b []byte, open, cut bool) (n int, wait bool) {
	if len(b) == 1 && (open || cut) {
		return 1, open // at the end of the text it is dropped
	}
	var c byte
	if len(b) > 1 {
		c = b[1]
	}
	switch c {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		r.piece(b[:2])
		return 2, false
	case 'u':
		k := 2
		for k < 6 && k < len(b) && hexValue(b[k]) != 0xFF {
			k++
		}
		switch {
		case k == 6 && isHigh(hex4(b[2:])):
			// The other half belongs to it.
			m := 0
			for m < 6 && 6+m < len(b) && isLowHalf(b[6:7+m]) {
				m++
			}
			if m < 6 && 6+m == len(b) && open {
				return 0, true
			}
			if m < 6 {
				if 6+m == len(b) && cut {
					return 6 + m, false // half a pair is no character
				}
				m = 0
			}
			r.piece(b[:6+m])
			return 6 + m, false
		case k == 6:
			r.piece(b[:6])
			return 6, false
		case k == len(b) && open:
			return 0, true
		case k == len(b) && cut:
			return k, false
		}
	case 'x':
		if len(b) < 4 && open {
			return 0, true
		}
		if len(b) >= 4 && hexValue(b[2]) != 0xFF && hexValue(b[3]) != 0xFF {
			r.fix(fixEscape)
			r.mended = appendEscaped(r.mended[:0], utf8.AppendRune(nil, rune(hexValue(b[2])<<4|hexValue(b[3]))))
			r.pieceCopy(r.mended)
			return 4, false
		}
	case '\'', '`':
		r.fix(fixEscape)
		r.piece(b[1:2])
		return 2, false
	case '\n', '\r':
		r.fix(fixEscape)
		return 1, false // the line break is content
	}
	// A backslash that was meant as one.
	r.fix(fixEscape)
	r.piece(escapedEscape)
	return 1, false
}

// isLowHalf says whether b is the beginning of an escape of a low surrogate.
func isLowHalf(b []byte) bool {
	switch k := len(b) - 1; k {
	case 0:
		return b[k] == '\\'
	case 1:
		return b[k] == 'u'
	case 2:
		return b[k]|0x20 == 'd'
	case 3:
		return hexValue(b[k]) >= 0xC && hexValue(b[k]) <= 0xF
	default:
		return hexValue(b[k]) != 0xFF
	}
}

// piece adds to what goes out for the open string, key or prose. Pieces of one chunk become one delta.
func (r *repairer) piece(b []byte) {
	switch {
	case len(b) == 0:
	case r.p.inKey && !r.prose:
		if r.keyRoom(len(b)) {
			r.p.carry = append(r.p.carry, b...)
		}
	case r.out == nil:
		r.out = b
	case !r.owned:
		if n := len(r.out); cap(r.out) > n && &r.out[:n+1][n] == &b[0] {
			r.out = r.out[:n+len(b)] // b goes on where out ends: nothing was mended between them
			return
		}
		r.outBuf = append(append(r.outBuf[:0], r.out...), b...)
		r.out, r.owned = r.outBuf, true
	default:
		r.outBuf = append(r.outBuf, b...)
		r.out = r.outBuf
	}
}

// pieceCopy is piece for bytes that do not last.
func (r *repairer) pieceCopy(b []byte) {
	if r.out == nil && !(r.p.inKey && !r.prose) {
		r.outBuf = append(r.outBuf[:0], b...)
		r.out, r.owned = r.outBuf, true
		return
	}
	r.piece(b)
}

// flush gives out the pieces.
func (r *repairer) flush() {
	if r.out == nil {
		return
	}
	out := r.out
	r.out, r.owned = nil, false
	if !r.prose {
		r.p.content(out)
		return
	}
	r.said = true
	if r.p.h.Delta != nil {
		r.p.h.Delta(Delta{URI: r.prosePath, Op: Append, Value: out})
	}
}

// stepBare reads more of a string value without quotes.
func (r *repairer) stepBare(i int) (int, bool) {
	start := i
	solid := start // behind the last byte that is not white space
	for i < len(r.b) {
		c, n := r.sym(i)
		if r.short {
			break
		}
		ends, skip := false, 0
		switch {
		case c == '\n' || c == '\r':
			ends = true
		case isBlank(c):
			if i-solid > maxLook {
				solid = i // too much to wait for
			}
			i += n
			continue
		case c == '\\':
			if d := r.at(i + 1); d > ' ' && d < utf8.RuneSelf {
				n = 2 // an escape, or nearly
			}
		case c == '{' || c == '[' || c == '(':
			if r.nesting < 100 {
				r.nesting++
			}
		case c == '}' || c == ']' || c == ')':
			if r.nesting > 0 {
				r.nesting--
			} else {
				ends = c != ')' && r.enclosing(c-2) >= 0
			}
		case c == ',' || c == ';':
			ends = r.bareEnds(i, n, c)
		case r.isQuote(c) && c != '\'' && c != '`' && c != symSingle:
			v := r.judge(i, n, false)
			if r.short {
				break
			}
			if v == isClose || v == isExtra {
				ends, skip = true, n
			} else {
				r.inner++
			}
		case c == '/' && i > start && isBlank(r.b[i-1]) && i > solid:
			d := r.at(i + 1)
			ends = d == '/' || d == '*'
		}
		if r.short {
			break
		}
		if ends {
			r.give(start, solid, false)
			r.endText()
			if skip > 0 {
				r.fix(fixMissQuote)
			}
			return i + skip, true
		}
		i += n
		solid = i
	}
	if r.eof {
		r.give(start, solid, false)
		r.endText()
		return len(r.b), true
	}
	return r.giveUnits(start, solid, solid == len(r.b) || r.b[solid] == '\\'), false
}

// bareEnds says whether the comma at i ends a string without quotes.
func (r *repairer) bareEnds(i, n int, c byte) bool {
	if r.inside() == '[' {
		return r.nesting == 0 && c == ','
	}
	j, lineBreak := r.skip(i + n)
	d, m := r.sym(j)
	switch {
	case lineBreak || d == 0 || d == '}' || d == ',':
		return true
	case r.isQuote(d):
		return r.keyAt(j, m, false)
	}
	return r.bareKeyAt(j)
}

// startEscaped turns the rest of the text around when a whole document was written as a string's content.
func (r *repairer) startEscaped(i int) bool {
	if r.unescape || len(r.p.stack) > 2 || len(r.p.stack) == 0 || !r.fresh {
		return false
	}
	r.unescape = true
	r.fix(fixEscapedDoc)
	r.unit = r.unit[:0]
	r.b = r.filterEscapes(nil, r.b[i:])
	return true
}

// filterEscapes appends text to dst with one level of escapes taken away; an escape that is not whole waits in unit.
func (r *repairer) filterEscapes(dst, text []byte) []byte {
	for _, c := range text {
		if len(r.unit) == 0 {
			if c == '\\' {
				r.unit = append(r.unit, c)
			} else {
				dst = append(dst, c)
			}
			continue
		}
		r.unit = append(r.unit, c)
		u := r.unit
		switch {
		case u[1] != 'u':
			if bytes.IndexByte([]byte(`"\/bfnrt`), u[1]) >= 0 {
				dst = appendUnescaped(dst, u)
			} else {
				dst = append(dst, u...)
			}
		case len(u) == 2:
			continue
		case hexValue(c) == 0xFF:
			dst = append(dst, u...)
		case len(u) < 6:
			continue
		case isHigh(hex4(u[2:])) || isLow(hex4(u[2:])):
			dst = append(dst, u...) // the escape means the same one level down
		default:
			dst = appendUnescaped(dst, u)
		}
		r.unit = r.unit[:0]
	}
	return dst
}
