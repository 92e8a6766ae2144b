package flow

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/lingserve/lingserve/internal/rawjson"
	"github.com/lingserve/lingserve/internal/schema"
)

// anyObject is the schema of a workflow that names none.
var anyObject = json.RawMessage(`{"type":"object"}`)

// Prepare checks input (JSON text) against w's schema and returns it decoded; numbers are [json.Number], so that none loses
// a digit. A JSON string becomes the property of a schema with exactly one required property that is a string; nothing and
// null become an empty object. Properties that are missing get the default of their schema. Errors are *[InputError].
func Prepare(w Workflow, input json.RawMessage) (map[string]any, error) {
	s := w.schema()
	wrong := func(format string, args ...any) (map[string]any, error) {
		return nil, &InputError{[]Problem{{"", fmt.Sprintf(format, args...)}}}
	}
	var v any
	if len(bytes.TrimSpace(input)) > 0 {
		var err error
		if v, err = jsonschema.UnmarshalJSON(bytes.NewReader(input)); err != nil {
			return wrong("invalid JSON: %s", strings.TrimPrefix(err.Error(), "json: "))
		}
	}
	var object map[string]any
	switch v := v.(type) {
	case nil:
		object = map[string]any{}
	case map[string]any:
		object = v
	case string:
		if s.shortcut == "" {
			return wrong("got a string, expected an object; a plain string works only for a workflow with exactly one required property, of type string")
		}
		object = map[string]any{s.shortcut: v}
	default:
		return wrong("got %s, expected an object", rawjson.Kind(input))
	}
	for name, text := range s.defaults {
		if _, ok := object[name]; ok {
			continue
		}
		object[name], _ = jsonschema.UnmarshalJSON(bytes.NewReader(text)) // it was encoded above
	}
	if misfits := s.compiled.Check(object, maxProblems); len(misfits) > 0 {
		found := make([]Problem, len(misfits))
		for i, m := range misfits {
			found[i] = Problem{schema.Pointer(m.At), m.Message}
		}
		return nil, &InputError{found}
	}
	return object, nil
}

// maxProblems bounds what is reported of one input.
const maxProblems = 50

// inputSchema is what a workflow takes.
type inputSchema struct {
	compiled   *schema.Schema
	properties map[string]any    // of the schema text: name → schema
	defaults   map[string][]byte // JSON text, so that no run gets what another may change
	shortcut   string            // the property that a plain string becomes
	open       bool              // other properties may come too
}

// names lists the properties of the input; closed says that there can be no others as far as the schema's text shows.
func (s *inputSchema) names() (names []string, closed bool) {
	return slices.Sorted(maps.Keys(s.properties)), !s.open && len(s.properties) > 0
}

// compileInput compiles the schema of an input.
func compileInput(text []byte) (*inputSchema, error) {
	compiled, err := schema.Compile(text)
	if err != nil {
		return nil, err
	}
	root, ok := compiled.Doc().(map[string]any)
	if !ok {
		return nil, &schema.Error{Message: "expected a mapping, such as {type: object, properties: …}"}
	}
	if t, ok := root["type"]; ok && !slices.Contains(types(t), "object") {
		return nil, &schema.Error{At: []string{"type"}, Message: "expected type: object, because a workflow's input is an object"}
	}
	s := &inputSchema{compiled: compiled}
	s.properties, _ = root["properties"].(map[string]any)
	for _, keyword := range []string{"additionalProperties", "patternProperties", "$ref", "allOf", "anyOf", "oneOf"} {
		value, has := root[keyword]
		s.open = s.open || has && value != false
	}
	if required, ok := root["required"].([]any); ok && len(required) == 1 {
		name, _ := required[0].(string)
		if p, ok := s.properties[name].(map[string]any); ok && slices.Equal(types(p["type"]), []string{"string"}) {
			s.shortcut = name
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.properties)) {
		p, _ := s.properties[name].(map[string]any)
		value, ok := p["default"]
		if !ok {
			continue
		}
		if found := compiled.CheckProperty(name, value, 1); len(found) > 0 {
			return nil, &schema.Error{At: []string{"properties", name, "default"}, Message: "the default does not match the schema: " + found[0].Message}
		}
		if s.defaults == nil {
			s.defaults = map[string][]byte{}
		}
		s.defaults[name] = rawjson.MustMarshal(value)
	}
	return s, nil
}

// types lists the types that a schema names.
func types(v any) (names []string) {
	if name, ok := v.(string); ok {
		return []string{name}
	}
	list, _ := v.([]any)
	for _, t := range list {
		name, _ := t.(string)
		names = append(names, name)
	}
	return names
}
