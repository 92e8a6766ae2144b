package openai

import (
	"bytes"
	"encoding/json"
	"maps"
	"strings"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/wire"
)

// call is a tool call as far as it is known. Its name may come in pieces, so it is passed on with the first arguments.
type call struct {
	index     int // that the provider gives it
	id, name  string
	passed    bool // id and name were passed on
	arguments wire.Text
	written   []byte      // the arguments so far
	extra     wire.Object // members that only the provider understands, such as Gemini's extra_content
}

// callPart is a piece of a call.
type callPart struct {
	index     int // -1 if it has none
	id, name  string
	arguments wire.Escaped
	isObject  bool // the arguments are an object, where they should be one in a string
	extra     wire.Object
}

func readCallPart(o wire.Object) callPart {
	function := o.Object("function")
	p := callPart{index: -1, id: o.Text("id"), name: function.Text("name"), extra: wire.Object{}}
	_ = json.Unmarshal(o["index"], &p.index) // one that is no number is none
	if raw := function["arguments"]; wire.IsObject(raw) {
		p.arguments, p.isObject = wire.Escaped(raw), true
	} else {
		p.arguments = wire.Unquote(raw)
	}
	for name, value := range o {
		switch name {
		case "index", "id", "type", "function":
		default:
			if string(value) != "null" {
				p.extra[name] = value
			}
		}
	}
	return p
}

// readCall passes on a piece of a call.
func (a *answer) readCall(o wire.Object) {
	p := readCallPart(o)
	known := len(a.calls)
	i := a.findCall(&p)
	if i == known && i > 0 {
		a.introduceCall(i - 1)
	}
	c := &a.calls[i]
	part := adapter.ToolCall{Index: i}
	if c.id == "" {
		if c.id = p.id; c.passed {
			part.ID = p.id
		}
	}
	c.addName(p.name)
	maps.Copy(c.extra, p.extra)
	if p.isObject {
		part.Arguments = string(p.arguments)
	} else {
		part.Arguments = a.Next(&c.arguments, p.arguments)
	}
	c.written = append(c.written, part.Arguments...)
	if part.Arguments != "" && !c.passed {
		part.ID, part.Name, c.passed = c.id, c.name, true
	}
	if part != (adapter.ToolCall{Index: i}) {
		a.Pass(adapter.Chunk{ToolCall: &part})
	}
}

// findCall returns the number of the call that a piece belongs to, and adds a new call. Pieces belong together by their index, or by their id if
// they have none; a piece without either continues the last call. If a server gives every call the index 0, or the same id, a new call has another
// id, or a name that comes when the arguments before it are complete.
func (a *answer) findCall(p *callPart) int {
	hasIndex := p.index >= 0
	for i := len(a.calls) - 1; i >= 0; i-- {
		c := &a.calls[i]
		switch {
		case p.id != "" && c.id != "" && c.id != p.id:
		case hasIndex && c.index != p.index:
		case !hasIndex && p.id != "" && c.id != p.id:
		case !hasIndex && p.id == "" && p.name != "" && (p.name != c.name || c.isComplete()):
		case p.name != "" && len(p.arguments) > 0 && c.isComplete() && (p.id == "" || !hasIndex):
		default:
			return i
		}
	}
	if !hasIndex {
		p.index = len(a.calls)
	}
	a.calls = append(a.calls, call{index: p.index, extra: wire.Object{}})
	return len(a.calls) - 1
}

// isComplete reports whether the arguments are a complete object.
func (c *call) isComplete() bool {
	return bytes.HasSuffix(c.written, []byte("}")) && json.Valid(c.written)
}

// addName adds a name, or a piece of one. Some servers send the name again with each piece of the arguments, and some send all that they have of it.
func (c *call) addName(name string) {
	switch {
	case c.passed || name == "" || name == c.name:
	case strings.HasPrefix(name, c.name):
		c.name = name
	default:
		c.name += name
	}
}

// introduceCall passes on a call that has no arguments so far.
func (a *answer) introduceCall(i int) {
	c := &a.calls[i]
	if c.passed || c.id == "" && c.name == "" {
		return
	}
	c.passed = true
	a.Pass(adapter.Chunk{ToolCall: &adapter.ToolCall{Index: i, ID: c.id, Name: c.name}})
}

// endCalls passes on what is left of the calls.
func (a *answer) endCalls() {
	for i := range a.calls {
		a.introduceCall(i)
		if rest := a.calls[i].arguments.Rest(); rest != "" {
			a.Pass(adapter.Chunk{ToolCall: &adapter.ToolCall{Index: i, Arguments: rest}})
		}
	}
}
