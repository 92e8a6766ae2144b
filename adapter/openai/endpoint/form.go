package endpoint

import (
	"encoding/json"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/wire"
)

// Form is what an answer is asked to be; the zero value is any text.
type Form struct {
	Type   string          `json:"type"` // "json_schema" or "json_object"
	Name   string          `json:"name,omitempty"`
	Schema json.RawMessage `json:"schema,omitempty"`
	Strict *bool           `json:"strict,omitempty"`
}

// Fallbacks for a form that is refused.
const (
	noSchema = "without a schema"
	noForm   = "without asking for JSON"
)

// FormOf returns the form in which an answer is asked for: strict if the schema is in the subset of OpenAI's strict mode. The answer is checked
// anyway.
func FormOf(used *wire.Fallbacks, f adapter.Format) Form {
	switch {
	case !f.JSON || used.Uses(noForm):
	case len(f.Schema) > 0 && !used.Uses(noSchema):
		return Form{"json_schema", wire.SchemaName(f.Name), f.Schema, new(wire.StrictSchema(f.Schema))}
	default:
		return Form{Type: "json_object"}
	}
	return Form{}
}

// Fallbacks returns the weaker forms for a refusal that has one of the words: any JSON, then any text (MO-23).
func (f *Form) Fallbacks(words ...string) []wire.Fallback {
	return []wire.Fallback{
		{Name: noSchema, Applies: f.Schema != nil, Words: words},
		{Name: noForm, Applies: f.Type == "json_object", Words: words},
	}
}

// ToolChoice says which tools are to be called; nil leaves it to the model. named is how the API names one of them.
func ToolChoice(choice string, named any) any {
	switch choice {
	case "":
		return nil
	case "auto", "none", "required":
		return choice
	}
	return named
}
