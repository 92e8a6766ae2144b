package jsonuri

import "unicode/utf8"

// give passes on the content r.b[start:end] and returns how far it came: an escape or a character that is not whole at
// the end of what is here waits.
func (r *repairer) give(start, end int, clean bool) int {
	if end > start {
		r.last, r.given = r.b[end-1], r.base+int64(end)
	}
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
		case (c == '\n' || c == '\r') && r.p.inKey && !r.prose: // RP-13
			r.fix(fixControl)
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

// maxMember is how long an element may be that turns out to be a key.
const maxMember = 64

// piece adds to what goes out for the open string, key or prose. Pieces of one chunk become one delta.
func (r *repairer) piece(b []byte) {
	r.note(b)
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

// note keeps an element that may turn out to be a key.
func (r *repairer) note(b []byte) {
	if r.maybeKey && !r.prose {
		if r.maybeKey = len(r.p.carry)+len(b) <= maxMember; r.maybeKey {
			r.p.carry = append(r.p.carry, b...)
		}
	}
}

// pieceCopy is piece for bytes that do not last.
func (r *repairer) pieceCopy(b []byte) {
	if r.out == nil && !(r.p.inKey && !r.prose) {
		r.note(b)
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
