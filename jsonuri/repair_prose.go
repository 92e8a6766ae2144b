package jsonuri

import (
	"bytes"
	"strings"
)

// thinkTags are the tags around what a model thinks before it answers.
var thinkTags = [...]string{"<think>", "</think>", "<thinking>", "</thinking>", "<reasoning>", "</reasoning>"}

// decideStart begins with a scalar, if that is what the text may be, or with prose.
func (r *repairer) decideStart(x sign) act {
	if x.c == 0 && x.at == len(r.b) {
		return act{do: (*repairer).endWithout}
	}
	if c := r.b[x.at]; startsValue[c] && c != '{' && c != '[' {
		return act{do: (*repairer).startScalar}
	}
	return to(rpProse, 0, "")
}

// endWithout is the end of a text without a document (RP-09), unless a thinking tag never closed: what looked like a document in
// it is one then.
func (r *repairer) endWithout(i int) int {
	if !r.drafting {
		r.p.err = ErrNoDocument
		return i
	}
	r.flush()
	r.state, r.thinking, r.drafting = rpValue, false, false
	r.b = r.draft
	return 0
}

func (r *repairer) startScalar(i int) int {
	p := r.p
	if r.scalar == nil {
		r.scalar = NewParser(Handler{}, &Options{MaxBytes: p.maxBytes, MaxNumber: p.maxNumber})
	}
	r.scalar.Reset()
	r.fed = 0
	r.state = rpScalar
	return i
}

// stepScalar checks whether the text is a single scalar. All of it waits meanwhile.
func (r *repairer) stepScalar(i int) (int, bool) {
	n, err := r.scalar.Write(r.b[i+r.fed:])
	r.fed += n
	if err == nil && r.eof {
		err = r.scalar.Close()
	}
	if err != nil {
		r.state = rpProse
		return i, true
	}
	if !r.eof {
		return i, false
	}
	// It is one: strict mode reads it again and tells the handler.
	p := r.p
	p.state = stValue
	p.strict(r.b[i:])
	p.closeStrict()
	r.state = rpDone
	return len(r.b), true
}

// decideProse reads what stands before the document: prose, fences, thinking (RP-01).
func (r *repairer) decideProse(i int) act {
	c, n := r.sym(i)
	if isBlank(c) {
		return act{do: (*repairer).passBlank, n: n, c: c}
	}
	draft := byte(0)
	switch c {
	case 0:
		return act{do: (*repairer).endWithout}
	case '{', '[':
		switch x := (sign{c: c, at: i, end: i + n}); {
		case !r.thinking && r.startsDocument(x, r.lineStart, 0):
			return act{do: (*repairer).startDocument}
		case r.thinking && !r.drafting && r.lineStart && c == '{' && r.startsDocument(x, true, 0):
			draft = 1
		}
	case '<':
		for _, tag := range thinkTags {
			k := 0
			for k < len(tag) && (r.byteAt(i+k)|0x20 == tag[k] || r.byteAt(i+k) == tag[k]) {
				k++
			}
			if k == len(tag) {
				return act{do: (*repairer).passTag, n: k, c: tag[1], fix: fixThink}
			}
		}
	case '`':
		if r.has(i, "```") {
			return act{do: (*repairer).passFence, n: 3, fix: fixFence}
		}
	}
	end := i + n
	for end < len(r.b) && plainByte[r.b[end]] && r.b[end] > ' ' && !strings.ContainsRune("{[<`&", rune(r.b[end])) {
		end++
	}
	return act{do: (*repairer).passWord, n: end - i, c: draft}
}

func (r *repairer) passBlank(i int) int {
	r.p.blank++
	if r.a.c == '\n' || r.a.c == '\r' {
		r.lineStart, r.inFence = true, false
	}
	r.keepForProse(r.b[i : i+r.a.n])
	return i + r.a.n
}

