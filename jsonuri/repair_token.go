package jsonuri

import (
	"bytes"
	"unicode/utf8"
)

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
			r.goOn()
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
			if whole == 1 && dst[len(dst)-1] == '0' {
				return nil, "", false // RP-15: digits with leading zeros are a code
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
		if len(rest) == 0 && token[0] == '-' {
			return minusZero, fixCut, true // RP-15: only a sign
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
		if digits == 0 { // RP-15
			dst, kind = dst[:mark], fixCut
		}
	}
	r.token = dst
	return dst, kind, len(rest) == 0
}

var minusZero = []byte("-0")

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
		if k == 1 {
			break // the comma behind the number
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
	case '{':
		return true
	case '#', '[', '`', symDots:
		return j > i
	}
	if j == i {
		if !r.isQuote(c) {
			return false
		}
		k, _ := r.skip(j + 1)
		d, _ := r.sym(k)
		return d != ',' && d != '}' && d != ']' // else it is a string whose opening quote is missing
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

// stepBare reads more of a string value without quotes.
func (r *repairer) stepBare(i int) (int, bool) {
	start := i
	solid := start // behind the last byte that is not white space
	for i < len(r.b) {
		c, n := r.sym(i)
		if r.short {
			break
		}
		ends, skip := false, 0
		switch {
		case c == '\n' || c == '\r':
			ends = true
		case isBlank(c):
			if i-solid > maxLook {
				solid = i // too much to wait for
			}
			i += n
			continue
		case c == '\\':
			if d := r.at(i + 1); d > ' ' && d < utf8.RuneSelf {
				n = 2 // an escape, or nearly
			}
		case c == '{' || c == '[' || c == '(':
			if r.nesting < 100 {
				r.nesting++
			}
		case c == '}' || c == ']' || c == ')':
			if r.nesting > 0 {
				r.nesting--
			} else {
				ends = c != ')' && r.enclosing(c-2) >= 0
			}
		case c == ',' || c == ';':
			ends = r.bareEnds(i, n, c)
		case r.isQuote(c) && c != '\'' && c != '`' && c != symSingle:
			v := r.judge(i, n, false)
			key := v == isInner && i > solid && r.inside() == '{' && r.quotedKeyAt(i)
			if r.short {
				break
			}
			if key { // the comma before it is missing
				ends = true
			} else if v == isClose || v == isExtra {
				ends, skip = true, n
			} else {
				r.inner++
			}
		case c == '/' && i > start && isBlank(r.b[i-1]) && i > solid:
			d := r.at(i + 1)
			ends = d == '/' || d == '*'
		}
		if r.short {
			break
		}
		if ends {
			r.give(start, solid, false)
			r.endText()
			if skip > 0 {
				r.fix(fixMissQuote)
			}
			return i + skip, true
		}
		i += n
		solid = i
	}
	if r.eof {
		r.give(start, solid, false)
		r.endText()
		return len(r.b), true
	}
	return r.giveUnits(start, solid, solid == len(r.b) || r.b[solid] == '\\'), false
}

// bareEnds says whether the comma at i ends a string without quotes.
func (r *repairer) bareEnds(i, n int, c byte) bool {
	if r.inside() == '[' {
		return r.nesting == 0 && r.b[i] == ','
	}
	j, lineBreak := r.skip(i + n)
	d, m := r.sym(j)
	switch {
	case lineBreak || d == 0 || d == '}' || d == ',':
		return true
	case r.isQuote(d):
		k, sure := r.pastQuoted(j, m)
		return sure && r.colonFollows(k) || k >= j+maxLook
	}
	return r.bareKeyAt(j)
}
