package gemini

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

const (
	maxDepth = 12   // how deep a schema that refers to itself is written out
	maxParts = 5000 // how many parts such a schema becomes
)

// plain turns a JSON Schema into Google's own Schema (ai.google.dev/api/caching#Schema), a subset, for servers that do not know
// parametersJsonSchema. It returns nil for a schema without properties, which is refused.
func plain(schema json.RawMessage) any {
	var s object
	if json.Unmarshal(schema, &s) != nil {
		return nil
	}
	p := plainer{root: s}
	if out := p.schema(s, 0); out["properties"] != nil {
		return out
	}
	return nil
}

type plainer struct {
	root    object
	written int
}

func (p *plainer) schema(in any, depth int) object {
	s, _ := in.(object)
	if p.written++; depth > maxDepth || p.written > maxParts {
		return object{"type": "OBJECT"}
	}
	if ref, ok := s["$ref"].(string); ok { // "#/$defs/name"
		path := strings.Split(ref, "/")
		definitions, _ := p.root[path[min(1, len(path)-1)]].(object)
		return p.schema(definitions[path[len(path)-1]], depth+1)
	}
	out := object{}
	if all, _ := s["allOf"].([]any); len(all) > 0 {
		out = p.schema(all[0], depth+1)
	}
	var of []any // alternatives
	for name, value := range s {
		switch name {
		case "title", "description", "nullable", "minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties",
			"minimum", "maximum", "pattern", "example", "default":
			out[name] = value
		case "items":
			out[name] = p.schema(value, depth+1)
		case "anyOf", "oneOf":
			for _, choice := range notNull(value, out) {
				of = append(of, p.schema(choice, depth+1))
			}
		}
	}
	if types := notNull(s["type"], out); len(types) == 1 {
		out["type"] = strings.ToUpper(fmt.Sprint(types[0]))
	} else {
		for _, name := range types {
			of = append(of, object{"type": strings.ToUpper(fmt.Sprint(name))})
		}
	}
	if len(of) == 1 {
		maps.Copy(out, of[0].(object))
	} else if len(of) > 1 {
		out["anyOf"] = of
	}
	values := notNull(s["enum"], out)
	if v, ok := s["const"]; ok {
		values = []any{v}
	}
	if len(values) > 0 && (out["type"] == nil || out["type"] == "STRING") { // an enumeration has only strings
		for i, v := range values {
			values[i] = fmt.Sprint(v)
		}
		out["type"], out["enum"] = "STRING", values
	}
	if s["format"] == "date-time" { // of the others most are refused
		out["format"] = "date-time"
	}
	if out["type"] == "ARRAY" && out["items"] == nil { // without them it is refused
		out["items"] = object{"type": "STRING"}
	}
	if properties, _ := s["properties"].(object); len(properties) > 0 {
		written := object{}
		for name, value := range properties {
			written[name] = p.schema(value, depth+1)
		}
		names, _ := s["required"].([]any)
		names = slices.DeleteFunc(slices.Clone(names), func(name any) bool { n, _ := name.(string); return written[n] == nil })
		if out["properties"] = written; len(names) > 0 {
			out["required"] = names
		}
	}
	return out
}

// notNull returns what a list, or one element, has beside null, which is a member of its own in Google's Schema.
func notNull(in any, out object) (rest []any) {
	list, ok := in.([]any)
	if !ok && in != nil {
		list = []any{in}
	}
	for _, v := range list {
		if of, _ := v.(object); v == nil || v == "null" || of["type"] == "null" {
			out["nullable"] = true
		} else {
			rest = append(rest, v)
		}
	}
	return rest
}
