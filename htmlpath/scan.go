package htmlpath

import (
	"bytes"

	"golang.org/x/net/html"
)

// mode says where a parser is in the input.
type mode uint8

const (
	inProse mode = iota // before the document, in repair mode: see prose.go
	inText              // also in the text of elements such as <script>
	inComment
	inBogus // what ends with the next ">": a doctype, for example
	inCDATA
	atEnd // what comes now is ignored
)

func isSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\t' || c == '\r' || c == '\f' }

func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// endsName reports whether the name of a tag ends before c.
func endsName(c byte) bool { return isSpace(c) || c == '/' || c == '>' }

// step parses the next piece of the buffer. It returns false if it needs more of the input; final means that it has all.
func (p *Parser) step(final bool) bool {
	rest := p.buf[p.pos:]
	if len(rest) == 0 {
		return false
	}
	switch p.mode {
	case inProse:
		return p.stepProse(rest, final)
	case inText:
		return p.stepText(rest, final)
	case inComment:
		return p.stepComment(rest, final)
	case inCDATA:
		return p.stepCDATA(rest, final)
	}
	end := bytes.IndexByte(rest, '>') // of inBogus
	if end >= 0 {
		p.mode = inText
	} else {
		end = len(rest) - 1
	}
	p.advance(end + 1)
	return true
}

// advance moves the front of the buffer behind n bytes of the document.
func (p *Parser) advance(n int) {
	p.pos += n
	p.scanned, p.scan = 0, scanName
}

// release hands out the source that was parsed.
func (p *Parser) release() {
	if p.pos > p.from && p.handler.Source != nil {
		p.handler.Source(p.buf[p.from:p.pos])
	}
	p.from = p.pos
}

// drop ignores the rest of the input, in which a tag was cut off.
func (p *Parser) drop() bool {
	p.release()
	p.fixes[fixCut]++
	p.pos = len(p.buf)
	p.from = p.pos
	return false
}

// advanceText is advance for n bytes that are text.
func (p *Parser) advanceText(n int) bool {
	p.put(p.buf[p.pos : p.pos+n])
	p.advance(n)
	return true
}

// put adds source to the text, line breaks made one kind.
func (p *Parser) put(text []byte) {
	if len(p.stack) == 0 {
		p.countBlank(text)
	}
	for len(text) > 0 {
		if p.newline && text[0] == '\n' {
			p.newline, text = false, text[1:]
			continue
		}
		run := text[:min(len(text), maxText)]
		if i := bytes.IndexByte(run, '\r'); i >= 0 {
			run = run[:i]
		}
		if p.raw != rawNone || p.mode != inText { // elsewhere NUL is itself
			if i := bytes.IndexByte(run, 0); i >= 0 {
				run = run[:i]
			}
		}
		p.newline = len(run) == 0 && text[0] == '\r'
		switch {
		case len(run) > 0:
			p.text = append(p.text, run...)
		case p.newline:
			p.text = append(p.text, '\n')
		default:
			p.text = append(p.text, "\uFFFD"...)
		}
		if text = text[max(len(run), 1):]; len(p.text) >= maxText {
			p.flush(false)
		}
	}
}

// putPlain is put for text without special bytes.
func (p *Parser) putPlain(text []byte) {
	if len(p.stack) == 0 || len(p.text)+len(text) > maxText {
		p.put(text)
		return
	}
	p.newline = false
	p.text = append(p.text, text...)
}

func (p *Parser) countBlank(text []byte) {
	for _, c := range text {
		if p.blank++; !isSpace(c) {
			p.blank = 0
		}
	}
}

// endText hands out the text before a tag or comment.
func (p *Parser) endText() {
	p.flush(true)
	p.newline, p.blank = false, 0
}

// special marks the bytes of text that may be more than themselves.
var special = [256]bool{'<': true, '&': true, '\r': true, '\n': true, 0: true}

