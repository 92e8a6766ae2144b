package anthropic

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"

	"github.com/buger/jsonparser"
)

// errOpen says that a schema allows what structured outputs cannot.
var errOpen = errors.New("the schema is not in the subset of structured outputs")

// closed makes of a schema one in the subset that structured outputs take; false where there is none. Objects that say nothing of other
// members get none, and bounds of numbers and lengths are left out: the answer is checked against the whole schema anyway. Members keep their
// order, in which the model writes them. https://platform.claude.com/docs/en/build-with-claude/structured-outputs
func closed(schema json.RawMessage) (json.RawMessage, bool) {
	if !json.Valid(schema) {
		return nil, false
	}
	out, err := appendClosed(nil, schema)
	return out, err == nil
}

var (
	keptWords = []string{"type", "enum", "const", "title", "description", "required", "default", "$ref"}
	// dropped are those that say how something is to be beside its type.
	droppedWords = []string{
		"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength", "pattern", "minItems", "maxItems",
		"uniqueItems", "minProperties", "maxProperties", "$schema", "$id", "$comment", "examples", "deprecated", "readOnly", "writeOnly",
	}
	knownFormats = []string{"date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"}
)

func appendClosed(out, schema []byte) ([]byte, error) {
	if !isObject(schema) {
		return nil, errOpen
	}
	object, members := false, 0
	out = append(out, '{')
	err := jsonparser.ObjectEach(schema, func(key, value []byte, kind jsonparser.ValueType, _ int) (err error) {
		name := string(key)
		word := func() {
			if out[len(out)-1] != '{' {
				out = append(out, ',')
			}
			out = append(appendQuoted(out, name), ':')
		}
		switch {
		case slices.Contains(droppedWords, name) || name == "format" && !slices.Contains(knownFormats, string(value)):
		case slices.Contains(keptWords, name) || name == "format":
			word()
			if kind == jsonparser.String {
				out = append(append(append(out, '"'), value...), '"')
			} else {
				out = append(out, value...)
			}
			object = object || name == "type" && bytes.Contains(value, []byte("object"))
		case name == "additionalProperties":
			if object = true; string(value) != "false" {
				return errOpen
			}
		case (name == "properties" || name == "$defs" || name == "definitions") && kind == jsonparser.Object:
			word()
			first := len(out) + 1
			out = append(out, '{')
			err = jsonparser.ObjectEach(value, func(key, value []byte, _ jsonparser.ValueType, _ int) (err error) {
				if len(out) > first {
					out = append(out, ',')
				}
				out = append(appendQuoted(out, string(key)), ':')
				if name == "properties" {
					members++
				}
				out, err = appendClosed(out, value)
				return err
			})
			out = append(out, '}')
		case name == "items":
			word()
			out, err = appendClosed(out, value)
		case (name == "anyOf" || name == "oneOf") && kind == jsonparser.Array:
			name = "anyOf"
			word()
			first := len(out) + 1
			out = append(out, '[')
			_, err = jsonparser.ArrayEachErr(value, func(value []byte, _ jsonparser.ValueType, _ int, err error) error {
				if err != nil {
					return err
				}
				if len(out) > first {
					out = append(out, ',')
				}
				out, err = appendClosed(out, value)
				return err
			})
			out = append(out, ']')
		default:
			return errOpen
		}
		return err
	})
	if err != nil || object && members == 0 { // an object of anything
		return nil, errOpen
	}
	if members > 0 {
		out = append(out, `,"additionalProperties":false`...)
	}
	return append(out, '}'), nil
}

func appendQuoted(out []byte, name string) []byte {
	quoted, _ := json.Marshal(name) // a string: cannot fail
	return append(out, quoted...)
}
