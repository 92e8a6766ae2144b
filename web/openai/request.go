package openai

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/internal/mediapart"
	"github.com/lingserve/lingserve/internal/rawjson"
)

// Request is what a chat completion is asked for with.
type Request struct {
	Model    string
	Messages []adapter.Message // at least one; a developer's are a system's
	Stream   bool
	Usage    bool // a stream tells it

	adapter.Options

	Session      string // of metadata, or else the user; "" for none
	SessionParam string // which of the two

	JSON       bool            // the answer is to be JSON
	Schema     json.RawMessage // of it; nil for any
	SchemaName string
}

// Bounds of what a request may have; the body as a whole is bounded by who reads it.
const (
	maxModel    = 256
	maxMessages = 2000
	maxParts    = 256
)

// Read reads the body of a request, which is known to be JSON without repeated members.
func Read(body []byte) (*Request, *Error) {
	members, err := object("", body)
	if err != nil {
		return nil, err
	}
	q := new(Request)
	steps := []func(reader) *Error{
		q.model, q.messages, q.refusals, q.options, q.session, q.format,
		func(r reader) *Error { return r.boolean("stream", &q.Stream) },
		q.streamOptions,
	}
	for _, step := range steps {
		if err := step(members); err != nil {
			return nil, err
		}
	}
	return q, nil
}

// reader has the members of an object. One that is null is none.
type reader map[string]json.RawMessage

func object(param string, raw json.RawMessage) (reader, *Error) {
	var members reader
	if rawjson.Kind(raw) != "an object" || json.Unmarshal(raw, &members) != nil {
		return nil, refuse(param, "expected an object, found "+rawjson.Kind(raw))
	}
	for name, value := range members {
		if string(bytes.TrimSpace(value)) == "null" {
			delete(members, name)
		}
	}
	return members, nil
}

// take decodes a member; false where there is none.
func take[T any](r reader, name, param, kind string, into *T) (bool, *Error) {
	raw, ok := r[name]
	if !ok {
		return false, nil
	}
	if json.Unmarshal(raw, into) != nil {
		return false, refuse(param, "expected "+kind+", found "+rawjson.Kind(raw))
	}
	return true, nil
}

func (r reader) boolean(name string, into *bool) *Error {
	_, err := take(r, name, name, "true or false", into)
	return err
}

func (q *Request) model(r reader) *Error {
	ok, err := take(r, "model", "model", "a string", &q.Model)
	switch {
	case err != nil:
		return err
	case !ok || q.Model == "":
		return refuse("model", "expected the name of an agent, a workflow or a model; GET /v1/models lists them")
	case len(q.Model) > maxModel:
		return refuse("model", fmt.Sprintf("expected at most %d bytes, found %d", maxModel, len(q.Model)))
	}
	return nil
}

// refusals are of members without which the answer would be another one than the one asked for.
func (q *Request) refusals(r reader) *Error {
	for _, name := range []string{"tools", "functions"} {
		if raw, ok := r[name]; ok && string(compact(raw)) != "[]" && !says(r["tool_choice"], "none") {
			return refuse(name, "callers' tools are not supported, because agents use their own tools on the server; send no tools, or tool_choice \"none\"")
		}
	}
	for name, none := range map[string]string{"logprobs": "false", "top_logprobs": "0", "logit_bias": "{}", "n": "1"} {
		if raw, ok := r[name]; ok && string(compact(raw)) != none {
			return refuse(name, "is not supported here; send "+none+", or remove it")
		}
	}
	for _, name := range []string{"audio", "web_search_options"} {
		if _, ok := r[name]; ok {
			return refuse(name, "is not supported here; remove it")
		}
	}
	if raw, ok := r["modalities"]; ok && string(compact(raw)) != `["text"]` {
		return refuse("modalities", `expected ["text"], because answers are text`)
	}
	return nil
}

func compact(raw json.RawMessage) []byte {
	var b bytes.Buffer
	_ = json.Compact(&b, raw)
	return b.Bytes()
}

func says(raw json.RawMessage, word string) bool {
	var text string
	return json.Unmarshal(raw, &text) == nil && text == word
}

