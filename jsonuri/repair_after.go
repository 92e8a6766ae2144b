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
		r.state, r.comma, r.fresh = next, true, false
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
	if f.kind+2 == c {
		if f.stray&^tuple > 0 {
			f.stray--
			r.fix(fixMoreBracket)
			return i + n, true
		}
		if r.comma {
			r.fix(fixExtraComma)
		}
		r.closeTo(len(p.stack) - 1)
		return i + n, true
	}
	to := r.enclosing(c - 2)
	if to < 0 {
		// Nothing that it could close: it stands for the right one if what follows makes sense only then.
		wrong := r.goesOn(i+n, len(p.stack)-1)
		if r.short {
			return i, false
		}
		r.fix(fixBracket)
		if wrong {
			r.closeTo(len(p.stack) - 1)
		}
		return i + n, true
	}
	// Either the inner closing brackets are missing, or this is the wrong one for the innermost. What follows tells.
	wrong := to == 0 && r.goesOn(i+n, len(p.stack)-1)
	if r.short {
		return i, false
	}
	r.fix(fixBracket)
	if wrong {
		r.closeTo(len(p.stack) - 1)
	} else {
		r.closeTo(to)
	}
	return i + n, true
}

// goesOn says whether what stands at i goes on with the container that is left when index is closed.
func (r *repairer) goesOn(i, index int) bool {
	j, _ := r.skip(i)
	c, _ := r.sym(j)
	if index == 0 {
		return false
	}
	switch c {
	case ',':
		k, _ := r.skip(j + 1)
		d, _ := r.sym(k)
		if r.p.stack[index-1].kind == '{' {
			return r.isQuote(d) || r.bareKeyAt(k)
		}
		return d != 0
	case '}', ']':
		return true
	}
	return false
}
