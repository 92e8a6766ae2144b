package wire

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/lingserve/lingserve/internal/rawjson"
)

// maxNesting is how many references lead from a root to its definition.
const maxNesting = 12

// Parameters makes of the schema of a tool's arguments one that providers take. OpenAI refuses a root that is not of the type object or that
// has alternatives, an object without properties and a list without items (https://platform.openai.com/docs/guides/function-calling); a request
// with one such tool fails as a whole. Where alternatives are joined, more fits than before: arguments are checked against the tool's own schema.
func Parameters(schema json.RawMessage) json.RawMessage {
	if len(bytes.TrimSpace(schema)) == 0 {
		schema = json.RawMessage("{}")
	}
	root := readMembers(schema)
	for range maxNesting { // a root that refers to a definition
		to := root.resolve(root.get("$ref"))
		if to == nil {
			break
		}
		root = to.with("$defs", root.get("$defs")).with("definitions", root.get("definitions"))
	}
	root = root.without("$ref").join()
	if string(root.get("type")) != `"object"` {
		root = root.without("type").with("type", json.RawMessage(`"object"`))
	}
	var plain bytes.Buffer
	out := root.acceptable(0)
	if json.Compact(&plain, schema) == nil && bytes.Equal(plain.Bytes(), out) {
		return schema
	}
	return out
}

// resolve returns the definition that a reference such as "#/$defs/name" names; it may be nil.
func (m members) resolve(ref json.RawMessage) members {
	var path string
	if json.Unmarshal(ref, &path) != nil {
		return nil
	}
	kind, name, ok := strings.Cut(strings.TrimPrefix(path, "#/"), "/")
	if !ok || kind != "$defs" && kind != "definitions" {
		return nil
	}
	return readMembers(readMembers(m.get(kind)).get(strings.NewReplacer("~1", "/", "~0", "~").Replace(name)))
}

// join makes one object of a root's alternatives: it has all their properties, and requires what all require.
func (m members) join() members {
	rest := m.without("anyOf", "oneOf", "allOf", "not", "enum", "const", "if", "then", "else")
	if len(rest) == len(m) {
		return m
	}
	properties := readMembers(m.get("properties"))
	var required []string
	_ = json.Unmarshal(m.get("required"), &required) // one that is no list requires nothing
	for _, word := range []string{"allOf", "anyOf", "oneOf"} {
		var branches []json.RawMessage
		_ = json.Unmarshal(m.get(word), &branches)
		var common []string
		for i, raw := range branches {
			branch := readMembers(raw)
			if to := m.resolve(branch.get("$ref")); to != nil {
				branch = to
			}
			for _, p := range readMembers(branch.get("properties")) {
				properties = properties.or(p)
			}
			var must []string
			_ = json.Unmarshal(branch.get("required"), &must)
			switch {
			case word == "allOf":
				common = append(common, must...)
			case i == 0:
				common = must
			default:
				common = slices.DeleteFunc(common, func(name string) bool { return !slices.Contains(must, name) })
			}
		}
		required = append(required, common...)
	}
	rest = rest.without("properties", "required").with("properties", properties.json())
	if slices.Sort(required); len(required) > 0 {
		names, _ := rawjson.Marshal(slices.Compact(required)) // strings can be written
		rest = rest.with("required", names)
	}
	return rest
}

// or adds a property; beside one of the same name, either is meant.
func (m members) or(p member) members {
	before := m.get(p.name)
	if before == nil || bytes.Equal(before, p.value) {
		return m.with(p.name, p.value)
	}
	either := json.RawMessage(`{"anyOf":[` + string(before) + "," + string(p.value) + "]}")
	out := slices.Clone(m)
	out[slices.IndexFunc(out, func(o member) bool { return o.name == p.name })].value = either
	return out
}

// acceptable writes a schema whose objects have properties and whose lists have items. A keyword that is null is left out.
func (m members) acceptable(depth int) json.RawMessage {
	if depth > 4*maxNesting {
		return m.json()
	}
	out, _ := m.eachSchema(func(inner json.RawMessage) (json.RawMessage, error) {
		if s := readMembers(inner); s != nil {
			return s.acceptable(depth + 1), nil
		}
		return inner, nil
	})
	out = slices.DeleteFunc(out, func(one member) bool {
		return string(one.value) == "null" && one.name != "const" && one.name != "default"
	})
	types := Object{"type": m.get("type")}.Types()
	if slices.Contains(types, "object") {
		out = out.with("properties", json.RawMessage("{}"))
	}
	if slices.Contains(types, "array") && m.get("prefixItems") == nil {
		out = out.with("items", json.RawMessage("{}"))
	}
	return out.json()
}