// options reads what is asked of the model. What has another name or form here is brought into ours first.
func (q *Request) options(r reader) *Error {
	read, reasoning := reader{}, reader{}
	params := map[string]string{} // how the caller calls it, where that is not our name
	for _, name := range []string{
		"temperature", "top_p", "max_tokens", "stop", "seed", "frequency_penalty", "presence_penalty", "verbosity", "tool_choice", "parallel_tool_calls", "service_tier",
	} {
		if raw, ok := r[name]; ok {
			read[name] = raw
		}
	}
	if raw, ok := r["max_completion_tokens"]; ok {
		read["max_tokens"], params["max_tokens"] = raw, "max_completion_tokens"
	}
	if raw, ok := r["reasoning"]; ok {
		given, err := object("reasoning", raw)
		if err != nil {
			return err
		}
		for _, name := range []string{"effort", "budget", "show"} { // routers know more of them
			if raw, ok := given[name]; ok {
				reasoning[name] = raw
			}
		}
	}
	if raw, ok := r["reasoning_effort"]; ok {
		reasoning["effort"], params["reasoning"] = raw, "reasoning_effort"
	}
	if len(reasoning) > 0 {
		read["reasoning"], _ = json.Marshal(reasoning) // of JSON texts: cannot fail
	}
	if rawjson.Kind(read["tool_choice"]) == "an object" {
		var choice struct {
			Type     string
			Function struct{ Name string }
		}
		if json.Unmarshal(read["tool_choice"], &choice) != nil || choice.Type != "function" || choice.Function.Name == "" {
			return refuse("tool_choice", `expected none, auto, required or {"type":"function","function":{"name":…}}`)
		}
		read["tool_choice"], _ = json.Marshal(choice.Function.Name)
	}
	text, _ := json.Marshal(read)
	o, misfits := adapter.ReadOptions(text, false)
	for _, m := range misfits {
		return refuse(cmp.Or(params[m.At[0]], m.At[0]), m.Detail)
	}
	q.Options = o
	return nil
}

func (q *Request) streamOptions(r reader) *Error {
	raw, ok := r["stream_options"]
	if !ok {
		return nil
	}
	o, err := object("stream_options", raw)
	if err != nil {
		return err
	}
	return o.boolean("include_usage", &q.Usage)
}

// session is the one that metadata names, or else the user's.
func (q *Request) session(r reader) *Error {
	if ok, err := take(r, "user", "user", "a string", &q.Session); err != nil {
		return err
	} else if ok {
		q.SessionParam = "user"
	}
	raw, ok := r["metadata"]
	if !ok {
		return nil
	}
	metadata, err := object("metadata", raw)
	if err != nil {
		return err
	}
	var session string
	if ok, err := take(metadata, "session", "metadata.session", "a string", &session); err != nil {
		return err
	} else if ok {
		q.Session, q.SessionParam = session, "metadata.session"
	}
	return nil
}

// format says whether the answer is to be JSON, and what JSON.
func (q *Request) format(r reader) *Error {
	raw, ok := r["response_format"]
	if !ok {
		return nil
	}
	f, err := object("response_format", raw)
	if err != nil {
		return err
	}
	var kind string
	if _, err := take(f, "type", "response_format.type", "a string", &kind); err != nil {
		return err
	}
	switch kind {
	case "text":
	case "json_object":
		q.JSON = true
	case "json_schema":
		const param = "response_format.json_schema"
		s, err := object(param, f["json_schema"])
		if err != nil {
			return err
		}
		if _, err := take(s, "name", param+".name", "a string", &q.SchemaName); err != nil {
			return err
		}
		q.JSON = true
		if schema, ok := s["schema"]; ok {
			if rawjson.Kind(schema) != "an object" {
				return refuse(param+".schema", "expected an object, found "+rawjson.Kind(schema))
			}
			q.Schema = schema
		}
	default:
		return refuse("response_format.type", "expected text, json_object or json_schema")
	}
	return nil
}

func (q *Request) messages(r reader) *Error {
	var list []json.RawMessage
	if ok, err := take(r, "messages", "messages", "an array", &list); err != nil {
		return err
	} else if !ok || len(list) == 0 {
		return refuse("messages", "expected at least one message")
	}
	if len(list) > maxMessages {
		return refuse("messages", fmt.Sprintf("expected at most %d messages, found %d; set user to use a session, which stores messages", maxMessages, len(list)))
	}
	for i, raw := range list {
		m, err := message("messages["+strconv.Itoa(i)+"]", raw)
		if err != nil {
			return err
		}
		q.Messages = append(q.Messages, m)
	}
	return nil
}

