package request

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
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
		return &run.Field{Detail: "invalid UTF-8"}
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
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	return checkValue(dec, nil)
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

// checkValue checks the next value, to which a path of names and indexes leads. It refuses a member that an object has twice, because
// which of the two counts differs from reader to reader, and what exceeds the bounds. The text is known to be JSON.
func checkValue(dec *json.Decoder, path []string) *run.Field {
	token, err := dec.Token()
	if err != nil {
		return &run.Field{Detail: "not JSON"}
	}
	if n, ok := token.(json.Number); ok && len(n) > maxNumber {
		return &run.Field{Pointer: schema.Pointer(path), Detail: fmt.Sprintf("expected a number of at most %d characters, found %d", maxNumber, len(n))}
	}
	opened, ok := token.(json.Delim)
	if !ok {
		return nil
	}
	if len(path) >= maxNesting {
		return &run.Field{Detail: fmt.Sprintf("nested too deeply; expected at most %d levels", maxNesting)}
	}
	seen := map[string]bool{}
	for i := 0; dec.More(); i++ {
		name := strconv.Itoa(i)
		if opened == '{' {
			token, _ := dec.Token() // the text is JSON
			name, _ = token.(string)
			if seen[name] {
				return &run.Field{Pointer: schema.Pointer(append(path, name)), Detail: "occurs twice; send it once"}
			}
			seen[name] = true
		}
		if f := checkValue(dec, append(path, name)); f != nil {
			return f
		}
	}
	_, _ = dec.Token() // what closes it
	return nil
}
