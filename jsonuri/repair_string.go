package jsonuri

import (
	"bytes"
	"unicode/utf8"
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
		if c == '\n' && r.quote == quDouble && !r.p.inKey && r.inside() == '[' {
			run := r.runBefore(start, i)
			ends := run < i && bytes.IndexByte(b[run:i], ',') >= 0 && r.valueLine(i)
			if r.short {
				return r.pause(start, min(run, i), clean)
			}
			if ends {
				r.fix(fixMissQuote)
				r.give(start, run, clean)
				r.endText()
				return run, true
			}
		}
		n := r.closing(i)
		if r.short {
			return r.pause(start, i, clean)
		}
		if n == 0 && c == '"' && r.p.inKey && r.colonFollows(i+1) { // RP-13: 'name"
			n = 1
		}
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
		if v == isInner && run < i && r.inner%2 == 0 && r.inside() == '[' && bytes.IndexByte(b[run:i], ',') >= 0 && bytes.IndexByte(b[run:i], '\n') >= 0 {
			v = isOpener // RP-12: the line before ends with a comma, and this one begins with the quote
		}
		if r.short {
			return r.pause(start, min(run, i), clean)
		}
		switch v {
		case isInner:
			r.fix(fixInner)
			r.inner++
			r.give(start, i, clean)
			if r.quote == quDouble && r.given == r.base+int64(i) && (r.last == '{' || r.last == '[') {
				r.state, r.embedded, r.inner = rpEmbedded, 1, 0
			}
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
		case isMember:
			r.give(start, i, clean)
			if r.maybeKey {
				return i + n, r.becomeMember(i)
			}
			r.endText() // it is too long for a key
			r.wasText = true
			return i + n, true
		case isJoin:
			r.fix(fixJoin)
			r.give(start, i, clean)
			k, _ := r.skip(i + n)
			k, _ = r.skip(k + 1)
			q, m := r.joined(k)
			r.quote, r.inner, r.longRun, r.plain = q, 0, false, q == quDouble && !r.unescape
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

// stepEmbedded reads JSON or code in the string whose quotes have no escapes, up to the bracket that ends it (RP-11).
func (r *repairer) stepEmbedded(i int) (int, bool) {
	start := i
	for ; i < len(r.b); i++ {
		switch r.b[i] {
		case '\\':
			i++
		case '"':
			r.fix(fixInner) // it is escaped as it is given out
		case '{', '[':
			r.embedded++
		case '}', ']':
			if r.embedded--; r.embedded == 0 {
				r.state = rpString
				r.giveUnits(start, i+1, false)
				return i + 1, true
			}
		}
	}
	if r.eof {
		r.fix(fixCut)
		r.giveUnits(start, len(r.b), false)
		r.endText()
		return len(r.b), true
	}
	return r.giveUnits(start, len(r.b), true), false
}

// valueLine says whether the next line is a number or literal, alone.
func (r *repairer) valueLine(i int) bool {
	j, _ := r.skip(i)
	return isTokenByte(r.at(j)) && r.plainElementAt(j, true)
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

// becomeMember makes the string that ends at i, an element, the key of an object whose opening brace is missing (RP-12).
func (r *repairer) becomeMember(i int) bool {
	p := r.p
	r.flush()
	key := p.carry
	r.maybeKey = false
	p.dropString()
	if !p.open('{') {
		p.err = &LimitError{Limit: "depth", Max: int64(p.depth), Offset: r.base + int64(i)}
		return false
	}
	r.fix(fixMissBracket)
	p.top().stray = implied
	p.carry = key
	r.endKey()
	return true
}

// joined gives the quotes of the part behind a plus.
func (r *repairer) joined(k int) (quote, int) {
	c, m := r.sym(k)
	return r.opening(k, c, m)
}

// endText ends the open string value.
func (r *repairer) endText() {
	r.flush()
	r.maybeKey = false
	r.p.closeString()
	r.goOn()
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
	for ; run < end; run++ { // brackets before may belong to the text
		if r.closesAll(run) {
			r.fix(fixMissQuote)
			r.give(start, run, clean)
			r.endText()
			return run, true
		}
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
