package tape

import (
	"encoding/json"

	"github.com/lingserve/lingserve/internal/rawjson"
)

// Payload has the members of all kinds of payloads. A member of another type than expected is left out.
type Payload struct {
	Role    string
	Content json.RawMessage
	Calls   []json.RawMessage
	IDs     []string
	Results []json.RawMessage
	Made    json.RawMessage
	Name    string
	State   json.RawMessage
	Data    json.RawMessage
	Kind    string
	Message string
	Refused string
}

// PayloadOf reads the payload of an entry.
func PayloadOf(e Entry) (p Payload) {
	_ = json.Unmarshal(e.Payload, &p) // what has another type is left out
	return p
}

// ToolCalls are the calls of a tool_call.
func (p Payload) ToolCalls() []Call {
	list := make([]Call, len(p.Calls))
	for i, call := range p.Calls {
		_ = json.Unmarshal(call, &list[i]) // likewise
	}
	return list
}

// elements returns the elements of an array. Other values have none.
func elements(array json.RawMessage) (all []json.RawMessage) {
	_ = json.Unmarshal(array, &all)
	return all
}

// text returns the string that raw is; "" for other values.
func text(raw json.RawMessage) (s string) {
	_ = json.Unmarshal(raw, &s)
	return s
}

// setMember returns a copy of an object in which a member has another value. nil removes the member.
func setMember(object json.RawMessage, name string, value json.RawMessage) json.RawMessage {
	var out json.RawMessage
	for n, old := range rawjson.Members(object) {
		if n == name {
			old, value = value, nil // a second member of that name is removed
		}
		if old != nil {
			out = appendMember(out, n, old)
		}
	}
	if value != nil {
		out = appendMember(out, name, value)
	}
	return closeObject(out)
}

// newObject returns the object of these members: each a name, followed by its value. If a value has no JSON form, it returns nil.
func newObject(members ...any) (object json.RawMessage) {
	for i := 0; i < len(members); i += 2 {
		value := encode(members[i+1])
		if value == nil {
			return nil
		}
		object = appendMember(object, members[i].(string), value)
	}
	return closeObject(object)
}

// appendMember appends a member of an object that closeObject completes.
func appendMember(object json.RawMessage, name string, value json.RawMessage) json.RawMessage {
	object = append(append(object, ','), encode(name)...)
	return append(append(object, ':'), value...)
}

func closeObject(object json.RawMessage) json.RawMessage {
	if len(object) == 0 {
		return json.RawMessage("{}")
	}
	object[0] = '{' // in place of the first comma
	return append(object, '}')
}
