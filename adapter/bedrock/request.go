package bedrock

import (
	"maps"
	"net/http"
	"strings"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/wire"
	"github.com/lingserve/lingserve/internal/rawjson"
)

// object is a JSON object. Its members are written in the order of their names, so that equal requests are equal to the byte.
type object = map[string]any

// Fallbacks of requests that are refused.
const (
	noCache  = "without cache points"
	noSchema = "without a schema"
	noSystem = "with the system message in the user's"
	apart    = "with tool results apart from text"
)

// asking is one request to a model.
type asking struct {
	*model
	wire.Fallbacks
	req  *adapter.Request
	sent object
}

// Write writes the request.
func (a *asking) Write() (_ []byte, err error) {
	if a.sent, err = a.request(a.req); err != nil {
		return nil, err
	}
	return rawjson.Marshal(a.sent)
}

// request says in Bedrock's words what is asked.
func (a *asking) request(req *adapter.Request) (object, error) {
	turns, err := a.history(req.Messages)
	if err != nil {
		return nil, err
	}
	inference, extra := object{}, object{}
	body := object{"messages": turns.List, "inferenceConfig": inference, "additionalModelRequestFields": extra}
	if len(turns.System) > 0 {
		body["system"] = turns.System
	}
	tools := a.tools(req, turns.Called)
	if tools != nil {
		body["toolConfig"] = tools
	}
	wire.Put(inference, "maxTokens", req.MaxTokens)
	_, chosen := tools["toolChoice"]
	forced := chosen && req.ToolChoice != "auto"
	calm := a.think(extra, req, forced, turns.Unthought) && a.family == claude // it then thinks at 1 only
	if !calm {
		wire.Put(inference, "temperature", req.Temperature)
	}
	if req.TopP != nil && !(calm && *req.TopP < 0.95) {
		inference["topP"] = *req.TopP
	}
	if len(req.Stop) > 0 {
		inference["stopSequences"] = req.Stop
	}
	if effort, _ := extra["reasoningConfig"].(object); effort["maxReasoningEffort"] == "high" { // Nova then takes none of these
		delete(inference, "temperature")
		delete(inference, "topP")
		delete(inference, "maxTokens")
	}
	if req.ServiceTier != "" && req.ServiceTier != "auto" {
		body["serviceTier"] = object{"type": req.ServiceTier}
	}
	if schema, ok := wire.Closed(req.Format.Schema, "pattern", "format", "allOf"); ok && req.Format.JSON && !a.Uses(noSchema) {
		body["outputConfig"] = object{"textFormat": object{
			"type":      "json_schema",
			"structure": object{"jsonSchema": object{"name": wire.SchemaName(req.Format.Name), "schema": string(schema)}},
		}}
	}
	if p := req.ParallelToolCalls; p != nil && !*p && len(req.Tools) > 0 && a.family == claude && !forced {
		delete(tools, "toolChoice")
		extra["tool_choice"] = object{"type": "auto", "disable_parallel_tool_use": true}
	}
	wire.Overlay(body, req.ExtraBody)
	maps.DeleteFunc(body, func(_ string, value any) bool {
		o, ok := value.(object)
		return ok && len(o) == 0
	})
	return body, nil
}

var cachePoint = object{"cachePoint": object{"type": "default"}}

// tools says which tools there are, nil for none. Where the history has calls, their tools must be declared.
func (a *asking) tools(req *adapter.Request, called []string) object {
	declared := req.Tools
	if req.ToolChoice == "none" && len(called) == 0 {
		declared = nil
	}
	if len(declared) == 0 {
		for _, name := range called {
			declared = append(declared, adapter.Tool{Name: name, Description: "This tool is not available any more."})
		}
	}
	if len(declared) == 0 {
		return nil
	}
	list := make([]any, 0, len(declared)+1)
	for _, t := range declared {
		spec := object{"name": t.Name, "inputSchema": object{"json": wire.Parameters(t.Parameters)}}
		if strings.TrimSpace(t.Description) != "" {
			spec["description"] = t.Description
		}
		list = append(list, object{"toolSpec": spec})
	}
	if a.family == claude && !a.Uses(noCache) { // Nova has none here
		list = append(list, cachePoint)
	}
	config := object{"tools": list}
	if len(req.Tools) > 0 {
		switch req.ToolChoice {
		case "", "none":
		case "auto":
			config["toolChoice"] = object{"auto": object{}}
		case "required":
			config["toolChoice"] = object{"any": object{}}
		default:
			config["toolChoice"] = object{"tool": object{"name": req.ToolChoice}}
		}
	}
	return config
}

// think asks for thinking in the words of the model's family; false where it is not asked for. forced says that a tool must be called, and
// unthought that the last calls were made without thinking: Claude refuses both with thinking by a budget.
func (a *asking) think(extra object, req *adapter.Request, forced, unthought bool) bool {
	r := req.Reasoning
	if r.Effort == "none" || r.Budget != nil && *r.Budget <= 0 || r.Effort == "" && r.Budget == nil || a.Uses(wire.NoThinking) {
		return false
	}
	effort := wire.ThinkingEffort(r)
	if effort == "xhigh" { // these know three
		effort = "high"
	}
	switch version := wire.ClaudeVersion(a.name); {
	case a.family == nova && strings.Contains(a.name, "nova-2"):
		extra["reasoningConfig"] = object{"type": "enabled", "maxReasoningEffort": effort}
		return true
	case a.family == gptOSS:
		extra["reasoning_effort"] = effort
		return true
	case a.family != claude || forced:
		return false
	// Those without a version are newer. https://docs.aws.amazon.com/bedrock/latest/userguide/claude-messages-adaptive-thinking.html
	case version >= 46 || version == 0:
		extra["thinking"] = a.Thinking(r, 0)
		if effort = wire.ThinkingEffort(r); effort == "xhigh" { // all Claudes have this one that take an effort
			effort = "max"
		}
		if effort != "" {
			extra["output_config"] = object{"effort": effort}
		}
		return true
	}
	budget := wire.ThinkingBudget(r)
	if most := req.MaxTokens; most != nil && budget >= *most {
		budget = max(*most/2, wire.MinBudget)
	}
	if unthought || req.MaxTokens != nil && budget >= *req.MaxTokens {
		return false
	}
	extra["thinking"] = a.Thinking(r, budget)
	return true
}

// Others returns the other ways to write a request.
func (a *asking) Others(string) []wire.Fallback {
	fields, _ := a.sent["additionalModelRequestFields"].(object)
	thinking, _ := fields["thinking"].(*wire.Thinking)
	cached := a.family == claude || a.family == nova
	cache := []string{"prompt caching", "cachepoint", "cache_control", "cache point"}
	return append([]wire.Fallback{
		{Name: noCache, Applies: cached, Words: cache},
		{Name: noCache, Applies: cached, Words: cache, Status: http.StatusForbidden},
		{
			Name: noSchema, Applies: a.sent["outputConfig"] != nil,
			Words: []string{"output_config", "outputconfig", "textformat", "structured output", "schema"},
		},
		{Name: noSystem, Applies: a.sent["system"] != nil, Words: []string{"system message", "system prompt"}},
		{Name: apart, Applies: true, Words: []string{"tool result blocks cannot be provided in the same turn"}},
	}, wire.ThinkingFallbacks(thinking)...)
}
