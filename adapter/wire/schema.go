package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"

	"github.com/lingserve/lingserve/internal/rawjson"
)

// Members are those of an object, in their order.
type Members []Member

// Member is a member of an object.
type Member struct {
	Name  string
	Value json.RawMessage
}

// readMembers returns nil for anything but an object.
func readMembers(raw json.RawMessage) (list Members) {
	if !json.Valid(raw) || !IsObject(raw) {
		return nil
	}
	list = Members{}
	for name, value := range rawjson.Members(raw) {
		list = append(list, Member{name, bytes.TrimSpace(value)})
	}
	return list
}

// Set sets a member that is in the list, or adds it.
func (m *Members) Set(name string, value json.RawMessage) {
	for i := range *m {
		if (*m)[i].Name == name {
			(*m)[i].Value = value
			return
		}
	}
	*m = append(*m, Member{name, value})
}

// Has reports whether there is a member of this name.
func (m Members) Has(name string) bool { return m.get(name) != nil }

func (m Members) get(name string) json.RawMessage {
	for _, one := range m {
		if one.Name == name {
			return one.Value
		}
	}
	return nil
}

// with adds a member that is not there; nil is none.
func (m Members) with(name string, value json.RawMessage) Members {
	if value == nil || m.get(name) != nil {
		return m
	}
	return append(slices.Clip(m), Member{name, value})
}

func (m Members) without(names ...string) Members {
	return slices.DeleteFunc(slices.Clone(m), func(one Member) bool { return slices.Contains(names, one.Name) })
}

// JSON returns the object.
func (m Members) JSON() json.RawMessage {
	out := []byte{'{'}
	for i, one := range m {
		if i > 0 {
			out = append(out, ',')
		}
		name, _ := rawjson.Marshal(one.Name) // a string can be written
		out = append(append(append(out, name...), ':'), one.Value...)
	}
	return append(out, '}')
}

// eachSchema returns the schema with what change makes of each schema directly within it.
func (m Members) eachSchema(change func(json.RawMessage) (json.RawMessage, error)) (_ Members, err error) {
	m = slices.Clone(m)
	for i := range m {
		value := &m[i].Value
		switch m[i].Name {
		case "properties", "patternProperties", "$defs", "definitions":
			named := readMembers(*value)
			for k := range named {
				if named[k].Value, err = change(named[k].Value); err != nil {
					return nil, err
				}
			}
			*value = named.JSON()
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
func (m Member) checkShape() error {
	var list []json.RawMessage
	switch m.Name {
	case "properties", "$defs", "definitions":
		if !IsObject(m.Value) {
			return errNotInSubset
		}
	case "anyOf", "oneOf", "allOf":
		if json.Unmarshal(m.Value, &list) != nil || list == nil {
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
	var kept Members
	for _, m := range all {
		format := m.Name == "format" && slices.Contains(knownFormats, Object{"": m.Value}.Text(""))
		switch {
		case m.Name == "additionalProperties":
			if object = true; string(m.Value) != "false" {
				return nil, errNotInSubset
			}
		case slices.Contains(keptWords, m.Name), slices.Contains(schemaWords, m.Name), slices.Contains(words, m.Name), format:
			if err := m.checkShape(); err != nil {
				return nil, err
			}
			object = object || m.Name == "type" && bytes.Contains(m.Value, []byte("object"))
			named = named || m.Name == "properties" && len(readMembers(m.Value)) > 0
			if m.Name == "oneOf" {
				m.Name = "anyOf"
			}
			kept = append(kept, m)
		case !slices.Contains(droppedWords, m.Name):
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
		kept = append(kept, Member{"additionalProperties", json.RawMessage("false")})
	}
	return kept.JSON(), nil
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
		if !slices.Contains(strictWords, one.Name) {
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
