package openai

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/wire"
	"github.com/lingserve/lingserve/internal/rawjson"
)

// maxCalls is how many tools one answer may call; OpenAI takes 128 tools.
const maxCalls = 1024

var errCalls = errors.New("the answer calls too many tools")

// call is a tool call as it is known so far.
type call struct {
	wire   int // the index that the provider gives it
	id     string
	name   string // as far as it is known
	passed bool   // id and name were passed on
	shape  shape  // of the arguments
	input  wire.Text
	beside wire.Members // members that we do not know
}

// toolCall reads a call, or a part of one.
func (d *decoder) toolCall(raw json.RawMessage) error {
	in := wire.ReadObject(raw)
	if in == nil {
		return errNotObject
	}
	index, hasIndex := 0, in.Has("index") && json.Unmarshal(in["index"], new(int)) == nil
	if hasIndex {
		_ = json.Unmarshal(in["index"], &index) // an integer
	}
	function := in.Object("function")
	id, name, arguments := in.Text("id"), function.Text("name"), function["arguments"]
	if !wire.IsObject(arguments) && inside(arguments) == nil {
		arguments = nil
	}
	known := len(d.calls)
	i := d.find(index, hasIndex, id, name, arguments != nil)
	if i == maxCalls {
		return errCalls
	}
	if i == known && i > 0 {
		d.introduce(i - 1)
	}
	c := &d.calls[i]
	part := adapter.ToolCall{Index: i}
	if c.id == "" {
		if c.id = id; c.passed {
			part.ID = id
		}
	}
	c.addName(name)
	if text := inside(arguments); text != nil {
		var err error
		if part.Arguments, err = c.input.Next(text); err != nil {
			return err
		}
	} else {
		part.Arguments = string(arguments) // an object, where it should be one in a string
	}
	c.shape.add(part.Arguments)
	if part.Arguments != "" && !c.passed {
		part.ID, part.Name = c.introduction()
	}
	c.addMembers(raw)
	if part != (adapter.ToolCall{Index: i}) {
		d.parts = append(d.parts, part)
	}
	return nil
}

// addMembers stores members that we do not know: Gemini's extra_content, and others that providers want to have back.
func (c *call) addMembers(raw json.RawMessage) {
	for name, value := range rawjson.Members(raw) {
		if !slices.Contains([]string{"index", "id", "function", "type"}, name) && string(value) != "null" {
			c.beside.Set(name, value)
		}
	}
}

// addName adds a name, or a piece of one. Some servers send it again with each piece of the arguments, and some send all of it so far.
func (c *call) addName(name string) {
	switch {
	case c.passed || name == "" || name == c.name:
	case strings.HasPrefix(name, c.name):
		c.name = name
	default:
		c.name += name
	}
}

// introduction returns id and name when they are first asked for: a name may come in pieces, so that it is known when the arguments begin.
func (c *call) introduction() (id, name string) {
	if c.passed {
		return "", ""
	}
	c.passed = true
	return c.id, c.name
}

// introduce tells of a call that has no arguments so far.
func (d *decoder) introduce(i int) {
	if id, name := d.calls[i].introduction(); id != "" || name != "" {
		d.parts = append(d.parts, adapter.ToolCall{Index: i, ID: id, Name: name})
	}
}

// shape tells when the JSON of a call's arguments is whole.
type shape struct {
	depth           int
	begun           bool
	inText, escaped bool
}

func (s *shape) add(text string) {
	for i := range len(text) {
		switch c := text[i]; {
		case s.escaped:
			s.escaped = false
		case s.inText:
			s.escaped = c == '\\'
			s.inText = c != '"'
		case c == '"':
			s.inText = true
		case c == '{' || c == '[':
			s.depth++
			s.begun = true
		case c == '}' || c == ']':
			s.depth--
		}
	}
}

func (s *shape) whole() bool { return s.begun && s.depth <= 0 }

// find returns the place of the call that a part belongs to, and makes one for a new call. Parts belong together by their index, or
// by their id where there is none; a part without either continues the last call. If a server gives every call the index 0, or
// the same id, a new call has another id, or a name that comes when the arguments before it are complete.
func (d *decoder) find(index int, hasIndex bool, id, name string, input bool) int {
	for i := len(d.calls) - 1; i >= 0; i-- {
		c := &d.calls[i]
		switch {
		case id != "" && c.id != "" && c.id != id:
		case hasIndex && c.wire != index:
		case !hasIndex && id != "" && c.id != id:
		case !hasIndex && id == "" && name != "" && (name != c.name || c.shape.whole()):
		case name != "" && input && c.shape.whole() && (id == "" || !hasIndex):
		default:
			return i
		}
	}
	if !hasIndex {
		index = len(d.calls)
	}
	if len(d.calls) == maxCalls {
		return maxCalls
	}
	d.calls = append(d.calls, call{wire: index})
	return len(d.calls) - 1
}
