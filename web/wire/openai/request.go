package openai

import (
	"bytes"
	"cmp"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/bot"
	"github.com/lingserve/lingserve/internal/mediapart"
	"github.com/lingserve/lingserve/internal/rawjson"
	"github.com/lingserve/lingserve/web/wire/request"
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
	Strict     bool // an answer that does not fit the schema is an error
}

// Bounds of what a request may have; the body as a whole is bounded by who reads it.
const (
	maxModel    = 256
	maxMessages = 2000
	maxParts    = 256
)

// Read reads the body of a request, which is known to be JSON without repeated members. The error is that of the first fault: clients
// show one message and no more.
func Read(body []byte) (*Request, *Error) {
	r := reader{Decoder: request.Decoder{Lenient: true}}
	members := r.Members("", body)
	for _, read := range []func(map[string]json.RawMessage){
		r.model, r.messages, r.refusals, r.options, r.session, r.format, r.stream,
	} {
		if len(r.Faults) == 0 {
			read(members)
		}
	}
	if len(r.Faults) > 0 {
		return nil, refuse(paramOf(r.Faults[0].Pointer), r.Faults[0].Detail)
	}
	return &r.q, nil
}

// paramOf writes a JSON Pointer as these clients know places: messages[0].content.
func paramOf(pointer string) string {
	var b strings.Builder
	for token := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		switch _, err := strconv.Atoi(token); {
		case err == nil:
			b.WriteString("[" + token + "]")
		case b.Len() > 0:
			b.WriteString("." + token)
		default:
			b.WriteString(token)
		}
	}
	return b.String()
}

// reader reads the members of a body.
type reader struct {
	request.Decoder
	q Request
}

// text reads a member that is a string; ok is false if it is missing.
func (r *reader) text(members map[string]json.RawMessage, at, name string) (text string, ok bool) {
	raw, ok := members[name]
	if ok {
		text = r.String(at+"/"+name, raw)
	}
	return text, ok
}

func (r *reader) model(members map[string]json.RawMessage) {
	switch r.q.Model, _ = r.text(members, "", "model"); {
	case len(r.Faults) > 0:
	case r.q.Model == "":
		r.Fail("/model", "expected the name of an agent, a workflow or a model; GET /v1/models lists them")
	case len(r.q.Model) > maxModel:
		r.Fail("/model", "expected at most %d bytes, found %d", maxModel, len(r.q.Model))
	}
}

// unsupported are members that may have one value only, because any other asks for another answer.
var unsupported = []struct{ name, value string }{
	{"logprobs", "false"}, {"top_logprobs", "0"}, {"logit_bias", "{}"}, {"n", "1"}, {"audio", ""}, {"web_search_options", ""},
}

// refusals refuses members without which the answer would be another one than the one asked for.
func (r *reader) refusals(members map[string]json.RawMessage) {
	for _, name := range []string{"tools", "functions"} {
		if raw, ok := members[name]; ok && compact(raw) != "[]" && compact(members["tool_choice"]) != `"none"` {
			r.Fail("/"+name, "callers' tools are not supported, because agents use their own tools on the server; send no tools, or tool_choice \"none\"")
		}
	}
	for _, m := range unsupported {
		switch raw, ok := members[m.name]; {
		case !ok || compact(raw) == m.value:
		case m.value == "":
			r.Fail("/"+m.name, "is not supported here; remove it")
		default:
			r.Fail("/"+m.name, "is not supported here; send %s, or remove it", m.value)
		}
	}
	if raw, ok := members["modalities"]; ok && compact(raw) != `["text"]` {
		r.Fail("/modalities", `expected ["text"], because answers are text`)
	}
}

func compact(raw json.RawMessage) string {
	var b bytes.Buffer
	_ = json.Compact(&b, raw)
	return b.String()
}

