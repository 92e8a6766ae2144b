package openai

import (
	"slices"
	"strings"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/openai/endpoint"
	"github.com/lingserve/lingserve/adapter/wire"
	goopenai "github.com/sashabaranov/go-openai"
)

// request is a chat completion request. What go-openai's type has, it has from there, but for the members that its type cannot
// say: zeros, a message with an empty text, the extra data of an answer.
type request struct {
	goopenai.ChatCompletionRequest
	Messages         []message  `json:"messages"`
	Temperature      *float64   `json:"temperature,omitempty"`
	TopP             *float64   `json:"top_p,omitempty"`
	FrequencyPenalty *float64   `json:"frequency_penalty,omitempty"`
	PresencePenalty  *float64   `json:"presence_penalty,omitempty"`
	ServiceTier      string     `json:"service_tier,omitempty"`
	CacheKey         string     `json:"prompt_cache_key,omitempty"`
	Reasoning        *reasoning `json:"reasoning,omitempty"`       // OpenRouter's
	Thinking         *thinking  `json:"thinking,omitempty"`        // DeepSeek's, Moonshot's, Z.ai's
	EnableThinking   *bool      `json:"enable_thinking,omitempty"` // Qwen's
	ThinkingBudget   *int       `json:"thinking_budget,omitempty"`
}

type reasoning struct {
	Effort  string `json:"effort,omitempty"`
	Budget  *int   `json:"max_tokens,omitempty"`
	Exclude bool   `json:"exclude,omitempty"`
}

type thinking struct {
	Type string `json:"type"` // "enabled" or "disabled"
}

// asking is one request to a model.
type asking struct {
	*model
	wire.Fallbacks
	req  *adapter.Request
	sent *request
	form endpoint.Form
}

// Write writes the request.
func (a *asking) Write() ([]byte, error) {
	a.sent = a.request(a.req)
	return wire.Body(a.sent, a.req.ExtraBody)
}

// request says in OpenAI's words what is asked.
func (a *asking) request(req *adapter.Request) *request {
	r := &request{
		ChatCompletionRequest: goopenai.ChatCompletionRequest{Model: a.name, Stream: true, Stop: req.Stop, Seed: req.Seed},
		Messages:              a.toMessages(req.Messages),
		Temperature:           req.Temperature,
		TopP:                  req.TopP,
		FrequencyPenalty:      req.FrequencyPenalty,
		PresencePenalty:       req.PresencePenalty,
		ServiceTier:           req.ServiceTier,
	}
	r.Verbosity = req.Verbosity
	if a.Prefix == "openai" && !a.Uses(noCacheKey) { // only OpenAI's own servers are known to take it
		r.CacheKey = req.CacheKey
	}
	a.reason(r, req.Reasoning)
	if !a.Uses(noStreamOptions) {
		r.StreamOptions = &goopenai.StreamOptions{IncludeUsage: true}
	}
	if req.MaxTokens != nil {
		if a.Uses(completionTokens) || reasons(a.name) {
			r.MaxCompletionTokens = *req.MaxTokens
		} else {
			//lint:ignore SA1019 the only one that most compatible servers know
			r.MaxTokens = *req.MaxTokens
		}
	}
	for _, t := range req.Tools {
		f := &goopenai.FunctionDefinition{Name: t.Name, Description: t.Description, Parameters: wire.Parameters(t.Parameters)}
		r.Tools = append(r.Tools, goopenai.Tool{Type: goopenai.ToolTypeFunction, Function: f})
	}
	if len(r.Tools) > 0 {
		if req.ParallelToolCalls != nil {
			r.ParallelToolCalls = *req.ParallelToolCalls
		}
		named := goopenai.ToolChoice{Type: goopenai.ToolTypeFunction, Function: goopenai.ToolFunction{Name: req.ToolChoice}}
		r.ToolChoice = endpoint.ToolChoice(req.ToolChoice, named)
	}
	if a.form = endpoint.FormOf(&a.Fallbacks, req.Format); a.form.Type != "" {
		r.ResponseFormat = &goopenai.ChatCompletionResponseFormat{Type: goopenai.ChatCompletionResponseFormatType(a.form.Type)}
	}
	if a.form.Schema != nil {
		r.ResponseFormat.JSONSchema = &goopenai.ChatCompletionResponseFormatJSONSchema{
			Name: a.form.Name, Schema: a.form.Schema, Strict: *a.form.Strict,
		}
	}
	return r
}

// reason says how the model is to think, in the words of its server.
func (m *model) reason(r *request, o adapter.Reasoning) {
	hidden := o.Show != nil && !*o.Show
	if o.Effort == "" && o.Budget == nil && !(hidden && m.thinks == thinksObject) {
		return
	}
	on := o.Effort != "none" && (o.Budget == nil || *o.Budget != 0)
	switch m.thinks {
	case thinksObject:
		r.Reasoning = &reasoning{Effort: o.Effort, Exclude: hidden}
		if o.Effort == "" {
			r.Reasoning.Budget = o.Budget
		}
	case thinksType:
		r.Thinking = &thinking{Type: "disabled"}
		if on {
			r.Thinking.Type = "enabled"
		}
	case thinksFlag:
		r.EnableThinking = &on
		if on {
			r.ThinkingBudget = o.Budget
		}
	default:
		r.ReasoningEffort = wire.Effort(o)
	}
}

// reasons says whether a model is of a family that takes max_completion_tokens instead of max_tokens.
func reasons(name string) bool {
	name = name[strings.LastIndexByte(name, '/')+1:] // routers put the maker in front: openai/o3
	for _, family := range []string{"o1", "o3", "o4", "gpt-5", "gpt-6"} {
		if rest, ok := strings.CutPrefix(name, family); ok && (rest == "" || strings.ContainsAny(rest[:1], "-.")) {
			return true
		}
	}
	return false
}

// Fallbacks of requests that are refused.
const (
	noStreamOptions  = "without stream_options"
	noCacheKey       = "without prompt_cache_key"
	completionTokens = "with max_completion_tokens"
	fillReasoning    = "with reasoning_content in each answer"
	fillSignature    = "with a signature for calls of others"
)

// missing are the words of a refusal that misses something in the history.
var missing = []string{
	"missing", "required", "must be passed", "must be provided", "must provide", "must include", "must contain", "not provided", "need to be",
	"needs to be", "expected",
}

// Others returns the other ways to write a request. What the server does not want of a history is left out by package adapter; what it
// misses is filled in here (MO-04).
func (a *asking) Others(said string) []wire.Fallback {
	misses := slices.ContainsFunc(missing, func(word string) bool { return strings.Contains(said, word) })
	return append([]wire.Fallback{
		{Name: noStreamOptions, Applies: a.sent.StreamOptions != nil, Words: []string{"stream_options"}},
		//lint:ignore SA1019 see request
		{Name: completionTokens, Applies: a.sent.MaxTokens != 0, Words: []string{"max_completion_tokens"}},
		{Name: noCacheKey, Applies: a.sent.CacheKey != "", Words: []string{"prompt_cache_key"}},
		{Name: fillSignature, Applies: misses, Words: []string{"thought_signature"}},
		{Name: fillReasoning, Applies: misses, Words: []string{"reasoning_content"}},
	}, a.form.Fallbacks("response_format", "json_schema", "json_object")...)
}
