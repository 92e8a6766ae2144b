package openai

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"strings"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/wire"
)

// maxCalls is how many tools one answer may call; OpenAI takes 128 tools.
const maxCalls = 1024

var errCalls = errors.New("the answer calls too many tools")

// call is a tool call as far as it is known.
type call struct {
	index     int // of the provider
	id, name  string
	announced bool // id and name were passed on
	arguments []byte
	input     wire.Text
	beside    wire.Object // members that the decoder does not know, such as Gemini's extra_content
}

// call reads a piece of a call.
func (d *decoder) call(part wire.Object) error {
	if part == nil {
		return wire.ErrFormat
	}
	function := part.Object("function")
	id, name, arguments := part.Text("id"), function.Text("name"), function["arguments"]
	hasArguments := len(arguments) > len(`""`) && string(arguments) != "null"
	i, err := d.findCall(part, id, name, hasArguments)
	if err != nil {
		return err
	}
	c := &d.calls[i]
	piece := adapter.ToolCall{Index: i}
	if c.id == "" && id != "" {
		if c.id = id; c.announced {
			piece.ID = id
		}
	}
	c.addName(name)
	if wire.IsObject(arguments) { // it should be one in a string
		piece.Arguments = string(bytes.ToValidUTF8(arguments, []byte("\uFFFD")))
	} else if piece.Arguments, err = c.input.Next(insideQuotes(arguments)); err != nil {
		return err
	}
	c.arguments = append(c.arguments, piece.Arguments...)
	if piece.Arguments != "" && !c.announced {
		c.announced, piece.ID, piece.Name = true, c.id, c.name
	}
	if piece != (adapter.ToolCall{Index: i}) {
		d.chunks = append(d.chunks, adapter.Chunk{ToolCall: &piece})
	}
	maps.DeleteFunc(part, func(name string, value json.RawMessage) bool {
		return name == "index" || name == "id" || name == "function" || name == "type" || string(value) == "null"
	})
	if c.beside == nil {
		c.beside = part
	} else {
		maps.Copy(c.beside, part)
	}
	return nil
}

// addName takes a name, or a piece of one. Some servers send it again with each piece of the arguments, and some send all that they have of it.
func (c *call) addName(name string) {
	switch {
	case c.announced || name == "" || name == c.name:
	case strings.HasPrefix(name, c.name):
		c.name = name
	default:
		c.name += name
	}
}

// announce passes on id and name of a call without arguments so far. Before, the name may still come in pieces.
func (d *decoder) announce(i int) {
	c := &d.calls[i]
	if !c.announced && c.id+c.name != "" {
		d.chunks = append(d.chunks, adapter.Chunk{ToolCall: &adapter.ToolCall{Index: i, ID: c.id, Name: c.name}})
	}
	c.announced = true
}

// findCall returns the place of the call that a piece belongs to, and makes one for a new call. Pieces belong together by their index, or by
// their id where there is none; a piece without either continues the last call. If a server gives every call the index 0, or the same id, a new
// call has another id, or a name that comes when the arguments before it are complete.
func (d *decoder) findCall(part wire.Object, id, name string, hasArguments bool) (int, error) {
	var index int
	hasIndex := json.Unmarshal(part["index"], &index) == nil && string(part["index"]) != "null"
	for i := len(d.calls) - 1; i >= 0; i-- {
		c := &d.calls[i]
		complete := func() bool { return json.Valid(c.arguments) }
		switch {
		case id != "" && c.id != "" && c.id != id:
		case hasIndex && c.index != index:
		case !hasIndex && id != "" && c.id != id:
		case !hasIndex && id == "" && name != "" && (name != c.name || complete()):
		case name != "" && hasArguments && (id == "" || !hasIndex) && complete():
		default:
			return i, nil
		}
	}
	if len(d.calls) == maxCalls {
		return 0, errCalls
	}
	if !hasIndex {
		index = len(d.calls)
	}
	if len(d.calls) > 0 {
		d.announce(len(d.calls) - 1)
	}
	d.calls = append(d.calls, call{index: index})
	return len(d.calls) - 1, nil
}
