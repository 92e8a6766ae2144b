// Package aguitest has a client of AG-UI for tests, which is as strict as the protocol's own.
package aguitest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Client is what the protocol's own client makes of a stream, and as strict: what that stops at is an error here, and so is what
// it only warns of.
type Client struct {
	State    any
	Messages []*Message
	Notes    []Note
	Log      []string // types of events, with what they are of
	Bytes    int
	Longest  int // of the events, in bytes

	Started, Ended bool
	End            map[string]json.RawMessage // the event that has ended the run
	Err            error                      // why it has stopped reading

	open map[string]string // what was opened and not closed, by kind and id: of which kind
}

// Message is a message as the client has it.
type Message struct {
	ID, Role, Content string
	Calls             []*Call
	Call              string
}

// Call is the call of a tool.
type Call struct{ ID, Name, Arguments string }

// Note is an event of the type CUSTOM.
type Note struct {
	Name  string
	Value json.RawMessage
}

// maxFrame is what the client takes in one event.
const maxFrame = 10 << 20

// Read takes a part of a stream that has whole events.
func (c *Client) Read(stream []byte) {
	c.Bytes += len(stream)
	if bytes.Contains(stream, []byte("\r")) || len(stream) > 0 && !bytes.HasSuffix(stream, []byte("\n\n")) {
		c.Err = errors.Join(c.Err, fmt.Errorf("the stream is cut at %q", stream))
		return
	}
	for frame := range bytes.SplitSeq(bytes.TrimSuffix(stream, []byte("\n\n")), []byte("\n\n")) {
		if len(frame) == 0 {
			continue
		}
		if err := c.frame(frame); err != nil {
			c.Err = errors.Join(c.Err, fmt.Errorf("%w in %.300s", err, frame))
		}
		if c.Err != nil {
			return
		}
	}
}

func (c *Client) frame(frame []byte) error {
	for bytes.HasPrefix(frame, []byte(":\n")) { // which keeps an idle stream open
		frame = frame[2:]
	}
	c.Longest = max(c.Longest, len(frame))
	text, ok := bytes.CutPrefix(frame, []byte("data: "))
	if !ok || bytes.ContainsAny(text, "\n") || len(text) > maxFrame {
		return fmt.Errorf("not one line of data, or %d bytes", len(frame))
	}
	var e map[string]json.RawMessage
	if err := json.Unmarshal(text, &e); err != nil {
		return err
	}
	for name, value := range e {
		if string(value) == "null" && name != "result" && name != "value" && name != "snapshot" {
			return fmt.Errorf("%s is null", name)
		}
	}
	if repeated(text) {
		return errors.New("a member is there twice")
	}
	return c.event(e)
}

// repeated says whether an object that is no value of a run's has a member twice: event's own.
func repeated(text []byte) bool {
	dec := json.NewDecoder(bytes.NewReader(text))
	seen := map[string]bool{}
	_, _ = dec.Token()
	for dec.More() {
		name, _ := dec.Token()
		var value json.RawMessage
		_ = dec.Decode(&value)
		if seen[fmt.Sprint(name)] {
			return true
		}
		seen[fmt.Sprint(name)] = true
	}
	return false
}

// needs are the members that an event must have, besides those that it may have.
var needs = map[string][2]string{
	"RUN_STARTED":  {"threadId runId", "protocolVersion parentRunId"},
	"RUN_FINISHED": {"threadId runId", "result outcome usage"}, "RUN_ERROR": {"message", "code usage"},
	"STEP_STARTED": {"stepName", ""}, "STEP_FINISHED": {"stepName", ""},
	"TEXT_MESSAGE_START": {"messageId", "role"}, "TEXT_MESSAGE_CONTENT": {"messageId delta", ""}, "TEXT_MESSAGE_END": {"messageId", ""},
	"REASONING_START": {"messageId", ""}, "REASONING_MESSAGE_START": {"messageId role", ""},
	"REASONING_MESSAGE_CONTENT": {"messageId delta", ""}, "REASONING_MESSAGE_END": {"messageId", ""}, "REASONING_END": {"messageId", ""},
	"TOOL_CALL_START": {"toolCallId toolCallName", "parentMessageId"}, "TOOL_CALL_ARGS": {"toolCallId delta", ""},
	"TOOL_CALL_END": {"toolCallId", ""}, "TOOL_CALL_RESULT": {"messageId toolCallId content", "role"},
	"STATE_SNAPSHOT": {"snapshot", ""}, "STATE_DELTA": {"delta", ""}, "MESSAGES_SNAPSHOT": {"messages", ""}, "CUSTOM": {"name value", ""},
}

