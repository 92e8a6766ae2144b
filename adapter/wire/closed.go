package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"

	"github.com/buger/jsonparser"
)

// errOpen says that a schema allows what structured output cannot.
var errOpen = errors.New("the schema is not in the subset of structured output")

// closer closes schemas.
type closer struct {
	words map[string]bool // the ones that a server takes besides those that all take
	out   []byte
}

// Closed makes of a schema one in the subset that Anthropic's and Amazon's structured output take; false where there is none. Objects take no
// members but those that they name, and bounds are left out: the answer is checked against the whole schema anyway. Members keep their order, in
// which models write them. words are those that the server takes of pattern, format (of any kind), oneOf (as anyOf) and allOf.
// https://platform.claude.com/docs/en/build-with-claude/structured-outputs
// https://docs.aws.amazon.com/bedrock/latest/userguide/structured-output.html
func Closed(schema json.RawMessage, words ...string) (json.RawMessage, bool) {
	if !json.Valid(schema) {
		return nil, false
	}
	c := closer{words: map[string]bool{}}
	for _, w := range words {
		c.words[w] = true
	}
	if c.schema(bytes.TrimSpace(schema)) != nil {
		return nil, false
	}
	return c.out, true
}

var (
	keptWords    = []string{"type", "enum", "const", "title", "description", "required", "default", "$ref"}
	droppedWords = []string{
		"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength", "pattern", "minItems", "maxItems",
		"uniqueItems", "minProperties", "maxProperties", "format", "$schema", "$id", "$comment", "examples", "deprecated", "readOnly", "writeOnly",
	}
	knownFormats = []string{"date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"}
)

func (c *closer) schema(schema []byte) error {
	if len(schema) == 0 || schema[0] != '{' {
		return errOpen
	}
	object, members := false, false
	c.out = append(c.out, '{')
	err := jsonparser.ObjectEach(schema, func(key, value []byte, kind jsonparser.ValueType, _ int) error {
		word := string(key)
		switch {
		case slices.Contains(keptWords, word), c.words[word] && (word == "pattern" || word == "format"), word == "format" && slices.Contains(knownFormats, string(value)):
			c.key(word)
			if kind == jsonparser.String {
				c.out = append(append(append(c.out, '"'), value...), '"')
			} else {
				c.out = append(c.out, value...)
			}
			object = object || word == "type" && bytes.Contains(value, []byte("object"))
			return nil
		case slices.Contains(droppedWords, word):
			return nil
		case word == "additionalProperties":
			if object = true; string(value) != "false" {
				return errOpen
			}
			return nil
		case (word == "properties" || word == "$defs" || word == "definitions") && kind == jsonparser.Object:
			c.key(word)
			c.out = append(c.out, '{')
			err := jsonparser.ObjectEach(value, func(key, value []byte, _ jsonparser.ValueType, _ int) error {
				members = members || word == "properties"
				c.key(string(key))
				return c.schema(value)
			})
			c.out = append(c.out, '}')
			return err
		case word == "items":
			c.key(word)
			return c.schema(value)
		case (word == "anyOf" || c.words[word]) && kind == jsonparser.Array:
			if word == "oneOf" {
				word = "anyOf"
			}
			c.key(word)
			c.out = append(c.out, '[')
			_, err := jsonparser.ArrayEachErr(value, func(value []byte, _ jsonparser.ValueType, _ int, err error) error {
				if err != nil {
					return err
				}
				c.comma('[')
				return c.schema(value)
			})
			c.out = append(c.out, ']')
			return err
		}
		return errOpen
	})
	if err != nil || object && !members { // an object of anything
		return errOpen
	}
	if members {
		c.key("additionalProperties")
		c.out = append(c.out, "false"...)
	}
	c.out = append(c.out, '}')
	return nil
}

// comma parts two members or elements.
func (c *closer) comma(open byte) {
	if c.out[len(c.out)-1] != open {
		c.out = append(c.out, ',')
	}
}

func (c *closer) key(name string) {
	c.comma('{')
	quoted, _ := json.Marshal(name) // a string: cannot fail
	c.out = append(append(c.out, quoted...), ':')
}
