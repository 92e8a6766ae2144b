package jsonuri

// stepAfter reads what stands between a value and the next one.
func (r *repairer) stepAfter(i int) (int, bool) {
	c, n, i, wait := r.peek(i)
	if wait {
		return i, false
	}
	in := r.inside()
	next := rpKey
	if in == '[' {
		next = rpValue
	}
	switch c {
	case 0:
		return r.finish(i)
	case ',', ';', symDots:
		switch {
		case c == symDots:
			r.leftOut()
			return i + n, true
		case r.b[i] != ',':
			r.fix(fixComma)
		}
		r.state, r.comma, r.fresh, r.closed = next, true, false, 0
		return i + n, true
	case '}', ']':
		return r.closeBracket(i, n, c)
	case ')':
		if r.calls > 0 {
			r.calls--
		} else if in == '[' && r.p.top().stray&tuple != 0 {
			r.closeTo(len(r.p.stack) - 1)
		} else {
			r.fix(fixJunk)
		}
		return i + n, true
	case '/', '#':
		n := r.comment(i, c)
		if r.short {
			return i, false
		}
		if n > 0 {
			return i + n, true
		}
	case '+':
		if r.wasText {
			r.fix(fixJunk)
			return i + n, true
		}
	case '`':
		if r.has(i, "```") {
			return r.finish(i)
		}
		if r.short {
			return i, false
		}
	case '.':
		if r.has(i, "...") {
			r.fix(fixDots)
			return i + 3, true
		}
		if r.short {
			return i, false
		}
	case ':', '=', '>', '\\', '*', '|':
		r.fix(fixJunk)
		return i + n, true
	}
	if in == '[' && r.isQuote(c) && len(r.p.stack) > 1 && r.p.stack[len(r.p.stack)-2].kind == '{' {
		// A member of the object around it: the array was not closed.
		k, sure := r.pastQuoted(i, n)
		member := sure && r.colonFollows(k)
		if r.short {
			return i, false
		}
		if member {
			r.fix(fixMissBracket)
			r.closeTo(len(r.p.stack) - 1)
			return i, true
		}
	}
	if !r.fresh {
		r.fix(fixMissComma)
	}
	r.state = next
	return i, true
}

// closeBracket ends containers by the bracket c at i, which may not match.
func (r *repairer) closeBracket(i, n int, c byte) (int, bool) {
	p := r.p
	f := p.top()
	index := len(p.stack) - 1
	tooMany := r.closed == c && r.oneTooMany(i+n, index)
	if r.short {
		return i, false
	}
	switch {
	case f.kind+2 == c && f.stray&strays > 0:
		f.stray--
		r.fix(fixMoreBracket)
		r.closed = c
		return i + n, true
	case f.kind+2 == c && tooMany:
		r.fix(fixMoreBracket)
		return i + n, true
	case f.kind+2 == c:
		if r.comma {
			r.fix(fixExtraComma)
		}
	case f.stray&implied != 0 && c == ']':
		index-- // the object has no brackets of its own
	default:
		index = r.mismatched(i+n, c)
		if r.short {
			return i, false
		}
		kind := fixBracket
		if index == len(p.stack) && r.closed == c {
			kind = fixMoreBracket
		}
		r.fix(kind)
	}
	if index < len(p.stack) {
		r.closeTo(index)
	}
	r.closed = c
	return i + n, true
}

// oneTooMany says whether a second closing bracket in a row, behind which stands i, is none of the container at index: what follows goes on with
// that, and not with the one around it.
func (r *repairer) oneTooMany(i, index int) bool {
	if index == 0 || r.p.stack[index-1].kind == r.p.stack[index].kind {
		return false
	}
	if r.p.stack[index].kind == '[' {
		j, _ := r.skip(i)
		return r.follows(i) == thenValue && r.elementFollows(j+1)
	}
	return r.follows(i) == thenKey
}

// mismatched gives the index of the outermost container that a closing bracket c ends which does not match the innermost one; the number of
// open containers if it ends none. Either it is the wrong bracket for the innermost one, or the closing brackets in between are missing, or it
// is one too many: what stands behind it, at i, must go on with the container that is left (RP-06).
func (r *repairer) mismatched(i int, c byte) int {
	stack := r.p.stack
	none, top := len(stack), len(stack)-1
	to := r.enclosing(c - 2)
	kind := func(index int) byte { // 0 outside the document
		if index < 0 {
			return 0
		}
		return stack[index].kind
	}
	parent, left := kind(top-1), kind(to-1) // what goes on if the innermost one ends, and if all up to the matching one do
	doubled := r.closed == c
	then := r.follows(i)
	if c == ']' { // in an object
		switch then {
		case thenKey:
			switch {
			case doubled:
				return none
			case parent == '{':
				return top
			case to >= 0 && left == '{':
				return to
			}
			return none
		case thenValue:
			switch {
			case parent == '[' && left != '[':
				return top
			case to >= 0:
				return to
			}
			return none
		case thenBrace:
			switch {
			case to >= 0 && left == '{' && parent != '{':
				return to
			case !doubled && parent == '{':
				return top
			}
			return none
		case thenBracket:
			if left == '[' {
				return to
			}
			return top
		}
	} else { // a brace in an array
		switch then {
		case thenKey:
			switch {
			case to >= 0 && left == '{':
				return to
			case parent == '{':
				return top
			}
			return none
		case thenValue:
			switch {
			case doubled:
				return none
			case to >= 0 && left == '[':
				return to
			case parent == '[':
				return top
			}
			return none
		case thenBracket:
			switch {
			case doubled:
				return none
			case parent == '[':
				return top
			case to >= 0 && left == '[':
				return to
			}
			return none
		case thenBrace:
			switch {
			case to > 0:
				return to
			case parent == '{':
				return top
			}
			return none
		}
	}
	if to >= 0 {
		return to
	}
	return top
}

// What stands behind a place between two values.
const (
	thenEnd     = iota // the end of the text, or nothing that goes on with a document
	thenKey            // a key, with a comma before it or not
	thenValue          // a comma and a value
	thenLong           // a string that may be a key
	thenBrace          // }
	thenBracket        // ]
)

// follows says what stands at i, behind white space.
func (r *repairer) follows(i int) int {
	j, _ := r.skip(i)
	c, m := r.sym(j)
	comma := c == ','
	switch c {
	case '}':
		return thenBrace
	case ']':
		return thenBracket
	case ',':
		j, _ = r.skip(j + m)
		c, m = r.sym(j)
	}
	switch {
	case c == '`' && r.has(j, "```"):
		return thenEnd
	case r.isQuote(c):
		k, sure := r.pastQuoted(j, m)
		k, _ = r.skip(k)
		switch c, _ := r.sym(k); {
		case !sure, isBlank(c):
			return thenLong
		case c == ':', c == '=':
			return thenKey
		}
	case c == '{', c == '[', isTokenByte(c), c == symOther:
		if r.bareKeyAt(j) {
			return thenKey
		}
	default:
		return thenEnd
	}
	if comma {
		return thenValue
	}
	return thenEnd
}
