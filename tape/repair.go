package tape

import (
	"encoding/json"
	"slices"
)

// interrupted is the result of a call that has none.
var interrupted = json.RawMessage(`{"error":{"kind":"interrupted"}}`)

// call is a call of a model.
type call struct {
	ID       string
	Function struct{ Name string }
}

// Repair makes of messages a conversation that providers accept: each tool call of an assistant message has one result,
// in the tool messages that follow it; a call without one gets a synthetic result after the others, and a result
// without its call is left out, as are calls that are no objects or have no id of their own. Messages that are right already
// are kept byte for byte. It changes neither the slice nor the bytes.
func Repair(messages []Message) []Message {
	out := make([]Message, 0, len(messages))
	var open []call
	closeCalls := func() {
		for _, c := range open {
			out = append(out, toolMessage(c, interrupted))
		}
	}
	for _, m := range messages {
		var parsed struct {
			CallID string          `json:"tool_call_id"`
			Calls  json.RawMessage `json:"tool_calls"`
		}
		if m.Role == "" || !json.Valid(m.JSON) {
			continue // no provider takes it
		}
		_ = json.Unmarshal(m.JSON, &parsed) // a member of another type counts as missing
		if m.Role == "tool" {
			if i := slices.IndexFunc(open, func(c call) bool { return c.ID == parsed.CallID }); i >= 0 {
				open = slices.Delete(open, i, i+1)
				out = append(out, m)
			}
			continue
		}
		closeCalls()
		all := elements(parsed.Calls)
		items, calls := usableCalls(all)
		switch open = calls; {
		case len(items) == 0 && parsed.Calls != nil: // providers refuse a list without a call
			m.JSON = setMember(m.JSON, "tool_calls", nil)
		case len(items) < len(all):
			m.JSON = setMember(m.JSON, "tool_calls", encode(items))
		}
		out = append(out, m)
	}
	closeCalls()
	return out
}

// usableCalls returns the items of a list of calls that are objects with an id that no earlier one has.
func usableCalls(items []json.RawMessage) (usable []json.RawMessage, calls []call) {
	for _, item := range items {
		var c call
		_ = json.Unmarshal(item, &c) // a member of another type counts as missing
		if c.ID != "" && !slices.ContainsFunc(calls, func(other call) bool { return other.ID == c.ID }) {
			usable, calls = append(usable, item), append(calls, c)
		}
	}
	return usable, calls
}
