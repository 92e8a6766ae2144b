package tape

import (
	"encoding/json"
	"slices"
	"strconv"
)

// interrupted is the result of a call that has none.
var interrupted = json.RawMessage(`{"error":{"kind":"interrupted"}}`)

// Repair makes of messages a conversation that providers accept: each tool call of an assistant message has one result,
// in the tool messages that follow it; a call without one gets a synthetic result after the others, and a result
// without its call is left out. Calls that are no objects are left out, and those that have no id of their own get
// one. Messages that are right already are kept byte for byte. It changes neither the slice nor the bytes.
func Repair(messages []Message) []Message {
	out := make([]Message, 0, len(messages))
	var open []openCall
	closeCalls := func() {
		for _, c := range open {
			out = append(out, toolMessage(c, interrupted))
		}
		open = nil
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
			if i := slices.IndexFunc(open, func(c openCall) bool { return c.sent == parsed.CallID }); i >= 0 {
				open = slices.Delete(open, i, i+1)
				out = append(out, m)
			}
			continue
		}
		closeCalls()
		items, calls, changed := fixCalls(elements(parsed.Calls))
		switch open = calls; {
		case len(items) == 0 && parsed.Calls != nil && string(parsed.Calls) != "null": // providers refuse a list without a call
			m.JSON = setMember(m.JSON, "tool_calls", nil)
		case len(items) > 0 && changed:
			m.JSON = setMember(m.JSON, "tool_calls", encode(items))
		}
		out = append(out, m)
	}
	closeCalls()
	return out
}

// fixCalls returns the items that are objects, each with a unique id, and the calls. changed reports whether they differ from
// the given ones.
func fixCalls(items []json.RawMessage) (fixed []json.RawMessage, calls []openCall, changed bool) {
	type call struct {
		ID       string
		Function struct{ Name string }
	}
	parsed := make([]call, len(items))
	for i, item := range items {
		_ = json.Unmarshal(item, &parsed[i]) // a member of another type counts as missing
	}
	used := make(map[string]bool, len(items))
	for i, item := range items {
		if item[0] != '{' {
			changed = true
			continue
		}
		c := openCall{parsed[i].ID, parsed[i].ID, parsed[i].Function.Name}
		if c.sent == "" || used[c.sent] {
			for n := i + 1; c.sent == "" || used[c.sent] || slices.ContainsFunc(parsed, func(p call) bool { return p.ID == c.sent }); n++ {
				c.sent = "call_" + strconv.Itoa(n)
			}
			item = setMember(item, "id", encode(c.sent))
			changed = true
		}
		used[c.sent] = true
		fixed = append(fixed, item)
		calls = append(calls, c)
	}
	return fixed, calls, changed
}
