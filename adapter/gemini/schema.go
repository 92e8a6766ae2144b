package gemini

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

const (
	maxDepth = 12   // how deep a schema that refers to itself is written out
	maxParts = 5000 // how many parts such a schema becomes
)

// plain turns a JSON Schema into Google's own Schema (ai.google.dev/api/caching#Schema), a subset, for servers that do not know
// parametersJsonSchema. It returns nil for a schema without properties.
func plain(schema json.RawMessage) any {
	var s map[string]any
	if json.Unmarshal(schema, &s) != nil {
		return nil
	}
	p := plainer{definitions: map[string]any{}}
	for _, name := range []string{"$defs", "definitions"} {
		definitions, _ := s[name].(map[string]any)
		for key, value := range definitions {
			p.definitions["#/"+name+"/"+key] = value
		}
	}
	out := p.schema(s, 0)
	if properties, _ := out["properties"].(map[string]any); len(properties) == 0 {
		return nil // an object without properties is refused
	}
	return out
}

type plainer struct {
	definitions map[string]any
	written     int
}

// kept are the members that mean the same in both.
var kept = []string{
	"title", "description", "nullable", "minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties", "minimum", "maximum",
	"pattern", "example", "default", "propertyOrdering",
}

// formats are those that are taken, by type.
var formats = map[string][]string{"STRING": {"enum", "date-time"}, "NUMBER": {"float", "double"}, "INTEGER": {"int32", "int64"}}

func (p *plainer) schema(in any, depth int) map[string]any {
	s, _ := in.(map[string]any)
	if p.written++; depth > maxDepth || p.written > maxParts {
		return map[string]any{"type": "OBJECT"}
	}
	if ref, ok := s["$ref"].(string); ok {
		return p.schema(p.definitions[ref], depth+1)
	}
	out := map[string]any{}
	if all, ok := s["allOf"].([]any); ok && len(all) > 0 {
		out = p.schema(all[0], depth+1)
	}
	for _, name := range kept {
		if v, ok := s[name]; ok {
			out[name] = v
		}
	}
	p.kind(s["type"], out)
	if values, ok := s["enum"].([]any); ok {
		p.values(values, out)
	} else if v, ok := s["const"]; ok {
		p.values([]any{v}, out)
	}
	kind, _ := out["type"].(string)
	if format, ok := s["format"].(string); ok && slices.Contains(formats[kind], format) {
		out["format"] = format
	}
	if items, ok := s["items"]; ok {
		out["items"] = p.schema(items, depth+1)
	} else if kind == "ARRAY" {
		out["items"] = map[string]any{"type": "STRING"} // an array without them is refused
	}
	for _, name := range []string{"anyOf", "oneOf"} {
		choices, _ := s[name].([]any)
		p.choices(choices, out, depth)
	}
	if properties, ok := s["properties"].(map[string]any); ok {
		of := map[string]any{}
		for name, value := range properties {
			of[name] = p.schema(value, depth+1)
		}
		out["properties"] = of
		var required []any
		names, _ := s["required"].([]any)
		for _, name := range names {
			if n, _ := name.(string); of[n] != nil {
				required = append(required, n)
			}
		}
		if len(required) > 0 {
			out["required"] = required
		}
	}
	return out
}

// kind writes a type, or a list of them.
func (p *plainer) kind(in any, out map[string]any) {
	names, _ := in.([]any)
	if name, ok := in.(string); ok {
		names = []any{name}
	}
	var types []any
	for _, name := range names {
		if name == "null" {
			out["nullable"] = true
		} else if name, ok := name.(string); ok {
			types = append(types, map[string]any{"type": strings.ToUpper(name)})
		}
	}
	switch {
	case len(types) == 1:
		out["type"] = types[0].(map[string]any)["type"]
	case len(types) > 1:
		out["anyOf"] = types
	}
}

// values writes an enumeration, which has only strings.
func (p *plainer) values(values []any, out map[string]any) {
	var names []string
	for _, v := range values {
		if v == nil {
			out["nullable"] = true
			continue
		}
		names = append(names, fmt.Sprint(v))
	}
	if out["type"] == nil || out["type"] == "STRING" {
		out["type"], out["enum"] = "STRING", names
	}
}

// choices writes alternatives; null among them makes the others nullable.
func (p *plainer) choices(choices []any, out map[string]any, depth int) {
	var of []any
	for _, c := range choices {
		if s, ok := c.(map[string]any); ok && s["type"] == "null" {
			out["nullable"] = true
			continue
		}
		of = append(of, p.schema(c, depth+1))
	}
	if len(of) == 1 {
		for name, value := range of[0].(map[string]any) {
			if _, ok := out[name]; !ok {
				out[name] = value
			}
		}
	} else if len(of) > 1 {
		out["anyOf"] = of
	}
}
