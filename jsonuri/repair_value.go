package jsonuri

import (
	"bytes"
	"unicode/utf8"
)

// quote is the kind of quotes a string stands in.
type quote uint8

const (
	noQuote quote = iota
	quDouble
	quSingle
	quBack
	quTypeDouble
	quTypeSingle
	quEntity
	quEscape
	quTriple // """
	quTripleSingle
	quFence // ```
)

// opening gives the quotes that begin at i with the sign c, and their length.
func (r *repairer) opening(i int, c byte, n int) (quote, int) {
	switch c {
	case '"':
		if r.has(i, `"""`) && !r.short {
			return quTriple, 3
		}
		return quDouble, n
	case '\'':
		if r.has(i, "'''") && !r.short {
			return quTripleSingle, 3
		}
		return quSingle, n
	case '`':
		return quBack, n
	case symDouble:
		return quTypeDouble, n
	case symSingle:
		return quTypeSingle, n
	case symEntity:
		return quEntity, n
	case symEscape:
		return quEscape, n
	}
	return noQuote, 0
}

// closing gives the length of what may be the closing quote of the open string at i; 0 where there is none.
func (r *repairer) closing(i int) int {
	c := r.b[i]
	switch r.quote {
	case quDouble:
		if c == '"' {
			return 1
		}
	case quSingle:
		if c == '\'' {
			return 1
		}
	case quBack:
		if c == '`' {
			return 1
		}
	case quTriple:
		if c == '"' && r.has(i, `"""`) {
			return 3
		}
	case quTripleSingle:
		if c == '\'' && r.has(i, "'''") {
			return 3
		}
	case quFence:
		if c == '`' && r.has(i, "```") {
			return 3
		}
	default:
		if c == '"' {
			return 1
		}
		s, n := r.sym(i)
		if s == '\'' && r.quote == quTypeSingle || r.isQuote(s) && s >= utf8.RuneSelf && (s == symSingle) == (r.quote == quTypeSingle) {
			return n
		}
	}
	return 0
}

func (r *repairer) isQuote(c byte) bool {
	switch c {
	case '"', '\'', '`', symDouble, symSingle, symEntity, symEscape:
		return true
	}
	return false
}

func (r *repairer) openText(q quote, key bool) {
	p := r.p
	r.quote, r.inner, r.longRun, r.nesting, r.keyKnown = q, 0, false, 0, false
	p.inKey = key
	if key {
		p.carry = p.carry[:0]
	} else {
		p.openString()
	}
	r.state = rpString
	switch q {
	case quDouble:
	case noQuote:
		r.state = rpBare
		if key {
			r.state = rpBareKey
		}
	default:
		r.fix(fixQuotes)
	}
}

// stepValue reads a value, or finds that there is none.
func (r *repairer) stepValue(i int) (int, bool) {
	c, n, i, wait := r.peek(i)
	if wait {
		return i, false
	}
	in := r.inside()
	switch c {
	case 0:
		if in == '{' {
			r.null(fixCut)
		}
		return r.finish(i)
	case '{', '[':
		if !r.open(i, c) {
			return i, false
		}
		return i + n, true
	case '(': // a tuple, unless a text begins with a bracket
		j, _ := r.skip(i + n)
		d, _ := r.sym(j)
		if r.short {
			return i, false
		}
		if !r.isQuote(d) && d != ')' && d != '(' && d != '[' && d != '{' && d != '-' && (d < '0' || d > '9') {
			break
		}
		if !r.open(i, '[') {
			return i, false
		}
		r.p.top().stray |= tuple
		r.fix(fixBracket)
		return i + n, true
	case ']', '}', ')':
		if in == '{' {
			r.null(fixMissValue)
			return i, true
		}
		r.state = rpAfter
		return i, true
	case ',', ';':
		if in == '{' {
			r.null(fixMissValue)
			return i, true
		}
		r.anotherComma()
		return i + n, true
	case ':', '=':
		r.fix(fixColon)
		return i + n, true
	case '.', symDots:
		if n, ok := r.dots(i, c, n); n > 0 {
			if r.short {
				return i, false
			}
			if ok {
				r.leftOut()
				return i + n, true
			}
		}
	case '/', '#':
		if c == '#' && r.color(i) {
			break
		}
		if r.short {
			return i, false
		}
		n := r.comment(i, c)
		if r.short {
			return i, false
		}
		if n > 0 {
			return i + n, true
		}
	case '`':
		if r.has(i, "```") {
			// A string in a fence goes on at once; a line break behind the fence says that this is the end of the answer.
			c := r.at(i + 3)
			if r.short {
				return i, false
			}
			if in == '{' && c != 0 && !isBlank(c) {
				r.beginValue()
				r.openText(quFence, false)
				return i + 3, true
			}
			if in == '{' {
				r.null(fixCut)
			}
			return r.finish(i)
		}
	case symEscape:
		if r.startEscaped(i) {
			return 0, true
		}
	}
	if r.short {
		return i, false
	}
	if q, n := r.opening(i, c, n); q != noQuote {
		if r.short {
			return i, false
		}
		r.beginValue()
		r.openText(q, false)
		return i + n, true
	}
	if r.short {
		return i, false
	}
	return r.plainValue(i)
}