func (c *Client) event(e map[string]json.RawMessage) error {
	kind, id, err := c.shape(e)
	if err != nil {
		return err
	}
	c.Log = append(c.Log, strings.TrimSpace(kind+" "+id))
	if c.open == nil {
		c.open = map[string]string{}
	}
	switch kind {
	case "RUN_STARTED":
		if c.Started && !c.Ended {
			return errors.New("a run is still active")
		}
		c.Started, c.Ended, c.open, c.End = true, false, map[string]string{}, nil
		return nil
	case "RUN_FINISHED", "RUN_ERROR":
		if len(c.open) > 0 {
			return fmt.Errorf("still open: %v", c.open)
		}
		c.Ended, c.End = true, e
		if kind == "RUN_FINISHED" {
			return checkOutcome(e)
		}
		return nil
	case "STEP_STARTED", "TEXT_MESSAGE_START", "REASONING_START", "REASONING_MESSAGE_START", "TOOL_CALL_START":
		return c.begin(kind, id, e)
	case "STEP_FINISHED":
		return c.shut("STEP_STARTED", id)
	case "TEXT_MESSAGE_END":
		return c.shut("TEXT_MESSAGE_START", id)
	case "REASONING_MESSAGE_END":
		return c.shut("REASONING_MESSAGE_START", id)
	case "REASONING_END":
		return c.shut("REASONING_START", id)
	case "TOOL_CALL_END":
		return c.shut("TOOL_CALL_START", id)
	case "TEXT_MESSAGE_CONTENT", "REASONING_MESSAGE_CONTENT":
		if c.open[strings.TrimSuffix(kind, "CONTENT")+"START "+id] == "" {
			return errors.New("it is not open")
		}
		c.message(id).Content += Text(e["delta"])
		return nil
	case "TOOL_CALL_ARGS":
		if c.open["TOOL_CALL_START "+id] == "" {
			return errors.New("it is not open")
		}
		c.Call(id).Arguments += Text(e["delta"])
		return nil
	case "TOOL_CALL_RESULT":
		c.Messages = append(c.Messages, &Message{ID: Text(e["messageId"]), Role: "tool", Content: Text(e["content"]), Call: id})
		return nil
	case "STATE_SNAPSHOT":
		c.State = Decode(e["snapshot"])
		return nil
	case "STATE_DELTA":
		state, err := patch(c.State, e["delta"])
		if err == nil {
			c.State = state
		}
		return err
	case "MESSAGES_SNAPSHOT":
		return c.snapshot(e["messages"])
	case "CUSTOM":
		c.Notes = append(c.Notes, Note{Text(e["name"]), e["value"]})
	}
	return nil
}

