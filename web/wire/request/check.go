package request

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/lingserve/lingserve/internal/schema"
	"github.com/lingserve/lingserve/run"
)

// Check reports why text is not one JSON value that every reader understands alike: UTF-8, nothing behind it, no member
// twice in any object. The field has the line and column, or the pointer of the repeated member. nil is a text that is good.
func Check(text []byte) *run.Field {
	f := check(text)
	if f != nil {
		*f = Clip(*f)
	}
	return f
}

func check(text []byte) *run.Field {
	if !utf8.Valid(text) {
		at := 0
		for at < len(text) {
			r, n := utf8.DecodeRune(text[at:])
			if r == utf8.RuneError && n == 1 {
				break
			}
			at += n
		}
		return &run.Field{Detail: "invalid UTF-8 at " + position(text, at)}
	}
	if len(bytes.TrimSpace(text)) == 0 {
		return &run.Field{Detail: "empty; expected a JSON object"}
	}
	var whole json.RawMessage
	if err := json.Unmarshal(text, &whole); err != nil {
		se, ok := errors.AsType[*json.SyntaxError](err)
		if !ok {
			return &run.Field{Detail: "not JSON"}
		}
		// The offset counts the offending byte, unless the text has ended before it.
		at := int(se.Offset)
		if at > 0 && at <= len(text) && !strings.HasPrefix(se.Error(), "unexpected end") {
			at--
		}
		return &run.Field{Detail: fmt.Sprintf("invalid JSON at %s: %s", position(text, at), se.Error())}
	}
	return checkRepeated(text)
}

// position says where an offset is, as people count: lines and columns from 1, columns in characters.
func position(text []byte, offset int) string {
	offset = min(offset, len(text))
	line := bytes.Count(text[:offset], []byte{'\n'}) + 1
	start := bytes.LastIndexByte(text[:offset], '\n') + 1
	return fmt.Sprintf("line %d, column %d", line, utf8.RuneCount(text[start:offset])+1)
}

// Bounds of what a request may hold, which are larger than anything sensible: what comes after us may take a nested value apart by
// calling itself, and make a number of all its digits.
const (
	maxNesting = 512
	maxNumber  = 512
)

// checkRepeated finds a member that an object has twice. Which of the two counts differs from reader to reader, so it is
// refused. So is what exceeds the bounds. text is known to be JSON.
func checkRepeated(text []byte) *run.Field {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	return checkValue(dec, nil)
}

// place is where a value is: in the member name of an object, or the item index of an array.
type place struct {
	parent *place
	depth  int
	name   string
	index  int
	array  bool
}

// pointer is the JSON Pointer of a place.
func (p *place) pointer() string {
	switch {
	case p == nil:
		return ""
	case p.array:
		return Item(p.parent.pointer(), p.index)
	}
	return p.parent.pointer() + schema.Pointer([]string{p.name})
}

// checkValue checks the next value, which is at a place.
func checkValue(dec *json.Decoder, at *place) *run.Field {
	token, err := dec.Token()
	if err != nil {
		return &run.Field{Detail: "not JSON"}
	}
	if n, ok := token.(json.Number); ok && len(n) > maxNumber {
		return &run.Field{Pointer: at.pointer(), Detail: fmt.Sprintf("expected a number of at most %d characters, found %d", maxNumber, len(n))}
	}
	opened, ok := token.(json.Delim)
	if !ok {
		return nil
	}
	in := &place{parent: at, depth: 1, array: opened == '['}
	if at != nil {
		in.depth = at.depth + 1
	}
	if in.depth > maxNesting {
		return &run.Field{Detail: fmt.Sprintf("nested too deeply; expected at most %d levels", maxNesting)}
	}
	seen := map[string]bool{}
	for ; dec.More(); in.index++ {
		if !in.array {
			token, _ := dec.Token() // the text is JSON
			in.name, _ = token.(string)
			if seen[in.name] {
				return &run.Field{Pointer: in.pointer(), Detail: "occurs twice; send it once"}
			}
			seen[in.name] = true
		}
		if f := checkValue(dec, in); f != nil {
			return f
		}
	}
	_, _ = dec.Token() // what closes it
	return nil
}