// leftOut notes an ellipsis; a comma may follow it.
func (r *repairer) leftOut() {
	r.fix(fixDots)
	r.fresh, r.comma = false, false
}

// anotherComma notes a comma where a key or value should be.
func (r *repairer) anotherComma() {
	if r.fresh || r.comma {
		r.fix(fixExtraComma)
	}
	r.comma = true
}

// tuple marks an array that was written with round brackets.
const tuple = 0x80

// dots says whether an ellipsis stands at i: three dots or one sign, with nothing but a sign of the structure behind it.
func (r *repairer) dots(i int, c byte, n int) (int, bool) {
	if c == '.' {
		if !r.has(i, "...") {
			return 0, false
		}
		n = 3
		for n < maxLook && r.at(i+n) == '.' {
			n++
		}
	}
	j, _ := r.skip(i + n)
	switch d, _ := r.sym(j); d {
	case ',', ']', '}', '"', '\'', '{', '[', 0, '/', '`':
		return n, true
	}
	return n, r.inside() == '{' && r.state == rpKey
}

// color says whether #fff or the like stands at i.
func (r *repairer) color(i int) bool {
	k := 1
	for k < 10 && hexValue(r.at(i+k)) != 0xFF {
		k++
	}
	switch k - 1 {
	case 3, 4, 6, 8:
		c := r.at(i + k)
		return isBlank(c) || c == ',' || c == '}' || c == ']' || c == '"'
	}
	return false
}

// plainValue reads a number, a literal or a function call; what is neither becomes a string.
func (r *repairer) plainValue(i int) (int, bool) {
	end := i + max(r.hint, 0)
	for isTokenByte(r.at(end)) {
		if end++; end-i > r.p.maxNumber {
			return r.longToken(i)
		}
	}
	if r.short {
		r.hint = end - i
		return i, false
	}
	token := r.b[i:end]
	if value, kind, ok := r.tokenValue(token, end == len(r.b)); ok {
		isNumber := value[0] == '-' || value[0] <= '9'
		next := end
		if isNumber && r.inside() == '{' {
			next = r.thousands(token, end)
		}
		alone := r.standsAlone(next)
		if r.short {
			return i, false
		}
		if alone {
			if next > end {
				r.mended = withoutCommas(r.mended[:0], r.b[i:next])
				value, _, _ = r.mendNumber(r.mended, next == len(r.b))
				kind = fixNumber
			}
			r.beginValue()
			if kind != "" {
				r.fix(kind)
			}
			r.p.scalar(value)
			r.ended()
			return next, true
		}
	}
	if r.at(end) == '(' && end > i && !r.short {
		call := r.call(end)
		if r.short {
			return i, false
		}
		if call {
			r.fix(fixCall)
			r.calls++
			return end + 1, true
		}
	}
	if r.short {
		return i, false
	}
	r.beginValue()
	r.fix(fixBare)
	r.openText(noQuote, false)
	return i, true
}

