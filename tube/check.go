package tube

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"unicode/utf8"

	"github.com/lingserve/lingserve/jsonuri"
)

// check refuses what would break a frame or a reader's parser, and brings the value to one line.
//
// Deltas come from a parser that passes on only what it has understood, yet a bot may send its own; the check of a
// token costs a few nanoseconds.
func check(e *Event) error {
	if e.Kind == Named {
		if !validName(e.Name) {
			return fmt.Errorf("tube: invalid event name %.80q; expected a letter, then up to 63 letters, digits, dots, underscores or hyphens", e.Name)
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
		if !jsonuri.IsContent(e.Value) {
			return fmt.Errorf("tube: string at %q %w", e.URI, errContent)
		}
	case Set:
		v, err := oneLine(e.Value)
		if err != nil {
			return fmt.Errorf("tube: value at %q %w", e.URI, err)
		}
		e.Value = v
		if v[0] == '"' { // a string delta appends, for every reader
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

var validName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9._-]{0,63}$`).MatchString

var (
	errContent = errors.New("is not the content of a JSON string in UTF-8")
	errJSON    = errors.New("is not JSON")
	errUTF8    = errors.New("is not UTF-8")
)

// oneLine returns JSON text without white space around it and without line breaks in it.
func oneLine(v []byte) ([]byte, error) {
	switch string(v) {
	case "{}", "[]", "null", "true", "false": // what parsers send all the time
		return v, nil
	}
	if jsonuri.IsNumber(v) {
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
