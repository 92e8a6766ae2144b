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

// FormOf is the strictest form that the model is not known to refuse: strict where the schema is in the subset that OpenAI's strict
// mode takes. The answer is checked anyway.
func FormOf(a *wire.Asking, f adapter.Format) Form {
	switch {
	case !f.JSON:
	case len(f.Schema) > 0 && !a.Knows("no schema"):
		strict := wire.StrictSchema(f.Schema) && !a.Knows("no strict schema")
		return Form{"json_schema", wire.SchemaName(f.Name), f.Schema, &strict}
	case !a.Knows("no form"):
		return Form{Type: "json_object"}
	}
	return Form{}
}

// Lessons are what a refusal of the form teaches; says is a regular expression that tells one.
func (f *Form) Lessons(says string) []wire.Lesson {
	return []wire.Lesson{
		{What: "no strict schema", Sent: f.Strict != nil && *f.Strict, Says: says},
		{What: "no schema", Sent: f.Schema != nil, Says: says},
		{What: "no form", Sent: f.Type != "", Says: says},
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
