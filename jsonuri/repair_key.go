package jsonuri

import (
	"bytes"
)

// stepKey reads a key or the end of the object.
func (r *repairer) stepKey(i int) (int, bool) {
	c, n, i, wait := r.peek(i)
	if wait {
		return i, false
	}
	r.keyFrom = r.base + int64(i)
	switch c {
	case 0:
		return r.finish(i)
	case '}', ']', ')':
		if c == ')' {
			r.fix(fixJunk)
			return i + n, true
		}
		return r.closeBracket(i, n, c)
	case ',', ';':
		r.anotherComma()
		return i + n, true
	case '[', ':':
		if c == '[' && r.elementBegins() {
			return i, true
		}
		// A key is missing, or the colon: the value stands for itself.
		r.fix(fixMissKey)
		r.p.member(nil, false)
		r.state = rpColon
		return i, true
	case '{':
		if r.elementBegins() {
			return i, true
		}
		// {{"a": 1}}: from a template whose brackets are doubled.
		r.fix(fixMoreBracket)
		if r.p.top().stray&strays < strays {
			r.p.top().stray++
		}
		return i + n, true
	case '.', symDots:
		if n, ok := r.dots(i, c, n); n > 0 && ok && !r.short {
			r.leftOut()
			return i + n, true
		}
	case '/', '#':
		if n := r.comment(i, c); n > 0 && !r.short {
			return i + n, true
		}
	case '`':
		if r.has(i, "```") && !r.short {
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
	if r.isQuote(c) {
		q, n := r.opening(i, c, n)
		if q == quTriple || q == quTripleSingle {
			q, n = q-quTriple+quDouble, 1
		}
		// ""name": one quote too many.
		d, m := r.sym(i + n)
		if d == c {
			j, _ := r.skip(i + n + m)
			e, _ := r.sym(j)
			if r.short {
				return i, false
			}
			if e != ':' && e != '=' && e != 0 && e != ',' && e != '}' && j == i+n+m {
				r.fix(fixExtraQuote)
				r.openText(q, true)
				return i + n + m, true
			}
		}
		if r.short {
			return i, false
		}
		r.openText(q, true)
		return i + n, true
	}
	r.openText(noQuote, true)
	return i, true
}

// elementBegins ends the object where another element of the array around it begins: its closing brace is missing (RP-13).
func (r *repairer) elementBegins() bool {
	if r.fresh || len(r.p.stack) < 2 || r.p.stack[len(r.p.stack)-2].kind != '[' {
		return false
	}
	r.fix(fixMissBracket)
	r.closeTo(len(r.p.stack) - 1)
	r.state = rpValue
	return true
}

// keyRoom says whether more may be added to the key; if not it is an error.
func (r *repairer) keyRoom(n int) bool {
	p := r.p
	if len(p.carry)+n > p.maxKey {
		p.err = &LimitError{Limit: "key", Max: int64(p.maxKey), Offset: r.keyFrom + int64(p.maxKey)}
		return false
	}
	return true
}

// endKey takes what was read of a key as the whole.
func (r *repairer) endKey() {
	p := r.p
	p.member(p.carry, bytes.IndexByte(p.carry, '\\') >= 0)
	p.carry = p.carry[:0]
	r.fresh, r.comma = false, false
	r.state = rpColon
}

// stepColon reads the colon after a key.
func (r *repairer) stepColon(i int) (int, bool) {
	c, n, i, wait := r.peek(i)
	if wait {
		return i, false
	}
	switch c {
	case 0:
		r.null(fixCut)
		return r.finish(i)
	case ':', '=':
		if r.b[i] != ':' {
			if c == '=' && r.at(i+n) == '>' {
				n++
			}
			if r.short {
				return i, false
			}
			r.fix(fixColon)
		}
		r.state = rpValue
		return i + n, true
	case ',', '}', ';':
		r.null(fixMissValue)
		return i, true
	case '/', '#':
		n := r.comment(i, c)
		if r.short {
			return i, false
		}
		if n > 0 {
			return i + n, true
		}
	case '"', '\'', symDouble, symSingle:
		// name"": a quote too many, if the colon is behind it.
		j, _ := r.skip(i + n)
		d, _ := r.sym(j)
		if r.short {
			return i, false
		}
		if d == ':' {
			r.fix(fixExtraQuote)
			return i + n, true
		}
	case '-':
		if r.at(i+1) == '>' {
			r.fix(fixColon)
			r.state = rpValue
			return i + 2, true
		}
		if r.short {
			return i, false
		}
	}
	if r.junkBeforeColon(i) && !r.short {
		r.fix(fixKeyJunk)
		_, n := r.sym(i)
		for {
			c, _ := r.sym(i + n)
			if c == ':' {
				return i + n, true
			}
			_, m := r.sym(i + n)
			n += m
		}
	}
	if r.short {
		return i, false
	}
	r.fix(fixMissColon)
	r.state = rpValue
	return i, true
}

// junkBeforeColon says whether a colon stands on the same line, with nothing between that could be a value.
func (r *repairer) junkBeforeColon(i int) bool {
	for k := i; k < i+maxLook; {
		c, n := r.sym(k)
		switch {
		case c == ':':
			return true
		case n == 0, c == '\n', c == '{', c == '[', c == ',', c == '}', c == ']', r.isQuote(c), c >= '0' && c <= '9':
			return false
		}
		k += n
	}
	return false
}

// stepBareKey reads a key without quotes.
func (r *repairer) stepBareKey(i int) (int, bool) {
	p := r.p
	for i < len(r.b) {
		c, n := r.sym(i)
		if r.short {
			return i, false
		}
		switch {
		case c == ':' || c == ',' || c == '}' || c == '{' || c == '[' || c == ']' || c == '\n' || c == '\r' || c == ';':
			return r.endBareKey(i)
		case c == '=':
			return r.endBareKey(i)
		case r.isQuote(c):
			j, _ := r.skip(i + n)
			d, _ := r.sym(j)
			k, sure := r.pastQuoted(i, n)
			key := sure && len(p.carry) > 0 && d != ':' && r.colonFollows(k)
			if r.short {
				return i, false
			}
			if key { // RP-13: a word between members
				r.fix(fixJunk)
				p.carry = p.carry[:0]
				r.state = rpKey
				return i, true
			}
			r.fix(fixMissQuote)
			p.carry = bytes.TrimRight(p.carry, " ")
			r.endKey()
			if d == ':' || d == '=' {
				return i + n, true // age" : 10
			}
			return i, true
		}
		if !r.keyRoom(n) {
			return i, false
		}
		if c == '\t' {
			p.carry = append(p.carry, ' ')
		} else {
			p.carry = appendEscaped(p.carry, r.b[i:i+n])
		}
		i += n
	}
	if r.eof {
		if len(p.carry) == 0 {
			return r.finish(i)
		}
		return r.endBareKey(i)
	}
	return i, true
}

func (r *repairer) endBareKey(i int) (int, bool) {
	p := r.p
	p.carry = bytes.TrimRight(p.carry, " ")
	if len(p.carry) == 0 {
		r.state = rpKey
		if i < len(r.b) {
			_, n := r.sym(i)
			r.fix(fixJunk)
			return i + n, true
		}
		return r.finish(i)
	}
	element, junk := r.isElement(i), false
	if c, _ := r.sym(i); !r.fresh && !r.comma && c == '}' || (c == '\n' || c == '\r') && r.quotedKeyAt(i) {
		junk = true // RP-13: a word behind the last member, or between two
	}
	if r.short {
		return i, false
	}
	switch {
	case element && !junk:
		value, kind, ok := r.tokenValue(p.carry, false)
		if !ok {
			r.fix(fixBare)
			r.endAsElement()
			return i, true
		}
		value = append([]byte(nil), value...)
		p.carry, p.inKey = p.carry[:0], false
		r.fix(fixMissBracket)
		if kind != "" {
			r.fix(kind)
		}
		r.closeTo(len(p.stack) - 1)
		r.beginValue()
		p.scalar(value)
		r.goOn()
		return i, true
	case junk:
		r.fix(fixJunk)
		p.carry = p.carry[:0]
		r.state = rpKey
		return i, true
	}
	r.fix(fixBareKey)
	r.endKey()
	return i, true
}

// keyQuote decides what the quote at i inside a key is.
func (r *repairer) keyQuote(start, i, n int, clean bool) (int, bool) {
	if j := i + n; clean && j < len(r.b) && r.b[j] == ':' && r.quote == quDouble { // nearly always
		r.give(start, i, clean)
		if r.p.err == nil {
			r.endKey()
		}
		return j, true
	}
	end := r.colonFollows(i + n)
	if at := r.colonBefore(start, i); !end && !r.short && !r.keyKnown && at >= 0 && i-at <= maxLook && blank(r.b[at+1:i]) {
		return r.endKeyAt(start, at, clean) // "age : "10"
	}
	if at := r.colonBefore(start, i); !end && !r.short && !r.keyKnown && at >= 0 && i-at <= maxLook && valueBetween(r.b[at+1:i]) {
		return r.endKeyAt(start, at, clean) // "age : 10, "b"
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
		r.keyKnown = r.keyKnown || r.colonBefore(start, i) >= 0
		r.p.carry = append(r.p.carry, '\\', '"')
		return i + n, true
	}
	element := r.isElement(i + n)
	if r.short {
		return i, false
	}
	if element {
		r.endAsElement()
		return i + n, true
	}
	r.endKey()
	return i + n, true
}

// isElement says whether what was read as a key up to i is an element of the array around the object, whose closing brace is missing: neither
// a colon nor another member follows.
func (r *repairer) isElement(i int) bool {
	n := len(r.p.stack)
	if r.fresh || !r.comma || n < 2 || r.p.stack[n-2].kind != '[' {
		return false
	}
	j, _ := r.skip(i)
	c, _ := r.sym(j)
	return c == ']' || c == ',' && r.follows(i) == thenValue
}

// endAsElement ends the object, and makes what was read as a key an element of the array around it.
func (r *repairer) endAsElement() {
	p := r.p
	key := append(r.mended[:0], p.carry...)
	r.mended = key
	p.carry, p.inKey = p.carry[:0], false
	r.fix(fixMissBracket)
	r.closeTo(len(p.stack) - 1)
	r.beginValue()
	p.openString()
	if len(key) > 0 {
		p.content(key)
	}
	p.closeString()
	r.goOn()
}

// endKeyAt ends a key whose closing quote is missing before the colon at i.
func (r *repairer) endKeyAt(start, i int, clean bool) (int, bool) {
	r.fix(fixMissQuote)
	r.give(start, i, clean)
	if r.p.err != nil {
		return i, false
	}
	r.p.carry = bytes.TrimRight(r.p.carry, " ")
	if r.quote == quDouble {
		for _, q := range [...]string{"”", "“", "’"} { // "name”: "x"
			r.p.carry = bytes.TrimSuffix(r.p.carry, []byte(q))
		}
	}
	r.endKey()
	return i, true
}

func blank(b []byte) bool { return len(bytes.Trim(b, " \t")) == 0 }

// valueBetween says whether a text is that of a value which is not a string, or of the beginning of one, with signs of the structure behind it.
func valueBetween(b []byte) bool {
	last := byte(0)
	for len(b) > 0 {
		n := 0
		for n < len(b) && isTokenByte(b[n]) {
			n++
		}
		switch c := b[0]; {
		case n > 0:
			if token := string(b[:n]); !(c == '-' || c >= '0' && c <= '9') && token != "true" && token != "false" && token != "null" {
				return false
			}
			last, b = 'x', b[n:]
			continue
		case c == ',' || c == '{' || c == '[' || c == '}' || c == ']':
			last = c
		case !isBlank(c):
			return false
		}
		b = b[1:]
	}
	return last != 0 && last != 'x'
}

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

// quotedKeyAt says whether a whole key in quotes stands at i, with its colon.
func (r *repairer) quotedKeyAt(i int) bool {
	j, _ := r.skip(i)
	c, m := r.sym(j)
	if !r.isQuote(c) {
		return false
	}
	k, sure := r.pastQuoted(j, m)
	return sure && r.colonFollows(k)
}

// valueEnds says whether a comma or a closing brace follows.
func (r *repairer) valueEnds(i int) bool {
	j, _ := r.skip(i)
	c, _ := r.sym(j)
	return c == ',' || c == '}'
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
		if j > i || r.inner%2 == 1 {
			return j > i
		}
		k, sure := r.pastQuoted(j, n)
		return r.colonFollows(j+n) || sure && r.valueEnds(k) // else the second one closes
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

// keyCut is the end of the text inside a key (RP-07), unless its closing quote is missing before a colon.
func (r *repairer) keyCut(start, end int, clean bool) (int, bool) {
	if at := r.colonBefore(start, end); at >= 0 && !r.keyKnown && end-at <= maxLook {
		return r.endKeyAt(start, at, clean)
	}
	r.give(start, end, clean)
	if r.p.err != nil {
		return end, true
	}
	if len(r.p.carry) == 0 {
		r.fix(fixCut)
		r.state = rpKey
		return end, true
	}
	r.endKey()
	return end, true
}
