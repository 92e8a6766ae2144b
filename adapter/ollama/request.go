package ollama

import (
	"bytes"
	"strings"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/wire"
	"github.com/lingserve/lingserve/internal/rawjson"
)

// object is a JSON object. Its members are written in the order of their names, so that equal requests are equal to the byte.
type object = map[string]any

// asking is one request to a model. It has no fallbacks.
type asking struct {
	*model
	wire.Fallbacks
	req *adapter.Request
}

// Write says in Ollama's words what is asked. Unless that is asked for, it does not say whether to think: a model that can does by itself,
// and one that cannot refuses to be asked. What only Ollama has is mostly a member of options, as num_ctx.
func (a *asking) Write() ([]byte, error) {
	messages := make([]object, len(a.req.Messages))
	for i := range messages {
		var err error
		if messages[i], err = a.message(&a.req.Messages[i], a.req.Messages[:i]); err != nil {
			return nil, err
		}
	}
	body, options := object{"model": a.name, "messages": messages, "stream": true}, object{}
	var tools []object
	for _, t := range a.req.Tools {
		f := object{"name": t.Name, "description": t.Description, "parameters": object{"type": "object", "properties": object{}}}
		if len(t.Parameters) > 0 {
			f["parameters"] = t.Parameters
		}
		tools = append(tools, object{"type": "function", "function": f})
	}
	if len(tools) > 0 {
		body["tools"] = tools
	} else if format := a.req.Format; format.JSON {
		// Not beside tools: a format holds the model to it from the first token on, and then it cannot call a tool: ollama/ollama#8095. The
		// prompt asks for JSON anyway, and the output is checked.
		body["format"] = "json"
		if bytes.HasPrefix(bytes.TrimSpace(format.Schema), []byte("{")) { // true, which allows anything, is refused
			body["format"] = format.Schema
		}
	}
	if think := think(a.req.Reasoning); think != nil {
		body["think"] = think
	}
	wire.Put(options, "temperature", a.req.Temperature)
	wire.Put(options, "top_p", a.req.TopP)
	wire.Put(options, "num_predict", a.req.MaxTokens)
	wire.Put(options, "seed", a.req.Seed)
	wire.Put(options, "frequency_penalty", a.req.FrequencyPenalty)
	wire.Put(options, "presence_penalty", a.req.PresencePenalty)
	if len(a.req.Stop) > 0 {
		options["stop"] = a.req.Stop
	}
	if len(options) > 0 {
		body["options"] = options
	}
	wire.Overlay(body, a.req.ExtraBody)
	return rawjson.Marshal(body)
}

// think says whether to think, and how much in the three words that Ollama has for it; nil leaves it to the model. A budget is only whether.
func think(r adapter.Reasoning) any {
	switch r.Effort {
	case "none":
		return false
	case "minimal", "low":
		return "low"
	case "medium":
		return "medium"
	case "high", "xhigh", "max":
		return "high"
	}
	if r.Budget != nil {
		return *r.Budget > 0
	}
	return nil
}

// message says a message in Ollama's words; before are those that it answers.
func (m *model) message(msg *adapter.Message, before []adapter.Message) (object, error) {
	out := object{"role": msg.Role, "content": msg.Content}
	if len(msg.Parts) > 0 {
		var text []string
		var images [][]byte // in base64, without what they are
		for _, part := range msg.Parts {
			switch {
			case part.Image != "":
				_, image, ok := adapter.OpenDataURL(part.Image)
				if !ok || len(image) == 0 {
					return nil, m.CannotTake(`accepts images only as data in base64, "data:image/png;base64,…", and not by their addresses`)
				}
				images = append(images, image)
			case part.Text != "":
				text = append(text, part.Text)
			}
		}
		if out["content"] = strings.Join(text, "\n"); len(images) > 0 {
			out["images"] = images
		}
	}
	var calls []object
	for _, c := range msg.ToolCalls {
		call := object{"function": object{"name": c.Name, "arguments": wire.Arguments(c.Arguments)}}
		if c.ID != "" {
			call["id"] = c.ID
		}
		calls = append(calls, call)
	}
	if len(calls) > 0 {
		out["tool_calls"] = calls
		if thought := msg.Made.Reasoning(); thought != "" { // models such as gpt-oss go on from what they thought before they called
			out["thinking"] = thought
		}
	}
	if msg.ToolCallID != "" {
		out["tool_call_id"] = msg.ToolCallID
		if name := nameOf(msg.ToolCallID, before); name != "" {
			out["tool_name"] = name
		}
	}
	return out, nil
}

// nameOf returns the name of the tool that the latest call of this id calls.
func nameOf(id string, before []adapter.Message) string {
	for i := len(before) - 1; i >= 0; i-- {
		for _, c := range before[i].ToolCalls {
			if c.ID == id {
				return c.Name
			}
		}
	}
	return ""
}
