package wire

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
)

const (
	maxNesting = 12   // how deep a schema that refers to itself is written out
	maxParts   = 5000 // how many parts such a schema becomes
)

// GoogleSchema turns a JSON Schema into Google's own Schema (ai.google.dev/api/caching#Schema), a subset without references, for servers that
// take no other. It returns nil for a schema without properties, which is refused.
func GoogleSchema(schema json.RawMessage) map[string]any {
	w := googleWriter{root: ReadObject(schema)}
	if out := w.schema(schema, 0); out["properties"] != nil {
		return out
	}
	return nil
}

type googleWriter struct {
	root    Object
	written int // parts
}

// googleWords are those that both have.
var googleWords = []string{
	"title", "description", "nullable", "minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties", "minimum",
	"maximum", "pattern", "example", "default",
}

func (w *googleWriter) schema(schema json.RawMessage, depth int) map[string]any {
	if w.written++; depth > maxNesting || w.written > maxParts {
		return map[string]any{"type": "OBJECT"}
	}
	s, out := ReadObject(schema), map[string]any{}
	if path := strings.Split(s.Text("$ref"), "/"); len(path) > 2 { // "#/$defs/name"
		return w.schema(w.root.Object(path[1])[path[2]], depth+1)
	}
	for _, word := range googleWords {
		if s[word] != nil {
			out[word] = s[word]
		}
	}
	w.choose(s, out, depth)
	if s["items"] != nil {
		out["items"] = w.schema(s["items"], depth+1)
	} else if out["type"] == "ARRAY" { // without them it is refused
		out["items"] = map[string]any{"type": "STRING"}
	}
	if properties := s.Object("properties"); len(properties) > 0 {
		written := map[string]any{}
		for name, value := range properties {
			written[name] = w.schema(value, depth+1)
		}
		var required []string
		json.Unmarshal(s["required"], &required)
		out["properties"] = written
		if required = slices.DeleteFunc(required, func(name string) bool { return written[name] == nil }); len(required) > 0 {
			out["required"] = required
		}
	}
	return out
}

// choose writes the type, or the types, and other alternatives of a schema, and the values of an enumeration, which has only strings.
func (w *googleWriter) choose(s Object, out map[string]any, depth int) {
	all := s.List("allOf")
	choices := slices.Concat(s.List("anyOf"), s.List("oneOf"), all[:min(1, len(all))])
	types := s.Types()
	if len(types) == 1 {
		out["type"], types = strings.ToUpper(types[0]), nil
	}
	for _, kind := range types {
		choices = append(choices, json.RawMessage(`{"type":`+strconv.Quote(kind)+`}`))
	}
	var of []map[string]any
	for _, choice := range choices {
		if written := w.schema(choice, depth+1); written["type"] == "NULL" {
			out["nullable"] = true
		} else {
			of = append(of, written)
		}
	}
	if len(of) == 1 {
		maps.Copy(out, of[0])
	} else if len(of) > 1 {
		out["anyOf"] = of
	}
	var values []string
	json.Unmarshal(s["enum"], &values)
	if value := s.Text("const"); value != "" {
		values = []string{value}
	}
	if values = slices.DeleteFunc(values, func(v string) bool { return v == "" }); len(values) > 0 {
		out["type"], out["enum"] = "STRING", values
	}
}