// options reads what is asked of the model. Options that have another name or form here are brought into ours first.
func (r *reader) options(members map[string]json.RawMessage) {
	ours, reasoning := map[string]json.RawMessage{}, map[string]json.RawMessage{}
	theirs := map[string]string{} // their names, where they differ
	for _, name := range []string{
		"temperature", "top_p", "max_tokens", "stop", "seed", "frequency_penalty", "presence_penalty", "verbosity", "tool_choice", "parallel_tool_calls", "service_tier",
	} {
		if raw, ok := members[name]; ok {
			ours[name] = raw
		}
	}
	if raw, ok := members["max_completion_tokens"]; ok {
		ours["max_tokens"], theirs["max_tokens"] = raw, "max_completion_tokens"
	}
	if raw, ok := members["reasoning"]; ok {
		given := r.Members("/reasoning", raw)
		for _, name := range []string{"effort", "budget", "show"} { // routers know more of them
			if raw, ok := given[name]; ok {
				reasoning[name] = raw
			}
		}
	}
	if raw, ok := members["reasoning_effort"]; ok {
		reasoning["effort"], theirs["reasoning"] = raw, "reasoning_effort"
	}
	if len(reasoning) > 0 {
		ours["reasoning"], _ = json.Marshal(reasoning) // of JSON texts: cannot fail
	}
	if rawjson.Kind(ours["tool_choice"]) == "an object" {
		var choice struct {
			Type     string
			Function struct{ Name string }
		}
		if json.Unmarshal(ours["tool_choice"], &choice) != nil || choice.Type != "function" || choice.Function.Name == "" {
			r.Fail("/tool_choice", `expected none, auto, required or {"type":"function","function":{"name":…}}`)
			return
		}
		ours["tool_choice"], _ = json.Marshal(choice.Function.Name)
	}
	text, _ := json.Marshal(ours)
	o, misfits := adapter.ReadOptions(text, false)
	for _, m := range misfits {
		r.Fail("/"+cmp.Or(theirs[m.At[0]], m.At[0]), "%s", m.Detail)
	}
	r.q.Options = o
}

func (r *reader) stream(members map[string]json.RawMessage) {
	if raw, ok := members["stream"]; ok {
		r.q.Stream = r.Bool("/stream", raw)
	}
	if raw, ok := members["stream_options"]; ok {
		if raw, ok := r.Members("/stream_options", raw)["include_usage"]; ok {
			r.q.Usage = r.Bool("/stream_options/include_usage", raw)
		}
	}
}

// session is the one that metadata names, or else the user's.
func (r *reader) session(members map[string]json.RawMessage) {
	var ok bool
	if r.q.Session, ok = r.text(members, "", "user"); ok {
		r.q.SessionParam = "user"
	}
	if raw, ok := members["metadata"]; ok {
		if session, ok := r.text(r.Members("/metadata", raw), "/metadata", "session"); ok {
			r.q.Session, r.q.SessionParam = session, "metadata.session"
		}
	}
}

// format says whether the answer should be JSON, and what JSON.
func (r *reader) format(members map[string]json.RawMessage) {
	raw, ok := members["response_format"]
	if !ok {
		return
	}
	const at = "/response_format"
	format := r.Members(at, raw)
	kind, _ := r.text(format, at, "type")
	switch {
	case len(r.Faults) > 0 || kind == "text":
	case kind == "json_object":
		r.q.JSON = true
	case kind == "json_schema":
		const at = at + "/json_schema"
		schema := r.Members(at, format["json_schema"])
		r.q.JSON = true
		r.q.SchemaName, _ = r.text(schema, at, "name")
		if raw, ok := schema["strict"]; ok {
			r.q.Strict = r.Bool(at+"/strict", raw)
		}
		r.schema(at+"/schema", schema["schema"])
	default:
		r.Fail(at+"/type", "expected text, json_object or json_schema")
	}
}

// schema reads the schema of an answer. Without one, any JSON is an answer, but not a strict one.
func (r *reader) schema(at string, raw json.RawMessage) {
	switch {
	case raw == nil && r.q.Strict:
		r.Fail(at, "expected a JSON Schema, because strict is true")
	case raw == nil, !r.As(at, raw, '{', "an object", &r.q.Schema):
	default:
		if err := bot.CheckForeignSchema(raw); err != nil {
			r.Fail(at, "%s", err)
		}
	}
}

