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
		if m.Role == "" || !json.Valid(m.JSON) {
			continue // no provider takes it
		}
		if m.Role == "tool" {
			id, _ := text(member(m.JSON, "tool_call_id"))
			for i, c := range open {
				if c.sent == id {
					open = append(open[:i:i], open[i+1:]...)
					out = append(out, m)
					break
				}
			}
			continue
		}
		closeCalls()
		m.JSON, open = repairCalls(m.JSON)
		out = append(out, m)
	}
	closeCalls()
	return out
}

// repairCalls returns an assistant message with calls that can be answered, and the calls.
func repairCalls(message json.RawMessage) (json.RawMessage, []openCall) {
	value := member(message, "tool_calls")
	if value == nil || string(value) == "null" {
		return message, nil
	}
	items, open, changed := fixCalls(elements(value))
	if len(items) > 0 && !changed {
		return message, open
	}
	var fixed json.RawMessage // nil takes the member away: a provider refuses an empty list
	if len(items) > 0 {
		fixed = appendArray(nil, items)
	}
	return replaceMember(message, "tool_calls", fixed), open
}

// fixCalls returns the items that are objects, each with an id that no other has, and the calls that they are. changed
// says whether they differ from what was given.
func fixCalls(items []json.RawMessage) (fixed []json.RawMessage, calls []openCall, changed bool) {
	taken := make(map[string]bool, len(items))
	ids := make([]string, len(items)) // "" where there is none, or another has it
	for i, item := range items {
		ids[i], _ = text(member(item, "id"))
	}
	for i, item := range items {
		if item[0] != '{' {
			changed = true
			continue
		}
		c := openCall{id: ids[i], sent: ids[i]}
		if c.sent == "" || taken[c.sent] {
			for n := i + 1; c.sent == "" || taken[c.sent] || slices.Contains(ids, c.sent); n++ {
				c.sent = "call_" + strconv.Itoa(n)
			}
			item = replaceMember(item, "id", appendString(nil, c.sent))
			changed = true
		}
		taken[c.sent] = true
		if name := member(member(item, "function"), "name"); name != nil && name[0] == '"' {
			c.name = name
		}
		fixed = append(fixed, item)
		calls = append(calls, c)
	}
	return fixed, calls, changed
}
