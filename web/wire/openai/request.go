package openai

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"strings"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/bot"
	"github.com/lingserve/lingserve/internal/mediapart"
	"github.com/lingserve/lingserve/internal/rawjson"
	"github.com/lingserve/lingserve/run"
	"github.com/lingserve/lingserve/web/wire"
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

// body is the body of a request, without the options of the model.
type body struct {
	Model         string         `field:"model"`
	Messages      []inputMessage `field:"messages"`
	Stream        bool           `field:"stream"`
	StreamOptions struct {
		IncludeUsage bool `field:"include_usage"`
	} `field:"stream_options"`
	User     string `field:"user"`
	Metadata struct {
		Session string `field:"session"`
	} `field:"metadata"`
	ResponseFormat struct {
		Type       string          `field:"type"`
		JSONSchema json.RawMessage `field:"json_schema"`
	} `field:"response_format"`
}

type inputMessage struct {
	Role       string          `field:"role,required" words:"system developer user assistant tool"`
	Content    json.RawMessage `field:"content"`
	Refusal    string          `field:"refusal"`
	ToolCallID string          `field:"tool_call_id"`
	ToolCalls  []struct {
		ID       string `field:"id"`
		Function struct {
			Name      string `field:"name"`
			Arguments string `field:"arguments"`
		} `field:"function"`
	} `field:"tool_calls"`
}

// Read reads the body of a request, which is known to be JSON without repeated members, and returns what in it does not fit.
func Read(text []byte) (*Request, []run.Field) {
	r := reader{Decoder: request.Decoder{Lenient: true}}
	var b body
	var members map[string]json.RawMessage
	if r.Read("", text, &b) {
		_ = json.Unmarshal(text, &members) // it is an object
		maps.DeleteFunc(members, func(_ string, value json.RawMessage) bool { return request.IsNull(value) })
		r.model(b.Model)
		r.messages(b.Messages)
		r.refusals(members)
		r.options(members)
		r.format(&b)
	}
	r.q.Stream, r.q.Usage = b.Stream, b.StreamOptions.IncludeUsage
	if b.User != "" {
		r.q.Session, r.q.SessionParam = b.User, "user"
	}
	if b.Metadata.Session != "" {
		r.q.Session, r.q.SessionParam = b.Metadata.Session, "metadata.session"
	}
	return &r.q, r.Faults
}

// reader makes a request of a body.
type reader struct {
	request.Decoder
	q Request
}

func (r *reader) model(name string) {
	r.q.Model = name
	switch {
	case name == "":
		r.Fail("/model", "expected the name of an agent, a workflow or a model; GET /v1/models lists them")
	case len(name) > maxModel:
		r.Fail("/model", "expected at most %d bytes, found %d", maxModel, len(name))
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
	ours, theirs := map[string]json.RawMessage{}, map[string]string{} // theirs are the names of options that differ
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
	reasoning := map[string]json.RawMessage{}
	if raw, ok := members["reasoning"]; ok && r.Read("/reasoning", raw, &reasoning) {
		maps.DeleteFunc(reasoning, func(name string, value json.RawMessage) bool { // routers know more of them
			return request.IsNull(value) || name != "effort" && name != "budget" && name != "show"
		})
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

// format reads whether the answer should be JSON, and of which schema. Without a schema, any JSON is an answer, but not a strict one.
func (r *reader) format(b *body) {
	const at, atSchema = "/response_format", "/response_format/json_schema"
	switch b.ResponseFormat.Type {
	case "", "text":
	case "json_object":
		r.q.JSON = true
	case "json_schema":
		var schema struct {
			Name   string          `field:"name"`
			Strict bool            `field:"strict"`
			Schema json.RawMessage `field:"schema"`
		}
		r.Read(atSchema, b.ResponseFormat.JSONSchema, &schema)
		r.q.JSON, r.q.SchemaName, r.q.Strict = true, schema.Name, schema.Strict
		switch {
		case schema.Schema == nil && schema.Strict:
			r.Fail(atSchema+"/schema", "expected a JSON Schema, because strict is true")
		case schema.Schema != nil && r.As(atSchema+"/schema", schema.Schema, '{', "an object", &r.q.Schema):
			if err := bot.CheckForeignSchema(schema.Schema); err != nil {
				r.Fail(atSchema+"/schema", "%s", err)
			}
		}
	default:
		r.Fail(at+"/type", "expected text, json_object or json_schema")
	}
}

func (r *reader) messages(list []inputMessage) {
	switch {
	case len(list) == 0:
		r.Fail("/messages", "expected at least one message")
	case len(list) > maxMessages:
		r.Fail("/messages", "expected at most %d messages, found %d; set user to use a session, which stores messages", maxMessages, len(list))
	default:
		for i, m := range list {
			r.q.Messages = append(r.q.Messages, r.message(request.Item("/messages", i), m))
		}
	}
}

// message makes a message for a model of a client's.
func (r *reader) message(at string, m inputMessage) adapter.Message {
	made := adapter.Message{Role: m.Role}
	switch m.Role {
	case "developer":
		made.Role = adapter.System
	case adapter.ToolRole:
		made.ToolCallID = m.ToolCallID
	case adapter.Assistant:
		for i, c := range m.ToolCalls {
			made.ToolCalls = append(made.ToolCalls, adapter.ToolCall{Index: i, ID: c.ID, Name: c.Function.Name, Arguments: c.Function.Arguments})
		}
	}
	switch {
	case m.Content != nil:
		r.content(at+"/content", m.Content, &made)
	case m.Role == adapter.Assistant: // which may have called tools, or refused
		made.Content = m.Refusal
	default:
		r.Fail(at+"/content", "expected a string or an array of parts")
	}
	return made
}

// content reads a text, or parts.
func (r *reader) content(at string, raw json.RawMessage, m *adapter.Message) {
	if raw[0] == '"' {
		r.Read(at, raw, &m.Content)
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
	for i, raw := range list {
		p := r.part(request.Item(at, i), raw, m.Role)
		m.Parts = append(m.Parts, p)
		if p.Type == "text" {
			texts = append(texts, p.Text)
		}
	}
	if len(texts) == len(list) {
		m.Content, m.Parts = strings.Join(texts, "\n"), nil
	}
}

func (r *reader) part(at string, raw json.RawMessage, role string) adapter.Part {
	var part struct {
		Type    string  `field:"type"`
		Text    *string `field:"text"`
		Refusal string  `field:"refusal"`
	}
	if !r.Read(at, raw, &part) {
		return adapter.Part{}
	}
	switch {
	case part.Type == "refusal":
		return adapter.Part{Type: "text", Text: part.Refusal}
	case part.Type == "text" && part.Text == nil:
		r.Fail(at+"/text", "expected a string, found nothing")
		return adapter.Part{}
	case part.Type == "text":
		return adapter.Part{Type: "text", Text: *part.Text}
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

// Conversation splits the messages into instructions, earlier messages and the new message. The problem is that of messages that do not end
// with the user's.
func (q *Request) Conversation() (instructions string, before []adapter.Message, now adapter.Message, p *wire.Problem) {
	last := len(q.Messages) - 1
	if now = q.Messages[last]; now.Role != adapter.User {
		return "", nil, now, wire.Invalid(run.Field{
			Pointer: "/messages", Detail: "expected the last message to be the user's, found one of the " + now.Role,
		})
	}
	instructions, before = request.Conversation(q.Messages[:last])
	return instructions, before, now, nil
}
