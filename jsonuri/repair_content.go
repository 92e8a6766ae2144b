package jsonuri

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

var (
	replacement   = []byte("\ufffd")
	escapedQuote  = []byte(`\"`)
	escapedEscape = []byte(`\\`)
)

// give passes on the content b[start:end] and returns how far it came: an escape or a character that is not whole at the end of
// what is here waits.
func (r *repairer) give(start, end int, clean bool) int {
	if clean && end > start {
		r.piece(r.b[start:end])
		r.given(r.b[start:end])
		return end
	}
	open := r.short // what follows is not decided, so the last one may go on
	b := r.b[:end]
	i := start
	for i < end {
		if plainByte[b[i]] {
			j := skipPlain(b, i)
			r.piece(b[i:j])
			i = j
			continue
		}
		c := b[i]
		switch {
		case c >= utf8.RuneSelf:
			j := i
			for j < end && b[j] >= utf8.RuneSelf && (!open || utf8.FullRune(b[j:])) {
				_, n := utf8.DecodeRune(b[j:])
				if n == 1 {
					break
				}
				j += n
			}
			switch {
			case j > i:
				r.piece(b[i:j])
				i = j
			case open && !utf8.FullRune(b[i:]):
				r.given(b[start:i])
				return i
			default:
				r.fix(fixUTF8)
				r.piece(replacement)
				i++
			}
		case c == '\\':
			n, whole := r.escape(b[i:], open, end == len(r.b) && r.eof)
			if !whole {
				r.given(b[start:i])
				return i
			}
			i += n
		case c == '"':
			r.piece(escapedQuote)
			i++
		case (c == '\n' || c == '\r') && r.p.inKey: // RP-13
			r.fix(fixControl)
			i++
		default: // RP-03
			r.fix(fixControl)
			r.mended = appendEscapedByte(r.mended[:0], c)
			r.piece(r.mended)
			i++
		}
	}
	r.given(b[start:i])
	return i
}

// given notes what was given out last.
func (r *repairer) given(b []byte) {
	r.keyKnown = r.keyKnown || r.p.inKey && bytes.IndexByte(b, ':') >= 0
	if len(b) == 0 || r.quote != '"' {
		return
	}
	r.last = b[len(b)-1]
	run, all := runAtEnd(b)
	r.longRun = len(b)-run > maxLook || all && r.longRun
}

// escape passes on the escape at the start of b, mended if need be (RP-03), and says how long it is; not whole where it may go
// on. cut says that the text has ended.
func (r *repairer) escape(b []byte, open, cut bool) (n int, whole bool) {
	if len(b) == 1 && (open || cut) {
		return 1, cut // at the end of the text it is dropped (RP-07)
	}
	var c byte
	if len(b) > 1 {
		c = b[1]
	}
	switch c {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		r.piece(b[:2])
		return 2, true
	case 'u':
		k := hexDigitsIn(b, 2, 6)
		if k == len(b) && k < 6 && (open || cut) {
			return k, cut
		}
		if k < 6 {
			break
		}
		if isHigh(hex4(b[2:])) && len(b) < 12 { // the other half belongs to it
			if open {
				return 0, false
			}
			if cut && strings.HasPrefix(`\u`, string(b[6:min(8, len(b))])) {
				return len(b), true // half a pair is no character
			}
		}
		r.piece(b[:k])
		return k, true
	case 'x':
		if len(b) < 4 && open {
			return 0, false
		}
		if hexDigitsIn(b, 2, 4) == 4 {
			r.fix(fixEscape)
			r.mended = appendEscaped(r.mended[:0], utf8.AppendRune(nil, rune(hexValue(b[2])<<4|hexValue(b[3]))))
			r.piece(r.mended)
			return 4, true
		}
	case '\'', '`':
		r.fix(fixEscape)
		r.piece(b[1:2])
		return 2, true
	case '\n', '\r':
		r.fix(fixEscape)
		return 1, true // the line break is content
	}
	// A backslash that was meant as one.
	r.fix(fixEscape)
	r.piece(escapedEscape)
	return 1, true
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
