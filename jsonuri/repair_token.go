package jsonuri

import (
	"bytes"
	"strings"
)

// decidePlain reads a number, a literal or a function call; what is none of them becomes a string (RP-04).
func (r *repairer) decidePlain(i int) act {
	bare := act{do: (*repairer).openText, fix: fixBare}
	end := i + r.seen
	for isTokenByte(r.byteAt(end)) || r.group(i, end) == 3 {
		if end++; end-i > r.p.maxNumber {
			if bytes.ContainsFunc(r.b[i:end], func(c rune) bool { return !isDigit(byte(c)) && !strings.ContainsRune(".-+_eE", c) }) {
				return bare
			}
			return act{do: (*repairer).refuseNumber}
		}
	}
	if r.short {
		r.seen = end - i // so that a long one is not read again for each chunk
		return bare
	}
	if value, fix, ok := readToken(r.b[i:end], end == len(r.b)); ok && r.group(i, end) == 0 {
		a := act{do: (*repairer).giveScalar, n: end - i, fix: fix, value: value}
		if r.standsAlone(i + a.n) {
			return a
		}
	}
	if end > i && r.byteAt(end) == '(' && r.oneArgument(end+1) { // RP-14
		return act{do: (*repairer).pass, state: rpValue, n: end + 1 - i, calls: 1, fix: fixCall}
	}
	return bare
}

func (r *repairer) refuseNumber(i int) int {
	r.p.err = &LimitError{Limit: "number", Max: int64(r.p.maxNumber), Offset: r.p.base + int64(i+r.p.maxNumber)}
	return i
}

// words are the literals of other languages (RP-04).
var words = map[string]string{
	"true": "true", "True": "true", "TRUE": "true", "false": "false", "False": "false", "FALSE": "false", "null": "null", "Null": "null", "NULL": "null",
	"None": "null", "NONE": "null", "nil": "null", "undefined": "null", "NaN": "null", "nan": "null", "Infinity": "null", "inf": "null",
	"-Infinity": "null", "+Infinity": "null", "-inf": "null",
}

// cutWords are those that are known before they are whole (RP-07).
var cutWords = [...]string{"true", "false", "null", "True", "False", "None", "undefined", "NaN", "Infinity"}

var literals = map[string][]byte{"true": trueText, "false": falseText, "null": nullText}

// readToken gives the JSON value that a token without quotes stands for, and which repair that is. cut says that the text ends
// behind it.
func readToken(token []byte, cut bool) (value []byte, fix string, ok bool) {
	if IsNumber(token) {
		return token, "", true
	}
	if word, ok := words[string(token)]; ok {
		if word != string(token) {
			fix = fixLiteral
		}
		return literals[word], fix, true
	}
	for _, word := range cutWords {
		if cut && len(token) > 0 && strings.HasPrefix(word, string(token)) {
			return literals[words[word]], fixCut, true
		}
	}
	if len(token) == 0 || !isDigit(token[0]) && strings.IndexByte("+-.", token[0]) < 0 {
		return nil, "", false
	}
	// What is meant as a number: with a plus, a point at an end, marks between its digits, or cut off in the exponent (RP-15).
	text := strings.TrimPrefix(string(token), "+")
	digits, negative := strings.CutPrefix(text, "-")
	if negative && digits == "" {
		return []byte("-0"), fixCut, true
	}
	if point := strings.TrimPrefix(digits, "."); point == "" || !isDigit(point[0]) {
		return nil, "", false
	}
	if fix = fixNumber; cut {
		fix = fixCut
	}
	digits = strings.ReplaceAll(strings.ReplaceAll(digits, "_", ""), ",", "")
	if e := strings.LastIndexAny(digits, "eE"); e > 0 && strings.Trim(digits[e+1:], "+-") == "" {
		digits, fix = digits[:e], fixCut
	}
	if strings.Count(digits, ".") == 1 {
		digits = strings.TrimSuffix(digits, ".")
	}
	if digits[0] == '.' {
		digits = "0" + digits
	}
	if negative {
		digits = "-" + digits
	}
	return []byte(digits), fix, IsNumber([]byte(digits))
}

// group gives how many digits, three at most, a comma joins to the number b[start:i]; 0 where none. Only in an object, where no member
// begins with digits (RP-11): three are thousands, and with fewer it is a text.
func (r *repairer) group(start, i int) int {
	if r.inside() != '{' || r.byteAt(i) != ',' || i == start || len(bytes.Trim(r.b[start:i], "-,0123456789")) > 0 {
		return 0
	}
	n := 0
	for n < 4 && isDigit(r.byteAt(i+1+n)) {
		n++
	}
	if n == 4 || r.short || r.colonAt(i+1+n) {
		return 0
	}
	return n
}

// standsAlone says whether a token that ends at i is a value by itself, and not the beginning of a text.
func (r *repairer) standsAlone(i int) bool {
	x := r.next(i)
	if x.line || ends(x.c) {
		return true
	}
	switch x.c {
	case ';', ')', '{':
		return true
	case '/':
		return r.comment(x)
	case '#', '[', '`', symDots:
		return x.space
	}
	if !x.space {
		y := r.next(x.end) // before these, the string's opening quote is missing
		return isQuote(x.c) && y.c != ',' && y.c != '}' && y.c != ']'
	}
	return isQuote(x.c) || r.bareKey(x.at) || r.inside() == '[' && (isDigit(x.c) || x.c == '-' || x.c == '.')
}

// oneArgument says whether one plain value and a closing bracket stand at i.
func (l *look) oneArgument(i int) bool {
	x := l.next(i)
	end := x.at
	if x.c == '"' || x.c == '\'' {
		var ok bool
		if end, ok = l.quoted(x); !ok {
			return false
		}
	} else {
		for end < x.at+maxLook && isTokenByte(l.byteAt(end)) {
			end++
		}
	}
	return end > x.at && l.next(end).c == ')'
}
