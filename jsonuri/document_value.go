package jsonuri

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"
)

// The text of a scalar is never changed, so these are shared.
var literalTrue, literalFalse = []byte("true"), []byte("false")

// newNode returns the node of a JSON text, of which it keeps nothing.
func newNode(text []byte) (node, error) {
	// What a parser sets is nearly always one of these.
	switch string(text) {
	case "{}":
		return node{kind: nodeObject}, nil
	case "[]":
		return node{kind: nodeArray}, nil
	case "null":
		return node{kind: nodeNull}, nil
	case "true":
		return node{kind: nodeScalar, text: literalTrue}, nil
	case "false":
		return node{kind: nodeScalar, text: literalFalse}, nil
	}
	if isNumber(text) {
		return node{kind: nodeScalar, text: bytes.Clone(text)}, nil
	}
	if !json.Valid(text) || !utf8.Valid(text) {
		return node{}, ErrValue
	}
	b := valueBuilder{text: text}
	return b.value(0)
}

// A valueBuilder makes nodes of JSON text that is known to be valid.
type valueBuilder struct {
	text []byte
	i    int
}

func (b *valueBuilder) value(depth int) (node, error) {
	b.space()
	switch b.text[b.i] {
	case '{':
		return b.container(nodeObject, depth)
	case '[':
		return b.container(nodeArray, depth)
	case '"':
		return node{kind: nodeString, text: bytes.Clone(b.content())}, nil
	case 'n':
		b.i += len("null")
		return node{kind: nodeNull}, nil
	}
	start := b.i
	for b.i < len(b.text) && !isEnd(b.text[b.i]) {
		b.i++
	}
	return node{kind: nodeScalar, text: bytes.Clone(b.text[start:b.i])}, nil
}

func (b *valueBuilder) container(kind nodeKind, depth int) (node, error) {
	n := node{kind: kind}
	if depth == maxDocumentDepth {
		return n, &LimitError{Limit: "depth", Max: maxDocumentDepth, Offset: int64(b.i)}
	}
	closing := byte(']')
	if kind == nodeObject {
		closing = '}'
	}
	b.i++
	for {
		b.space()
		switch b.text[b.i] {
		case closing:
			b.i++
			return n, nil
		case ',':
			b.i++
			b.space()
		}
		var child *node
		if kind == nodeObject {
			key := b.content()
			if bytes.IndexByte(key, '\\') >= 0 {
				key = appendUnescaped(nil, key)
			}
			b.space()
			b.i++ // the colon
			if i := n.child(key); i >= 0 {
				child = &n.kids.nodes[i] // of a repeated key the last value counts
			} else {
				child = n.add(string(key))
			}
		} else {
			length := 0
			if n.kids != nil {
				length = len(n.kids.nodes)
			}
			n.fill(length)
			child = &n.kids.nodes[length]
		}
		v, err := b.value(depth + 1)
		if err != nil {
			return n, err
		}
		*child = v
	}
}

// content passes a string and returns what is between its quotes.
func (b *valueBuilder) content() []byte {
	b.i++
	start := b.i
	for b.text[b.i] != '"' {
		if b.text[b.i] == '\\' {
			b.i++
		}
		b.i++
	}
	b.i++
	return b.text[start : b.i-1]
}

func (b *valueBuilder) space() {
	for b.i < len(b.text) && isSpace(b.text[b.i]) {
		b.i++
	}
}

func isSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\t' || c == '\r' }

func isEnd(c byte) bool { return isSpace(c) || c == ',' || c == '}' || c == ']' }

// isContent says whether text can stand between the quotes of a JSON string (RFC 8259, section 7).
func isContent(text []byte) bool {
	all := byte(0)
	for i := 0; i < len(text); i++ {
		c := text[i]
		all |= c
		if c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		if c != '\\' {
			return false
		}
		i++
		if i == len(text) {
			return false
		}
		switch text[i] {
		case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		case 'u':
			if len(text)-i < 5 {
				return false
			}
			for _, h := range text[i+1 : i+5] {
				if hexValue(h) > 15 {
					return false
				}
			}
			i += 4
		default:
			return false
		}
	}
	return all < utf8.RuneSelf || utf8.Valid(text)
}

// isNumber says whether text is a number and nothing else (RFC 8259, section 6).
func isNumber(text []byte) bool {
	rest := bytes.TrimPrefix(text, []byte("-"))
	digits := countDigits(rest)
	if digits == 0 || digits > 1 && rest[0] == '0' {
		return false
	}
	rest = rest[digits:]
	if len(rest) > 0 && rest[0] == '.' {
		digits = countDigits(rest[1:])
		if digits == 0 {
			return false
		}
		rest = rest[1+digits:]
	}
	if len(rest) > 0 && (rest[0] == 'e' || rest[0] == 'E') {
		rest = rest[1:]
		if len(rest) > 0 && (rest[0] == '+' || rest[0] == '-') {
			rest = rest[1:]
		}
		digits = countDigits(rest)
		if digits == 0 {
			return false
		}
		rest = rest[digits:]
	}
	return len(rest) == 0
}

func countDigits(text []byte) int {
	for i, c := range text {
		if c < '0' || c > '9' {
			return i
		}
	}
	return len(text)
}
