package htmlpath

import (
	"bytes"

	"golang.org/x/net/html"
)

// mode is what the parser is inside of.
type mode uint8

const (
	inProse mode = iota
	inText
	inComment
	inBogus // a doctype, a processing instruction, or what is neither
	atEnd
)

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f' }

func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// endsName says whether a byte ends the name of a tag.
func endsName(c byte) bool { return isSpace(c) || c == '/' || c == '>' }

// step parses the next piece of the buffer. It returns false if it needs more of the input. final says that there is no more.
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
		return p.skipTo("-->", rest)
	default:
		return p.skipTo(">", rest)
	}
}

// advance moves the front of the buffer behind n bytes of the document.
func (p *Parser) advance(n int) bool {
	p.pos += n
	p.scanned, p.last, p.quote = 0, 0, 0
	return true
}

// skipTo skips what has no event, to the end that is given.
func (p *Parser) skipTo(end string, rest []byte) bool {
	if i := bytes.Index(rest, []byte(end)); i >= 0 {
		p.mode = inText
		return p.advance(i + len(end))
	}
	return p.advance(max(0, len(rest)-len(end)+1)) && false
}

// put adds n bytes of the buffer to the text.
func (p *Parser) put(n int) bool {
	p.text = append(p.text, p.buf[p.pos:p.pos+n]...)
	if len(p.stack) == 0 {
		p.countBlank(p.buf[p.pos : p.pos+n])
	}
	return p.advance(n)
}

func (p *Parser) countBlank(text []byte) {
	for _, c := range text {
		if p.blank++; !isSpace(c) {
			p.blank = 0
		}
	}
}

// stepText reads text, a reference or a tag.
func (p *Parser) stepText(rest []byte, final bool) bool {
	n := bytes.IndexAny(rest, "<&\n")
	if n < 0 {
		n = len(rest)
	}
	if n > 0 {
		return p.put(n)
	}
	switch c := rest[0]; {
	case c == '&' && p.raw != rawText:
		return p.stepReference(rest, final)
	case c == '<' && p.raw != rawNone:
		return p.stepRawEnd(rest, final)
	case c == '<':
		return p.stepMarkup(rest, final)
	case c == '\n' && p.fence > 0 && p.raw == rawNone && !p.top().pre:
		return p.stepLine(rest, final)
	}
	return p.put(1)
}

// stepLine reads a line break, behind which the fence may end.
func (p *Parser) stepLine(rest []byte, final bool) bool {
	line := bytes.TrimLeft(rest[1:min(len(rest), 4)], " ")
	line = rest[min(len(rest), 4)-len(line):]
	ticks := len(line) - len(bytes.TrimLeft(line, "`"))
	switch {
	case ticks == len(line) && ticks <= maxFence && !final:
		return false
	case ticks < p.fence, ticks < len(line) && (isLetter(line[ticks]) || isDigit(line[ticks])):
		return p.put(1)
	}
	p.end()
	p.pos += len(rest) - len(line) + ticks
	return true
}

// maxReference is longer than any named reference: a longer one is decided by its first letters.
const maxReference = 40

// stepReference reads a character reference.
func (p *Parser) stepReference(rest []byte, final bool) bool {
	n := 1
	for n < len(rest) && n < maxReference && (isLetter(rest[n]) || isDigit(rest[n]) || n == 1 && rest[n] == '#') {
		n++
	}
	if n == len(rest) && n < maxReference && !final {
		return false
	}
	if n < len(rest) && rest[n] == ';' {
		n++
	}
	p.text = append(p.text, html.UnescapeString(string(rest[:n]))...)
	p.blank = 0
	return p.advance(n)
}

// stepRawEnd reads what may be the end tag of an element whose text holds no others.
func (p *Parser) stepRawEnd(rest []byte, final bool) bool {
	end := "</" + p.top().name
	n := min(len(rest), len(end))
	switch {
	case !bytes.EqualFold(rest[:n], []byte(end[:n])):
		return p.put(1)
	case len(rest) > n && endsName(rest[n]):
		return p.stepTag(rest, final)
	case len(rest) > n:
		return p.put(1)
	}
	return p.wait(rest, final)
}

// wait waits for more of the input. The beginning of a tag is text if it is the end of a document, and of no use in one that was cut off.
func (p *Parser) wait(rest []byte, final bool) bool {
	switch {
	case !final:
		return false
	case !p.repair:
		return p.put(len(rest))
	}
	p.fixes[fixCut]++
	p.release()
	p.pos = len(p.buf)
	p.from = p.pos
	return false
}

// stepMarkup reads what begins with "<".
func (p *Parser) stepMarkup(rest []byte, final bool) bool {
	if len(rest) < 2 || rest[1] == '/' && len(rest) == 2 {
		return p.wait(rest, final)
	}
	switch c := rest[1]; {
	case isLetter(c), c == '/' && isLetter(rest[2]):
		return p.stepTag(rest, final)
	case c == '!' && !final && len(rest) < len("<!--") && bytes.HasPrefix([]byte("<!--"), rest):
		return false
	case bytes.HasPrefix(rest, []byte("<!--")):
		p.mode = inComment
	case c == '!' || c == '?' || c == '/':
		p.mode = inBogus
	default:
		return p.put(1)
	}
	p.flush(true)
	return p.advance(len("<!"))
}

// tagEnd returns the length of the tag that text begins with; 0 if it goes on. It continues where the last search has stopped.
func (p *Parser) tagEnd(text []byte) int {
	for i := max(p.scanned, 1); i < len(text); i++ {
		c := text[i]
		switch {
		case p.quote != 0:
			if c == p.quote {
				p.quote = 0
			}
		case c == '>':
			return i + 1
		case (c == '"' || c == '\'') && p.last == '=':
			p.quote = c
		}
		if !isSpace(c) {
			p.last = c
		}
	}
	p.scanned = len(text)
	return 0
}

// stepTag reads a tag.
func (p *Parser) stepTag(rest []byte, final bool) bool {
	n := p.tagEnd(rest)
	p.flush(true)
	switch {
	case n > p.maxTag || n == 0 && len(rest) > p.maxTag:
		p.limit("tag", p.maxTag)
		return false
	case n == 0:
		return final && p.wait(rest, p.repair)
	}
	name, attributes, closesItself := p.tokenize(rest[:n])
	end := rest[1] == '/'
	if !end {
		p.tags = true
		if limit, most := p.openTag(name, attributes, closesItself); limit != "" {
			p.limit(limit, most)
			return false
		}
	}
	p.advance(n)
	if end && p.repair && name == "html" {
		p.end()
	} else if end {
		p.closeTag(name)
	}
	return true
}

// tokenize reads a tag.
func (p *Parser) tokenize(text []byte) (name string, attributes []Attribute, closesItself bool) {
	if p.tokenizer == nil {
		p.tokenizer = html.NewTokenizer(&p.tag)
	}
	z := p.tokenizer
	p.tag.Reset(text)
	kind := z.Next()
	tag, more := z.TagName()
	name = string(p.valid(tag))
	for more {
		var a Attribute
		a.Name, a.Value, more = z.TagAttr()
		attributes = append(attributes, Attribute{p.valid(a.Name), p.valid(a.Value)})
	}
	z.NextIsNotRawText() // the parser knows better where such text ends
	return name, attributes, kind == html.SelfClosingTagToken
}