func message(param string, raw json.RawMessage) (m adapter.Message, err *Error) {
	r, err := object(param, raw)
	if err != nil {
		return m, err
	}
	if _, err := take(r, "role", param+".role", "a string", &m.Role); err != nil {
		return m, err
	}
	switch m.Role {
	case "developer":
		m.Role = adapter.System
	case adapter.System, adapter.User:
	case adapter.Assistant:
		if err := calls(param, r, &m); err != nil {
			return m, err
		}
	case adapter.ToolRole:
		if _, err := take(r, "tool_call_id", param+".tool_call_id", "a string", &m.ToolCallID); err != nil {
			return m, err
		}
	default:
		return m, refuse(param+".role", "expected system, developer, user, assistant or tool")
	}
	content, ok := r["content"]
	switch {
	case ok:
		return m, contents(param+".content", content, &m)
	case m.Role == adapter.Assistant: // which may have called tools, or refused
		_, err := take(r, "refusal", param+".refusal", "a string", &m.Content)
		return m, err
	}
	return m, refuse(param+".content", "expected a string or an array of parts")
}

// calls reads the tools that an assistant has called before.
func calls(param string, r reader, m *adapter.Message) *Error {
	var list []struct {
		ID       string
		Function struct{ Name, Arguments string }
	}
	if _, err := take(r, "tool_calls", param+".tool_calls", "an array of calls", &list); err != nil {
		return err
	}
	for i, c := range list {
		m.ToolCalls = append(m.ToolCalls, adapter.ToolCall{Index: i, ID: c.ID, Name: c.Function.Name, Arguments: c.Function.Arguments})
	}
	return nil
}

// contents reads a text, or parts.
func contents(param string, raw json.RawMessage, m *adapter.Message) *Error {
	if json.Unmarshal(raw, &m.Content) == nil {
		return nil
	}
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) != nil {
		return refuse(param, "expected a string or an array of parts, found "+rawjson.Kind(raw))
	}
	if len(list) > maxParts {
		return refuse(param, fmt.Sprintf("expected at most %d parts, found %d", maxParts, len(list)))
	}
	var texts []string
	media := false
	for i, raw := range list {
		at := param + "[" + strconv.Itoa(i) + "]"
		r, err := object(at, raw)
		if err != nil {
			return err
		}
		var kind string
		if _, err := take(r, "type", at+".type", "a string", &kind); err != nil {
			return err
		}
		if kind == "text" || kind == "refusal" {
			p := adapter.Part{Type: "text"}
			if ok, err := take(r, kind, at+"."+kind, "a string", &p.Text); err != nil {
				return err
			} else if !ok {
				return refuse(at+"."+kind, "expected a string, found nothing")
			}
			texts = append(texts, p.Text)
			m.Parts = append(m.Parts, p)
			continue
		}
		p, where, detail := mediapart.Read(raw)
		if detail != "" {
			return refuse(at+strings.ReplaceAll(where, "/", "."), detail)
		}
		if m.Role != adapter.User {
			return refuse(at, "expected images and files only in user messages")
		}
		media = true
		m.Parts = append(m.Parts, p)
	}
	if !media {
		m.Content, m.Parts = strings.Join(texts, "\n"), nil
	}
	return nil
}

// Conversation splits the messages into what the caller instructs, what was said before, and what is said now. The error is that of
// messages that do not end with the user's.
func (q *Request) Conversation() (instructions string, before []adapter.Message, now adapter.Message, err *Error) {
	last := len(q.Messages) - 1
	if now = q.Messages[last]; now.Role != adapter.User {
		return "", nil, now, refuse("messages", "expected the last message to be the user's, found one of the "+now.Role)
	}
	var texts []string
	for _, m := range q.Messages[:last] {
		switch {
		case m.Role == adapter.System:
			texts = append(texts, m.Content)
		case m.Role == adapter.ToolRole: // what came of calls of another server's tools
		case Text(m) != "":
			before = append(before, adapter.Message{Role: m.Role, Content: Text(m)})
		}
	}
	return strings.Join(texts, "\n\n"), before, now, nil
}

// Text is what a message says in words; of images and files it says that they were there.
func Text(m adapter.Message) string {
	if len(m.Parts) == 0 {
		return m.Content
	}
	var texts []string
	for _, p := range m.Parts {
		if p.Type == "text" {
			texts = append(texts, p.Text)
		} else {
			texts = append(texts, map[bool]string{true: "[an image]", false: "[a file]"}[p.Image != ""])
		}
	}
	return strings.Join(texts, "\n")
}
