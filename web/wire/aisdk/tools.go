package aisdk

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/lingserve/lingserve/jsonuri"
	"github.com/lingserve/lingserve/tube"
	"github.com/lingserve/lingserve/web/wire/frame"
)

// call is a tool's call as the client has it.
type call struct {
	id        string // its uri: models use an id again
	real      string // as the run knows it
	name      string
	input     json.RawMessage
	question  string // the id of the question whether it may run
	asked     bool   // the client was asked to approve it, and has not answered
	undecided bool   // the client was asked to approve it, and the run has no decision yet
	deny      bool   // a person has decided against it
}

// calls are what tools were called for.
type calls struct {
	called   map[string]*call // by uri
	pending  []*call          // those without a result, as they came
	answered bool             // a call of this step has its result
}

// appendReserved appends a change of a reserved value: rest is its uri below prefix/name.
func (e *Encoder) appendReserved(dst []byte, ev tube.Event, prefix, name, rest string) []byte {
	switch name {
	case "$reasoning_context":
		if rest == "" && ev.Kind == tube.Append { // what is taken back stays
			return e.continuePart(e.open(dst, prefix), e.reasoningOf(prefix), ev)
		}
	case "$tools":
		return e.appendCall(dst, prefix, string(first([]byte(rest))))
	case "$tool_results":
		return e.appendResult(dst, prefix, string(first([]byte(rest))))
	case "$citations", "$media":
		if ev.Kind == tube.Set && rest != "" {
			return e.appendSource(dst, string(ev.URI), name == "$media", ev.Value)
		}
	}
	return dst
}

// appendSource appends a source that an answer names, or an image or a sound that the model made.
func (e *Encoder) appendSource(dst []byte, at string, media bool, value []byte) []byte {
	var data struct{ URL, Title, Type string }
	if json.Unmarshal(value, &data) != nil || data.URL == "" {
		return dst
	}
	if media {
		return frame.Chunk(dst, "file", "url", data.URL, "mediaType", data.Type)
	}
	dst = frame.Texts(frame.Begin(dst, "source-url"), "sourceId", at, "url", data.URL)
	if data.Title != "" {
		dst = frame.Text(dst, "title", data.Title)
	}
	return frame.End(dst)
}

// reasoningOf returns the reasoning of the bot at a root.
func (e *Encoder) reasoningOf(root string) *part {
	p := e.reasoning[root]
	if p == nil {
		p = &part{kind: kindReasoning, uri: root}
		e.reasoning[root] = p
	}
	return p
}

// appendCall appends the n-th call of the bot at root, also when it has changed.
func (e *Encoder) appendCall(dst []byte, root, n string) []byte {
	id := jsonuri.Join(root, "$tools/"+n)
	value, _ := e.doc.Get(id)
	var data struct {
		ID, Name  string
		Arguments json.RawMessage
	}
	if json.Unmarshal(value, &data) != nil || data.Name == "" && data.Arguments == nil {
		return dst // it does not exist, or is nothing of ours
	}
	c := e.called[id]
	if c != nil && c.name == data.Name && bytes.Equal(c.input, data.Arguments) {
		return dst
	}
	if c == nil {
		dst, c = e.newCall(dst, root, id)
		c.real = data.ID
	}
	c.name, c.input = data.Name, data.Arguments
	return c.appendInput(dst, c.input)
}

// newCall notes a call, and ends the text and the reasoning of the bot before it.
func (e *Encoder) newCall(dst []byte, root, id string) ([]byte, *call) {
	dst = e.open(dst, root)
	dst = e.close(dst, e.reasoning[root])
	dst = e.close(dst, e.values[root])
	c := &call{id: id}
	e.called[id] = c
	e.pending = append(e.pending, c)
	return dst, c
}

// appendInput appends the arguments of a call.
func (c *call) appendInput(dst []byte, input json.RawMessage) []byte {
	dst = frame.Texts(frame.Begin(dst, "tool-input-available"), "toolCallId", c.id, "toolName", c.name)
	if input == nil {
		input = json.RawMessage("{}")
	}
	return frame.End(append(frame.Member(dst, "input", input), executed...))
}

// executed are the members of a call that the server runs: otherwise a client would wait for its own side to run it.
const executed = `,"providerExecuted":true,"dynamic":true`

// appendResult appends the result of the n-th call of the bot at root. That of a call that failed is null.
func (e *Encoder) appendResult(dst []byte, root, n string) []byte {
	value, ok := e.doc.Get(jsonuri.Join(root, "$tool_results/"+n))
	if !ok {
		return dst
	}
	id := jsonuri.Join(root, "$tools/"+n)
	c := e.called[id]
	if c == nil { // a client takes no result without a call
		dst, c = e.newCall(dst, root, id)
		c.name = "tool"
		dst = c.appendInput(dst, nil)
	}
	if root == "" {
		e.answered = true
	}
	if string(value) == "null" {
		return e.appendFailure(dst, c, failedText(c.name))
	}
	return e.appendOutput(dst, c, value)
}

// failedText is what users read of a call that failed. The tool's own text is for the model.
func failedText(tool string) string { return "the tool " + tool + " has failed" }

// appendOutput appends the output of a call.
func (e *Encoder) appendOutput(dst []byte, c *call, value []byte) []byte {
	dst = frame.Member(frame.Text(frame.Begin(dst, "tool-output-available"), "toolCallId", c.id), "output", value)
	return e.endCall(frame.End(append(dst, executed...)), c)
}

// appendFailure appends that a call has failed, or was not allowed.
func (e *Encoder) appendFailure(dst []byte, c *call, why string) []byte {
	if c.deny {
		return e.endCall(frame.Chunk(dst, "tool-output-denied", "toolCallId", c.id), c)
	}
	dst = frame.Texts(frame.Begin(dst, "tool-output-error"), "toolCallId", c.id, "errorText", why)
	return e.endCall(frame.End(append(dst, executed...)), c)
}

// endCall removes a call from those without a result.
func (e *Encoder) endCall(dst []byte, c *call) []byte {
	e.pending = slices.DeleteFunc(e.pending, func(o *call) bool { return o == c })
	if e.ended {
		return dst
	}
	return e.wait(dst)
}
