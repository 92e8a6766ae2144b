package ollama

import (
	"bytes"
	"encoding/json"
	"maps"
	"strings"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/wire"
)

// request is the body of POST /api/chat. Unless that is asked for, it does not say whether to think: a model that can does by itself, and
// one that cannot refuses to be asked.
type request struct {
	Model    string          `json:"model"`
	Messages []message       `json:"messages"`
	Stream   bool            `json:"stream"`
	Tools    []tool          `json:"tools,omitempty"`
	Format   json.RawMessage `json:"format,omitempty"` // "json", or a JSON Schema
	Think    any             `json:"think,omitempty"`  // true, false, or how much
	Options  *options        `json:"options,omitempty"`
}

type message struct {
	Role       string     `json:"role"`
	Content    string     `json:"content"`
	Thinking   string     `json:"thinking,omitempty"`
	Images     [][]byte   `json:"images,omitempty"` // in base64, without what they are
	ToolCalls  []toolCall `json:"tool_calls,omitempty"`
	ToolName   string     `json:"tool_name,omitempty"`
	ToolCallID string     `json:"tool_call_id,omitempty"`
}

type toolCall struct {
	ID       string   `json:"id,omitempty"`
	Function function `json:"function"`
}

type function struct {
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"` // an object
}

type tool struct {
	Type     string      `json:"type"`
	Function declaration `json:"function"`
}

type declaration struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"`
}

type options struct {
	Temperature *float64 `json:"temperature,omitempty"`
	TopP        *float64 `json:"top_p,omitempty"`
	NumPredict  *int     `json:"num_predict,omitempty"`
	Seed        *int     `json:"seed,omitempty"`
	Stop        []string `json:"stop,omitempty"`
	Frequency   *float64 `json:"frequency_penalty,omitempty"`
	Presence    *float64 `json:"presence_penalty,omitempty"`
}

// asking is one request to a model. It has no fallbacks.
type asking struct {
	*model
	wire.Fallbacks
	req adapter.Request
}

// Write writes the request, with extra members over its own. Those of the member options are laid over the request's options, since what
// only Ollama has is mostly there, as num_ctx.
func (a *asking) Write() ([]byte, error) {
	r, err := a.request(a.req)
	if err != nil {
		return nil, err
	}
	extra := a.req.ExtraBody
	var more map[string]json.RawMessage
	if r.Options != nil && json.Unmarshal(extra["options"], &more) == nil {
		all, err := wire.Body(r.Options, more)
		if err != nil {
			return nil, err
		}
		extra = maps.Clone(extra)
		extra["options"] = all
	}
	return wire.Body(r, extra)
}

// request says in Ollama's words what is asked.
func (m *model) request(req adapter.Request) (*request, error) {
	r := &request{Model: m.name, Stream: true, Messages: make([]message, len(req.Messages))}
	for i, msg := range req.Messages {
		var err error
		if r.Messages[i], err = m.message(msg, req.Messages[:i]); err != nil {
			return nil, err
		}
	}
	for _, t := range req.Tools {
		parameters := t.Parameters
		if len(parameters) == 0 {
			parameters = json.RawMessage(`{"type":"object","properties":{}}`)
		}
		r.Tools = append(r.Tools, tool{Type: "function", Function: declaration{Name: t.Name, Description: t.Description, Parameters: parameters}})
	}
	// A format holds the model to it from the first token on, and then it cannot call a tool: ollama/ollama#8095. The prompt asks
	// for JSON anyway, and the output is checked.
	if req.Format.JSON && len(req.Tools) == 0 {
		r.Format = json.RawMessage(`"json"`)
		if schema := bytes.TrimSpace(req.Format.Schema); len(schema) > 0 && schema[0] == '{' { // true, which allows anything, is refused
			r.Format = req.Format.Schema
		}
	}
	r.Think = think(req.Reasoning)
	o := options{
		Temperature: req.Temperature, TopP: req.TopP, NumPredict: req.MaxTokens, Seed: req.Seed, Stop: req.Stop,
		Frequency: req.FrequencyPenalty, Presence: req.PresencePenalty,
	}
	if o.Temperature != nil || o.TopP != nil || o.NumPredict != nil || o.Seed != nil || len(o.Stop) > 0 || o.Frequency != nil || o.Presence != nil {
		r.Options = &o
	}
	return r, nil
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
func (m *model) message(msg adapter.Message, before []adapter.Message) (message, error) {
	out := message{Role: msg.Role, Content: msg.Content}
	if len(msg.Parts) > 0 {
		var text []string
		for _, part := range msg.Parts {
			switch {
			case part.Image != "":
				image, err := m.image(part.Image)
				if err != nil {
					return message{}, err
				}
				out.Images = append(out.Images, image)
			case part.Text != "":
				text = append(text, part.Text)
			}
		}
		out.Content = strings.Join(text, "\n")
	}
	for _, c := range msg.ToolCalls {
		out.ToolCalls = append(out.ToolCalls, toolCall{ID: c.ID, Function: function{Name: c.Name, Arguments: wire.Arguments(c.Arguments)}})
	}
	if len(msg.ToolCalls) > 0 { // models such as gpt-oss go on from what they thought before they called
		out.Thinking = msg.Made.Reasoning()
	}
	if msg.ToolCallID != "" {
		out.ToolCallID, out.ToolName = msg.ToolCallID, nameOf(msg.ToolCallID, before)
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

// image takes the bytes out of "data:image/png;base64,…".
func (m *model) image(url string) ([]byte, error) {
	_, image, ok := adapter.OpenDataURL(url)
	if !ok || len(image) == 0 {
		return nil, m.CannotTake(`accepts images only as data in base64, "data:image/png;base64,…", and not by their addresses`)
	}
	return image, nil
}