func (r *repairer) startDocument(i int) int {
	r.p.blank = 0
	r.flush()
	if r.said || r.fixes[fixFence] > 0 {
		r.fix(fixProse)
	}
	r.state = rpValue
	return i
}

func (r *repairer) passTag(i int) int {
	r.p.blank = 0
	r.thinking = r.a.c != '/'
	r.drafting, r.draft = false, r.draft[:0]
	r.lineStart = true
	return i + r.a.n
}

func (r *repairer) passFence(i int) int {
	r.p.blank = 0
	r.keepForProse(r.b[i : i+3])
	r.lineStart, r.inFence = true, true
	return i + 3
}

func (r *repairer) passWord(i int) int {
	r.p.blank = 0
	text := r.b[i : i+r.a.n]
	if r.inFence { // the name of a language
		r.keepForProse(text)
		return i + r.a.n
	}
	r.drafting = r.drafting || r.a.c != 0
	// The white space that was kept back before it is prose too, but for that at the start.
	space := r.space
	if !r.said && len(r.out) == 0 {
		space = bytes.TrimLeft(space, " \t\r\n\f\v")
	}
	r.mended = appendEscaped(r.mended[:0], space)
	r.space = r.space[:0]
	r.keepDraft(text)
	r.mended = appendEscaped(r.mended, text)
	r.piece(r.mended)
	r.lineStart, r.before = false, text[len(text)-1]
	return i + r.a.n
}

// keepForProse keeps text that is prose only if prose follows: the line that begins a fence is not, where the document is in it.
func (r *repairer) keepForProse(text []byte) {
	r.space = append(r.space, text[:min(len(text), max(0, maxLook-len(r.space)))]...)
	r.keepDraft(text)
}

// keepDraft keeps text that may be the document although a thinking tag before it was never closed.
func (r *repairer) keepDraft(text []byte) {
	if r.drafting {
		r.draft = append(r.draft, text...)
	}
}

// startsDocument says whether the bracket x is the document's first. line says that it is the first of its line or fence; a
// bracket inside a line must go on like JSON.
func (r *repairer) startsDocument(x sign, line bool, level int) bool {
	y := r.next(x.end)
	nested := level > 0
	switch {
	case level > 8, y.line, y.c == symFar:
		return true
	case y.c == 0:
		return line || nested
	case y.c == x.c+2: // {} or []
		return nested || r.alone() || r.before == '(' || r.lineEnds(y.end)
	case y.c == '}' || y.c == ']':
		return nested || r.alone() && r.lineEnds(y.end)
	case y.c == '`' && r.has(y.at, "```"):
		return false
	case y.c == '/', y.c == '#', y.c == ',', y.c == symDots, y.c == '.':
		return line
	case y.c == '\\' && r.escapedAt(y.at):
		return line || r.before == '"'
	case y.c == x.c, x.c == '[' && y.c == '{':
		return r.startsDocument(y, line, level+1)
	case x.c == '[' && isQuote(y.c):
		return line || r.quotedElement(y, false)
	case x.c == '[':
		return r.listAt(y.at, line, nested) || line && r.halfElement(y.at) || r.alone() && r.isAll(y.at)
	case isQuote(y.c):
		if line {
			return true
		}
		end, ok := r.quoted(y)
		return !ok || r.colonAt(end)
	case y.c == ':':
		return line
	case r.bareKey(y.at):
		return true
	case !line:
		return false
	}
	if z := r.wordThen(y.at); z.space && isQuote(z.c) { // a key without its colon
		return true
	}
	// A key of several words, or one whose opening quote is missing.
	c, _ := r.find(y.at, ":\"\n},.{[")
	return c == ':' || c == '"'
}

// isAll says whether the text that goes on at i is in brackets to its end, and on one line.
func (r *repairer) isAll(i int) bool {
	last := byte(0)
	for k := i; k < i+maxLook; k++ {
		c := r.byteAt(k)
		if c == 0 || c == '\n' {
			return last == ']' && r.next(k).c == 0
		}
		if !isBlank(c) {
			last = c
		}
	}
	return false
}

