package wire

import (
	"encoding/json"
	"slices"
)

// StrictSchema says whether a schema is in the subset that OpenAI holds answers to: the root is an object, every object lists all its properties as
// required and has no others, and there is nothing that the API does not know. See OpenAI's guide to structured outputs, "Supported schemas".
func StrictSchema(schema json.RawMessage) bool {
	root := ReadObject(schema)
	return root.Text("type") == "object" && root["anyOf"] == nil && inSubset(schema, 1)
}

// maxDepth is how deep the API lets a schema be.
const maxDepth = 10

func inSubset(schema json.RawMessage, depth int) bool {
	s := ReadObject(schema)
	if s == nil || depth > maxDepth {
		return false
	}
	for name, value := range s {
		switch name {
		case "type", "description", "title", "enum", "const", "$ref", "required", "pattern", "minimum", "maximum",
			"exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minItems", "maxItems":
		case "format":
			switch s.Text("format") {
			case "date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid":
			default:
				return false
			}
		case "additionalProperties":
			if string(value) != "false" {
				return false
			}
		case "properties", "$defs", "definitions":
			for _, inner := range ReadObject(value) {
				if !inSubset(inner, depth+1) {
					return false
				}
			}
		case "items":
			if !inSubset(value, depth+1) {
				return false
			}
		case "anyOf":
			list := s.List(name)
			if list == nil || slices.ContainsFunc(list, func(inner json.RawMessage) bool { return !inSubset(inner, depth+1) }) {
				return false
			}
		default:
			return false
		}
	}
	if slices.Contains(s.Types(), "object") && !closed(s) {
		return false
	}
	return s["type"] != nil || s["anyOf"] != nil || s["$ref"] != nil || s["enum"] != nil || s["const"] != nil
}

// closed says whether an object has no properties but those that it must have.
func closed(s Object) bool {
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
