package aisdk

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
	"strconv"

	"github.com/lingserve/lingserve/jsonuri"
	"github.com/lingserve/lingserve/tube"
	"github.com/lingserve/lingserve/web/wire/frame"
)

// reasoning is the kind of the parts that have what a model thought.
const reasoning = "reasoning"

// call is a tool's call as the client has it.
type call struct {
	id        string // unique in the stream: models count anew in each step
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
	called   map[string]*call // by the place of the call
	ids      map[string]int   // how often each id was used
	pending  []*call          // those without a result, as they came
	answered bool             // a call of this step has got its result
	null     *call            // its result is null: what comes next says whether that is one
}

// appendReserved appends a change of a reserved value.
func (e *Encoder) appendReserved(dst []byte, ev tube.Event, prefix, name, rest []byte) []byte {
	switch string(name) {
	case "$reasoning_context":
		if len(rest) > 0 || ev.Kind != tube.Append {
			return dst // it was taken back, or nothing of ours: what was shown stays
		}
		t := e.thought(string(prefix))
		dst = e.appendPiece(e.open(dst, t.uri), t, ev.Value)
		e.uri, e.at = append(e.uri[:0], ev.URI...), t
	case "$tools":
		return e.appendCall(dst, string(prefix), string(first(rest)))
	case "$tool_results":
		return e.appendResult(dst, string(prefix), string(first(rest)))
	case "$citations", "$media":
		if ev.Kind == tube.Set && len(rest) > 0 {
			return e.appendSource(dst, string(ev.URI), string(name) == "$media", ev.Value)
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

// thought returns the reasoning of the bot at prefix.
func (e *Encoder) thought(prefix string) *text {
	t := e.thoughts[prefix]
	if t == nil {
		t = &text{kind: reasoning, uri: prefix}
		e.thoughts[prefix] = t
	}
	return t
}

// appendCall appends the n-th call of the bot at prefix, also when it has changed.
func (e *Encoder) appendCall(dst []byte, prefix, n string) []byte {
	at := jsonuri.Join(prefix, "$tools/"+n)
	value, ok := e.doc.Get(at)
	if !ok {
		return dst
	}
	var data struct {
		ID, Name  string
		Arguments json.RawMessage
	}
	if json.Unmarshal(value, &data) != nil || data.Name == "" && data.Arguments == nil {
		return dst // nothing of ours
	}
	c := e.called[at]
	if c == nil {
		dst = e.open(dst, prefix)
		dst = e.closeFor(dst, prefix)
		c = e.newCall(at, data.ID)
	} else if c.name == data.Name && bytes.Equal(c.input, data.Arguments) {
		return dst
	}
	c.name, c.input = data.Name, data.Arguments
	return c.appendInput(dst, c.input)
}

// newCall notes a call.
func (e *Encoder) newCall(at, id string) *call {
	c := &call{id: cmp.Or(id, "call"), real: id}
	for base := c.id; ; { // a model may call its second one "c-2", too
		e.ids[base]++
		if n := e.ids[base]; n > 1 {
			c.id = base + "-" + strconv.Itoa(n)
		}
		if c.id == base || e.ids[c.id] == 0 {
			break
		}
	}
	if c.id != id {
		e.ids[c.id]++
	}
	e.called[at] = c
	e.pending = append(e.pending, c)
	return c
}

// closeFor ends the text and the reasoning of the bot at prefix, so that they are before the call.
func (e *Encoder) closeFor(dst []byte, prefix string) []byte {
	if t := e.thoughts[prefix]; t != nil {
		dst = e.close(dst, t)
	}
	if p := e.places[prefix]; p != nil && p.text != nil {
		dst = e.close(dst, p.text)
	}
	return dst
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

// appendResult appends the result of the n-th call of the bot at prefix.
func (e *Encoder) appendResult(dst []byte, prefix, n string) []byte {
	value, ok := e.doc.Get(jsonuri.Join(prefix, "$tool_results/"+n))
	if !ok {
		return dst
	}
	at := jsonuri.Join(prefix, "$tools/"+n)
	c := e.called[at]
	if c == nil { // a client takes no result without a call
		dst = e.closeFor(e.open(dst, prefix), prefix)
		c = e.newCall(at, "")
		c.name = "tool"
		dst = c.appendInput(dst, nil)
	}
	if prefix == "" {
		e.answered = true
	}
	e.null = nil
	if string(value) == "null" {
		e.null = c
		return dst
	}
	return e.appendOutput(dst, c, value)
}

// finishNull appends a result that was null, or the failure of the call if an error follows.
func (e *Encoder) finishNull(dst []byte, ev tube.Event) []byte {
	c := e.null
	if c == nil {
		return dst
	}
	if _, name, _, is := reserved(ev.URI); is && ev.Kind != tube.Named && string(name) == "$tool_results" {
		if at := bytes.Replace(ev.URI, []byte("$tool_results"), []byte("$tools"), 1); e.called[string(at)] == c {
			return dst // it was null only to be something else
		}
	}
	e.null = nil
	if ev.Kind == tube.Named && ev.Name == "error" {
		var data struct {
			Message string
			Fatal   bool
		}
		if json.Unmarshal(ev.Value, &data) == nil && !data.Fatal {
			return e.appendFailure(dst, c, data.Message)
		}
	}
	return e.appendOutput(dst, c, []byte("null"))
}

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
	e.pending = slices.DeleteFunc(slices.Clone(e.pending), func(o *call) bool { return o == c }) // it is ranged over at the end
	if e.ended {
		return dst
	}
	return e.wait(dst)
}