// shape checks the members of an event, and returns what it is of.
func (c *Client) shape(e map[string]json.RawMessage) (kind, id string, err error) {
	kind = Text(e["type"])
	known, ok := needs[kind]
	if !ok {
		return kind, "", errors.New("an unknown type")
	}
	may := append(strings.Fields(known[0]+" "+known[1]), "type")
	for name := range strings.FieldsSeq(known[0]) {
		if e[name] == nil {
			return kind, "", fmt.Errorf("no %s", name)
		}
	}
	for name, value := range e {
		if !slices.Contains(may, name) {
			return kind, "", fmt.Errorf("what is %s", name)
		}
		if (strings.HasSuffix(name, "Id") || name == "delta" && kind != "STATE_DELTA" || name == "content" || name == "stepName") && value[0] != '"' {
			return kind, "", fmt.Errorf("%s is no string", name)
		}
	}
	if !c.Started && kind != "RUN_STARTED" && kind != "RUN_ERROR" {
		return kind, "", errors.New("it is the first event")
	}
	if c.Ended && kind != "RUN_STARTED" {
		return kind, "", errors.New("the run has ended")
	}
	for _, name := range []string{"toolCallId", "messageId", "stepName"} {
		if e[name] != nil {
			return kind, Text(e[name]), nil
		}
	}
	return kind, "", nil
}

func checkOutcome(e map[string]json.RawMessage) error {
	var o struct {
		Type       string
		Interrupts []struct {
			ID, Reason     string
			ResponseSchema map[string]any
		}
	}
	if e["outcome"] == nil {
		return nil // as before 1.0: it is success
	}
	if err := json.Unmarshal(e["outcome"], &o); err != nil {
		return err
	}
	if (o.Type == "interrupt") != (len(o.Interrupts) > 0) || o.Type != "interrupt" && o.Type != "success" && o.Type != "cancelled" {
		return errors.New("what kind of end is that")
	}
	var usage []map[string]any
	if e["usage"] != nil {
		return json.Unmarshal(e["usage"], &usage)
	}
	return nil
}

func (c *Client) begin(kind, id string, e map[string]json.RawMessage) error {
	if c.open[kind+" "+id] != "" {
		return errors.New("it is open already")
	}
	c.open[kind+" "+id] = kind
	switch kind {
	case "TEXT_MESSAGE_START":
		if role := Text(e["role"]); role != "assistant" && role != "" {
			return errors.New("a role that is none: " + role)
		}
		c.messageOf(id, "assistant")
	case "REASONING_MESSAGE_START":
		c.messageOf(id, "reasoning")
	case "TOOL_CALL_START":
		if c.Call(id) != nil {
			return errors.New("a call of this id was there before") // and has arguments
		}
		m := c.messageOf(Text(e["parentMessageId"]), "assistant")
		m.Calls = append(m.Calls, &Call{ID: id, Name: Text(e["toolCallName"])})
	}
	return nil
}

func (c *Client) shut(kind, id string) error {
	if c.open[kind+" "+id] == "" {
		return errors.New("it is not open")
	}
	delete(c.open, kind+" "+id)
	return nil
}

func (c *Client) message(id string) *Message {
	for _, m := range c.Messages {
		if m.ID == id {
			return m
		}
	}
	return nil
}

func (c *Client) messageOf(id, role string) *Message {
	m := c.message(id)
	if m == nil {
		m = &Message{ID: id, Role: role}
		c.Messages = append(c.Messages, m)
	}
	if m.Role != role {
		c.Err = errors.Join(c.Err, fmt.Errorf("the message %s is of %s, not of %s", id, m.Role, role))
	}
	return m
}

// Call finds a call; nil where there is none.
func (c *Client) Call(id string) *Call {
	for _, m := range c.Messages {
		for _, call := range m.Calls {
			if call.ID == id {
				return call
			}
		}
	}
	return nil
}

func (c *Client) snapshot(text json.RawMessage) error {
	var list []struct {
		ID, Role, Content, ToolCallID string
		ToolCalls                     []struct {
			ID, Type string
			Function struct{ Name, Arguments string }
		}
	}
	if err := json.Unmarshal(text, &list); err != nil {
		return err
	}
	c.Messages = nil
	for _, m := range list {
		to := &Message{ID: m.ID, Role: m.Role, Content: m.Content, Call: m.ToolCallID}
		if m.ID == "" || c.message(m.ID) != nil {
			return fmt.Errorf("the id %q of a message", m.ID)
		}
		for _, call := range m.ToolCalls {
			to.Calls = append(to.Calls, &Call{call.ID, call.Function.Name, call.Function.Arguments})
		}
		c.Messages = append(c.Messages, to)
	}
	return nil
}

