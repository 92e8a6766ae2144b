package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"

	"github.com/lingserve/lingserve/internal/rawjson"
)

// members are those of an object, in their order.
type members []member

type member struct {
	name  string
	value json.RawMessage
}

// readMembers returns nil for anything but an object.
func readMembers(raw json.RawMessage) (list members) {
	if !json.Valid(raw) || !IsObject(raw) {
		return nil
	}
	list = members{}
	for name, value := range rawjson.Members(raw) {
		list = append(list, member{name, bytes.TrimSpace(value)})
	}
	return list
}

func (m members) get(name string) json.RawMessage {
	for _, one := range m {
		if one.name == name {
			return one.value
		}
	}
	return nil
}

// with adds a member that is not there; nil is none.
func (m members) with(name string, value json.RawMessage) members {
	if value == nil || m.get(name) != nil {
		return m
	}
	return append(slices.Clip(m), member{name, value})
}

func (m members) without(names ...string) members {
	return slices.DeleteFunc(slices.Clone(m), func(one member) bool { return slices.Contains(names, one.name) })
}

func (m members) json() json.RawMessage {
	out := []byte{'{'}
	for i, one := range m {
		if i > 0 {
			out = append(out, ',')
		}
		name, _ := rawjson.Marshal(one.name) // a string can be written
		out = append(append(append(out, name...), ':'), one.value...)
	}
	return append(out, '}')
}

// eachSchema returns the schema with what change makes of each schema directly within it.
func (m members) eachSchema(change func(json.RawMessage) (json.RawMessage, error)) (_ members, err error) {
	m = slices.Clone(m)
	for i := range m {
		value := &m[i].value
		switch m[i].name {
		case "properties", "patternProperties", "$defs", "definitions":
			named := readMembers(*value)
			for k := range named {
				if named[k].value, err = change(named[k].value); err != nil {
					return nil, err
				}
			}
			*value = named.json()
		case "items", "not":
			*value, err = change(*value)
		case "additionalProperties":
			if IsObject(*value) {
				*value, err = change(*value)
			}
		case "anyOf", "oneOf", "allOf", "prefixItems":
			var list []json.RawMessage
			if json.Unmarshal(*value, &list) != nil {
				continue
			}
			for k := range list {
				if list[k], err = change(list[k]); err != nil {
					return nil, err
				}
			}
			*value, _ = rawjson.Marshal(list) // is JSON already
		}
		if err != nil {
			return nil, err
		}
	}
	return m, nil
}

// errNotInSubset says that a schema allows what structured output cannot.
var errNotInSubset = errors.New("the schema is not in the subset of structured output")

// checkShape checks that what should hold schemas does.
func (m member) checkShape() error {
	var list []json.RawMessage
	switch m.name {
	case "properties", "$defs", "definitions":
		if !IsObject(m.value) {
			return errNotInSubset
		}
	case "anyOf", "oneOf", "allOf":
		if json.Unmarshal(m.value, &list) != nil || list == nil {
			return errNotInSubset
		}
	}
	return nil
}

var (
	keptWords    = []string{"type", "enum", "const", "title", "description", "required", "default", "$ref"}
	droppedWords = []string{
		"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength", "pattern", "minItems", "maxItems",
		"uniqueItems", "minProperties", "maxProperties", "format", "$schema", "$id", "$comment", "examples", "deprecated", "readOnly", "writeOnly",
	}
	schemaWords  = []string{"properties", "$defs", "definitions", "items", "anyOf"}
	knownFormats = []string{"date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"}
)

// Closed makes of a schema one in the subset that Anthropic's and Amazon's structured output take; false if there is no such schema. Objects take no
// members but those that they name, and bounds are left out: the answer is checked against the complete schema anyway. Members keep their order,
// in which models write them. words are those that the server takes of pattern, format (of any kind), oneOf (as anyOf) and allOf.
// https://platform.claude.com/docs/en/build-with-claude/structured-outputs
// https://docs.aws.amazon.com/bedrock/latest/userguide/structured-output.html
func Closed(schema json.RawMessage, words ...string) (json.RawMessage, bool) {
	out, err := closeSchema(schema, words)
	return out, err == nil
}

