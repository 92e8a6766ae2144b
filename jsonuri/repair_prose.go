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
	r.scalar, r.fed = NewParser(Handler{}, &Options{MaxBytes: r.p.maxBytes, MaxNumber: r.p.maxNumber}), 0
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
		return act{do: (*repairer).passProse, n: n, c: c}
	}
	draft := byte(0)
	switch c {
	case 0:
		return act{do: (*repairer).endWithout}
	case '{', '[':
		switch x := (sign{c: c, at: i, end: i + n}); {
		case !r.thinking && r.startsDocument(x, r.lineStart, false):
			return act{do: (*repairer).startDocument}
		case r.thinking && !r.drafting && r.lineStart && c == '{' && r.startsDocument(x, true, false):
			draft = '{'
		}
	case '<':
		for _, tag := range thinkTags {
			if r.has(i, tag) {
				return act{do: (*repairer).passTag, n: len(tag), c: tag[1], fix: fixThink}
			}
		}
	case '`':
		if r.has(i, "```") {
			return act{do: (*repairer).passProse, n: 3, c: '`', fix: fixFence}
		}
	}
	end := i + n
	for end < len(r.b) && plainByte[r.b[end]] && r.b[end] > ' ' && !strings.ContainsRune("{[<`&", rune(r.b[end])) {
		end++
	}
	return act{do: (*repairer).passProse, n: end - i, c: draft}
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

// passProse passes on what is no document. White space and fences are prose only if prose follows.
func (r *repairer) passProse(i int) int {
	text := r.b[i : i+r.a.n]
	r.drafting = r.drafting || r.a.c == '{'
	if r.drafting { // it may be the document although a thinking tag before it was never closed
		r.draft = append(r.draft, text...)
	}
	blank := isBlank(r.a.c)
	if !blank {
		r.p.blank = 0
	}
	switch {
	case blank:
		r.p.blank++
		if r.a.c == '\n' || r.a.c == '\r' {
			r.lineStart, r.inFence = true, false
		}
	case r.a.c == '`':
		r.lineStart, r.inFence = true, true
	}
	if blank || r.inFence { // behind the fence stands the name of a language
		r.space = append(r.space, text[:min(len(text), max(0, maxLook-len(r.space)))]...)
		return i + r.a.n
	}
	space := r.space
	if !r.said && len(r.out) == 0 {
		space = bytes.TrimLeft(space, " \t\r\n\f\v")
	}
	r.mended = AppendEscaped(AppendEscaped(r.mended[:0], space), text)
	r.piece(r.mended)
	r.space = r.space[:0]
	r.lineStart, r.before = false, text[len(text)-1]
	return i + r.a.n
}

// startsDocument says whether the bracket x is the document's first (RP-01). line says that it is the first of its line or
// fence; a bracket inside a line must go on like JSON. nested says that it stands in another one.
func (r *repairer) startsDocument(x sign, line, nested bool) bool {
	y := r.next(x.end)
	switch {
	case y.line, y.c == symFar:
		return true
	case y.c == 0:
		return line || nested
	case y.c == '}' || y.c == ']':
		return nested || r.alone() || r.before == '(' || y.c == x.c+2 && r.lineEnds(y.end)
	case y.c == '`' && r.has(y.at, "```"):
		return false
	case y.c == '\\' && r.escapedAt(y.at):
		return line || r.before == '"'
	case y.c == x.c, x.c == '[' && y.c == '{':
		return nested || r.startsDocument(y, line, true)
	case y.c == '/', y.c == '#', y.c == ',', y.c == symDots, y.c == '.', y.c == ':':
		return line
	case x.c == '[' && isQuote(y.c):
		return line || r.quotedElement(y, false)
	case x.c == '[':
		return r.startsList(y.at, line, nested)
	case isQuote(y.c):
		return line || r.quotedKey(y)
	case r.bareKey(y.at):
		return true
	case !line:
		return false
	}
	// A key of several words, or one whose opening quote is missing.
	c, _ := r.find(y.at, ":\"\n},.{[")
	return c == ':' || c == '"'
}

// alone says that nothing but white space has come before.
func (r *repairer) alone() bool {
	return !r.said && r.fixes[fixFence] == 0 && len(r.out) == 0 && r.lineStart && !r.inFence
}

// startsList says whether what stands at i, behind an opening bracket, is a list of numbers, literals or words, and not a
// reference like [1] or a remark like [sic].
func (r *repairer) startsList(i int, line, nested bool) bool {
	c, end := r.find(i, "]}\"{[\n")
	list := r.b[i:min(end, len(r.b))]
	comma, plain := bytes.IndexByte(list, ',') >= 0, true
	for token := range bytes.FieldsFuncSeq(list, func(c rune) bool { return c == ',' || c <= ' ' }) {
		_, _, ok := readToken(token, c == 0)
		plain = plain && ok
	}
	switch {
	case line && comma:
		return true
	case (c == ']' || c == '}') && r.alone() && strings.IndexByte("\x00]}", r.next(end+1).c) >= 0:
		return true
	case c == ']':
		return plain && (line || comma) && (nested || r.lineEnds(end+1))
	case c == '\n' || c == 0:
		return line && plain
	}
	return line || plain && comma
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
	r.b = bytes.Clone(r.filter(r.b[i:]))
	return 0
}

// filter takes one level of escapes away from text if the whole document is escaped. An escape that is not whole waits in unit.
func (r *repairer) filter(text []byte) []byte {
	if !r.unescape {
		return text
	}
	text = append(r.unit, text...)
	r.unit, r.filtered = nil, r.filtered[:0]
	for i := 0; i < len(text); {
		n, want := 1, ""
		if text[i] == '\\' {
			n, want = scanUnit(text[i:], false)
		}
		switch {
		case want != "": // a backslash that was meant as one
			r.filtered = append(r.filtered, '\\')
			i++
		case n == 0:
			r.unit = text[i:]
			return r.filtered
		default:
			r.filtered = appendUnescaped(r.filtered, text[i:i+n])
			i += n
		}
	}
	return r.filtered
}
