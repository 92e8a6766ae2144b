package openai

import (
	"encoding/json"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/wire"
	"github.com/lingserve/lingserve/internal/rawjson"
)

// message is a message of a request.
type message struct {
	Role             string     `json:"role"`
	Content          any        `json:"content"` // a string, parts, or null beside tool calls
	ReasoningContent *string    `json:"reasoning_content,omitempty"`
	Reasoning        string     `json:"reasoning,omitempty"`
	Thinking         string     `json:"thinking,omitempty"`
	Details          elements   `json:"reasoning_details,omitempty"`
	Blocks           elements   `json:"thinking_blocks,omitempty"`
	ToolCalls        []toolCall `json:"tool_calls,omitempty"`
	ToolCallID       string     `json:"tool_call_id,omitempty"`
}

// part is a part of a message's content.
type part struct {
	Type     string            `json:"type"`
	Text     string            `json:"text,omitempty"`
	Thinking []part            `json:"thinking,omitempty"`
	Image    map[string]string `json:"image_url,omitempty"`
	Audio    map[string]string `json:"input_audio,omitempty"`
	File     *partedFile       `json:"file,omitempty"`
}

type partedFile struct {
	Name string `json:"filename,omitempty"`
	Data string `json:"file_data"`
}

// toolCall is a call of a history, with the extra data of its provider.
type toolCall struct {
	adapter.ToolCall
	beside json.RawMessage // an object
}

func (c toolCall) MarshalJSON() ([]byte, error) {
	type function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	}
	text, err := rawjson.Marshal(struct {
		ID       string   `json:"id"`
		Type     string   `json:"type"`
		Function function `json:"function"`
	}{c.ID, "function", function{c.Name, c.Arguments}})
	if err != nil || len(c.beside) <= len("{}") {
		return text, err
	}
	text[len(text)-1] = ','
	return append(text, c.beside[1:]...), nil
}

// toMessages says in OpenAI's words what was said. What the model's provider put beside an answer goes back with it where the answer
// has calls, or is of a turn that has some: those are the ones that providers insist on. What only the provider understands always
// goes back.
func (a *asking) toMessages(messages []adapter.Message) []message {
	out := make([]message, len(messages))
	calling := false // the turn has calls
	for i := range messages {
		msg := &messages[i]
		switch {
		case msg.Role == adapter.User:
			calling = false
		case len(msg.ToolCalls) > 0:
			calling = true
		}
		out[i] = toMessage(msg)
		if msg.Role == adapter.Assistant {
			a.giveBack(&out[i], msg, calling)
		}
	}
	return out
}

func toMessage(m *adapter.Message) message {
	out := message{Role: m.Role, Content: m.Content, ToolCallID: m.ToolCallID}
	if len(m.Parts) > 0 {
		parts := make([]part, 0, len(m.Parts))
		for _, p := range m.Parts {
			if p, ok := toPart(p); ok {
				parts = append(parts, p)
			}
		}
		out.Content = parts
	}
	for _, c := range m.ToolCalls {
		out.ToolCalls = append(out.ToolCalls, toolCall{ToolCall: c})
	}
	if len(out.ToolCalls) > 0 && out.Content == "" {
		out.Content = nil
	}
	return out
}

func toPart(p adapter.Part) (part, bool) {
	switch {
	case p.Image != "":
		return part{Type: "image_url", Image: map[string]string{"url": p.Image}}, true
	case p.File != "":
		if d, ok := wire.ReadData(p.File); ok && d.Sound() != "" {
			return part{Type: "input_audio", Audio: map[string]string{"data": d.Base64, "format": d.Sound()}}, true
		}
		return part{Type: "file", File: &partedFile{p.Name, p.File}}, true
	case p.Text != "":
		return part{Type: "text", Text: p.Text}, true
	}
	return part{}, false
}

// giveBack adds what the provider put beside an answer.
func (a *asking) giveBack(out *message, msg *adapter.Message, calling bool) {
	var b reasoningExtra
	var others []json.RawMessage
	if msg.Made != nil {
		for _, p := range msg.Made.Parts {
			switch p.Type {
			case adapter.PartReasoning:
				if len(p.Data) > 0 {
					_ = json.Unmarshal(p.Data, &b)
				}
			case adapter.PartCall:
				for i := range out.ToolCalls {
					if c := &out.ToolCalls[i]; c.ID == p.Call {
						c.beside = p.Data
					}
				}
			case adapter.PartOther:
				others = append(others, p.Data)
			}
		}
	}
	text := msg.Made.Reasoning()
	if b.Parts || len(others) > 0 {
		out.Content = a.contentOf(msg.Made, b.Parts)
	}
	out.Details, out.Blocks = b.Details, b.Blocks
	if text != "" && (calling || a.Uses(fillReasoning)) && !b.Parts {
		if len(b.Members) == 0 {
			b.Members = reasoningMembers[:1]
		}
		for _, member := range b.Members {
			switch member {
			case "reasoning":
				out.Reasoning = text
			case "thinking":
				out.Thinking = text
			default:
				out.ReasoningContent = &text
			}
		}
	}
	if a.Uses(fillReasoning) && out.ReasoningContent == nil {
		if text == "" {
			text = " " // another model made it; the member is required, and some servers take an empty one for a missing one
		}
		out.ReasoningContent = &text
	}
	if a.Uses(fillSignature) && len(out.ToolCalls) > 0 && len(out.ToolCalls[0].beside) == 0 {
		out.ToolCalls[0].beside = noSignature
	}
}

// noSignature replaces the signature of a call that another model has made: Google's documented value for that.
var noSignature = json.RawMessage(`{"extra_content":{"google":{"thought_signature":"skip_thought_signature_validator"}}}`)

// contentOf is an answer's content as a list of parts, in their order.
func (m *model) contentOf(made *adapter.Made, thoughts bool) any {
	parts := []any{}
	for _, p := range made.Parts {
		switch {
		case p.Type == adapter.PartReasoning && thoughts && p.Text != "":
			parts = append(parts, part{Type: "thinking", Thinking: []part{{Type: "text", Text: p.Text}}})
		case p.Type == adapter.PartText && p.Text != "":
			parts = append(parts, part{Type: "text", Text: p.Text})
		case p.Type == adapter.PartOther:
			parts = append(parts, p.Data)
		}
	}
	return parts
}