func (r *reader) messages(members map[string]json.RawMessage) {
	var list []json.RawMessage
	if raw, ok := members["messages"]; ok && !r.As("/messages", raw, '[', "an array", &list) {
		return
	}
	switch {
	case len(list) == 0:
		r.Fail("/messages", "expected at least one message")
	case len(list) > maxMessages:
		r.Fail("/messages", "expected at most %d messages, found %d; set user to use a session, which stores messages", maxMessages, len(list))
	default:
		r.q.Messages = make([]adapter.Message, len(list))
		for i, raw := range list {
			r.message(request.Item("/messages", i), raw, &r.q.Messages[i])
		}
	}
}

func (r *reader) message(at string, raw json.RawMessage, m *adapter.Message) {
	members := r.Members(at, raw)
	if members == nil {
		return
	}
	switch m.Role, _ = r.text(members, at, "role"); m.Role {
	case "developer":
		m.Role = adapter.System
	case adapter.System, adapter.User:
	case adapter.Assistant:
		r.calls(at+"/tool_calls", members["tool_calls"], m)
	case adapter.ToolRole:
		m.ToolCallID, _ = r.text(members, at, "tool_call_id")
	default:
		r.Fail(at+"/role", "expected system, developer, user, assistant or tool")
		return
	}
	content, ok := members["content"]
	switch {
	case ok:
		r.content(at+"/content", content, m)
	case m.Role == adapter.Assistant: // which may have called tools, or refused
		m.Content, _ = r.text(members, at, "refusal")
	default:
		r.Fail(at+"/content", "expected a string or an array of parts")
	}
}

// calls reads the tools that an assistant has called before.
func (r *reader) calls(at string, raw json.RawMessage, m *adapter.Message) {
	var list []struct {
		ID       string
		Function struct{ Name, Arguments string }
	}
	if raw != nil && r.As(at, raw, '[', "an array of calls", &list) {
		for i, c := range list {
			m.ToolCalls = append(m.ToolCalls, adapter.ToolCall{Index: i, ID: c.ID, Name: c.Function.Name, Arguments: c.Function.Arguments})
		}
	}
}

// content reads a text, or parts.
func (r *reader) content(at string, raw json.RawMessage, m *adapter.Message) {
	if raw[0] == '"' {
		m.Content = r.String(at, raw)
		return
	}
	var list []json.RawMessage
	if !r.As(at, raw, '[', "a string or an array of parts", &list) {
		return
	}
	if len(list) > maxParts {
		r.Fail(at, "expected at most %d parts, found %d", maxParts, len(list))
		return
	}
	var texts []string
	media := false
	for i, raw := range list {
		p := r.part(request.Item(at, i), raw, m.Role)
		m.Parts = append(m.Parts, p)
		if media = media || p.Type != "text"; p.Type == "text" {
			texts = append(texts, p.Text)
		}
	}
	if !media {
		m.Content, m.Parts = strings.Join(texts, "\n"), nil
	}
}

func (r *reader) part(at string, raw json.RawMessage, role string) (p adapter.Part) {
	members := r.Members(at, raw)
	if members == nil {
		return p
	}
	kind, _ := r.text(members, at, "type")
	if kind == "text" || kind == "refusal" {
		p.Type = "text"
		text, ok := r.text(members, at, kind)
		if p.Text = text; !ok {
			r.Fail(at+"/"+kind, "expected a string, found nothing")
		}
		return p
	}
	p, where, detail := mediapart.Read(raw)
	switch {
	case detail != "":
		r.Fail(at+where, "%s", detail)
	case role != adapter.User:
		r.Fail(at, "expected images and files only in user messages")
	}
	return p
}

// Conversation splits the messages into instructions, earlier messages and the new message. The error is that of messages that do not end
// with the user's.
func (q *Request) Conversation() (instructions string, before []adapter.Message, now adapter.Message, err *Error) {
	last := len(q.Messages) - 1
	if now = q.Messages[last]; now.Role != adapter.User {
		return "", nil, now, refuse("messages", "expected the last message to be the user's, found one of the "+now.Role)
	}
	instructions, before = request.Conversation(q.Messages[:last])
	return instructions, before, now, nil
}
