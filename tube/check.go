package tube

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"
)

// check refuses what would break a frame or a reader's parser, and brings the value to one line.
//
// Deltas come from a parser that passes on only what it has understood, yet a bot may send its own; the check of a
// token costs a few nanoseconds.
func check(e *Event) error {
	if e.Kind == Named {
		if err := checkName(e.Name); err != nil {
			return err
		}
		if len(e.Value) == 0 {
			e.Value = null
			return nil
		}
		v, err := oneLine(e.Value)
		if err != nil {
			return fmt.Errorf("tube: data of event %q %w", e.Name, err)
		}
		e.Value = v
		return nil
	}
	if !utf8.Valid(e.URI) {
		return fmt.Errorf("tube: uri %q is not UTF-8", e.URI)
	}
	switch e.Kind {
	case Append:
		if err := checkContent(e.Value); err != nil {
			return fmt.Errorf("tube: string at %q %w", e.URI, err)
		}
	case Set:
		v, err := oneLine(e.Value)
		if err != nil {
			return fmt.Errorf("tube: value at %q %w", e.URI, err)
		}
		e.Value = v
		if v[0] == '"' { // a string delta appends, whoever reads it
			e.Kind, e.Value = Append, v[1:len(v)-1]
		}
	case Done:
		e.Value = nil
	default:
		return fmt.Errorf("tube: unknown kind of event %d", e.Kind)
	}
	return nil
}

var null = []byte("null")

// checkName holds a name to [A-Za-z][A-Za-z0-9._-]{0,63}.
func checkName(name string) error {
	ok := len(name) > 0 && len(name) <= 64
	for i := 0; ok && i < len(name); i++ {
		c := name[i]
		letter := 'a' <= c|0x20 && c|0x20 <= 'z'
		ok = letter || i > 0 && ('0' <= c && c <= '9' || c == '.' || c == '_' || c == '-')
	}
	if !ok {
		return fmt.Errorf("tube: invalid event name %.80q; expected a letter, then up to 63 letters, digits, dots, underscores or hyphens", name)
	}
	return nil
}

var (
	errContent = errors.New("is not the content of a JSON string")
	errJSON    = errors.New("is not JSON")
	errUTF8    = errors.New("is not UTF-8")
)

// checkContent holds v to the content of a JSON string in its escaped form (RFC 8259, section 7), in UTF-8.
func checkContent(v []byte) error {
	for i := 0; i < len(v); {
		c := v[i]
		switch {
		case plain[c] || c == 0x7f:
			i++
		case c == '\\':
			n := escape(v[i:])
			if n == 0 {
				return errContent
			}
			i += n
		case c >= utf8.RuneSelf:
			r, size := utf8.DecodeRune(v[i:])
			if r == utf8.RuneError && size == 1 {
				return errUTF8
			}
			i += size
		default:
			return errContent
		}
	}
	return nil
}

// escape returns the length of the escape sequence that v begins with, 0 where it is none.
func escape(v []byte) int {
	if len(v) < 2 {
		return 0
	}
	switch v[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2
	case 'u':
		if len(v) < 6 {
			return 0
		}
		for _, c := range v[2:6] {
			if !('0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'f') {
				return 0
			}
		}
		return 6
	}
	return 0
}

// oneLine returns JSON text without white space around it and without line breaks in it.
func oneLine(v []byte) ([]byte, error) {
	if literal(v) {
		return v, nil
	}
	v = bytes.Trim(v, " \t\r\n")
	if !json.Valid(v) {
		return nil, errJSON
	}
	if !utf8.Valid(v) {
		return nil, errUTF8
	}
	// Valid JSON has control characters only between its tokens.
	if bytes.IndexFunc(v, func(r rune) bool { return r < ' ' }) < 0 {
		return v, nil
	}
	var b bytes.Buffer
	if err := json.Compact(&b, v); err != nil {
		return nil, errJSON
	}
	return b.Bytes(), nil
}

// literal says that v is one of the values that parsers send all the time, which need not be looked at any more.
func literal(v []byte) bool {
	switch string(v) {
	case "{}", "[]", "null", "true", "false":
		return true
	}
	return number(v)
}

// number says that v is a number (RFC 8259, section 6).
func number(v []byte) bool {
	digits := func() bool {
		n := 0
		for n < len(v) && '0' <= v[n] && v[n] <= '9' {
			n++
		}
		v = v[n:]
		return n > 0
	}
	if len(v) > 0 && v[0] == '-' {
		v = v[1:]
	}
	if len(v) > 0 && v[0] == '0' {
		v = v[1:]
	} else if !digits() {
		return false
	}
	if len(v) > 0 && v[0] == '.' {
		if v = v[1:]; !digits() {
			return false
		}
	}
	if len(v) > 0 && v[0]|0x20 == 'e' {
		if v = v[1:]; len(v) > 0 && (v[0] == '+' || v[0] == '-') {
			v = v[1:]
		}
		if !digits() {
			return false
		}
	}
	return len(v) == 0
}
