package bot

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/internal/rawjson"
	"github.com/lingserve/lingserve/internal/wording"
	"github.com/lingserve/lingserve/jsonuri"
)

// maxCalls is how many tools an answer may call: a model that asks for more goes round in circles.
const maxCalls = 256

// calls are the tool calls of an answer as they come, and what came of those that the provider has made itself. Each is sent
// when it is complete: $tools/N below the bot's root has the call, $tool_results/N its result. N counts the calls of the bot.
type calls struct {
	out  *output
	list []*call
	open *call // its arguments are coming
}

type call struct {
	number    int
	index     int // in the answer
	id, name  string
	arguments []byte
	sent      bool
	changed   bool // since it was sent
	answered  bool
}

// addPart adds a piece of a call, or a result; either may be nil.
func (c *calls) addPart(part *adapter.ToolCall, result *adapter.ToolResult) error {
	if part != nil {
		if err := c.part(part); err != nil {
			return err
		}
	}
	if result != nil {
		return c.result(result)
	}
	return nil
}

// part joins a piece of a call with those that came before.
func (c *calls) part(p *adapter.ToolCall) error {
	if !c.out.admit(p.ID) || !c.out.admit(p.Name) || !c.out.admit(p.Arguments) {
		return c.out.failure
	}
	call := c.open
	if call == nil || !call.is(p.Index, p.ID) {
		c.leave()
		if call = c.find(p.Index, p.ID); call == nil {
			var err error
			if call, err = c.add(p.Index); err != nil {
				return err
			}
		}
		c.open = call
	}
	if call.id == "" {
		call.id = p.ID
	}
	if call.name == "" {
		call.name = p.Name
	}
	call.arguments = append(call.arguments, p.Arguments...)
	call.changed = true
	return nil
}

// is says whether a piece is one of this call. There are servers that give all calls the same index.
func (c *call) is(index int, id string) bool {
	return c.index == index && (id == "" || c.id == "" || c.id == id)
}

func (c *calls) find(index int, id string) *call {
	for _, call := range slices.Backward(c.list) {
		if call.is(index, id) {
			return call
		}
	}
	return nil
}

func (c *calls) add(index int) (*call, error) {
	if len(c.list) == maxCalls {
		return nil, &Failure{Code: CodeOutputInvalid, Message: fmt.Sprintf("the model called more than %d tools in one answer", maxCalls)}
	}
	b := c.out.bot
	call := &call{number: b.called, index: index}
	b.called++
	c.list = append(c.list, call)
	return call, nil
}

// leave sends the open call, which is complete now. Where pieces of it come later all the same, it is sent again at the end, and
// not each time.
func (c *calls) leave() {
	if c.open != nil && !c.open.sent {
		c.send(c.open)
	}
	c.open = nil
}

// close sends what is not sent yet. The calls that wait for an answer are then in pending.
func (c *calls) close() error {
	c.open = nil
	for _, call := range c.list {
		if call.changed {
			c.send(call)
		}
	}
	return c.out.failure
}

// pending are the calls that the provider has not made itself.
func (c *calls) pending() []*call {
	return slices.DeleteFunc(slices.Clone(c.list), func(call *call) bool { return call.answered })
}

// send sends a call. Arguments that are no JSON object are sent as the text that they are.
func (c *calls) send(call *call) {
	call.sent, call.changed = true, false
	data := struct {
		ID        string `json:"id"`
		Name      string `json:"name"`
		Arguments any    `json:"arguments"`
	}{call.id, call.name, string(call.arguments)}
	switch text := bytes.TrimSpace(call.arguments); {
	case len(text) == 0:
		data.Arguments = struct{}{}
	case text[0] == '{' && isJSON(text):
		data.Arguments = json.RawMessage(text)
	}
	_ = c.out.set("$tools", call.number, rawjson.MustMarshal(data)) // a failure stays
}

// result sends what came of a call that the provider has made itself: an object or list as what it is, all else as text, null where
// it failed.
func (c *calls) result(r *adapter.ToolResult) error {
	if !c.out.admit(r.Content) {
		return c.out.failure
	}
	call := c.answered(r)
	if call == nil {
		var err error
		if call, err = c.add(r.Index); err != nil {
			return err
		}
		call.id = r.ID
	}
	if call.changed {
		c.send(call)
	}
	c.open = nil
	if r.Failed {
		return c.putResult(call, nil, &Failure{Code: adapter.CodeUnavailable, Message: "a tool of the model's server failed" + named(call)})
	}
	value := []byte(strings.TrimSpace(r.Content))
	if len(value) == 0 || value[0] != '{' && value[0] != '[' || !isJSON(value) {
		value = quote(r.Content)
	}
	return c.putResult(call, value, nil)
}

// putResult sends what came of a call: a value, or null and why it has failed.
func (c *calls) putResult(call *call, value []byte, failure *Failure) error {
	const name = "$tool_results"
	if failure != nil || call.answered { // a text is appended to what is there
		_ = c.out.set(name, call.number, null) // a failure stays
	}
	call.answered = true
	if failure != nil {
		c.out.bot.report(failure)
		return c.out.failure
	}
	return c.out.set(name, call.number, value)
}

// quote makes a JSON string of text.
func quote(text string) []byte {
	return append(jsonuri.AppendEscaped([]byte{'"'}, text), '"')
}

// answered finds the call that a result belongs to: by its id where it has one.
func (c *calls) answered(r *adapter.ToolResult) *call {
	if r.ID != "" {
		for _, call := range slices.Backward(c.list) {
			if call.id == r.ID {
				return call
			}
		}
	}
	return c.find(r.Index, r.ID)
}

// isJSON reports whether text is JSON that can be sent.
func isJSON(text []byte) bool { return utf8.Valid(text) && json.Valid(text) }

// named says which tools are meant: the first three.
func named(list ...*call) string {
	var names []string
	for _, c := range list[:min(len(list), 3)] {
		names = append(names, strconv.QuoteToASCII(wording.Clip(c.name)))
	}
	return ": " + strings.Join(names, ", ")
}

// unmet is the error of an answer that waits for tools that are not offered; nil where it does not wait.
func (i *inference) unmet() error {
	if i.finish != adapter.FinishToolCalls {
		return nil
	}
	pending := i.calls.pending()
	if len(pending) == 0 {
		return nil
	}
	message := "the model called tools that the bot does not have"
	if i.last {
		message = "the model called tools again instead of an answer, after the last allowed round"
	}
	return &Failure{Code: CodeOutputInvalid, Message: message + named(pending...), Cause: errUnmet}
}
