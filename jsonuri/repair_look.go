package jsonuri

import (
	"strings"
	"unicode/utf8"
)

// maxLook bounds how far a decision looks ahead, in bytes. What is undecided then is read as JSON would be.
const maxLook = 256

// A look is what a decision sees. To ask for what stands behind the end of an input that goes on sets short.
type look struct {
	b     []byte
	eof   bool // the input ends behind b
	short bool
}

// A sign is what stands at a place, behind white space.
type sign struct {
	c       byte // ASCII or one of the symbols; 0 at the end of the text
	at, end int
	space   bool // white space stands before it
	line    bool // with a line break
}

// Symbols beyond ASCII, as sym gives them.
const (
	symDouble byte = 0x80 + iota // a typographic double quote
	symSingle                    // a typographic single quote
	symDots                      // …
	symOther                     // anything else that is not ASCII
	symFar                       // white space goes on for longer than a decision looks
)

// symbols are what people and models write for the signs of JSON (RP-03, RP-16).
var symbols = map[rune]byte{
	'\u00a0': ' ', '\u200b': ' ', '\u200c': ' ', '\u200d': ' ', '\u200e': ' ', '\u200f': ' ', '\u2060': ' ', '\u3000': ' ', '\ufeff': ' ',
	'\u2002': ' ', '\u2003': ' ', '\u2007': ' ', '\u2009': ' ', '\u200a': ' ', '\u202f': ' ', '\u2028': '\n', '\u2029': '\n', '\u0085': '\n',
	'：': ':', '，': ',', '、': ',', '；': ';', '｛': '{', '｝': '}', '［': '[', '］': ']',
	'“': symDouble, '”': symDouble, '„': symDouble, '‟': symDouble, '＂': symDouble, '«': symDouble, '»': symDouble,
	'「': symDouble, '」': symDouble, '『': symDouble, '』': symDouble, '″': symDouble,
	'‘': symSingle, '’': symSingle, '‚': symSingle, '‛': symSingle, '＇': symSingle, '´': symSingle, '′': symSingle,
	'…': symDots,
}

// byteAt is the byte at i, 0 behind the end.
func (l *look) byteAt(i int) byte {
	if i < len(l.b) {
		return l.b[i]
	}
	l.short = l.short || !l.eof
	return 0
}

// sym is the sign at i, and its length in bytes; 0 and 0 at the end.
func (l *look) sym(i int) (byte, int) {
	c := l.byteAt(i)
	switch {
	case plainByte[c]:
		return c, 1
	case c == 0:
		if i >= len(l.b) {
			return 0, 0
		}
		return ' ', 1
	case c >= utf8.RuneSelf:
		if !l.eof && !utf8.FullRune(l.b[i:]) {
			l.short = true
			return symOther, 1
		}
		ch, n := utf8.DecodeRune(l.b[i:])
		if s, ok := symbols[ch]; ok {
			return s, n
		}
		return symOther, n
	}
	return c, 1
}

// next is the sign at i or behind white space there.
func (l *look) next(i int) sign {
	from, line := i, false
	for i-from < maxLook {
		if i < len(l.b) && l.b[i] == ' ' {
			i++
			continue
		}
		c, n := l.sym(i)
		if !isBlank(c) {
			return sign{c: c, at: i, end: i + n, space: i > from, line: line}
		}
		line = line || c == '\n' || c == '\r'
		i += n
	}
	return sign{c: symFar, at: i, end: i, space: true, line: line}
}

// has says whether word stands at i.
func (l *look) has(i int, word string) bool {
	for k := range len(word) {
		if l.byteAt(i+k) != word[k] {
			return false
		}
	}
	return true
}

// fenceAt says whether x begins a code fence that ends an answer.
func (l *look) fenceAt(x sign) bool {
	if x.c != '`' || !l.has(x.at, "```") {
		return false
	}
	c := l.byteAt(x.at + 3)
	return c == 0 || isBlank(c)
}

// quotesAt gives where the quotes in a row that begin at i end, three at most.
func (l *look) quotesAt(i int) int {
	for range 3 {
		c, n := l.sym(i)
		if !isQuote(c) {
			break
		}
		i += n
	}
	return i
}

