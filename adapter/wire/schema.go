package wire

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/lingserve/lingserve/internal/rawjson"
)

// members are the members of an object in their order, in which models write what a schema describes.
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

func (m members) index(name string) int {
	return slices.IndexFunc(m, func(one member) bool { return one.name == name })
}

func (m members) get(name string) json.RawMessage {
	if i := m.index(name); i >= 0 {
		return m[i].value
	}
	return nil
}

// with adds a member that is missing; nil adds none.
func (m members) with(name string, value json.RawMessage) members {
	if value == nil || m.index(name) >= 0 {
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

// eachSchema replaces each schema directly within a schema by what change returns. ok is false if change was false for one, or a keyword has
// something else than schemas.
func (m members) eachSchema(change func(json.RawMessage) (json.RawMessage, bool)) (_ members, ok bool) {
	m, ok = slices.Clone(m), true
	replace := func(schema *json.RawMessage) {
		changed, fits := change(*schema)
		*schema, ok = changed, ok && fits
	}
	for i := range m {
		value := &m[i].value
		switch m[i].name {
		case "properties", "patternProperties", "$defs", "definitions":
			named := readMembers(*value)
			for k := range named {
				replace(&named[k].value)
			}
			*value, ok = named.json(), ok && named != nil
		case "anyOf", "oneOf", "allOf", "prefixItems":
			var list []json.RawMessage
			if json.Unmarshal(*value, &list) != nil || list == nil {
				ok = false
				continue
			}
			for k := range list {
				replace(&list[k])
			}
			*value, _ = rawjson.Marshal(list) // is JSON already
		case "items", "not":
			replace(value)
		case "additionalProperties":
			if IsObject(*value) {
				replace(value)
			}
		}
	}
	return m, ok
}

// maxNesting is the depth that Parameters changes.
const maxNesting = 48

// Parameters makes of the schema of a tool's arguments one that providers take. OpenAI refuses a root that is not of the type object or that
// has alternatives, an object without properties and a list without items (https://platform.openai.com/docs/guides/function-calling); a request
// with one such tool fails as a whole. Where alternatives are joined, more fits than before: arguments are checked against the tool's own schema.
func Parameters(schema json.RawMessage) json.RawMessage {
	root := readMembers(schema)
	if definition := root.resolve(root.get("$ref")); definition != nil {
		root = definition.with("$defs", root.get("$defs")).with("definitions", root.get("definitions"))
	}
	root = root.without("$ref").join()
	if string(root.get("type")) != `"object"` {
		root = root.without("type").with("type", json.RawMessage(`"object"`))
	}
	return root.complete(0)
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

// join makes one object of a root's alternatives: it has all their properties, of which only those are required that the root itself requires.
func (m members) join() members {
	rest := m.without("anyOf", "oneOf", "allOf", "not", "enum", "const", "if", "then", "else")
	if len(rest) == len(m) {
		return m
	}
	properties := readMembers(m.get("properties"))
	for _, word := range []string{"allOf", "anyOf", "oneOf"} {
		for _, raw := range (Object{word: m.get(word)}).List(word) {
			branch := readMembers(raw)
			if definition := m.resolve(branch.get("$ref")); definition != nil {
				branch = definition
			}
			for _, p := range readMembers(branch.get("properties")) {
				properties = properties.or(p)
			}
		}
	}
	return rest.without("properties").with("properties", properties.json())
}

// or adds a property; beside one of the same name, either is meant.
func (m members) or(p member) members {
	i := m.index(p.name)
	if i < 0 || bytes.Equal(m[i].value, p.value) {
		return m.with(p.name, p.value)
	}
	m = slices.Clone(m)
	m[i].value = json.RawMessage(`{"anyOf":[` + string(m[i].value) + "," + string(p.value) + "]}")
	return m
}

// complete writes a schema whose objects have properties and whose lists have items. A keyword that is null is left out.
func (m members) complete(depth int) json.RawMessage {
	if depth > maxNesting {
		return m.json()
	}
	out, _ := m.eachSchema(func(inner json.RawMessage) (json.RawMessage, bool) {
		if s := readMembers(inner); s != nil {
			return s.complete(depth + 1), true
		}
		return inner, true
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

var (
	closedWords = []string{
		"type", "enum", "const", "title", "description", "required", "default", "$ref", "properties", "$defs", "definitions", "items", "anyOf",
	}
	droppedWords = []string{
		"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength", "pattern", "minItems", "maxItems",
		"uniqueItems", "minProperties", "maxProperties", "format", "$schema", "$id", "$comment", "examples", "deprecated", "readOnly", "writeOnly",
	}
	closedFormats = []string{"date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"}
)

// Closed makes of a schema one in the subset that Anthropic's and Amazon's structured output take; false if there is no such schema. Objects take no
// members but those that they name, and bounds are left out: the answer is checked against the complete schema anyway. Members keep their order.
// words are those that the server takes of pattern, format (of any kind), oneOf (as anyOf) and allOf.
// https://platform.claude.com/docs/en/build-with-claude/structured-outputs
// https://docs.aws.amazon.com/bedrock/latest/userguide/structured-output.html
func Closed(schema json.RawMessage, words ...string) (json.RawMessage, bool) {
	all := readMembers(schema)
	var kept members
	object, named := false, false
	for _, m := range all {
		format := m.name == "format" && slices.Contains(closedFormats, Object{"": m.value}.Text(""))
		switch {
		case m.name == "additionalProperties" && string(m.value) == "false":
			object = true
		case slices.Contains(closedWords, m.name), slices.Contains(words, m.name), format:
			object = object || m.name == "type" && bytes.Contains(m.value, []byte("object"))
			named = named || m.name == "properties" && len(readMembers(m.value)) > 0
			if m.name == "oneOf" {
				m.name = "anyOf"
			}
			kept = append(kept, m)
		case !slices.Contains(droppedWords, m.name):
			return nil, false
		}
	}
	kept, ok := kept.eachSchema(func(inner json.RawMessage) (json.RawMessage, bool) { return Closed(inner, words...) })
	if !ok || all == nil || object && !named { // an object without properties is one of anything
		return nil, false
	}
	if named {
		kept = append(kept, member{"additionalProperties", json.RawMessage("false")})
	}
	return kept.json(), true
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

// StrictSchema says whether a schema is in the subset that OpenAI holds answers to: the root is an object, every object lists all its properties as
// required and has no others, and there is nothing that the API does not know. See OpenAI's guide to structured outputs, "Supported schemas".
func StrictSchema(schema json.RawMessage) bool {
	root := ReadObject(schema)
	return root.Text("type") == "object" && root["anyOf"] == nil && isStrict(schema, 1)
}

func isStrict(schema json.RawMessage, depth int) bool {
	m, s := readMembers(schema), ReadObject(schema)
	unknown := func(one member) bool { return !slices.Contains(strictWords, one.name) }
	switch {
	case m == nil || depth > maxDepth || slices.ContainsFunc(m, unknown),
		s["format"] != nil && !slices.Contains(strictFormats, s.Text("format")),
		s["additionalProperties"] != nil && string(s["additionalProperties"]) != "false",
		slices.Contains(s.Types(), "object") && !requiresAll(s),
		s["type"] == nil && s["anyOf"] == nil && s["$ref"] == nil && s["enum"] == nil && s["const"] == nil:
		return false
	}
	_, ok := m.eachSchema(func(inner json.RawMessage) (json.RawMessage, bool) { return inner, isStrict(inner, depth+1) })
	return ok
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
