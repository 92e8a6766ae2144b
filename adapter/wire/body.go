package wire

import (
	"cmp"
	"encoding/json"
	"maps"
	"regexp"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/internal/rawjson"
)

// Body writes a request, a struct, as JSON, with extra members over its own.
func Body(request any, extra map[string]json.RawMessage) ([]byte, error) {
	body, err := rawjson.Marshal(request)
	if err != nil || len(extra) == 0 {
		return body, err
	}
	all := ReadObject(body)
	maps.Copy(all, extra)
	return rawjson.Marshal(all)
}

// Overlay lays extra members over a request: those of objects one by one, and the elements of lists behind the others.
func Overlay(body map[string]any, extra map[string]json.RawMessage) {
	for name, value := range extra {
		under, _ := body[name].(map[string]any)
		list, _ := body[name].([]any)
		var inner map[string]json.RawMessage
		var more []any
		switch {
		case under != nil && json.Unmarshal(value, &inner) == nil && inner != nil:
			Overlay(under, inner)
		case list != nil && json.Unmarshal(value, &more) == nil:
			body[name] = append(list, more...)
		default:
			body[name] = value
		}
	}
}

// SchemaName makes a name of a schema that OpenAI's API accepts: 1 to 64 letters, digits, _ and -.
func SchemaName(name string) string {
	name = cmp.Or(notInNames.ReplaceAllString(name, "_"), "answer")
	return name[:min(len(name), 64)]
}

var notInNames = regexp.MustCompile(`[^a-zA-Z0-9_-]`)

// Effort says how much effort is asked for, for servers that know efforts only; "" leaves it to the model.
func Effort(r adapter.Reasoning) string {
	switch {
	case r.Effort != "" || r.Budget == nil:
		return r.Effort
	case *r.Budget <= 0:
		return "none"
	case *r.Budget <= 2<<10:
		return "low"
	case *r.Budget <= 16<<10:
		return "medium"
	}
	return "high"
}

// Put adds a member that has a value.
func Put[T any](object map[string]any, name string, value *T) {
	if value != nil {
		object[name] = *value
	}
}