// comment says whether a comment begins with x.
func (l *look) comment(x sign) bool {
	if x.c != '/' {
		return x.c == '#'
	}
	c := l.byteAt(x.end)
	return c == '/' || c == '*'
}

func isBlank(c byte) bool {
	return c == ' ' || c == '\n' || c == '\t' || c == '\r' || c == '\f' || c == '\v'
}

// quotes are the signs that a string may begin with.
var quotes = string([]byte{'"', '\'', '`', symDouble, symSingle})

func isQuote(c byte) bool { return c != 0 && strings.IndexByte(quotes, c) >= 0 }

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// isTokenByte marks what numbers, literals and names of functions are made of.
func isTokenByte(c byte) bool { return isWord(c) || c == '$' }

func isNameByte(c byte) bool { return isTokenByte(c) && c != '.' && c != '+' }

func isWordsByte(c byte) bool { return isNameByte(c) || c == ' ' }

// ends says whether a value may end before c.
func ends(c byte) bool { return c == 0 || c == ',' || c == '}' || c == ']' || c == symFar }

// quoted passes the string in quotes that begins with x; not ok where its end is too far away.
func (l *look) quoted(x sign) (end int, ok bool) {
	for k := x.end; k < x.at+maxLook; {
		c, n := l.sym(k)
		switch {
		case n == 0:
			return k, false
		case c == x.c || x.c == symDouble && c == '"' || x.c == symSingle && c == '\'':
			return k + n, true
		case c == '\\':
			n++
		}
		k += n
	}
	return x.at + maxLook, false
}

// span passes signs that are of a kind, or not ASCII.
func (l *look) span(i int, is func(byte) bool) int {
	k := i
	for k < i+maxLook {
		c, n := l.sym(k)
		if n == 0 || c != symOther && (!is(c) || n > 1) {
			break
		}
		k += n
	}
	return k
}

// find gives the first of signs at i or behind it, and where it is; 0 where none is near.
func (l *look) find(i int, signs string) (c byte, at int) {
	for k := i; k < i+maxLook; {
		c, n := l.sym(k)
		if n == 0 || strings.IndexByte(signs, c) >= 0 {
			return c, k
		}
		k += n
	}
	return 0, i + maxLook
}

func (l *look) colonAt(i int) bool {
	c := l.next(i).c
	return c == ':' || c == '=' || c == symFar
}

// The forms of a key, whole and with a part missing (RP-02, RP-13).

// quotedKey says whether x begins a key in quotes, with its colon.
func (l *look) quotedKey(x sign) bool {
	if !isQuote(x.c) {
		return false
	}
	end, ok := l.quoted(x)
	return ok && l.colonAt(end)
}

// bareKey says whether a name and a colon stand at i.
func (l *look) bareKey(i int) bool {
	end := l.span(i, isNameByte)
	if end == i || end >= i+maxLook {
		return false
	}
	x := l.next(end)
	return x.c == ':' && !l.has(x.at, "://") || x.c == '=' && l.byteAt(x.end) != '='
}

// halfKey says whether words, a quote and a colon stand at i.
func (l *look) halfKey(i int) bool {
	end := l.span(i, isWordsByte)
	return end > i && l.byteAt(end) == '"' && l.colonAt(end+1)
}

// openKey says whether words and a colon stand at i, behind a quote.
func (l *look) openKey(i int) bool {
	end := l.span(i, isWordsByte)
	return end > i && l.byteAt(end) == ':'
}