// alone says that nothing but white space has come before.
func (r *repairer) alone() bool {
	return !r.said && r.fixes[fixFence] == 0 && len(r.out) == 0 && r.lineStart && !r.inFence
}

// listAt says whether what stands at i, behind an opening bracket, is a list of numbers, literals or words, and not a
// reference like [1] or a remark like [sic]. nested says that the bracket stands in another one.
func (r *repairer) listAt(i int, line, nested bool) bool {
	several := false
	for k := i; k < i+maxLook; {
		from := k
		for c := r.byteAt(k); k < i+maxLook && (isTokenByte(c) || c >= 0x80); c = r.byteAt(k) {
			k++
		}
		if k >= i+maxLook {
			return line
		}
		if k == from {
			return false
		}
		_, _, plain := readToken(r.token[:0], r.b[from:min(k, len(r.b))], k == len(r.b))
		x := r.next(k)
		open := x.c == '"' || x.c == '{' || x.c == '['
		switch {
		case x.c == ',' && (line || !plain):
			return line
		case x.c == ',':
			several = true
			y := r.next(x.end)
			if k = y.at; y.c == '"' || y.c == '{' || y.c == '[' {
				return true
			}
		case x.c == ']', x.c == '}' && r.alone():
			return plain && (line || several) && (nested || line && x.line || r.lineEnds(x.end))
		case x.c == 0, x.line, x.c == symFar:
			return line && plain
		case plain && (nested || r.alone()) && (x.space || x.c == '"') && (open || isTokenByte(x.c)):
			// A missing comma. Behind prose two words in brackets are a remark.
			if open {
				return true
			}
			several, k = true, x.at
		default:
			return false
		}
	}
	return true
}

// lineEnds says whether nothing more stands on the line from i on.
func (r *repairer) lineEnds(i int) bool {
	x := r.next(i)
	return x.line || x.c == 0 || x.c == '`' || x.c == '<' || x.c == symFar
}

// mayBeEscaped says whether the whole document was written as a string's content, which shows at its first sign (RP-14).
func (r *repairer) mayBeEscaped(x sign) bool {
	return !r.unescape && r.fresh && len(r.p.stack) <= 2 && r.escapedAt(x.at)
}

// escapedAt says whether a quote or white space of an escaped document stands at i.
func (l *look) escapedAt(i int) bool {
	c := l.byteAt(i + 1)
	return l.byteAt(i) == '\\' && (c == '"' || c == 'n' || c == 'r' || c == 't')
}

// startEscaped turns the rest of the text around.
func (r *repairer) startEscaped(i int) int {
	r.unescape = true
	r.unit = r.unit[:0]
	r.b = r.filterEscapes(nil, r.b[i:])
	return 0
}

// filter takes one level of escapes away from text if the whole document is escaped.
func (r *repairer) filter(text []byte) []byte {
	if r.unescape {
		r.filtered = r.filterEscapes(r.filtered[:0], text)
		return r.filtered
	}
	return text
}

// filterEscapes appends text to dst with one level of escapes taken away; an escape that is not whole waits in unit.
func (r *repairer) filterEscapes(dst, text []byte) []byte {
	for _, c := range text {
		if len(r.unit) == 0 && c != '\\' {
			dst = append(dst, c)
			continue
		}
		r.unit = append(r.unit, c)
		u := r.unit
		switch {
		case len(u) == 1, u[1] == 'u' && (len(u) == 2 || len(u) < 6 && hexValue(c) != 0xFF):
			continue
		case u[1] != 'u' && strings.IndexByte(`"\/bfnrt`, u[1]) < 0, u[1] == 'u' && (hexValue(c) == 0xFF || isHigh(hex4(u[2:])) || isLow(hex4(u[2:]))):
			dst = append(dst, u...) // no escape, or one that means the same one level down
		default:
			dst = appendUnescaped(dst, u)
		}
		r.unit = r.unit[:0]
	}
	return dst
}
