package adapter

import "encoding/json"

// Options say how a model is to answer. What is nil or empty is left to the provider. [ReadOptions] reads them.
type Options struct {
	Temperature       *float64                   `json:"temperature,omitempty"`
	MaxTokens         *int                       `json:"max_tokens,omitempty"`
	TopP              *float64                   `json:"top_p,omitempty"`
	Stop              []string                   `json:"stop,omitempty"`
	Seed              *int                       `json:"seed,omitempty"`
	FrequencyPenalty  *float64                   `json:"frequency_penalty,omitempty"`
	PresencePenalty   *float64                   `json:"presence_penalty,omitempty"`
	Reasoning         Reasoning                  `json:"reasoning,omitzero"`
	Verbosity         string                     `json:"verbosity,omitempty"`   // "low", "medium" or "high"
	ToolChoice        string                     `json:"tool_choice,omitempty"` // "auto", "none", "required", or a tool's name
	ParallelToolCalls *bool                      `json:"parallel_tool_calls,omitempty"`
	ServiceTier       string                     `json:"service_tier,omitempty"`
	ExtraBody         map[string]json.RawMessage `json:"extra_body,omitempty"` // members of the request's body, as they are
}

// Reasoning says how a model is to think before it answers.
type Reasoning struct {
	Effort string `json:"effort,omitempty"` // "none", "minimal", "low", "medium", "high", "xhigh" or "max"
	Budget *int   `json:"budget,omitempty"` // tokens; 0 is no thinking
	Show   *bool  `json:"show,omitempty"`   // whether its text, or a summary, is asked for; nil is yes
}

// Over returns the options with those of base where they say nothing. Members of ExtraBody are joined.
func (o Options) Over(base Options) Options {
	if o.Reasoning.Effort != "" || o.Reasoning.Budget != nil { // they say the same
		base.Reasoning.Effort, base.Reasoning.Budget = "", nil
	}
	var joined Options
	for _, options := range []Options{base, o} {
		text, err := json.Marshal(options)
		if err != nil {
			return o // ExtraBody is no JSON, which no reader lets through
		}
		_ = json.Unmarshal(text, &joined) // was written from the same type
	}
	return joined
}
