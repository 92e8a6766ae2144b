package coze

import (
	"errors"

	"github.com/buger/jsonparser"
	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/wire"
)

// errNotObject says that an event cannot be read.
var errNotObject = errors.New("the event is not JSON, or not of the format")

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
		return errNotObject
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
	count := func(name string) int {
		n, err := jsonparser.GetInt(e.usage, name)
		if err != nil || n < 0 || n > 1<<50 {
			return 0
		}
		return int(n)
	}
	u := &adapter.Usage{
		PromptTokens: count("input_count"), CompletionTokens: count("output_count"), TotalTokens: count("token_count"),
	}
	if u.TotalTokens == 0 {
		u.TotalTokens = u.PromptTokens + u.CompletionTokens
	}
	if u.TotalTokens == 0 {
		return nil
	}
	return u
}

// call reads the content of a message that shows a call: {"name":…,"arguments":{…},…}. ok is false where it names nothing.
func (e *event) call() (name, arguments string, ok bool) {
	content, err := wire.Unescape(e.content)
	if err != nil {
		return "", "", false
	}
	return function([]byte(content))
}

// function reads a function with its arguments, which are an object, or one written as a string.
func function(object []byte) (name, arguments string, ok bool) {
	raw, kind, _, err := jsonparser.Get(object, "name")
	if err != nil || kind != jsonparser.String {
		return "", "", false
	}
	if name, err = wire.Unescape(raw); err != nil || name == "" {
		return "", "", false
	}
	raw, kind, _, err = jsonparser.Get(object, "arguments")
	switch {
	case err != nil || kind == jsonparser.Null:
	case kind == jsonparser.String:
		if arguments, err = wire.Unescape(raw); err != nil {
			return "", "", false
		}
	default:
		arguments = string(raw)
	}
	if arguments == "" {
		arguments = "{}"
	}
	return name, arguments, true
}

// wanted is a call that Coze asks the client to make.
type wanted struct{ id, name, arguments string }

// wanted reads the calls of a required action. Other actions, such as choosing a reply, are the user's.
func (e *event) wanted() (calls []wanted) {
	// What cannot be read of the list is no call.
	_, _ = jsonparser.ArrayEachErr(e.required, func(value []byte, kind jsonparser.ValueType, _ int, err error) error {
		if err != nil {
			return err
		}
		if kind != jsonparser.Object || len(calls) == maxCalls {
			return nil
		}
		object, kind, _, err := jsonparser.Get(value, "function")
		if err != nil || kind != jsonparser.Object {
			return nil
		}
		raw, kind, _, err := jsonparser.Get(value, "id")
		if err != nil || kind != jsonparser.String {
			return nil
		}
		id, err := wire.Unescape(raw)
		if err != nil || id == "" {
			return nil
		}
		if name, arguments, ok := function(object); ok {
			calls = append(calls, wanted{id, name, arguments})
		}
		return nil
	}, "submit_tool_outputs", "tool_calls")
	return calls
}
