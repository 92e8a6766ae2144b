package jsonuri

import "bytes"

// ownColon is where the first colon of the key stands, from start on, if it is not known to be content; else -1. It may be the
// one behind the key, whose closing quote was left out.
func (r *repairer) ownColon(start, end int) int {
	if r.keyKnown {
		return -1
	}
	if k := bytes.IndexByte(r.b[start:end], ':'); k >= 0 && end-start-k <= maxLook && !bytes.HasPrefix(r.b[start+k:end], []byte("://")) {
		return start + k
	}
	return -1
}

// decideKeyQuote says what the quote at i inside a key is, of n bytes.
func (r *repairer) decideKeyQuote(start, i, n int) act {
	end := act{do: (*repairer).endKey, to: i, n: n}
	if j := i + n; j < len(r.b) && r.b[j] == ':' || r.colonAt(j) { // the former nearly always
		return end
	}
	if colon := r.ownColon(start, i); colon >= 0 { // RP-13: "age : "10", or "age : 10, "b"
		return act{do: (*repairer).endOpenKey, to: colon, fix: fixMissQuote}
	}
	if r.keyEnds(i + n) {
		if r.isElement(i + n) {
			end.do, end.fix = (*repairer).endAsElement, fixMissBracket
		}
		return end
	}
	return act{do: (*repairer).innerQuote, to: i, n: n, fix: fixInner}
}

// keyEnds says whether the quote before i ends a key, although no colon follows it.
func (r *repairer) keyEnds(i int) bool {
	x := r.next(i)
	switch x.c {
	case 0, '{', '[', ',', '}', ']', '/', '#', '-':
		return true
	}
	if isQuote(x.c) {
		return x.space || r.inner%2 == 0
	}
	if x.line || x.space && isDigit(x.c) {
		return true
	}
	// Text: either the quote was inside the key, or the text is junk before the colon.
	for k := x.at; k < x.at+maxLook; k++ {
		c := byte(0)
		if c, k = r.find(k, ":\n,}\""); c != '"' {
			break
		}
		if r.colonAt(k + 1) {
			return false
		}
	}
	return true
}

// endKey takes what was read of a key as the whole.
func (r *repairer) endKey(i int) int { return r.beginMember(r.p.carry, i+r.a.n) }

// endOpenKey ends a key whose closing quote is missing before the sign at i.
func (r *repairer) endOpenKey(i int) int {
	p := r.p
	p.carry = bytes.TrimRight(p.carry, " ")
	if r.quote == '"' {
		for _, q := range [...]string{"”", "“", "’"} { // "name”: "x"
			p.carry = bytes.TrimSuffix(p.carry, []byte(q))
		}
	}
	return r.endKey(i)
}

// cutKey is the end of the text inside a key (RP-07).
func (r *repairer) cutKey(i int) int {
	if len(r.p.carry) > 0 {
		return r.endOpenKey(i)
	}
	r.fix(fixCut)
	return r.dropKey(i)
}

// decideBareKey reads a key without quotes.
func (r *repairer) decideBareKey(i int) act {
	start := i
	var c byte
	n := 0
	for {
		if c, n = r.sym(i); r.short {
			return act{to: i}
		}
		if n == 0 || isQuote(c) || bytes.IndexByte([]byte(":,}{[]\n\r;="), c) >= 0 {
			break
		}
		i += n
	}
	r.token = append(append(r.token[:0], r.p.carry...), r.b[start:i]...)
	text := bytes.TrimSpace(r.token)
	drop := act{do: (*repairer).dropKey, to: i, fix: fixJunk}
	end := act{do: (*repairer).endOpenKey, to: i, fix: fixBareKey}
	x := r.next(i)
	switch {
	case len(text) == 0 && n == 0:
		return act{do: (*repairer).finish, to: i}
	case isQuote(c):
		y := r.next(i + n)
		if y.c == c && !y.space && r.colonAt(y.end) { // RP-02: age"" : 10
			end.n, end.fix = y.end-i, fixExtraQuote
			return end
		}
		if y.c != ':' && len(text) > 0 && r.quotedKey(x) { // RP-13: a word between members
			return drop
		}
		if end.fix = fixMissQuote; y.c == ':' || y.c == '=' { // RP-02: age" : 10
			end.n = n
		}
		return end
	case len(text) == 0:
		drop.n = n
		return drop
	case !r.fresh && !r.comma && c == '}' && !isDigit(text[0]), (c == '\n' || c == '\r') && r.quotedKey(x):
		return drop // RP-13: a word behind the last member, or between two
	}
	return end
}

func (r *repairer) dropKey(i int) int {
	r.p.carry, r.p.inKey = r.p.carry[:0], false
	r.state = rpKey
	return i + r.a.n
}

// isElement says whether what was read as a key up to i is an element of the array around the object, whose closing brace is
// missing: neither a colon nor another member follows (RP-13).
func (r *repairer) isElement(i int) bool {
	if r.fresh || r.kind(len(r.p.stack)-2) != '[' {
		return false
	}
	c := r.next(i).c
	return c == ']' || c == ',' && r.then(i) == thenValue
}

// endAsElement ends the object, and makes what was read as a key an element of the array around it.
func (r *repairer) endAsElement(i int) int {
	p := r.p
	p.close()
	p.inKey = false
	r.beginValue()
	p.openString()
	if len(p.carry) > 0 {
		p.content(p.carry)
	}
	return r.endText(i)
}
