package channel

import "strings"

// Check says what a context that comes ready does not have.
func (t *TurnContext) Check() error {
	for _, need := range [...]struct{ field, value string }{
		{"TurnContext.Channel", t.Channel},
		{"TurnContext.MessageID", t.MessageID},
		{"TurnContext.ChatType", string(t.ChatType)},
		{"TurnContext.ChatID", t.ChatID},
		{"TurnContext.SenderID", t.SenderID},
		{"TurnContext.AgentID", t.AgentID},
		{"TurnContext.SessionKey", t.SessionKey},
		{"TurnContext.To", t.To},
	} {
		if strings.TrimSpace(need.value) == "" {
			return &MissingError{Field: need.field}
		}
	}
	switch t.ChatType {
	case Direct, Group, Broadcast:
		return nil
	}
	return &MissingError{Field: "TurnContext.ChatType", Value: string(t.ChatType)}
}