func closeSchema(schema json.RawMessage, words []string) (json.RawMessage, error) {
	all := readMembers(schema)
	if all == nil {
		return nil, errNotInSubset
	}
	object, named := false, false
	var kept members
	for _, m := range all {
		format := m.name == "format" && slices.Contains(knownFormats, Object{"": m.value}.Text(""))
		switch {
		case m.name == "additionalProperties":
			if object = true; string(m.value) != "false" {
				return nil, errNotInSubset
			}
		case slices.Contains(keptWords, m.name), slices.Contains(schemaWords, m.name), slices.Contains(words, m.name), format:
			if err := m.checkShape(); err != nil {
				return nil, err
			}
			object = object || m.name == "type" && bytes.Contains(m.value, []byte("object"))
			named = named || m.name == "properties" && len(readMembers(m.value)) > 0
			if m.name == "oneOf" {
				m.name = "anyOf"
			}
			kept = append(kept, m)
		case !slices.Contains(droppedWords, m.name):
			return nil, errNotInSubset
		}
	}
	if object && !named { // an object of anything
		return nil, errNotInSubset
	}
	kept, err := kept.eachSchema(func(inner json.RawMessage) (json.RawMessage, error) { return closeSchema(inner, words) })
	if err != nil {
		return nil, err
	}
	if named {
		kept = append(kept, member{"additionalProperties", json.RawMessage("false")})
	}
	return kept.json(), nil
}

// StrictSchema says whether a schema is in the subset that OpenAI holds answers to: the root is an object, every object lists all its properties as
// required and has no others, and there is nothing that the API does not know. See OpenAI's guide to structured outputs, "Supported schemas".
func StrictSchema(schema json.RawMessage) bool {
	root := ReadObject(schema)
	return root.Text("type") == "object" && root["anyOf"] == nil && checkStrict(schema, 1) == nil
}

// maxDepth is how deep the API lets a schema be.
const maxDepth = 10

var (
	strictWords = []string{
		"type", "description", "title", "enum", "const", "$ref", "required", "pattern", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum",
		"multipleOf", "minItems", "maxItems", "format", "additionalProperties", "properties", "$defs", "definitions", "items", "anyOf",
	}
	strictFormats = []string{"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"}
)

func checkStrict(schema json.RawMessage, depth int) error {
	m, s := readMembers(schema), ReadObject(schema)
	if m == nil || depth > maxDepth || s["format"] != nil && !slices.Contains(strictFormats, s.Text("format")) ||
		s["additionalProperties"] != nil && string(s["additionalProperties"]) != "false" {
		return errNotInSubset
	}
	for _, one := range m {
		if !slices.Contains(strictWords, one.name) {
			return errNotInSubset
		}
		if err := one.checkShape(); err != nil {
			return err
		}
	}
	if slices.Contains(s.Types(), "object") && !requiresAll(s) {
		return errNotInSubset
	}
	if s["type"] == nil && s["anyOf"] == nil && s["$ref"] == nil && s["enum"] == nil && s["const"] == nil {
		return errNotInSubset
	}
	_, err := m.eachSchema(func(inner json.RawMessage) (json.RawMessage, error) { return inner, checkStrict(inner, depth+1) })
	return err
}

// requiresAll says whether an object has no properties but those that it must have.
func requiresAll(s Object) bool {
	var required []string
	if string(s["additionalProperties"]) != "false" || json.Unmarshal(s["required"], &required) != nil && s["required"] != nil {
		return false
	}
	properties := s.Object("properties")
	for _, name := range required {
		delete(properties, name)
	}
	return len(properties) == 0
}
