package htmlpath

import (
	"bytes"

	"golang.org/x/net/html"
)

// begin begins a tag.
func (p *Parser) begin(end bool) {
	p.endText()
	p.end, p.state = end, stName
}

// stepTag looks for the end of a tag, by the tokenizer's rules. What stands in it is the tokenizer's matter.
func (p *Parser) stepTag(b []byte, i int) int {
	for ; i < len(b); i++ {
		c := b[i]
	again:
		switch p.state {
		case stName:
			switch {
			case c == '/' || c == '>':
				p.state = stBefore
				goto again
			case isSpace(c):
				p.state = stBefore
			}
		case stBefore:
			switch {
			case c == '>':
				return p.tag(b, i+1)
			case c != '/' && !isSpace(c):
				p.state = stKey // also of "=", which begins a key
			}
		case stKey:
			if c == '=' || c == '/' || c == '>' || isSpace(c) {
				p.state = stAfterKey
				goto again
			}
		case stAfterKey:
			switch {
			case isSpace(c):
			case c == '/':
				p.state = stBefore
			case c == '=':
				p.state = stBeforeValue
			default:
				p.state = stBefore
				goto again
			}
		case stBeforeValue:
			switch {
			case isSpace(c):
			case c == '>':
				p.state = stBefore
				goto again
			case c == '"' || c == '\'':
				p.state, p.quote = stQuoted, c
			default:
				p.state = stUnquoted
			}
		case stQuoted:
			n := bytes.IndexByte(b[i:], p.quote)
			if n < 0 {
				return len(b)
			}
			i += n
			p.state = stBefore
		case stUnquoted:
			switch {
			case c == '>':
				p.state = stBefore
				goto again
			case isSpace(c):
				p.state = stBefore
			}
		}
	}
	return i
}

// tag takes the tag that ends before b[next].
func (p *Parser) tag(b []byte, next int) int {
	text := b[p.mark:next]
	if len(p.held) > 0 {
		p.held = append(p.held, text...)
		text = p.held
	}
	if len(text) > p.maxTag {
		p.refuse(b, "tag", p.maxTag)
		return next
	}
	self := p.tokenize(text)
	if !p.end {
		if limit, most := p.openTag(p.name, p.attrs, self); limit != "" {
			p.refuse(b, limit, most)
			return next
		}
		p.tags = true
	}
	if len(p.held) > 0 {
		p.source(p.held)
		p.held = p.held[:0]
		p.from = next
	}
	p.mark = -1
	switch {
	case !p.end:
	case p.repair && string(p.name) == "html":
		p.source(b[p.from:next])
		p.over()
		return next
	case !p.closeTag(p.name):
		p.fixes[fixStray]++
	}
	p.state = p.textState()
	return next
}

// refuse ends the document before a tag that goes over a limit.
func (p *Parser) refuse(b []byte, limit string, most int) {
	if len(p.held) == 0 {
		p.source(b[p.from:p.mark])
	}
	p.limit(limit, most)
}

// tokenize reads a tag, and says whether it closes itself.
func (p *Parser) tokenize(text []byte) (self bool) {
	p.attrs = p.attrs[:0]
	if inner := text[1 : len(text)-1]; plainName(inner) {
		p.name = appendLower(p.name[:0], inner)
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

// plainName says that a tag's text is nothing but a name, which needs no tokenizer.
func plainName(s []byte) bool {
	if len(s) > 0 && s[0] == '/' {
		s = s[1:]
	}
	for _, c := range s {
		if !isLetter(c) && !isDigit(c) && c != '-' {
			return false
		}
	}
	return true
}

func appendLower(dst, name []byte) []byte {
	for _, c := range name {
		switch {
		case 'A' <= c && c <= 'Z':
			c += 'a' - 'A'
		case c == '/':
			continue
		}
		dst = append(dst, c)
	}
	return dst
}
