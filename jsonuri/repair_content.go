package jsonuri

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

var replacement = []byte("\ufffd")

// give passes on the content b[start:end] and returns how far it came: an escape or a character that is not whole at the end of
// what is here waits.
func (r *repairer) give(start, end int) int {
	open := r.short                       // what follows is not decided, so the last one may go on
	cut := end == len(r.b) && r.eof       // nothing follows
	b, from, i := r.b[:end], start, start // what is before from was passed on
	for i < end {
		if plainByte[b[i]] {
			i = skipPlain(b, i)
			continue
		}
		n, want := scanUnit(b[i:], !open && !cut)
		if n > 0 && want == "" {
			i += n
			continue
		}
		if n == 0 && want == "" && open || open && i+4 > end && b[i] == '\\' && b[i+1] == 'x' {
			break
		}
		r.piece(b[from:i])
		if n == 0 && want == "" && cut && b[i] == '\\' { // RP-07
			i = end
		} else {
			i += r.mend(b[i:])
		}
		from = i
	}
	r.piece(b[from:i])
	r.given(b[start:i])
	return i
}

// mend passes on what b begins with, which cannot stand in a string, as what was meant (RP-03), and returns how long it is.
func (r *repairer) mend(b []byte) int {
	n, c := 1, b[0]
	switch {
	case c >= utf8.RuneSelf: // JS-10
		r.fix(fixUTF8)
		r.piece(replacement)
		return 1
	case c < ' ':
		r.fix(fixControl)
	case c == '\\':
		r.fix(fixEscape)
		if len(b) > 1 && strings.IndexByte("'`\r\n", b[1]) >= 0 {
			n, c = 2, b[1]
		} else if len(b) > 3 && b[1] == 'x' && hexDigitsIn(b, 2, 4) == 4 {
			r.mended = AppendEscaped(r.mended[:0], utf8.AppendRune(nil, rune(hexValue(b[2])<<4|hexValue(b[3]))))
			r.piece(r.mended)
			return 4
		}
	}
	switch {
	case c == '\'' || c == '`':
		r.piece(b[n-1 : n])
	case (c == '\n' || c == '\r') && r.p.inKey: // RP-13
	default:
		r.mended = appendEscapedByte(r.mended[:0], c)
		r.piece(r.mended)
	}
	return n
}

// given notes what was given out last.
func (r *repairer) given(b []byte) {
	r.keyKnown = r.keyKnown || r.p.inKey && bytes.IndexByte(b, ':') >= 0
	if len(b) == 0 || r.quote != '"' {
		return
	}
	r.nesting = r.nestingAfter(b)
	r.last = b[len(b)-1]
	run, all := runAtEnd(b)
	r.longRun = len(b)-run > maxLook || all && r.longRun
}

// maxMember is how long an element may be that turns out to be a key.
const maxMember = 64

// piece adds to what goes out for the open string, key or prose. Pieces of one chunk become one delta.
func (r *repairer) piece(b []byte) {
	p := r.p
	if !p.inKey {
		r.note(b)
		r.out = append(r.out, b...)
		return
	}
	if len(p.carry)+len(b) > p.maxKey {
		p.err = &LimitError{Limit: "key", Max: int64(p.maxKey), Offset: r.keyFrom + int64(p.maxKey)}
		return
	}
	p.carry = append(p.carry, b...)
}

// note keeps an element that may turn out to be a key.
func (r *repairer) note(b []byte) {
	if r.maybeKey {
		if r.maybeKey = len(r.p.carry)+len(b) <= maxMember; r.maybeKey {
			r.p.carry = append(r.p.carry, b...)
		}
	}
}

// flush gives out the pieces.
func (r *repairer) flush() {
	if len(r.out) == 0 {
		return
	}
	if r.state != rpProse {
		r.p.content(r.out)
	} else if r.said = true; r.p.h.Delta != nil {
		r.p.h.Delta(Delta{URI: r.prosePath, Op: Append, Value: r.out})
	}
	r.out = r.out[:0]
}