// stepText reads text, a reference or a tag.
func (p *Parser) stepText(rest []byte, final bool) bool {
	n := 0
	for n < len(rest) && !special[rest[n]] {
		n++
	}
	switch c := rest[min(n, len(rest)-1)]; {
	case n > 0:
		p.putPlain(rest[:n])
		p.advance(n)
		return true
	case p.raw == rawPlain || c == 0:
		return p.advanceText(1)
	case c == '&' && p.raw != rawText:
		return p.stepReference(rest, final)
	case c == '<' && p.raw != rawNone:
		return p.stepRawEnd(rest, final)
	case c == '<':
		return p.stepMarkup(rest, final)
	case c == '&' || p.fence == 0 || p.kept > 0 || p.raw != rawNone:
		return p.advanceText(1)
	}
	// A line break, behind which the fence may end.
	n = 1
	if rest[0] == '\r' && len(rest) > 1 && rest[1] == '\n' {
		n = 2
	}
	if rest[0] == '\r' && len(rest) == 1 && !final {
		return false
	}
	last, known := p.lastLine(rest[n:], final)
	switch {
	case !known:
		return false
	case last > 0:
		p.end()
		p.pos += n + last
		return true
	}
	return p.advanceText(n)
}

// maxReference is longer than any named reference: a longer one is decided by its first letters.
const maxReference = 40

// stepReference reads a character reference.
func (p *Parser) stepReference(rest []byte, final bool) bool {
	numeric := len(rest) > 1 && rest[1] == '#'
	n := max(p.scanned, 1)
	for n < len(rest) && (isLetter(rest[n]) || isDigit(rest[n]) || n == 1 && numeric) && (numeric || n < maxReference) {
		n++
	}
	if n == len(rest) && !final && n < p.maxTag {
		p.scanned = n
		return false
	}
	if n < len(rest) && rest[n] == ';' {
		n++
	}
	switch string(rest[:n]) { // what nearly all of them are
	case "&lt;":
		p.put([]byte("<"))
	case "&gt;":
		p.put([]byte(">"))
	case "&amp;":
		p.put([]byte("&"))
	case "&quot;":
		p.put([]byte(`"`))
	default:
		p.newline = false
		p.text = append(p.text, html.UnescapeString(string(rest[:n]))...)
		p.blank = 0
	}
	p.advance(n)
	return true
}

// stepRawEnd reads what may be the end tag of an element whose text holds no others.
func (p *Parser) stepRawEnd(rest []byte, final bool) bool {
	name := p.top()
	for i, c := range rest[1:] {
		switch {
		case i == 0 && c == '/', i > 0 && i <= len(name) && c|0x20 == name[i-1]:
		case i == len(name)+1 && endsName(c):
			return p.stepTag(rest, final)
		default:
			return p.advanceText(1)
		}
	}
	return p.wait(rest, final)
}

// wait returns false if there is more of the input. The beginning of a tag is text if it is the end of a document, and of no use in one that
// was cut off.
func (p *Parser) wait(rest []byte, final bool) bool {
	switch {
	case !final:
		return false
	case !p.repair:
		return p.advanceText(len(rest))
	}
	return p.drop()
}

// stepMarkup reads what begins with "<".
func (p *Parser) stepMarkup(rest []byte, final bool) bool {
	const section = "<![CDATA["
	if len(rest) == 1 {
		return p.wait(rest, final)
	}
	switch c := rest[1]; {
	case isLetter(c):
		return p.stepTag(rest, final)
	case c == '/':
		switch {
		case len(rest) == 2:
			return p.wait(rest, final)
		case isLetter(rest[2]):
			return p.stepTag(rest, final)
		case rest[2] == '>':
			p.endText()
			p.advance(len("</>"))
			return true
		}
		return p.aside(inBogus, 2)
	case c == '?':
		return p.aside(inBogus, 2)
	case c != '!':
		return p.advanceText(1)
	case bytes.HasPrefix(rest, []byte("<!--")):
		p.fresh = true
		return p.aside(inComment, len("<!"))
	case p.foreign() && bytes.HasPrefix(rest, []byte(section)):
		return p.aside(inCDATA, len(section))
	case !final && (bytes.HasPrefix([]byte("<!--"), rest) || p.foreign() && bytes.HasPrefix([]byte(section), rest)):
		return false
	}
	return p.aside(inBogus, len("<!"))
}

// aside begins a comment or the like, with n bytes.
func (p *Parser) aside(m mode, n int) bool {
	p.endText()
	p.advance(n)
	p.mode = m
	return true
}

// stepComment reads a comment behind "<!" to "-->" or "--!>". The dashes that begin it count for the first.
func (p *Parser) stepComment(rest []byte, final bool) bool {
	const longest = len("--!")
	for i := p.scanned; i < len(rest); i++ {
		dashes := bytes.HasSuffix(rest[:i], []byte("--"))
		bang := bytes.HasSuffix(rest[:i], []byte("--!")) && (!p.fresh || i-longest >= len("--"))
		if rest[i] == '>' && (dashes || bang) {
			p.mode = inText
			p.advance(i + 1)
			return true
		}
	}
	if n := len(rest) - longest; final {
		p.advance(len(rest))
	} else if n > longest || n > 0 && !p.fresh {
		p.advance(n)
		p.fresh = false
	}
	p.scanned = len(p.buf) - p.pos
	return false
}

