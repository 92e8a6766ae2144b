package openai

import (
	"encoding/json"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/wire"
)

// object is a JSON object of a request. Its members are written in the order of their names, so equal requests are equal to the byte.
type object = map[string]any

// messages writes a history. What the model's provider put beside an answer goes back with it where the answer has calls, or is of a turn that has
// some: those are the ones that providers insist on. What only the provider understands always goes back.
func (a *asking) messages(messages []adapter.Message) []object {
	out := make([]object, len(messages))
	calling := false // the turn has calls
	for i := range messages {
		m := &messages[i]
		switch {
		case m.Role == adapter.User:
			calling = false
		case len(m.ToolCalls) > 0:
			calling = true
		}
		out[i] = a.message(m, calling)
	}
	return out
}

func (a *asking) message(m *adapter.Message, calling bool) object {
	out := object{"role": m.Role, "content": m.Content}
	if len(m.Parts) > 0 {
		out["content"] = writeParts(m.Parts)
	}
	if m.ToolCallID != "" {
		out["tool_call_id"] = m.ToolCallID
	}
	if m.Role == adapter.Assistant && m.Made != nil {
		a.addMade(out, m.Made, calling)
	}
	if len(m.ToolCalls) > 0 {
		out["tool_calls"] = a.writeCalls(m)
		if out["content"] == "" {
			out["content"] = nil
		}
	}
	if _, ok := out[reasoningMembers[0]]; !ok && m.Role == adapter.Assistant && a.Uses(fillReasoning) {
		out[reasoningMembers[0]] = " " // another model made it; the member is required, and some servers take an empty one for a missing one
	}
	return out
}

func writeParts(parts []adapter.Part) []object {
	out := make([]object, 0, len(parts))
	for _, p := range parts {
		switch data, isData := wire.ReadData(p.File); {
		case p.Image != "":
			out = append(out, object{"type": "image_url", "image_url": object{"url": p.Image}})
		case isData && data.Sound() != "":
			out = append(out, object{"type": "input_audio", "input_audio": object{"data": data.Base64, "format": data.Sound()}})
		case p.File != "":
			file := object{"file_data": p.File}
			if p.Name != "" {
				file["filename"] = p.Name
			}
			out = append(out, object{"type": "file", "file": file})
		case p.Text != "":
			out = append(out, object{"type": "text", "text": p.Text})
		}
	}
	return out
}

// writeCalls writes the calls of an answer, with what its provider put beside them.
func (a *asking) writeCalls(m *adapter.Message) []object {
	extra := map[string]json.RawMessage{}
	if m.Made != nil {
		for _, p := range m.Made.Parts {
			if p.Type == adapter.PartCall {
				extra[p.Call] = p.Data
			}
		}
	}
	calls := make([]object, len(m.ToolCalls))
	for i, c := range m.ToolCalls {
		calls[i] = object{}
		_ = json.Unmarshal(extra[c.ID], &calls[i]) // nothing where there is none
		if len(calls[i]) == 0 && i == 0 && a.Uses(fillSignature) {
			calls[i] = noSignature()
		}
		calls[i]["id"], calls[i]["type"], calls[i]["function"] = c.ID, "function", object{"name": c.Name, "arguments": c.Arguments}
	}
	return calls
}

// noSignature replaces the signature of a call that another model has made: Google's documented value for that.
func noSignature() object {
	return object{"extra_content": object{"google": object{"thought_signature": "skip_thought_signature_validator"}}}
}

// addMade adds what the provider put beside the reasoning and the text of an answer.
func (a *asking) addMade(out object, made *adapter.Made, calling bool) {
	var extra reasoningExtra
	hasOthers := false
	for _, p := range made.Parts {
		switch p.Type {
		case adapter.PartReasoning:
			_ = json.Unmarshal(p.Data, &extra) // nothing where there is none
		case adapter.PartOther:
			hasOthers = true
		}
	}
	if extra.Parts || hasOthers {
		out["content"] = madeParts(made, extra.Parts)
	}
	if extra.Details != nil {
		out["reasoning_details"] = extra.Details
	}
	if extra.Blocks != nil {
		out["thinking_blocks"] = extra.Blocks
	}
	text := made.Reasoning()
	if text == "" || extra.Parts || !calling && !a.Uses(fillReasoning) {
		return
	}
	if len(extra.Members) == 0 {
		extra.Members = reasoningMembers[:1]
	}
	for _, member := range extra.Members {
		out[member] = text
	}
}

// madeParts is an answer's content as a list of parts, in their order.
func madeParts(made *adapter.Made, thoughts bool) []any {
	parts := []any{}
	for _, p := range made.Parts {
		switch {
		case p.Type == adapter.PartReasoning && thoughts && p.Text != "":
			parts = append(parts, object{"type": "thinking", "thinking": []object{{"type": "text", "text": p.Text}}})
		case p.Type == adapter.PartText && p.Text != "":
			parts = append(parts, object{"type": "text", "text": p.Text})
		case p.Type == adapter.PartOther:
			parts = append(parts, p.Data)
		}
	}
	return parts
}