// restOfKey says whether text, a quote and a colon stand at i: the quote before i opens a key.
func (l *look) restOfKey(i int) bool {
	c, k := l.find(i, `"{}[]:\`+"\n")
	return c == '"' && k > i && l.next(k+1).c == ':'
}

// wordThen is the sign behind the word at i; a sign without a place where there is no word.
func (l *look) wordThen(i int) sign {
	if end := l.span(i, isNameByte); end > i {
		return l.next(end)
	}
	return sign{c: symOther}
}

// keyIn says whether x, a quote, begins a key. odd says that a quotation is open, so that only a colon is proof.
func (l *look) keyIn(x sign, odd bool) bool {
	if !odd { // ""name"
		if c, n := l.sym(x.end); c == x.c {
			y := sign{c: c, at: x.end, end: x.end + n}
			if end, ok := l.quoted(y); ok && end > y.end+n && l.colonAt(end) {
				return true
			}
		}
	}
	end, ok := l.quoted(x)
	if !ok {
		return true
	}
	y := l.next(end)
	switch y.c {
	case 0, ':', '=', symFar:
		return true
	case '{', '[', '"', '-', ',', '}': // the colon is missing, or the value
		return !odd
	}
	return !odd && (isDigit(y.c) || l.plainValue(y, true))
}

// memberAt says whether a member may begin with x, behind a value or a comma.
func (l *look) memberAt(x sign, comma, odd bool) bool {
	switch {
	case isQuote(x.c):
		return !odd && comma && x.line || (comma || x.space) && l.keyIn(x, odd) || !odd && (l.quotedKey(x) || comma && l.openKey(x.end))
	case odd:
		return false
	case comma && (x.c == '{' || x.c == '['):
		return true
	case (comma || x.line || x.space && l.valueAt(l.next(l.wordThen(x.at).end))) && l.bareKey(x.at):
		return true
	case !comma && !x.space:
		return false
	case l.halfKey(x.at):
		return true
	}
	y := l.wordThen(x.at) // RP-13: a word between members
	return comma && l.quotedKey(y) || !comma && y.c == '}'
}

// The forms of an element (RP-12).

// quotedElement says whether x, a quote, begins a whole element; loose, that the comma behind it may be missing.
func (l *look) quotedElement(x sign, loose bool) bool {
	end, ok := l.quoted(x)
	if !ok {
		return true
	}
	y := l.next(end)
	return ends(y.c) || loose && (y.c == '{' || y.c == '[' || y.c == '"' || l.plainValue(y, true))
}

// plainValue says whether x begins a word that is a value; strict, that it is a number or a literal, behind which the comma may be missing.
func (l *look) plainValue(x sign, strict bool) bool {
	k := l.span(x.at, isTokenByte)
	if k == x.at || k >= x.at+maxLook {
		return k > x.at
	}
	y := l.next(k)
	if l.short || !ends(y.c) && !(strict && y.space && (y.c == '"' || y.c == '{' || y.c == '[' || isDigit(y.c))) {
		return false
	}
	_, _, ok := readToken(l.b[x.at:k], true)
	return ok || !strict
}

// valueAt says whether x begins a value as JSON writes it, or ends the text.
func (l *look) valueAt(x sign) bool {
	return x.c == 0 || x.c == '{' || x.c == '[' || x.c == '-' || isDigit(x.c) || isQuote(x.c) || l.plainValue(x, true)
}

// halfElement says whether text, a quote, and a comma or bracket stand at i.
func (l *look) halfElement(i int) bool {
	c, k := l.find(i, `"[]{}\`+"\n")
	then := l.next(k + 1).c
	return c == '"' && k > i && (then == ',' || then == ']')
}

// restOfElement says whether the text at i goes on to a quote and another element or the end of the array: the quote before i opens it.
func (l *look) restOfElement(i int) bool {
	c, k := l.find(i, "\"\n")
	if c != '"' || k == i {
		return false
	}
	x := l.next(k + 1)
	if x.c != ',' {
		return x.c == ']' || x.line && x.c != 0
	}
	y := l.next(x.end)
	return y.line || y.c == '"' || y.c == '{' || y.c == '[' || y.c == ']' || l.plainValue(y, true)
}

// elementAt says whether an element may begin with x, behind a value or a comma.
func (l *look) elementAt(x sign, comma, odd bool) bool {
	switch {
	case isQuote(x.c):
		return comma && (!odd || l.quotedElement(x, false)) || !odd && (x.line || l.quotedElement(x, x.space))
	case x.c == '{' || x.c == '[':
		return comma || !odd
	case comma:
		return l.plainValue(x, false) || !odd && (x.line || l.halfElement(x.at))
	case odd || !x.space:
		return false
	case x.line && (x.c == '-' || isDigit(x.c)), l.plainValue(x, true):
		return true
	}
	y := l.wordThen(x.at) // a word, and behind it another element in quotes
	if y.c != ',' {
		return false
	}
	z := l.next(y.end)
	return z.c == '"' && l.quotedElement(z, false)
}
