// Package rawjson reads JSON texts as far as is needed, and writes JSON without the escapes for HTML.
package rawjson

import (
	"bytes"
	"encoding/json"
	"iter"
	"reflect"
	"strconv"
)

// Kind names a value by its first byte, as in "expected an object, found a string".
func Kind(raw []byte) string {
	raw = bytes.TrimLeft(raw, " \t\r\n")
	if len(raw) == 0 {
		return "nothing"
	}
	switch raw[0] {
	case '{':
		return "an object"
	case '[':
		return "an array"
	case '"':
		return "a string"
	case 't', 'f':
		return "a boolean"
	case 'n':
		return "null"
	}
	return "a number"
}

// Members yields the members of an object in order, those before the first mistake. What is no object has none.
func Members(object []byte) iter.Seq2[string, json.RawMessage] {
	return func(yield func(string, json.RawMessage) bool) {
		in := json.NewDecoder(bytes.NewReader(object))
		if open, err := in.Token(); err != nil || open != json.Delim('{') {
			return
		}
		for in.More() {
			key, err := in.Token()
			name, ok := key.(string)
			var value json.RawMessage
			if err != nil || !ok || in.Decode(&value) != nil || !yield(name, value) {
				return
			}
		}
	}
}

// Same reports whether two texts are the same value, whatever the escapes in their strings and the order of their members.
func Same(a, b []byte) bool {
	read := func(text []byte) (value any, err error) {
		d := json.NewDecoder(bytes.NewReader(text))
		d.UseNumber()
		return value, d.Decode(&value)
	}
	x, err1 := read(a)
	y, err2 := read(b)
	return err1 == nil && err2 == nil && reflect.DeepEqual(x, y)
}

// Marshal is [json.Marshal] that leaves <, > and & as they are: models and people read the text, and nobody puts it into a page as it is.
func Marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// MustMarshal is [Marshal] for values that are always JSON: strings, numbers and JSON texts, and structs, maps and lists of them.
func MustMarshal(v any) []byte {
	text, err := Marshal(v)
	if err != nil {
		panic(err)
	}
	return text
}

// Children yields the members of an object, or the elements of an array, each with its name or index.
func Children(value []byte) iter.Seq2[string, json.RawMessage] {
	return func(yield func(string, json.RawMessage) bool) {
		var elements []json.RawMessage
		if len(value) > 0 && value[0] == '[' {
			_ = json.Unmarshal(value, &elements) // a value that is not JSON has no children
		}
		for i, element := range elements {
			if !yield(strconv.Itoa(i), element) {
				return
			}
		}
		Members(value)(yield)
	}
}