// stepCDATA reads the text of a CDATA section to "]]>".
func (p *Parser) stepCDATA(rest []byte, final bool) bool {
	n := bytes.Index(rest, []byte("]]>"))
	if n == 0 {
		p.mode = inText
		p.advance(len("]]>"))
		p.endText()
		return true
	}
	if n < 0 {
		n = len(rest)
		for i := 1; i <= 2 && !final && bytes.HasSuffix(rest, []byte("]]"[:i])); i++ {
			n = len(rest) - i
		}
	}
	return n > 0 && p.advanceText(n)
}

// scan says where in a tag the search for its end is.
type scan uint8

const (
	scanName scan = iota
	scanBefore
	scanKey
	scanAfterKey
	scanBeforeValue
	scanQuoted
	scanUnquoted
)

// tagEnd returns the length of the tag that text begins with, by the tokenizer's rules; 0 if it goes on. It continues where the last search
// has stopped.
func (p *Parser) tagEnd(text []byte) int {
	for i := max(p.scanned, 1); i < len(text); i++ {
		c := text[i]
		if i == 1 && c == '/' {
			continue
		}
		switch {
		case p.scan == scanQuoted:
			if c == p.quote {
				p.scan = scanBefore
			}
		case c == '>':
			return i + 1
		case p.scan == scanBeforeValue && (c == '"' || c == '\''):
			p.scan, p.quote = scanQuoted, c
		case isSpace(c):
			switch p.scan {
			case scanKey:
				p.scan = scanAfterKey
			case scanName, scanUnquoted:
				p.scan = scanBefore
			}
		case p.scan == scanBeforeValue:
			p.scan = scanUnquoted
		case p.scan == scanUnquoted:
		case c == '/':
			p.scan = scanBefore
		case c == '=' && (p.scan == scanKey || p.scan == scanAfterKey):
			p.scan = scanBeforeValue
		case p.scan != scanName:
			p.scan = scanKey
		}
	}
	p.scanned = len(text)
	return 0
}

// stepTag reads a tag.
func (p *Parser) stepTag(rest []byte, final bool) bool {
	n := p.tagEnd(rest)
	p.endText()
	if n > p.maxTag || n == 0 && len(rest) > p.maxTag {
		p.limit("tag", p.maxTag)
		return false
	}
	if n == 0 {
		return final && p.drop()
	}
	self := p.tokenize(rest[:n])
	end := rest[1] == '/'
	if !end {
		if limit, most := p.openTag(p.name, p.attrs, self); limit != "" {
			p.limit(limit, most)
			return false
		}
		p.tags = true
	}
	p.advance(n)
	switch {
	case !end:
	case p.repair && string(p.name) == "html":
		p.end()
	case !p.closeTag(p.name):
		p.fixes[fixStray]++
	}
	return true
}

// tokenize reads a tag, and says whether it closes itself.
func (p *Parser) tokenize(text []byte) (self bool) {
	p.attrs = p.attrs[:0]
	if inner := bytes.TrimPrefix(text[1:len(text)-1], []byte("/")); plainName(inner) {
		p.name = p.name[:0]
		for _, c := range inner {
			if 'A' <= c && c <= 'Z' {
				c += 'a' - 'A'
			}
			p.name = append(p.name, c)
		}
		return false
	}
	if p.tokenizer == nil {
		p.tokenizer = html.NewTokenizer(&p.feed)
	}
	z := p.tokenizer
	p.feed.b = text
	token := z.Next()
	name, more := z.TagName()
	p.name = p.appendValid(p.name[:0], name)
	for more {
		var a Attribute
		a.Name, a.Value, more = z.TagAttr()
		a.Name, a.Value = p.ownValid(a.Name), p.ownValid(a.Value)
		p.attrs = append(p.attrs, a)
	}
	z.NextIsNotRawText() // the parser knows better where such text ends
	return token == html.SelfClosingTagToken
}

// plainName reports whether a tag's text is nothing but a name, which needs no tokenizer.
func plainName(s []byte) bool {
	for _, c := range s {
		if !isLetter(c) && !isDigit(c) && c != '-' {
			return false
		}
	}
	return true
}
