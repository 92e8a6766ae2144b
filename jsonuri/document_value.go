package jsonuri

import (
	"bytes"
	"errors"
)

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
	case "true", "false":
		return node{kind: nodeScalar, text: literals[string(text)]}, nil // it is never changed, so it is shared
	}
	if IsNumber(text) {
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

// IsContent reports whether text, in UTF-8, can stand between the quotes of a JSON string (RFC 8259, section 7).
func IsContent(text []byte) bool {
	for i, n := skipPlain(text, 0), 0; i < len(text); i = skipPlain(text, i+n) {
		want := ""
		if n, want = scanUnit(text[i:], true); n == 0 || want != "" {
			return false
		}
	}
	return true
}

// IsNumber reports whether text is a number and nothing else (RFC 8259, section 6).
func IsNumber(text []byte) bool {
	sub, ok := numStart, true
	for _, c := range text {
		if sub, ok = numberStep(sub, c); !ok {
			return false
		}
	}
	return numComplete(sub)
}
