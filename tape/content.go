package tape

import (
	"encoding/json"
	"strings"
)

// TextOf is what the content of a message says: a text itself, of a list of parts those that are texts.
func TextOf(content json.RawMessage) string {
	var text string
	if json.Unmarshal(content, &text) == nil {
		return text
	}
	var parts []struct{ Type, Text string }
	_ = json.Unmarshal(content, &parts) // what is neither says nothing
	var texts []string
	for _, p := range parts {
		if p.Type == "text" {
			texts = append(texts, p.Text)
		}
	}
	return strings.Join(texts, "\n")
}
