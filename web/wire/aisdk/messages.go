package aisdk

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/lingserve/lingserve/internal/rawjson"
	"github.com/lingserve/lingserve/jsonuri"
	"github.com/lingserve/lingserve/tape"
)

// Kinds are the kinds of entries that [Messages] makes something of.
var Kinds = []tape.Kind{tape.KindMessage, tape.KindReasoning, tape.KindToolCall, tape.KindToolResult, tape.KindEvent}

// Messages makes the messages of a chat of its session's entries, oldest first. What the turn named running has answered is left
// out: its stream tells it, from its beginning. The last answer of a turn has the turn's id, as its stream's message has; every other
// message has one that is made of its first entry's.
func Messages(entries []tape.Entry, running string) []Message {
	c := chat{list: []Message{}, broken: map[string]string{}}
	for _, e := range entries {
		turn := tape.MetaOf(e).Turn
		if turn != c.turn {
			c.turn, c.workflow, c.calls = turn, false, nil
		}
		c.add(e, running != "" && turn == running)
	}
	seen := map[string]bool{}
	for i := len(c.list) - 1; i >= 0; i-- {
		m := &c.list[i]
		if m.Role == roleAssistant && m.turn != "" && !seen[m.turn] {
			seen[m.turn] = true
			m.ID, m.Metadata = m.turn, Metadata{Run: m.turn, Status: c.broken[m.turn]}
		}
	}
	return c.list
}

// Message is a UIMessage.
type Message struct {
	ID       string `json:"id"`
	Role     string `json:"role"`
	Metadata any    `json:"metadata,omitempty"` // [Metadata] of a turn's answer
	Parts    []Part `json:"parts"`

	turn string
}

// Metadata is what a message that is read from a tape has beside its parts: of what a stream tells at its end, as much as stands there.
type Metadata struct {
	Run    string `json:"run"`
	Status string `json:"status,omitempty"` // of an answer that was broken off: canceled, or failed
}

// Part is a part of a UIMessage. Its type says which members it has.
type Part struct {
	Type string `json:"type"`

	Text             *string         `json:"text,omitempty"`
	State            string          `json:"state,omitempty"`
	ProviderMetadata json.RawMessage `json:"providerMetadata,omitempty"`

	ToolName         string          `json:"toolName,omitempty"`
	ToolCallID       string          `json:"toolCallId,omitempty"`
	Input            json.RawMessage `json:"input,omitempty"`
	Output           json.RawMessage `json:"output,omitempty"`
	ErrorText        string          `json:"errorText,omitempty"`
	ProviderExecuted bool            `json:"providerExecuted,omitempty"`

	ID   *string         `json:"id,omitempty"`
	Data json.RawMessage `json:"data,omitempty"`
}

const (
	roleUser      = "user"
	roleAssistant = "assistant"
	roleSystem    = "system"
)

// chat makes messages of entries.
type chat struct {
	list     []Message
	turn     string            // of the last entry
	workflow bool              // which is a workflow's
	calls    map[string]int    // the parts of the calls of this message that have no result
	step     bool              // the last entry has ended one
	broken   map[string]string // by turn, how an answer has ended that is not all there
}

// add adds what an entry says to the messages.
func (c *chat) add(e tape.Entry, running bool) {
	p := tape.PayloadOf(e)
	if e.Kind == tape.KindEvent {
		c.event(p)
		return
	}
	text := tape.TextOf(p.Content)
	if e.Kind == tape.KindMessage && p.Role == roleUser {
		c.message(e, roleUser).add(textPart(text, ""))
		return
	}
	if running || e.Kind == tape.KindMessage && p.Role != roleAssistant || e.Kind == tape.KindToolResult && c.calls == nil {
		return
	}
	m := c.message(e, roleAssistant)
	switch e.Kind {
	case tape.KindReasoning:
		part := textPart(text, "")
		part.Type = kindReasoning
		c.stepOf(m).add(part)
	case tape.KindMessage:
		c.stepOf(m)
		if c.workflow {
			m.document(text)
		} else {
			m.add(answerPart(text))
		}
		c.step = true
	case tape.KindToolCall:
		c.stepOf(m)
		if text != "" {
			m.add(answerPart(text))
		}
		c.addCalls(m, e, p.ToolCalls())
	case tape.KindToolResult:
		for i, result := range p.Results[:min(len(p.Results), len(p.IDs))] {
			if at, ok := c.calls[p.IDs[i]]; ok && at < len(m.Parts) {
				m.Parts[at].result(result)
			}
		}
		c.step = true
	}
}

