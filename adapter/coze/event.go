package coze

import (
	"cmp"
	"encoding/json"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/wire"
	"github.com/lingserve/lingserve/internal/rawjson"
)

// event is a message or a chat, as the data of an event has it.
type event struct {
	ID           string          `json:"id"`
	Conversation string          `json:"conversation_id"`
	Kind         string          `json:"type"`
	Content      wire.Escaped    `json:"content"`
	ContentType  string          `json:"content_type"`
	Reasoning    wire.Escaped    `json:"reasoning_content"`
	Usage        json.RawMessage `json:"usage"`
	LastError    json.RawMessage `json:"last_error"`
	Required     json.RawMessage `json:"required_action"`
}

// isText says whether a message is part of the answer that can be read; cards and sound are not.
func (e *event) isText() bool {
	return e.Kind == "answer" && (e.ContentType == "" || e.ContentType == "text")
}

// tokens reads the counts of tokens; nil where nothing was counted.
func (e *event) tokens() *adapter.Usage {
	counts := wire.ReadObject(e.Usage)
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

// call reads the content of a message that shows a call: {"name":…,"arguments":{…},…}. ok is false where it names nothing.
func (e *event) call() (f function, ok bool) {
	content, err := wire.Unescape(e.Content)
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
	for _, raw := range wire.ReadObject(e.Required).Object("submit_tool_outputs").List("tool_calls") {
		var w wanted
		if json.Unmarshal(raw, &w) == nil && w.ID != "" && w.Function.Name != "" {
			calls = append(calls, w)
		}
	}
	return calls
}