// longToken is what to do with a number over the limit, or a word as long.
func (r *repairer) longToken(i int) (int, bool) {
	for _, c := range r.b[i : i+r.p.maxNumber] {
		if c >= '0' && c <= '9' || c == '.' || c == '-' || c == '+' || c == '_' || c == 'e' || c == 'E' {
			continue
		}
		r.beginValue()
		r.fix(fixBare)
		r.openText(noQuote, false)
		return i, true
	}
	r.p.err = &LimitError{Limit: "number", Max: int64(r.p.maxNumber), Offset: r.base + int64(i+r.p.maxNumber)}
	return i, false
}

// isTokenByte marks what numbers, literals and names of functions are made of.
func isTokenByte(c byte) bool { return isWord(c) || c == '$' }

// tokenValue is the JSON value that a token without quotes stands for, and which repair that is.
func (r *repairer) tokenValue(token []byte, cut bool) (value []byte, kind string, ok bool) {
	if len(token) == 0 {
		return nil, "", false
	}
	if c := token[0]; c >= '0' && c <= '9' || c == '-' || c == '+' || c == '.' {
		if string(token) == "-Infinity" || string(token) == "+Infinity" || string(token) == "-inf" {
			return nullText, fixLiteral, true
		}
		return r.mendNumber(token, cut)
	}
	if len(token) > 12 {
		return nil, "", false
	}
	switch string(token) {
	case "true":
		return trueText, "", true
	case "false":
		return falseText, "", true
	case "null":
		return nullText, "", true
	case "True", "TRUE":
		return trueText, fixLiteral, true
	case "False", "FALSE":
		return falseText, fixLiteral, true
	case "None", "NULL", "Null", "nil", "undefined", "NaN", "nan", "Infinity", "inf", "NONE":
		return nullText, fixLiteral, true
	}
	if cut {
		for _, word := range [...]string{"true", "false", "null", "True", "False", "None", "undefined", "NaN", "Infinity"} {
			if len(token) < len(word) && string(token) == word[:len(token)] {
				switch word {
				case "true", "True":
					return trueText, fixCut, true
				case "false", "False":
					return falseText, fixCut, true
				}
				return nullText, fixCut, true
			}
		}
	}
	return nil, "", false
}

// mendNumber makes a JSON number of what is meant as one.
func (r *repairer) mendNumber(token []byte, cut bool) (value []byte, kind string, ok bool) {
	if isJSONNumber(token) {
		return token, "", true
	}
	dst := r.token[:0]
	rest := token
	if rest[0] == '-' || rest[0] == '+' {
		if rest[0] == '-' {
			dst = append(dst, '-')
		}
		rest = rest[1:]
	}
	whole := 0 // digits before the point
	for len(rest) > 0 && (rest[0] >= '0' && rest[0] <= '9' || rest[0] == '_' && whole > 0) {
		if rest[0] != '_' {
			if whole > 0 && dst[len(dst)-1] == '0' && whole == 1 {
				dst = dst[:len(dst)-1] // a leading zero
				whole = 0
			}
			dst = append(dst, rest[0])
			whole++
		}
		rest = rest[1:]
	}
	fraction := 0
	if len(rest) > 0 && rest[0] == '.' {
		if whole == 0 {
			dst = append(dst, '0')
		}
		dst = append(dst, '.')
		for rest = rest[1:]; len(rest) > 0 && (rest[0] >= '0' && rest[0] <= '9' || rest[0] == '_' && fraction > 0); rest = rest[1:] {
			if rest[0] != '_' {
				dst = append(dst, rest[0])
				fraction++
			}
		}
		if fraction == 0 {
			dst = dst[:len(dst)-1]
		}
	}
	if whole+fraction == 0 {
		if cut && len(rest) == 0 {
			return nullText, fixCut, true // only a sign
		}
		return nil, "", false
	}
	kind = fixNumber
	if cut {
		kind = fixCut
	}
	if len(rest) > 0 && (rest[0] == 'e' || rest[0] == 'E') {
		mark := len(dst)
		dst = append(dst, 'e')
		if rest = rest[1:]; len(rest) > 0 && (rest[0] == '+' || rest[0] == '-') {
			dst = append(dst, rest[0])
			rest = rest[1:]
		}
		digits := 0
		for ; len(rest) > 0 && rest[0] >= '0' && rest[0] <= '9'; rest = rest[1:] {
			dst = append(dst, rest[0])
			digits++
		}
		if digits == 0 {
			if !cut {
				return nil, "", false
			}
			dst = dst[:mark]
		}
	}
	r.token = dst
	return dst, kind, len(rest) == 0
}

