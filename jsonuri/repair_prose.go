package jsonuri

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

// thinkTags are the tags around what a model thinks before it answers.
var thinkTags = [...]string{"<think>", "</think>", "<thinking>", "</thinking>", "<reasoning>", "</reasoning>"}

// stepProse reads what stands before the document: prose, fences, thinking. Nothing is prose before something that is
// not white space has come.
func (r *repairer) stepProse(i int) (int, bool) {
	if r.fed == 0 {
		if r.base == 0 && i == 0 && r.has(0, "\ufeff") {
			i = 3
		}
		if r.short {
			return i, false
		}
		c, _, next, wait := r.peek(i)
		if wait || c == 0 {
			return next, false
		}
		i = next
		if r.mayBeScalar(r.b[i]) {
			r.startScalar()
			return i, true
		}
		r.fed = -1 // whatever it is, it is more than a scalar
	}
	r.prose = true
	for i < len(r.b) {
		next, state, wait := r.proseAt(i)
		if wait {
			return i, false
		}
		if state != rpProse {
			r.flush()
			r.prose = false
			if r.said || r.fixes[fixFence] > 0 {
				r.fix(fixProse)
			}
			r.state = state
			return next, true
		}
		i = next
	}
	return i, false
}

// proseAt takes the next piece of prose.
func (r *repairer) proseAt(i int) (next int, state repairState, wait bool) {
	b := r.b
	c, n := r.sym(i)
	if r.short {
		return i, rpProse, true
	}
	if isBlank(c) {
		r.p.blank++
		if c == '\n' || c == '\r' {
			r.lineStart, r.inFence = true, false
		}
		r.keepForProse(b[i : i+n])
		return i + n, rpProse, false
	}
	r.p.blank = 0
	switch c {
	case '{', '[':
		if r.thinking {
			if !r.drafting && r.lineStart && c == '{' {
				start := r.startsDocument(i, n, c, true, 0)
				if r.short {
					return i, rpProse, true
				}
				r.drafting = start
			}
			break
		}
		start := r.startsDocument(i, n, c, r.lineStart, 0)
		if r.short {
			return i, rpProse, true
		}
		if start {
			return i, rpValue, false
		}
	case '<':
		tag := r.tag(i)
		if r.short {
			return i, rpProse, true
		}
		if tag != "" {
			r.fix(fixThink)
			r.thinking = tag[1] != '/'
			r.drafting, r.draft = false, r.draft[:0]
			r.lineStart = true
			return i + len(tag), rpProse, false
		}
	case '`':
		fence := r.has(i, "```")
		if r.short {
			return i, rpProse, true
		}
		if fence {
			r.fix(fixFence)
			r.keepForProse(b[i : i+3])
			r.lineStart, r.inFence = true, true
			return i + 3, rpProse, false
		}
	}
	end := i + n
	for end < len(b) && plainByte[b[end]] && b[end] > ' ' && !strings.ContainsRune("{[<`&", rune(b[end])) {
		end++
	}
	if r.inFence { // the name of a language
		r.keepForProse(b[i:end])
	} else {
		r.say(b[i:end])
		r.lineStart, r.before = false, b[end-1]
	}
	return end, rpProse, false
}

// keepForProse keeps text that is prose only if prose follows: the line that begins a fence is not, where the document is in it.
func (r *repairer) keepForProse(text []byte) {
	r.space = append(r.space, text[:min(len(text), max(0, maxLook-len(r.space)))]...)
	r.drafted(text)
}

// say gives out prose, with the white space that was kept back before it.
func (r *repairer) say(text []byte) {
	if len(r.space) > 0 {
		space := r.space
		if !r.said && r.out == nil {
			space = bytes.TrimLeft(space, " \t\r\n\f\v")
		}
		if len(space) > 0 {
			r.mended = appendEscaped(r.mended[:0], space)
			r.pieceCopy(r.mended)
		}
		r.space = r.space[:0]
	}
	r.drafted(text)
	clean := skipPlain(text, 0) == len(text)
	if clean {
		r.piece(text)
		return
	}
	r.mended = appendEscaped(r.mended[:0], text)
	r.pieceCopy(r.mended)
}

// drafted keeps text that may be the document although a thinking tag before it was never closed.
func (r *repairer) drafted(text []byte) {
	if r.drafting {
		r.draft = append(r.draft, text...)
	}
}

// tag gives the thinking tag at i, in small letters; "" where there is none.
func (r *repairer) tag(i int) string {
	for _, tag := range thinkTags {
		k := 0
		for k < len(tag) && (r.at(i+k)|0x20 == tag[k] || r.at(i+k) == tag[k]) {
			k++
		}
		if k == len(tag) {
			return tag
		}
		if r.short {
			return ""
		}
	}
	return ""
}

