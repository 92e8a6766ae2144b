package responses

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/openai/endpoint"
	"github.com/lingserve/lingserve/adapter/wire"
)

// request is what is sent.
type request struct {
	Model             string    `json:"model"`
	Instructions      string    `json:"instructions,omitempty"`
	Tools             []tool    `json:"tools,omitempty"`
	ToolChoice        any       `json:"tool_choice,omitempty"`
	ParallelToolCalls *bool     `json:"parallel_tool_calls,omitempty"`
	Text              textForm  `json:"text,omitzero"`
	Reasoning         reasoning `json:"reasoning,omitzero"`
	Include           []string  `json:"include,omitempty"`
	MaxOutputTokens   int       `json:"max_output_tokens,omitempty"`
	Temperature       *float64  `json:"temperature,omitempty"`
	TopP              *float64  `json:"top_p,omitempty"`
	ServiceTier       string    `json:"service_tier,omitempty"`
	PromptCacheKey    string    `json:"prompt_cache_key,omitempty"`
	Store             *bool     `json:"store,omitempty"`
	Stream            bool      `json:"stream"`
	Input             []any     `json:"input"`
}

type tool struct {
	Type        string          `json:"type"`
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters"`
	Strict      bool            `json:"strict"` // where it is missing, the API takes it for true
}

type textForm struct {
	Form      endpoint.Form `json:"format,omitzero"`
	Verbosity string        `json:"verbosity,omitempty"`
}

type reasoning struct {
	Effort  string `json:"effort,omitempty"`
	Summary string `json:"summary,omitempty"`
}

// asking is one request to a model.
type asking struct {
	*model
	wire.Fallbacks
	req     *adapter.Request
	sent    *request
	history history // of what was sent
}

// Write writes the request.
func (a *asking) Write() (_ []byte, err error) {
	if a.sent, err = a.request(a.req); err != nil {
		return nil, err
	}
	return wire.Body(a.sent, a.req.ExtraBody)
}

// leastOutput is the least that the API takes for max_output_tokens.
const leastOutput = 16

// request says in the API's words what is asked.
func (a *asking) request(req *adapter.Request) (*request, error) {
	r := &request{
		Model: a.name, Stream: !a.Uses(noStream), Temperature: req.Temperature, TopP: req.TopP, ServiceTier: req.ServiceTier,
		Text: textForm{endpoint.FormOf(&a.Fallbacks, req.Format), req.Verbosity},
	}
	if !a.Uses(noStore) {
		r.Store = new(false)
	}
	if !a.Uses(noCacheKey) {
		r.PromptCacheKey = callID(req.CacheKey)
	}
	messages := req.Messages
	if !a.Uses(noInstructions) {
		for len(messages) > 0 && messages[0].Role == adapter.System && len(messages[0].Parts) == 0 {
			r.Instructions = strings.TrimPrefix(r.Instructions+"\n\n"+messages[0].Content, "\n\n")
			messages = messages[1:]
		}
	}
	a.history = history{asking: a, items: make([]any, 0, len(messages))}
	for i := range messages {
		if err := a.history.add(&messages[i]); err != nil {
			return nil, err
		}
	}
	r.Input = a.history.items
	for _, t := range req.Tools {
		r.Tools = append(r.Tools, tool{Type: "function", Name: t.Name, Description: t.Description, Parameters: wire.Parameters(t.Parameters)})
	}
	if len(r.Tools) > 0 { // without tools the API refuses both
		r.ParallelToolCalls = req.ParallelToolCalls
		r.ToolChoice = endpoint.ToolChoice(req.ToolChoice, map[string]string{"type": "function", "name": req.ToolChoice})
	}
	if req.MaxTokens != nil {
		r.MaxOutputTokens = max(*req.MaxTokens, leastOutput)
	}
	if r.Text.Form.Type == "json_object" && !mentionsJSON(req.Messages) { // which the API wants for this form
		r.Text.Form = endpoint.Form{}
	}
	if thinks(a.name) {
		a.think(r, req.Reasoning)
	}
	return r, nil
}

// think says how the model is to think, and asks for its reasoning in a form that can be given back.
func (a *asking) think(r *request, o adapter.Reasoning) {
	r.Reasoning.Effort = wire.Effort(o)
	if !a.Uses(noEncrypted) {
		r.Include = []string{"reasoning.encrypted_content"}
	}
	if (o.Show == nil || *o.Show) && !a.Uses(noSummary) {
		r.Reasoning.Summary = "auto"
	}
}

// thinks reports whether a model may reason. OpenAI's older ones do not, and refuse to be asked for it.
func thinks(name string) bool {
	name = name[strings.LastIndexByte(name, '/')+1:] // routers put the maker in front
	return !slices.ContainsFunc([]string{"gpt-3", "gpt-4", "chatgpt-"}, func(family string) bool { return strings.HasPrefix(name, family) })
}

func mentionsJSON(messages []adapter.Message) bool {
	says := func(s string) bool { return strings.Contains(strings.ToLower(s), "json") }
	return slices.ContainsFunc(messages, func(m adapter.Message) bool {
		return says(m.Content) || slices.ContainsFunc(m.Parts, func(p adapter.Part) bool { return says(p.Text) })
	})
}
