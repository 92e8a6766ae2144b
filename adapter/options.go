package adapter

import (
	"encoding/json"
	"maps"
)

// Options say how a model is to answer. What is nil or empty is left to the provider.
type Options struct {
	Temperature       *float64
	TopP              *float64
	MaxTokens         *int
	Stop              []string
	Seed              *int
	FrequencyPenalty  *float64
	PresencePenalty   *float64
	Reasoning         Reasoning
	Verbosity         string // "low", "medium" or "high"
	ToolChoice        string // "auto", "none", "required", or a tool's name
	ParallelToolCalls *bool
	ServiceTier       string
	ExtraBody         map[string]json.RawMessage // members of the request's body, as they are
}

// Reasoning says how a model is to think before it answers.
type Reasoning struct {
	Effort string // "none", "minimal", "low", "medium", "high" or "xhigh"
	Budget *int   // tokens; 0 is no thinking
	Show   *bool  // whether its text, or a summary, is asked for; nil is yes
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