// Texts are the contents of the messages of a role, in order.
func (c *Client) Texts(role string) (list []string) {
	for _, m := range c.Messages {
		if m.Role == role && m.Content != "" {
			list = append(list, m.Content)
		}
	}
	return list
}

// Text is what a JSON string says.
func Text(raw json.RawMessage) (s string) {
	_ = json.Unmarshal(raw, &s)
	return s
}

// Decode decodes JSON text, and keeps numbers as they are written.
func Decode(raw []byte) (v any) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	if err := dec.Decode(&v); err != nil {
		panic(err)
	}
	return v
}

// patch applies a JSON Patch (RFC 6902), of the operations that are used here, as a whole or not at all. It is strict, and does
// not touch what the client's library does not.
func patch(document any, text json.RawMessage) (any, error) {
	var ops []struct {
		Op, Path string
		Value    json.RawMessage
	}
	if err := json.Unmarshal(text, &ops); err != nil {
		return nil, err
	}
	document = clone(document)
	for _, op := range ops {
		if op.Value == nil {
			return nil, errors.New("an operation without a value")
		}
		path, err := pointer(op.Path)
		if err != nil {
			return nil, err
		}
		if document, err = apply(document, op.Op, path, Decode(op.Value)); err != nil {
			return nil, fmt.Errorf("%s %q: %w", op.Op, op.Path, err)
		}
	}
	return document, nil
}

func clone(v any) any {
	switch v := v.(type) {
	case map[string]any:
		c := make(map[string]any, len(v))
		for name, item := range v {
			c[name] = clone(item)
		}
		return c
	case []any:
		c := make([]any, len(v))
		for i, item := range v {
			c[i] = clone(item)
		}
		return c
	}
	return v
}

func pointer(path string) (tokens []string, err error) {
	if path == "" {
		return nil, nil
	}
	if path[0] != '/' {
		return nil, errors.New("a path without a slash in front")
	}
	for i, token := range strings.Split(path[1:], "/") {
		if strings.Contains(strings.NewReplacer("~0", "", "~1", "").Replace(token), "~") {
			return nil, errors.New("a tilde that escapes nothing")
		}
		token = strings.ReplaceAll(strings.ReplaceAll(token, "~1", "/"), "~0", "~")
		if token == "__proto__" || token == "prototype" && i > 0 && tokens[i-1] == "constructor" {
			return nil, errors.New("a path that the client refuses")
		}
		tokens = append(tokens, token)
	}
	return tokens, nil
}

func apply(at any, op string, path []string, value any) (any, error) {
	if len(path) == 0 {
		return value, nil
	}
	switch at := at.(type) {
	case map[string]any:
		old, ok := at[path[0]]
		if len(path) == 1 {
			if op == "replace" && !ok {
				return nil, errors.New("nothing to replace")
			}
			at[path[0]] = value
			return at, nil
		}
		if !ok {
			return nil, fmt.Errorf("there is no %q", path[0])
		}
		next, err := apply(old, op, path[1:], value)
		at[path[0]] = next
		return at, err
	case []any:
		i, err := strconv.Atoi(path[0])
		if err != nil || i < 0 || strconv.Itoa(i) != path[0] {
			return nil, fmt.Errorf("%q is no index", path[0])
		}
		switch {
		case len(path) == 1 && op == "add" && i <= len(at):
			return slices.Insert(at, i, value), nil
		case i >= len(at):
			return nil, fmt.Errorf("there is no element %d", i)
		case len(path) == 1:
			at[i] = value
			return at, nil
		}
		next, err := apply(at[i], op, path[1:], value)
		at[i] = next
		return at, err
	}
	return nil, fmt.Errorf("%T holds no %q", at, path[0])
}
