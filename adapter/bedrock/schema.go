package bedrock

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"

	"github.com/buger/jsonparser"
)

// errOpen says that a schema allows what structured output cannot.
var errOpen = errors.New("the schema is not in the subset of structured output")

// strict makes of a schema one in the subset that structured output takes; false where there is none. Objects take no members but those that
// they name, and bounds are left out: the answer is checked against the whole schema anyway. Members keep their order, in which models
// write them. https://docs.aws.amazon.com/bedrock/latest/userguide/structured-output.html
func strict(schema json.RawMessage) (string, bool) {
	if !json.Valid(schema) {
		return "", false
	}
	out, err := appendStrict(nil, bytes.TrimSpace(schema))
	return string(out), err == nil
}

var (
	keptWords    = []string{"type", "enum", "const", "title", "description", "required", "default", "$ref", "format", "pattern"}
	droppedWords = []string{
		"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength", "minItems", "maxItems",
		"uniqueItems", "minProperties", "maxProperties", "$schema", "$id", "$comment", "examples", "deprecated", "readOnly", "writeOnly",
	}
)

func appendStrict(out, schema []byte) ([]byte, error) {
	if len(schema) == 0 || schema[0] != '{' {
		return nil, errOpen
	}
	object, members := false, false
	out = append(out, '{')
	first := len(out)
	err := jsonparser.ObjectEach(schema, func(key, value []byte, kind jsonparser.ValueType, _ int) (err error) {
		word := string(key)
		switch {
		case slices.Contains(droppedWords, word):
			return nil
		case word == "additionalProperties":
			object = true
			if string(value) != "false" {
				return errOpen
			}
			return nil
		}
		out = appendKey(out, first, word)
		switch {
		case slices.Contains(keptWords, word):
			if kind == jsonparser.String {
				out = append(append(append(out, '"'), value...), '"')
			} else {
				out = append(out, value...)
			}
			object = object || word == "type" && string(value) == "object"
		case (word == "properties" || word == "$defs" || word == "definitions") && kind == jsonparser.Object:
			out = append(out, '{')
			inner := len(out)
			err = jsonparser.ObjectEach(value, func(key, value []byte, _ jsonparser.ValueType, _ int) (err error) {
				members = members || word == "properties"
				out, err = appendStrict(appendKey(out, inner, string(key)), value)
				return err
			})
			out = append(out, '}')
		case word == "items":
			out, err = appendStrict(out, value)
		case (word == "anyOf" || word == "allOf") && kind == jsonparser.Array:
			out = append(out, '[')
			inner := len(out)
			_, err = jsonparser.ArrayEachErr(value, func(value []byte, _ jsonparser.ValueType, _ int, err error) error {
				if err == nil {
					if len(out) > inner {
						out = append(out, ',')
					}
					out, err = appendStrict(out, value)
				}
				return err
			})
			out = append(out, ']')
		default:
			return errOpen
		}
		return err
	})
	if err != nil || object && !members { // an object of anything
		return nil, errOpen
	}
	if members {
		out = append(appendKey(out, first, "additionalProperties"), "false"...)
	}
	return append(out, '}'), nil
}

// appendKey appends a member's name, behind a comma where there is something before it.
func appendKey(out []byte, first int, name string) []byte {
	if len(out) > first {
		out = append(out, ',')
	}
	quoted, _ := json.Marshal(name) // a string: cannot fail
	return append(append(out, quoted...), ':')
}
