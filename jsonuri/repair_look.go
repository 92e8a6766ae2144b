package jsonuri

import "unicode/utf8"

// verdict is what a quote inside a string turns out to be.
type verdict uint8

const (
	isInner  verdict = iota // content
	isClose                 // the end of the string
	isExtra                 // the end, with another quote behind it that means nothing
	isOpener                // the beginning of the next key: the string's own closing quote is missing
	isJoin                  // the end of a part; a plus and another part follow
	isMember                // the end of a key: the brace before it is missing
)

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
			if r.maybeKey && !odd {
				return isMember
			}
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
		if d := r.at(j + 3); r.has(j, "```") && (lineBreak || d == 0 || d == '\n' || d == '\r') {
			return isClose
		}
	}
	if in == '{' {
		switch {
		case r.isQuote(c):
			if j > next && r.keyAt(j, m, odd) {
				return isClose
			}
			if k, sure := r.pastQuoted(j, m); !odd && sure && r.colonFollows(k) {
				return isClose
			}
		case lineBreak && r.bareKeyAt(j):
			return isClose
		case !odd && j > next && (r.halfKeyAt(j) || r.lastWord(j)):
			return isClose
		}
		if run && r.quote == quDouble && r.restOfKey(next) {
			return isOpener
		}
		return isInner
	}
	switch {
	case r.isQuote(c):
		if !odd && (lineBreak || r.elementAt(j, m, j > next)) {
			return isClose
		}
	case c == '{' || c == '[':
		k, _ := r.skip(j + m)
		if d, _ := r.sym(k); !odd && (j > next || r.isQuote(d)) {
			return isClose
		}
	case lineBreak && !odd && (c == '-' || c >= '0' && c <= '9'):
		return isClose
	case !odd && j > next && isTokenByte(c) && (r.plainElementAt(j, true) || r.wordThenElement(j)):
		return isClose
	}
	if run && r.quote == quDouble && !odd && r.restOfElement(next) {
		return isOpener
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
			if lineBreak && !odd || r.keyAt(j, m, odd) || !odd && r.openKeyAt(j+m) {
				return isClose
			}
		case c == '{' || c == '[':
			if !odd {
				return isClose
			}
		case !odd && (r.bareKeyAt(j) || r.halfKeyAt(j) || r.wordThenKey(j)):
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
	case (isTokenByte(c) || c == symOther) && r.plainElementAt(j, odd), !odd && (lineBreak || r.halfElementAt(j)):
		return isClose
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
	if c, _ := r.sym(i); !odd { // ""name"
		if d, n := r.sym(i + m); d == c {
			if k, sure := r.pastQuoted(i+m, n); sure && k > i+m+2*n && r.colonFollows(k) {
				return true
			}
		}
	}
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
	return !odd && (c >= '0' && c <= '9' || isTokenByte(c) && r.plainElementAt(j, true))
}

// openKeyAt says whether the inside of a key whose closing quote is missing stands at i: a name and a colon.
func (r *repairer) openKeyAt(i int) bool {
	for k := i; k < i+maxLook; k++ {
		switch c := r.at(k); {
		case c == ':':
			return k > i
		case !isNameByte(c) && c != ' ' && c < utf8.RuneSelf:
			return false
		}
	}
	return false
}

// wordThenKey says whether a word stands at i, and a key behind it.
func (r *repairer) wordThenKey(i int) bool {
	k := i
	for k < i+maxLook && isNameByte(r.at(k)) {
		k++
	}
	return k > i && r.quotedKeyAt(k)
}

// halfKeyAt says whether a key without its opening quote stands at i: a name, a quote and a colon.
func (r *repairer) halfKeyAt(i int) bool {
	for k := i; k < i+maxLook; k++ {
		switch c := r.at(k); {
		case c == '"':
			return k > i && r.colonFollows(k+1)
		case !isNameByte(c) && c != ' ' && c < utf8.RuneSelf:
			return false
		}
	}
	return false
}

// wordThenElement says whether a word stands at i, and behind it a comma and an element in quotes.
func (r *repairer) wordThenElement(i int) bool {
	for most := i + maxLook; i < most && isTokenByte(r.at(i)); {
		i++
	}
	j, _ := r.skip(i)
	if r.at(j) != ',' {
		return false
	}
	j, _ = r.skip(j + 1)
	c, m := r.sym(j)
	return c == '"' && r.elementAt(j, m, false)
}

// lastWord says whether a word stands at i, and the object's closing brace behind it.
func (r *repairer) lastWord(i int) bool {
	k := i
	for k < i+maxLook && isNameByte(r.at(k)) {
		k++
	}
	j, _ := r.skip(k)
	return k > i && r.at(j) == '}'
}

// halfElementAt says whether an element without its opening quote stands at i: text of this line, a quote, and a comma or bracket.
func (r *repairer) halfElementAt(i int) bool {
	for k := i; k < i+maxLook; k++ {
		switch r.at(k) {
		case '"':
			j, _ := r.skip(k + 1)
			c := r.at(j)
			return k > i && (c == ',' || c == ']')
		case 0, '\n', '[', ']', '{', '}', '\\':
			return false
		}
	}
	return false
}

// restOfElement says whether the text at i goes on to a quote and another element or the end of the array: it is the inside of an element.
func (r *repairer) restOfElement(i int) bool {
	for k := i; k < i+maxLook; k++ {
		switch r.at(k) {
		case '"':
			j, lineBreak := r.skip(k + 1)
			c, m := r.sym(j)
			if c == ',' {
				j, lineBreak = r.skip(j + m)
				c, _ = r.sym(j)
				return k > i && (lineBreak || c == '"' || c == '{' || c == '[' || c == ']' || isTokenByte(c) && r.plainElementAt(j, true))
			}
			return k > i && (c == ']' || lineBreak && c != 0)
		case '\\':
			k++
		case 0, '\n':
			return false
		}
	}
	return false
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
	default:
		return loose && isTokenByte(c) && r.plainElementAt(j, true)
	}
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
	switch c {
	case 0, ',', ']', '}', ' ':
	case ')':
		if r.inside() != '[' || r.p.top().stray&tuple == 0 {
			return false
		}
	case '"', '{', '[':
		if !odd || j == k {
			return false
		}
	default:
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

func (r *repairer) colonFollows(i int) bool {
	j, _ := r.skip(i)
	c, _ := r.sym(j)
	return c == ':' || c == '=' || c == ' ' // more white space than is looked at
}
