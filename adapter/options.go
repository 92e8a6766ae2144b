package adapter

import (
	"encoding/json"
	"maps"
)

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
	or(&o.Temperature, base.Temperature)
	or(&o.TopP, base.TopP)
	or(&o.MaxTokens, base.MaxTokens)
	if o.Stop == nil {
		o.Stop = base.Stop
	}
	or(&o.Seed, base.Seed)
	or(&o.FrequencyPenalty, base.FrequencyPenalty)
	or(&o.PresencePenalty, base.PresencePenalty)
	if o.Reasoning.Effort == "" && o.Reasoning.Budget == nil { // they say the same
		o.Reasoning.Effort, o.Reasoning.Budget = base.Reasoning.Effort, base.Reasoning.Budget
	}
	or(&o.Reasoning.Show, base.Reasoning.Show)
	orText(&o.Verbosity, base.Verbosity)
	orText(&o.ToolChoice, base.ToolChoice)
	or(&o.ParallelToolCalls, base.ParallelToolCalls)
	orText(&o.ServiceTier, base.ServiceTier)
	switch {
	case len(base.ExtraBody) == 0:
	case len(o.ExtraBody) == 0:
		o.ExtraBody = base.ExtraBody
	default:
		all := maps.Clone(base.ExtraBody)
		maps.Copy(all, o.ExtraBody)
		o.ExtraBody = all
	}
	return o
}

func or[T any](at **T, base *T) {
	if *at == nil {
		*at = base
	}
}

func orText(at *string, base string) {
	if *at == "" {
		*at = base
	}
}
