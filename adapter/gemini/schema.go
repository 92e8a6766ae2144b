package gemini

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/lingserve/lingserve/adapter/wire"
)

const (
	maxDepth = 12   // how deep a schema that refers to itself is written out
	maxParts = 5000 // how many parts such a schema becomes
)

// plain turns a JSON Schema into Google's own Schema (ai.google.dev/api/caching#Schema), a subset, for servers that do not know
// parametersJsonSchema. It returns nil for a schema without properties, which is refused.
func plain(schema json.RawMessage) object {
	p := plainer{root: wire.ReadObject(schema)}
	if out := p.schema(schema, 0); out["properties"] != nil {
		return out
	}
	return nil
}

type plainer struct {
	root    wire.Object
	written int
}

// kept are the words that both have.
var kept = []string{
	"title", "description", "nullable", "minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties", "minimum", "maximum",
	"pattern", "example", "default",
}

func (p *plainer) schema(schema json.RawMessage, depth int) object {
	if p.written++; depth > maxDepth || p.written > maxParts {
		return object{"type": "OBJECT"}
	}
	s, out := wire.ReadObject(schema), object{}
	if path := strings.Split(s.Text("$ref"), "/"); len(path) > 2 { // "#/$defs/name"
		return p.schema(p.root.Object(path[1])[path[2]], depth+1)
	}
	for _, word := range kept {
		if s[word] != nil {
			out[word] = s[word]
		}
	}
	if kind := s.Text("type"); kind != "" {
		out["type"] = strings.ToUpper(kind)
	}
	p.choose(s, out, depth)
	if s["items"] != nil {
		out["items"] = p.schema(s["items"], depth+1)
	} else if out["type"] == "ARRAY" { // without them it is refused
		out["items"] = object{"type": "STRING"}
	}
	if properties := s.Object("properties"); len(properties) > 0 {
		written := object{}
		for name, value := range properties {
			written[name] = p.schema(value, depth+1)
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

// choose writes the alternatives of a schema, and the values of an enumeration, which has only strings.
func (p *plainer) choose(s wire.Object, out object, depth int) {
	all := s.List("allOf")
	choices := slices.Concat(s.List("anyOf"), s.List("oneOf"), all[:min(1, len(all))])
	for _, kind := range s.List("type") {
		choices = append(choices, json.RawMessage(`{"type":`+string(kind)+`}`))
	}
	var of []object
	for _, choice := range choices {
		if written := p.schema(choice, depth+1); written["type"] == "NULL" {
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
