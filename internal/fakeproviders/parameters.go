package fakeproviders

import (
	"encoding/json"
	"fmt"
	"slices"
)

// checkParameters holds the schema of a function's arguments to what OpenAI is reported to refuse; "" is that it takes it.
func checkParameters(name string, raw json.RawMessage) string {
	if len(raw) == 0 {
		return ""
	}
	var root map[string]any
	if err := json.Unmarshal(raw, &root); err != nil || root["type"] != "object" {
		return fmt.Sprintf("Invalid schema for function '%s': schema must be a JSON Schema of 'type: \"object\"', got 'type: \"%v\"'.", name, root["type"])
	}
	for _, word := range []string{"oneOf", "anyOf", "allOf", "enum", "not"} {
		if root[word] != nil {
			return fmt.Sprintf("Invalid schema for function '%s': schema must have type 'object' and not have 'oneOf'/'anyOf'/'allOf'/'enum'/'not' at the top level.", name)
		}
	}
	if what := refusedSchema(root); what != "" {
		return fmt.Sprintf("Invalid schema for function '%s': %s.", name, what)
	}
	return ""
}

// refusedSchema says what is missing in a schema, or in one inside of it.
func refusedSchema(s map[string]any) string {
	types, _ := s["type"].([]any)
	switch {
	case (s["type"] == "object" || slices.Contains(types, any("object"))) && s["properties"] == nil:
		return "object schema missing properties"
	case (s["type"] == "array" || slices.Contains(types, any("array"))) && s["items"] == nil && s["prefixItems"] == nil:
		return "array schema missing items"
	}
	if required, there := s["required"]; there && required == nil {
		return "None is not of type 'array'"
	}
	var inner []any
	for _, word := range []string{"properties", "$defs", "definitions"} {
		named, _ := s[word].(map[string]any)
		for _, one := range named {
			inner = append(inner, one)
		}
	}
	for _, word := range []string{"anyOf", "oneOf", "allOf"} {
		list, _ := s[word].([]any)
		inner = append(inner, list...)
	}
	for _, one := range append(inner, s["items"], s["additionalProperties"]) {
		if schema, ok := one.(map[string]any); ok {
			if what := refusedSchema(schema); what != "" {
				return what
			}
		}
	}
	return ""
}