// event notes how a turn begins and ends.
func (c *chat) event(p tape.Payload) {
	var data struct{ Workflow, Status string }
	_ = json.Unmarshal(p.Data, &data) // that of other events has another form
	switch {
	case p.Name == "turn.start":
		c.workflow = data.Workflow != ""
	case p.Name == "turn.end" && data.Status == "error":
		c.broken[c.turn] = "failed"
	case p.Name == "turn.end" && data.Status == "canceled":
		c.broken[c.turn] = "canceled"
	}
}

// addCalls adds a part for each call. It says that the call failed, until a result comes.
func (c *chat) addCalls(m *Message, e tape.Entry, calls []tape.Call) {
	c.calls = map[string]int{}
	for i, call := range calls {
		input := json.RawMessage(call.Function.Arguments)
		if !json.Valid(input) {
			input, _ = json.Marshal(call.Function.Arguments)
		}
		id := entryID(e) + "-" + strconv.Itoa(i)
		c.calls[call.ID] = len(m.Parts)
		m.add(Part{
			Type: "dynamic-tool", ToolName: call.Function.Name, ToolCallID: id, Input: input, ProviderExecuted: true,
			State: "output-error", ErrorText: "the answer ended before this was done",
		})
	}
}

// message is the message that an entry belongs to: an answer has many.
func (c *chat) message(e tape.Entry, role string) *Message {
	if n := len(c.list); n > 0 && role == roleAssistant && c.list[n-1].Role == role && c.list[n-1].turn == c.turn {
		return &c.list[n-1]
	}
	c.list = append(c.list, Message{ID: entryID(e), Role: role, Parts: []Part{}, turn: c.turn})
	c.step, c.calls = true, nil
	return &c.list[len(c.list)-1]
}

// entryID is the id of what has no other one: models use the id of a call again.
func entryID(e tape.Entry) string { return "entry-" + strconv.FormatInt(e.ID, 10) }

// stepOf begins a step where the one before is over.
func (c *chat) stepOf(m *Message) *Message {
	if c.step {
		m.add(Part{Type: "step-start"})
		c.step = false
	}
	return m
}

func (m *Message) add(p Part) { m.Parts = append(m.Parts, p) }

// document adds what a workflow has made: a text is one, of a JSON document each member is a part.
func (m *Message) document(text string) {
	if !json.Valid([]byte(text)) {
		m.add(answerPart(text))
		return
	}
	data := func(id string, value json.RawMessage) { m.add(Part{Type: "data-ling", ID: &id, Data: value}) }
	if document := bytes.TrimSpace([]byte(text)); document[0] != '{' {
		data("", document)
		return
	}
	for name, value := range rawjson.Members([]byte(text)) {
		id := jsonuri.Format(name)
		var text string
		if value[0] == '"' && json.Unmarshal(value, &text) == nil {
			m.add(textPart(text, id))
		} else {
			data(id, value)
		}
	}
}

// answerPart is a text of an answer, as its stream begins it: without empty lines before.
func answerPart(text string) Part { return textPart(strings.TrimLeft(text, "\n"), "") }

func textPart(text, uri string) Part {
	p := Part{Type: "text", Text: &text, State: "done"}
	if uri != "" {
		p.ProviderMetadata = providerMetadata(uri)
	}
	return p
}

// result is what came of a call.
func (p *Part) result(value json.RawMessage) {
	var failed struct {
		Error *struct{ Kind, Message string }
	}
	if json.Unmarshal(value, &failed) == nil && failed.Error != nil && failed.Error.Kind != "" {
		p.ErrorText = failedText(p.ToolName)
		return
	}
	p.State, p.ErrorText, p.Output = "output-available", "", value
}
