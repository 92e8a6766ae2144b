package openai

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/openai/endpoint"
	"github.com/lingserve/lingserve/adapter/wire"
)

// asking is one request to a model.
type asking struct {
	*model
	wire.Fallbacks
	sent object
	form endpoint.Form
}

// ask sends the request and returns the answer once it is known to be one: status 200.
func (m *model) ask(ctx context.Context, req *adapter.Request) (*http.Response, error) {
	a := &asking{model: m}
	write := func() (any, error) {
		a.sent = a.request(req)
		return a.sent, nil
	}
	return m.Ask(ctx, &a.Fallbacks, m.url, req, write, a.fallbacks)
}

// request says in OpenAI's words what is asked.
func (a *asking) request(req *adapter.Request) object {
	body := object{"model": a.name, "stream": true, "messages": a.messages(req.Messages)}
	wire.Put(body, "temperature", req.Temperature)
	wire.Put(body, "top_p", req.TopP)
	wire.Put(body, "frequency_penalty", req.FrequencyPenalty)
	wire.Put(body, "presence_penalty", req.PresencePenalty)
	wire.Put(body, "seed", req.Seed)
	if a.Uses(completionTokens) || reasons(a.name) {
		wire.Put(body, "max_completion_tokens", req.MaxTokens)
	} else {
		wire.Put(body, "max_tokens", req.MaxTokens) // the only one that most compatible servers know
	}
	if len(req.Stop) > 0 {
		body["stop"] = req.Stop
	}
	if req.ServiceTier != "" {
		body["service_tier"] = req.ServiceTier
	}
	if req.Verbosity != "" {
		body["verbosity"] = req.Verbosity
	}
	if req.CacheKey != "" && a.Prefix == "openai" && !a.Uses(noCacheKey) { // only OpenAI's own servers are known to take it
		body["prompt_cache_key"] = req.CacheKey
	}
	if !a.Uses(noStreamOptions) {
		body["stream_options"] = object{"include_usage": true}
	}
	a.addReasoning(body, req.Reasoning)
	addTools(body, req)
	switch a.form = endpoint.FormOf(&a.Fallbacks, req.Format); {
	case a.form.Schema != nil:
		schema := object{"name": a.form.Name, "schema": a.form.Schema, "strict": a.form.Strict}
		body["response_format"] = object{"type": a.form.Type, "json_schema": schema}
	case a.form.Type != "":
		body["response_format"] = object{"type": a.form.Type}
	}
	return body
}

// addTools adds the tools and the choice among them.
func addTools(body object, req *adapter.Request) {
	if len(req.Tools) == 0 {
		return
	}
	tools := make([]object, len(req.Tools))
	for i, t := range req.Tools {
		function := object{"name": t.Name, "parameters": wire.Parameters(t.Parameters)}
		if t.Description != "" {
			function["description"] = t.Description
		}
		tools[i] = object{"type": "function", "function": function}
	}
	body["tools"] = tools
	wire.Put(body, "parallel_tool_calls", req.ParallelToolCalls)
	if req.ToolChoice != "" {
		body["tool_choice"] = endpoint.ToolChoice(req.ToolChoice, object{"type": "function", "function": object{"name": req.ToolChoice}})
	}
}

// addReasoning says how the model is to think, in the words of its server.
func (m *model) addReasoning(body object, o adapter.Reasoning) {
	hidden := o.Show != nil && !*o.Show
	if o.Effort == "" && o.Budget == nil && !(hidden && m.thinks == thinksObject) {
		return
	}
	on := o.Effort != "none" && (o.Budget == nil || *o.Budget != 0)
	switch m.thinks {
	case thinksObject: // OpenRouter
		r := object{}
		if o.Effort != "" {
			r["effort"] = o.Effort
		} else {
			wire.Put(r, "max_tokens", o.Budget)
		}
		if hidden {
			r["exclude"] = true
		}
		body["reasoning"] = r
	case thinksType: // DeepSeek, Moonshot, Z.ai
		body["thinking"] = object{"type": map[bool]string{true: "enabled", false: "disabled"}[on]}
	case thinksFlag: // Qwen
		if body["enable_thinking"] = on; on {
			wire.Put(body, "thinking_budget", o.Budget)
		}
	case thinksEffort:
		if body["reasoning_effort"] = o.Effort; o.Effort == "" {
			body["reasoning_effort"] = wire.Effort(*o.Budget)
		}
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

// fallbacks returns the other ways to write a request. What the server does not want of a history is left out by package adapter; what it
// misses is filled in here (MO-04).
func (a *asking) fallbacks(said string) []wire.Fallback {
	misses := slices.ContainsFunc(missing, func(word string) bool { return strings.Contains(said, word) })
	return append([]wire.Fallback{
		{Name: noStreamOptions, Applies: a.sent["stream_options"] != nil, Words: []string{"stream_options"}},
		{Name: completionTokens, Applies: a.sent["max_tokens"] != nil, Words: []string{"max_completion_tokens"}},
		{Name: noCacheKey, Applies: a.sent["prompt_cache_key"] != nil, Words: []string{"prompt_cache_key"}},
		{Name: fillSignature, Applies: misses, Words: []string{"thought_signature"}},
		{Name: fillReasoning, Applies: misses, Words: []string{"reasoning_content"}},
	}, a.form.Fallbacks("response_format", "json_schema", "json_object")...)
}
