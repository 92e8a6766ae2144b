package web

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/lingserve/lingserve/internal/rawjson"
	"github.com/lingserve/lingserve/internal/wording"
)

// checkJSON says whether text is one JSON value that every reader understands alike: UTF-8, nothing behind it, no member
// twice in any object. Errors name line and column, or the pointer of the repeated member.
func checkJSON(text []byte) *misfit {
	if !utf8.Valid(text) {
		at := 0
		for at < len(text) {
			r, n := utf8.DecodeRune(text[at:])
			if r == utf8.RuneError && n == 1 {
				break
			}
			at += n
		}
		return &misfit{Detail: "invalid UTF-8 at " + position(text, at)}
	}
	if len(bytes.TrimSpace(text)) == 0 {
		return &misfit{Detail: "empty; expected a JSON object"}
	}
	var whole json.RawMessage
	if err := json.Unmarshal(text, &whole); err != nil {
		se, ok := errors.AsType[*json.SyntaxError](err)
		if !ok {
			return &misfit{Detail: "not JSON"}
		}
		// The offset counts the offending byte, unless the text has ended before it.
		at := int(se.Offset)
		if at > 0 && at <= len(text) && !strings.HasPrefix(se.Error(), "unexpected end") {
			at--
		}
		return &misfit{Detail: fmt.Sprintf("invalid JSON at %s: %s", position(text, at), se.Error())}
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
// refused. So is what goes beyond the bounds. text is known to be JSON.
func checkRepeated(text []byte) *misfit {
	type level struct {
		seen  map[string]bool // nil in an array
		name  string          // the member that is being read
		index int
		value bool // in an object: the next token is a value
	}
	var stack []level
	pointer := func() string {
		var b strings.Builder
		for _, l := range stack {
			b.WriteByte('/')
			if l.seen != nil {
				b.WriteString(wording.PointerToken(l.name))
			} else {
				b.WriteString(strconv.Itoa(l.index))
			}
		}
		return b.String()
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	for {
		token, err := dec.Token()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return &misfit{Detail: "not JSON"}
		}
		if n, ok := token.(json.Number); ok && len(n) > maxNumber {
			return &misfit{Pointer: pointer(), Detail: fmt.Sprintf("expected a number of at most %d characters, found %d", maxNumber, len(n))}
		}
		if len(stack) > 0 {
			top := &stack[len(stack)-1]
			if name, ok := token.(string); ok && top.seen != nil && !top.value {
				top.name = name
				if top.seen[name] {
					return &misfit{Pointer: pointer(), Detail: "occurs twice; send it once"}
				}
				top.seen[name] = true
				top.value = true
				continue
			}
		}
		if d, ok := token.(json.Delim); ok && (d == '{' || d == '[') && len(stack) == maxNesting {
			return &misfit{Detail: fmt.Sprintf("nested too deeply; expected at most %d levels", maxNesting)}
		}
		switch token {
		case json.Delim('{'):
			stack = append(stack, level{seen: map[string]bool{}})
			continue
		case json.Delim('['):
			stack = append(stack, level{})
			continue
		case json.Delim('}'), json.Delim(']'):
			stack = stack[:len(stack)-1]
		}
		if len(stack) > 0 { // a value is complete
			top := &stack[len(stack)-1]
			top.value = false
			top.index++
		}
	}
}

// decoder takes JSON values apart and keeps all that does not fit, so that a user sees it at once and not one by one.
type decoder struct {
	parameter string // of the query that the pointers are into; "" for the body
	misfits   []misfit
}

// maxMisfits bounds what one answer says.
const maxMisfits = 20

func (d *decoder) fail(pointer, format string, args ...any) {
	if len(d.misfits) < maxMisfits {
		d.misfits = append(d.misfits, misfit{Pointer: pointer, Parameter: d.parameter, Detail: fmt.Sprintf(format, args...)})
	}
}

// fields says what an object may hold, and what to do with it.
type fields map[string]func(pointer string, raw json.RawMessage)

// object hands the members of a JSON object to their fields; members that there is no field for are refused by name.
func (d *decoder) object(pointer string, raw json.RawMessage, f fields) {
	var members map[string]json.RawMessage
	if !d.as(pointer, raw, '{', "an object", &members) {
		return
	}
	names := make([]string, 0, len(members))
	for name := range members {
		names = append(names, name)
	}
	slices.Sort(names) // the order of what is complained about
	for _, name := range names {
		at := pointer + "/" + wording.PointerToken(name)
		if field, ok := f[name]; ok {
			field(at, members[name])
			continue
		}
		known := make([]string, 0, len(f))
		for name := range f {
			known = append(known, name)
		}
		slices.Sort(known)
		d.fail(at, "unknown field; %s", wording.Expected(name, known))
	}
}

// as decodes raw into dst if it is of the kind that first tells.
func (d *decoder) as(pointer string, raw json.RawMessage, first byte, kind string, dst any) bool {
	found := bytes.TrimLeft(raw, " \t\r\n")
	if first == 't' && found[0] == 'f' || first == '0' && (found[0] == '-' || found[0] >= '1' && found[0] <= '9') {
		first = found[0]
	}
	if found[0] != first {
		d.fail(pointer, "expected %s, found %s", kind, rawjson.Kind(found))
		return false
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	if err := dec.Decode(dst); err != nil {
		d.fail(pointer, "expected %s", kind)
		return false
	}
	return true
}

// text takes a string of 1 to limit bytes.
func (d *decoder) text(pointer string, raw json.RawMessage, limit int) string {
	var s string
	if !d.as(pointer, raw, '"', "a string", &s) {
		return ""
	}
	if s == "" || len(s) > limit {
		d.fail(pointer, "expected a string of 1 to %d bytes, found %d", limit, len(s))
		return ""
	}
	return s
}

// oneOf takes one of some words.
func (d *decoder) oneOf(pointer string, raw json.RawMessage, words ...string) string {
	var s string
	if !d.as(pointer, raw, '"', "a string", &s) {
		return ""
	}
	return d.word(pointer, s, words...)
}

func (d *decoder) word(pointer, s string, words ...string) string {
	if !slices.Contains(words, s) {
		d.fail(pointer, "expected %s, found %q", wording.Alternatives(words), wording.Clip(s))
		return ""
	}
	return s
}

func (d *decoder) boolean(pointer string, raw json.RawMessage) (b bool) {
	d.as(pointer, raw, 't', "true or false", &b)
	return b
}

// integer takes a whole number from low to high.
func (d *decoder) integer(pointer string, raw json.RawMessage, low, high int) *int {
	var n json.Number
	if !d.as(pointer, raw, '0', "a whole number", &n) {
		return nil
	}
	i, err := strconv.Atoi(n.String())
	if err != nil || i < low || i > high {
		d.fail(pointer, "expected a whole number from %d to %d, found %s", low, high, wording.Clip(n.String()))
		return nil
	}
	return &i
}

// strings takes an array of at most most strings of 1 to limit bytes.
func (d *decoder) strings(pointer string, raw json.RawMessage, most, limit int) []string {
	var items []json.RawMessage
	if !d.as(pointer, raw, '[', "an array of strings", &items) {
		return nil
	}
	if len(items) > most {
		d.fail(pointer, "expected at most %d strings, found %d", most, len(items))
		return nil
	}
	list := make([]string, len(items))
	for i, item := range items {
		list[i] = d.text(pointer+"/"+strconv.Itoa(i), item, limit)
	}
	return list
}
