package gemini

import (
	"encoding/json"
	"fmt"
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
	s := wire.ReadObject(schema)
	if path := strings.Split(s.Text("$ref"), "/"); len(path) > 2 { // "#/$defs/name"
		return p.schema(p.root.Object(path[1])[path[2]], depth+1)
	}
	out := object{}
	for _, word := range kept {
		if s[word] != nil {
			out[word] = s[word]
		}
	}
	if s.Text("format") == "date-time" { // of the others most are refused
		out["format"] = "date-time"
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
	var required []string
	json.Unmarshal(s["required"], &required)
	properties := object{}
	for name, value := range s.Object("properties") {
		properties[name] = p.schema(value, depth+1)
	}
	if required = slices.DeleteFunc(required, func(name string) bool { return properties[name] == nil }); len(required) > 0 {
		out["required"] = required
	}
	if len(properties) > 0 {
		out["properties"] = properties
	}
	return out
}

// choose writes the alternatives of a schema, and the values of an enumeration, which has only strings.
func (p *plainer) choose(s wire.Object, out object, depth int) {
	choices := append(s.List("anyOf"), s.List("oneOf")...)
	if all := s.List("allOf"); len(all) > 0 {
		choices = append(choices, all[0])
	}
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
	values := s.List("enum")
	if s["const"] != nil {
		values = []json.RawMessage{s["const"]}
	}
	if kind := out["type"]; len(values) > 0 && (kind == nil || kind == "STRING") {
		texts := make([]string, len(values))
		for i, value := range values {
			var v any
			json.Unmarshal(value, &v)
			texts[i] = fmt.Sprint(v)
		}
		out["type"], out["enum"] = "STRING", texts
	}
}