func isJSONNumber(token []byte) bool {
	if token[0] != '-' && (token[0] < '0' || token[0] > '9') {
		return false
	}
	sub, ok := numInt, true
	switch token[0] {
	case '-':
		sub = numMinus
	case '0':
		sub = numZero
	}
	for _, c := range token[1:] {
		if sub, ok = numberStep(sub, c); !ok {
			return false
		}
	}
	return numComplete(sub)
}

// thousands gives where a number with commas between its thousands ends; a member of an object cannot begin with digits.
func (r *repairer) thousands(token []byte, end int) int {
	digits := bytes.TrimPrefix(token, []byte("-"))
	if len(digits) == 0 || len(digits) > 3 || digits[0] == '0' {
		return end
	}
	for _, c := range digits {
		if c < '0' || c > '9' {
			return end
		}
	}
	next := end
	for next < end+40 && r.at(next) == ',' {
		k := 1
		for k < 5 && r.at(next+k) >= '0' && r.at(next+k) <= '9' {
			k++
		}
		if k != 4 {
			return end
		}
		next += 4
	}
	if next == end {
		return end
	}
	if r.at(next) == '.' {
		for next++; next < end+80 && r.at(next) >= '0' && r.at(next) <= '9'; next++ {
		}
	}
	j, _ := r.skip(next)
	if c, _ := r.sym(j); c == ':' || c == '=' {
		return end
	}
	return next
}

func withoutCommas(dst, text []byte) []byte {
	for _, c := range text {
		if c != ',' {
			dst = append(dst, c)
		}
	}
	return dst
}

// standsAlone says whether a token that ends at i is a value by itself, and not the beginning of a text.
func (r *repairer) standsAlone(i int) bool {
	j, lineBreak := r.skip(i)
	if lineBreak {
		return true
	}
	c, _ := r.sym(j)
	switch c {
	case 0, ',', '}', ']', ';', ')', ' ', '\t':
		return true
	case ':':
		return r.inside() == '['
	case '/':
		d := r.at(j + 1)
		return d == '/' || d == '*'
	case '#', '{', '[', '`', symDots:
		return j > i
	}
	if j == i {
		return r.isQuote(c)
	}
	if r.isQuote(c) || c >= '0' && c <= '9' || c == '-' || c == '.' {
		return true
	}
	return r.inside() == '{' && r.bareKeyAt(j)
}

// bareKeyAt says whether a name and a colon stand at i.
func (r *repairer) bareKeyAt(i int) bool {
	k := i
	for k < i+maxLook {
		c := r.at(k)
		if !(isNameByte(c) || c >= utf8.RuneSelf && k < len(r.b)) {
			break
		}
		if c >= utf8.RuneSelf {
			s, n := r.sym(k)
			if s != symOther {
				break
			}
			k += n
			continue
		}
		k++
	}
	if k == i || k >= i+maxLook {
		return false
	}
	k, _ = r.skip(k)
	c, _ := r.sym(k)
	return c == ':' && !r.has(k, "://") || c == '=' && r.at(k+1) != '='
}

func isNameByte(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_' || c == '-' || c == '$'
}

// call says whether one plain argument and a closing bracket follow the opening one at i.
func (r *repairer) call(i int) bool {
	j, _ := r.skip(i + 1)
	c, _ := r.sym(j)
	if c == '"' || c == '\'' {
		for k := j + 1; k < j+maxLook; k++ {
			switch d := r.at(k); {
			case d == c:
				k, _ = r.skip(k + 1)
				return r.at(k) == ')'
			case d == '\\':
				k++
			case d == 0 || d == '\n':
				return false
			}
		}
		return false
	}
	k := j
	for k < j+maxLook && isTokenByte(r.at(k)) {
		k++
	}
	if k == j {
		return false
	}
	k, _ = r.skip(k)
	return r.at(k) == ')'
}

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
