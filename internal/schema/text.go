package schema

import (
	"bytes"
	"encoding/json"
)

// PropertyReader returns a function that makes JSON of the text of a property. The text is JSON itself if the schema has the property with a
// type that is no string and the text is valid; else it is a string.
func PropertyReader(schema json.RawMessage) func(name, text string) json.RawMessage {
	var s struct {
		Properties map[string]struct{ Type json.RawMessage }
	}
	_ = json.Unmarshal(schema, &s) // without one, all properties are strings
	return func(name, text string) json.RawMessage {
		t := s.Properties[name].Type
		if t != nil && !bytes.Contains(t, []byte(`"string"`)) && json.Valid([]byte(text)) {
			return json.RawMessage(text)
		}
		quoted, _ := json.Marshal(text) // a string is always encoded
		return quoted
	}
}
