package jsonuri

import (
	"bytes"
	"errors"
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
	var d Document
	var err error
	p := NewParser(Handler{Delta: func(delta Delta) {
		if err == nil {
			err = d.Apply(delta)
		}
	}}, &Options{MaxDepth: maxDocumentDepth, MaxBytes: int64(len(text)) + 1, MaxKey: len(text) + 1, MaxNumber: len(text) + 1})
	p.Write(text)
	if closed := p.Close(); err == nil {
		err = closed
	}
	if _, tooDeep := errors.AsType[*LimitError](err); err != nil && !tooDeep {
		err = ErrValue
	}
	return d.root, err
}

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
