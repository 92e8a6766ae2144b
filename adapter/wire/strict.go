package wire

import "encoding/json"

// StrictSchema says whether a schema is in the subset that OpenAI holds answers to: the root is an object, every object lists all its properties as
// required and has no others, and there is nothing that the API does not know. See OpenAI's guide to structured outputs, "Supported schemas".
func StrictSchema(schema json.RawMessage) bool {
	root := object(schema)
	return text(root["type"]) == "object" && root["anyOf"] == nil && inSubset(schema, 1)
}

// maxDepth is how deep the API lets a schema be.
const maxDepth = 10

func inSubset(schema json.RawMessage, depth int) bool {
	s := object(schema)
	if s == nil || depth > maxDepth {
		return false
	}
	for name, value := range s {
		switch name {
		case "type", "description", "title", "enum", "const", "$ref", "required", "pattern", "minimum", "maximum",
			"exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minItems", "maxItems":
		case "format":
			switch text(value) {
			case "date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid":
			default:
				return false
			}
		case "additionalProperties":
			if string(value) != "false" {
				return false
			}
		case "properties", "$defs", "definitions":
			for _, inner := range object(value) {
				if !inSubset(inner, depth+1) {
					return false
				}
			}
		case "items":
			if !inSubset(value, depth+1) {
				return false
			}
		case "anyOf":
			var list []json.RawMessage
			if json.Unmarshal(value, &list) != nil {
				return false
			}
			for _, inner := range list {
				if !inSubset(inner, depth+1) {
					return false
				}
			}
		default:
			return false
		}
	}
	types := []string{text(s["type"])}
	if types[0] == "" && json.Unmarshal(s["type"], &types) != nil {
		types = nil
	}
	for _, t := range types {
		if t == "object" && !closed(s) {
			return false
		}
	}
	return s["type"] != nil || s["anyOf"] != nil || s["$ref"] != nil || s["enum"] != nil || s["const"] != nil
}

// closed says whether an object has no properties but those that it must have.
func closed(s map[string]json.RawMessage) bool {
	var required []string
	if string(s["additionalProperties"]) != "false" || json.Unmarshal(s["required"], &required) != nil && s["required"] != nil {
		return false
	}
	properties := object(s["properties"])
	for _, name := range required {
		delete(properties, name)
	}
	return len(properties) == 0
}

func object(raw json.RawMessage) (m map[string]json.RawMessage) {
	if json.Unmarshal(raw, &m) != nil {
		return nil
	}
	return m
}

// text is the string that raw is; "" where it is none.
func text(raw json.RawMessage) (s string) {
	if json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
}
