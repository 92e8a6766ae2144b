package coze

import (
	"cmp"
	"encoding/json"

	"github.com/buger/jsonparser"
	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/wire"
	"github.com/lingserve/lingserve/internal/rawjson"
)

// event is a message or a chat, as the data of an event has it: the members that are needed, strings escaped as they came. They are
// parts of the data.
type event struct {
	id, conversation, kind, content, contentType, reasoning []byte
	usage, lastError, required                              []byte
}

// decode takes the data of an event apart.
func (e *event) decode(data []byte) error {
	*e = event{}
	if jsonparser.ObjectEach(data, e.member) != nil {
		return wire.ErrFormat
	}
	return nil
}

func (e *event) member(key, value []byte, kind jsonparser.ValueType, _ int) error {
	for _, m := range [...]struct {
		name string
		kind jsonparser.ValueType
		to   *[]byte
	}{
		{"id", jsonparser.String, &e.id},
		{"conversation_id", jsonparser.String, &e.conversation},
		{"type", jsonparser.String, &e.kind},
		{"content", jsonparser.String, &e.content},
		{"content_type", jsonparser.String, &e.contentType},
		{"reasoning_content", jsonparser.String, &e.reasoning},
		{"usage", jsonparser.Object, &e.usage},
		{"last_error", jsonparser.Object, &e.lastError},
		{"required_action", jsonparser.Object, &e.required},
	} {
		if m.kind == kind && m.name == string(key) {
			*m.to = value
		}
	}
	return nil
}

// isText says whether a message is part of the answer that can be read; cards and sound are not.
func (e *event) isText() bool {
	return string(e.kind) == "answer" && (len(e.contentType) == 0 || string(e.contentType) == "text")
}

// tokens reads the counts of tokens; nil where nothing was counted.
func (e *event) tokens() *adapter.Usage {
	counts := wire.ReadObject(e.usage)
	in, out := counts.Count("input_count"), counts.Count("output_count")
	u := &adapter.Usage{PromptTokens: in, CompletionTokens: out, TotalTokens: cmp.Or(counts.Count("token_count"), in+out)}
	if u.TotalTokens == 0 {
		return nil
	}
	return u
}

// function is a function with its arguments.
type function struct {
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"` // an object, or one written as a string
}

// arguments returns the text of the arguments.
func (f *function) arguments() string {
	var text string
	if json.Unmarshal(f.Arguments, &text) != nil { // of null this is "", too
		text = string(f.Arguments)
	}
	return cmp.Or(text, "{}")
}

// call reads the content of a message that shows a call: {"name":…,"arguments":{…},…}. ok is false where it names nothing.
func (e *event) call() (f function, ok bool) {
	content, err := wire.Unescape(e.content)
	if err != nil {
		return f, false
	}
	for name, value := range rawjson.Members([]byte(content)) { // as far as it goes: Coze may cut it off
		switch name {
		case "name":
			_ = json.Unmarshal(value, &f.Name) // what is no text is no name
		case "arguments":
			f.Arguments = value
		}
	}
	return f, f.Name != ""
}

// wanted is a call that Coze asks the client to make.
type wanted struct {
	ID       string   `json:"id"`
	Function function `json:"function"`
}

// wanted reads the calls of a required action. Other actions, such as choosing a reply, are the user's.
func (e *event) wanted() (calls []wanted) {
	for _, raw := range wire.ReadObject(e.required).Object("submit_tool_outputs").List("tool_calls") {
		var w wanted
		if json.Unmarshal(raw, &w) == nil && w.ID != "" && w.Function.Name != "" {
			calls = append(calls, w)
		}
	}
	return calls
}
