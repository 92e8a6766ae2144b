package jsonuri

import "bytes"

// startEscaped turns the rest of the text around when a whole document was written as a string's content.
func (r *repairer) startEscaped(i int) bool {
	if r.unescape || len(r.p.stack) > 2 || len(r.p.stack) == 0 || !r.fresh || !r.escapedAt(i) || r.short {
		return false
	}
	r.unescape = true
	r.fix(fixEscapedDoc)
	r.unit = r.unit[:0]
	r.b = r.filterEscapes(nil, r.b[i:])
	return true
}

// escapedAt says whether a quote or white space of an escaped document stands at i.
func (r *repairer) escapedAt(i int) bool {
	if r.at(i) != '\\' {
		return false
	}
	c := r.at(i + 1)
	return c == '"' || c == 'n' || c == 'r' || c == 't'
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
