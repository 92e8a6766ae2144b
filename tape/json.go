package tape

import (
	"bytes"
	"encoding/json"
	"iter"
	"strings"
)

// The functions below take valid JSON apart without copies. Of anything else they return some part of it.

// valueLength returns the length of the value that text begins with.
func valueLength(text []byte) int {
	depth := 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			for i++; i < len(text) && text[i] != '"'; i++ {
				if text[i] == '\\' {
					i++
				}
			}
			if depth == 0 {
				return min(i+1, len(text))
			}
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth < 0 { // behind a number or a literal
				return i
			} else if depth == 0 {
				return i + 1
			}
		case ' ', '\t', '\r', '\n', ',', ':':
			if depth == 0 {
				return i
			}
		}
	}
	return len(text)
}

// cutValue cuts the next value from what follows the opening bracket of an array or object; nil is none.
func cutValue(inside []byte) (value json.RawMessage, rest []byte) {
	for len(inside) > 0 && strings.IndexByte(" \t\r\n,:", inside[0]) >= 0 {
		inside = inside[1:]
	}
	n := valueLength(inside)
	if n == 0 {
		return nil, nil
	}
	return inside[:n:n], inside[n:]
}

// elements returns the elements of an array. Other values have none.
func elements(array json.RawMessage) (all []json.RawMessage) {
	if len(array) == 0 || array[0] != '[' {
		return nil
	}
	for value, rest := cutValue(array[1:]); value != nil; value, rest = cutValue(rest) {
		all = append(all, value)
	}
	return all
}

// members yields the quoted names and the values of an object. Other values have none.
func members(object []byte) iter.Seq2[json.RawMessage, json.RawMessage] {
	return func(yield func(name, value json.RawMessage) bool) {
		if len(object) == 0 || object[0] != '{' {
			return
		}
		for name, rest := cutValue(object[1:]); name != nil; name, rest = cutValue(rest) {
			var value json.RawMessage
			if value, rest = cutValue(rest); value == nil || !yield(name, value) {
				return
			}
		}
	}
}

// member returns the first member of a name; nil is none.
func member(object []byte, name string) json.RawMessage {
	for n, value := range members(object) {
		if isText(n, name) {
			return value
		}
	}
	return nil
}

// replaceMember returns a copy of an object with one member's value changed, or put first where it was missing, or with nil removed.
func replaceMember(object json.RawMessage, name string, value json.RawMessage) json.RawMessage {
	dst := append(make(json.RawMessage, 0, len(object)+len(name)+len(value)+4), '{')
	put := func(name, value json.RawMessage) {
		if len(dst) > 1 {
			dst = append(dst, ',')
		}
		dst = append(append(append(dst, name...), ':'), value...)
	}
	if value != nil && member(object, name) == nil {
		put(appendString(nil, name), value)
	}
	for n, old := range members(object) {
		if !isText(n, name) {
			put(n, old)
		} else if value != nil {
			put(n, value)
			value = nil // a member that is there twice is there once from now on
		}
	}
	return append(dst, '}')
}

// text returns the string that raw is.
func text(raw json.RawMessage) (s string, ok bool) {
	if len(raw) < 2 || raw[0] != '"' {
		return "", false
	}
	if bytes.IndexByte(raw, '\\') < 0 {
		return string(raw[1 : len(raw)-1]), true
	}
	ok = json.Unmarshal(raw, &s) == nil
	return s, ok
}

// isText reports whether raw is the string s.
func isText(raw json.RawMessage, s string) bool {
	if bytes.IndexByte(raw, '\\') < 0 {
		return len(raw) == len(s)+2 && raw[0] == '"' && string(raw[1:len(raw)-1]) == s
	}
	other, ok := text(raw)
	return ok && other == s
}

// appendString quotes s, escaping what JSON does not allow and nothing else.
func appendString(dst []byte, s string) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c < ' ':
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		default:
			dst = append(dst, c)
		}
	}
	return append(dst, '"')
}

func appendArray(dst []byte, items []json.RawMessage) []byte {
	dst = append(dst, '[')
	for i, item := range items {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, item...)
	}
	return append(dst, ']')
}