// startsDocument says whether the bracket c at i, of n bytes, is the document's first. line says that it is the first of
// its line or fence; a bracket inside a line must go on like JSON.
func (r *repairer) startsDocument(i, n int, c byte, line bool, level int) bool {
	if level > 8 {
		return true
	}
	j, lineBreak := r.skip(i + n)
	if lineBreak {
		return true
	}
	d, m := r.sym(j)
	if d == 0 {
		return line || level > 0
	}
	if d == c+2 { // {} or []
		return level > 0 || r.alone() || r.before == '(' || r.lineEnds(j+m)
	}
	if isBlank(d) {
		return true // more white space than is looked at
	}
	if d == '`' && r.has(j, "```") {
		return false
	}
	if d == '}' || d == ']' { // a bracket of the other kind
		return level > 0 || r.alone() && r.lineEnds(j+m)
	}
	if d == '/' || d == '#' || d == ',' || d == symDots || d == '.' || d == '\\' && r.escapedAt(j) {
		return line
	}
	if c == '{' {
		switch {
		case r.isQuote(d):
			if line {
				return true
			}
			k, sure := r.pastQuoted(j, m)
			return !sure || r.colonFollows(k)
		case d == '{':
			return r.startsDocument(j, m, d, line, level+1)
		case d == ':':
			return line
		}
		if r.bareKeyAt(j) || line && r.wordThenQuote(j) {
			return true
		}
		if !line {
			return false
		}
		// A key of several words, or one whose opening quote is missing.
		for k := j; k < j+maxLook; {
			d, n := r.sym(k)
			switch {
			case d == ':':
				return true
			case d == '"':
				return k > j
			case n == 0, d == '\n', d == '}', d == ',', d == '.', d == '{', d == '[':
				return false
			}
			k += n
		}
		return false
	}
	switch {
	case d == '{' || d == '[':
		return r.startsDocument(j, m, d, line, level+1)
	case r.isQuote(d):
		return line || r.elementAt(j, m, false)
	}
	return r.listAt(j, line, level > 0) || line && r.halfElementAt(j) || r.alone() && r.isAll(j)
}

// wordThenQuote says whether a word and a quote stand at i: a key without its colon.
func (r *repairer) wordThenQuote(i int) bool {
	k := i
	for k < i+maxLook && isNameByte(r.at(k)) {
		k++
	}
	j, _ := r.skip(k)
	c, _ := r.sym(j)
	return k > i && j > k && r.isQuote(c)
}

// isAll says whether the text that goes on at i is in brackets to its end, and on one line.
func (r *repairer) isAll(i int) bool {
	last := byte(0)
	for k := i; k < i+maxLook; k++ {
		switch c := r.at(k); {
		case c == 0 && k >= len(r.b):
			return last == ']'
		case c == '\n':
			k, _ = r.skip(k)
			return last == ']' && r.at(k) == 0 && k >= len(r.b)
		case !isBlank(c):
			last = c
		}
	}
	return false
}

// alone says that nothing but white space has come before.
func (r *repairer) alone() bool {
	return !r.said && r.fixes[fixFence] == 0 && r.out == nil && r.lineStart && !r.inFence
}

// listAt says whether what stands at i, behind an opening bracket, is a list of numbers, literals or words, and not a
// reference like [1] or a remark like [sic]. nested says that the bracket stands in another one.
func (r *repairer) listAt(i int, line, nested bool) bool {
	several := false
	for k := i; k < i+maxLook; {
		from := k
		for k < i+maxLook && (isTokenByte(r.at(k)) || r.at(k) >= utf8.RuneSelf) {
			k++
		}
		if k >= i+maxLook {
			return line
		}
		if k == from || r.short {
			return false
		}
		_, _, plain := r.tokenValue(r.b[from:k], k == len(r.b))
		j, lineBreak := r.skip(k)
		c, m := r.sym(j)
		switch {
		case c == ',' && !line && !plain:
			return false
		case c == ',' && line:
			return true
		case c == ',':
			several = true
			k, _ = r.skip(j + m)
			if d, _ := r.sym(k); d == '"' || d == '{' || d == '[' {
				return true
			}
			continue
		case c == ']', c == '}' && r.alone():
			return plain && (line || several) && (nested || line && lineBreak || r.lineEnds(j+m))
		case c == 0 || lineBreak || isBlank(c):
			return line && plain
		case plain && (nested || r.alone()) && (j > k || c == '"') && (isTokenByte(c) || c == '"' || c == '{' || c == '['):
			// A missing comma. Behind prose two words in brackets are a remark.
			if c == '"' || c == '{' || c == '[' {
				return true
			}
			several, k = true, j
			continue
		}
		return false
	}
	return true
}

// lineEnds says whether nothing more stands on the line from i on.
func (r *repairer) lineEnds(i int) bool {
	j, lineBreak := r.skip(i)
	c, _ := r.sym(j)
	return lineBreak || c == 0 || c == '`' || c == '<' || isBlank(c)
}

// mayBeScalar says whether a document that is a single scalar could begin with c.
func (r *repairer) mayBeScalar(c byte) bool { return startsValue[c] && c != '{' && c != '[' }

// startScalar begins to check whether the text is a single scalar. All of it waits meanwhile.
func (r *repairer) startScalar() {
	p := r.p
	if r.scalar == nil {
		r.scalar = NewParser(Handler{}, &Options{MaxBytes: p.maxBytes, MaxNumber: p.maxNumber})
	}
	r.scalar.Reset()
	r.fed = 0
	r.state = rpScalar
}

func (r *repairer) stepScalar(i int) (int, bool) {
	n, err := r.scalar.Write(r.b[i+r.fed:])
	r.fed += n
	if err == nil && r.eof {
		err = r.scalar.Close()
	}
	if err != nil {
		r.fed = -1
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
