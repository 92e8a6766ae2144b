package adapter

import (
	"encoding/json"
	"strings"
)

// Made is a model's message as an ordered list of parts, with what its provider put beside them and wants to have back: signatures,
// encrypted reasoning, the reasoning itself. It is of use to that provider alone; everybody else has the message's text and calls.
type Made struct {
	Model string     `json:"model"` // "provider:name"
	Parts []MadePart `json:"parts"`
}

// Types of a [MadePart] and of [Beside].
const (
	PartText      = "text"
	PartReasoning = "reasoning"
	PartCall      = "tool_call"
	PartOther     = "other" // one that only the provider understands; Data is all of it
)

// MadePart is a part of a message. Data is the provider's extra data, in a form of the adapter.
type MadePart struct {
	Type string          `json:"type"`
	Text string          `json:"text,omitempty"` // of text and reasoning
	Call string          `json:"call,omitempty"` // id of one of the message's calls
	Data json.RawMessage `json:"data,omitempty"`
}

// Beside is what a provider put beside a part of its answer. It ends the last part of its type, or of the call with its Index; where that
// has ended already, or there is none, it is a part without a text.
type Beside struct {
	Type  string
	Index int // of the call
	Data  json.RawMessage
}

// Maker joins the chunks of an answer to what its provider made. The zero value is ready.
type Maker struct {
	parts []making
	kept  bool // there is something that is neither text nor a call
}

type making struct {
	kind string
	text []byte
	call int // index
	data json.RawMessage
}

// Take adds a chunk, and returns how many bytes more are held of what stands beside the parts.
func (m *Maker) Take(c *Chunk) int {
	if c.Restart {
		m.kept = true
		for i := range m.parts {
			if m.parts[i].kind == PartText {
				m.parts[i].kind = PartReasoning
			}
		}
	}
	if c.Reasoning != "" {
		m.kept = true
		m.write(PartReasoning, c.Reasoning)
	}
	if c.Text != "" {
		m.write(PartText, c.Text)
	}
	if c.ToolCall != nil {
		m.part(PartCall, c.ToolCall.Index)
	}
	if b := c.Beside; b != nil {
		m.kept = true
		m.part(b.Type, b.Index).data = b.Data
		return len(b.Data)
	}
	return 0
}

func (m *Maker) write(kind, text string) {
	if n := len(m.parts); n == 0 || m.parts[n-1].kind != kind || m.parts[n-1].data != nil {
		m.parts = append(m.parts, making{kind: kind})
	}
	p := &m.parts[len(m.parts)-1]
	p.text = append(p.text, text...)
}

// part returns the last part of a kind, or that of a call. It adds one where there is none, or where its extra data has ended it.
func (m *Maker) part(kind string, call int) *making {
	for i := len(m.parts) - 1; i >= 0 && kind != PartOther; i-- {
		if p := &m.parts[i]; p.kind == kind && p.call == call {
			if kind != PartCall && p.data != nil {
				break
			}
			return p
		}
	}
	m.parts = append(m.parts, making{kind: kind, call: call})
	return &m.parts[len(m.parts)-1]
}

// Made returns what was made; nil where it is nothing but text and calls. id gives the id under which a call goes into the history, "" for one
// that is not kept.
func (m *Maker) Made(model string, id func(index int) string) *Made {
	if !m.kept {
		return nil
	}
	made := &Made{Model: model, Parts: make([]MadePart, 0, len(m.parts))}
	for _, p := range m.parts {
		part := MadePart{Type: p.kind, Text: string(p.text), Data: p.data}
		if p.kind == PartCall {
			if part.Call = id(p.call); part.Call == "" {
				continue
			}
		}
		made.Parts = append(made.Parts, part)
	}
	return made
}

// Family returns the family that a model is of by its name: "claude" of "us.anthropic.claude-opus-4-5" and of "anthropic/claude-opus-4-5".
// Models of one family understand what another of them has made.
func Family(name string) string {
	name = strings.ToLower(name[strings.LastIndexByte(name, '/')+1:])
	if i := strings.IndexAny(name, "-:@_0123456789 "); i >= 0 {
		name = name[:i]
	}
	return name[strings.LastIndexByte(name, '.')+1:]
}

// Reasoning returns the text of all reasoning parts, joined; of nil none.
func (m *Made) Reasoning() string {
	if m == nil {
		return ""
	}
	var text strings.Builder
	for _, p := range m.Parts {
		if p.Type == PartReasoning {
			text.WriteString(p.Text)
		}
	}
	return text.String()
}

// by says whether a model can take back what was made.
func (m *Made) by(provider, name string) bool {
	other, its, _ := strings.Cut(m.Model, ":")
	return other == provider && Family(its) == Family(name)
}
