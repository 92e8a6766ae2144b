package bedrock

import (
	"context"
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/wire"
	"github.com/lingserve/lingserve/internal/rawjson"
)

// object is a JSON object. Its members are written in the order of their names, so that equal requests are equal to the byte.
type object = map[string]any

// Lessons that the refusals of a model can teach.
const (
	noCache        = "cache points"
	noToolCache    = "cache points of tools"
	noSystemCache  = "cache points of the system"
	noMessageCache = "cache points of messages"
	noSchema       = "schema"
	noReasoning    = "reasoning" // in the history
	noSignature    = "signature"
	noTemperature  = "temperature"
	noTopP         = "topP"
	noStop         = "stopSequences"
	noTier         = "serviceTier"
	noChoice       = "toolChoice"
	noParallel     = "disable_parallel_tool_use"
	noSystem       = "system"
	apart          = "apart" // results of tools and text in one turn
)

// asking is one request to a model.
type asking struct {
	*model
	wire.Asking
}

// ask sends the request and returns the answer once it is known to be one: status 200.
func (m *model) ask(ctx context.Context, req *adapter.Request) (*http.Response, error) {
	a := &asking{m, wire.Asking{Lessons: &m.p.lessons, Model: m.name}}
	var sent object
	return m.p.Ask(ctx, &a.Asking, req.Size(), func() (_ []byte, err error) {
		if sent, err = a.request(req); err != nil {
			return nil, err
		}
		return rawjson.Marshal(sent)
	}, func(body []byte) (*http.Response, *wire.Refusal, error) {
		return m.p.Post(ctx, m.url, http.Header{"Accept": {wire.AWSStreamType}}, body)
	}, func(r *wire.Refusal) (string, bool) { return refusedWhat(sent, r) }, m.p.refused)
}

// request says in Bedrock's words what is asked.
func (a *asking) request(req *adapter.Request) (object, error) {
	turns, err := a.history(req.Messages)
	if err != nil {
		return nil, err
	}
	inference, extra := object{}, object{}
	body := object{"messages": turns.List}
	if len(turns.System) > 0 {
		body["system"] = turns.System
	}
	tools := a.tools(req, turns.Called)
	if tools != nil {
		body["toolConfig"] = tools
	}
	if req.MaxTokens != nil {
		inference["maxTokens"] = *req.MaxTokens
	}
	_, chosen := tools["toolChoice"]
	forced := chosen && req.ToolChoice != "auto"
	calm := a.think(extra, req, forced, turns.Unthought) && a.family == claude // it then thinks at 1 only
	if req.Temperature != nil && !a.Knows(noTemperature) && !calm {
		inference["temperature"] = *req.Temperature
	}
	if req.TopP != nil && !a.Knows(noTopP) && !(calm && *req.TopP < 0.95) {
		inference["topP"] = *req.TopP
	}
	if len(req.Stop) > 0 && !a.Knows(noStop) {
		inference["stopSequences"] = req.Stop
	}
	if effort, _ := extra["reasoningConfig"].(object); effort["maxReasoningEffort"] == "high" { // Nova then takes none of these
		delete(inference, "temperature")
		delete(inference, "topP")
		delete(inference, "maxTokens")
	}
	if req.ServiceTier != "" && req.ServiceTier != "auto" && !a.Knows(noTier) {
		body["serviceTier"] = object{"type": req.ServiceTier}
	}
	if schema, ok := wire.Closed(req.Format.Schema, "pattern", "format", "allOf"); ok && req.Format.JSON && !a.Knows(noSchema) {
		body["outputConfig"] = object{"textFormat": object{
			"type":      "json_schema",
			"structure": object{"jsonSchema": object{"name": wire.SchemaName(req.Format.Name), "schema": string(schema)}},
		}}
	}
	if p := req.ParallelToolCalls; p != nil && !*p && len(req.Tools) > 0 && a.family == claude && !forced && !a.Knows(noParallel) {
		delete(tools, "toolChoice")
		extra["tool_choice"] = object{"type": "auto", "disable_parallel_tool_use": true}
	}
	if len(inference) > 0 {
		body["inferenceConfig"] = inference
	}
	if len(extra) > 0 {
		body["additionalModelRequestFields"] = extra
	}
	overlay(body, req.ExtraBody)
	return body, nil
}

// members are those of a request; other members of an extra body are fields of the model's own.
var members = map[string]bool{
	"additionalModelRequestFields": true, "additionalModelResponseFieldPaths": true, "guardrailConfig": true, "inferenceConfig": true,
	"messages": true, "outputConfig": true, "performanceConfig": true, "promptVariables": true, "requestMetadata": true, "serviceTier": true,
	"system": true, "toolConfig": true,
}

// overlay lays the members of an extra body over a request. Members of inferenceConfig and additionalModelRequestFields are laid over one by
// one, and tools of toolConfig come behind the others.
func overlay(body object, over map[string]json.RawMessage) {
	within := func(name string, values map[string]json.RawMessage) {
		inner, _ := body[name].(object)
		if inner == nil {
			inner = object{}
			body[name] = inner
		}
		for key, value := range values {
			var more []any
			if list, ok := inner[key].([]any); ok && json.Unmarshal(value, &more) == nil {
				inner[key] = append(list, more...)
				continue
			}
			inner[key] = value
		}
	}
	for name, value := range over {
		var values map[string]json.RawMessage
		switch {
		case !members[name]:
			within("additionalModelRequestFields", map[string]json.RawMessage{name: value})
		case (name == "inferenceConfig" || name == "additionalModelRequestFields" || name == "toolConfig") && json.Unmarshal(value, &values) == nil:
			within(name, values)
		default:
			body[name] = value
		}
	}
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
	if a.family == claude && !a.Knows(noCache) && !a.Knows(noToolCache) { // Nova has none here
		list = append(list, cachePoint)
	}
	config := object{"tools": list}
	if len(req.Tools) > 0 && !a.Knows(noChoice) {
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
	if r.Effort == "none" || r.Budget != nil && *r.Budget <= 0 || r.Effort == "" && r.Budget == nil || a.Knows(wire.NoThinking) {
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
	case (version >= 46 || version == 0) && !a.Knows(wire.OnlyBudget) || a.Knows(wire.OnlyAdaptive):
		extra["thinking"], effort = a.Adaptive(r)
		if effort == "xhigh" { // all Claudes have this one that take an effort
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
	if unthought || req.MaxTokens != nil && budget >= *req.MaxTokens || a.Knows(wire.NoBudgetNow) {
		return false
	}
	extra["thinking"] = a.Budgeted(r, budget)
	return true
}

// refusedWhat says what of a request a model has refused, by the provider's words; "" where they name nothing that can be left out. once
// says that it is this history that was refused, and not what the model takes. (MO-04, MO-23, MO-24)
func refusedWhat(sent object, r *wire.Refusal) (what string, once bool) {
	said := strings.ToLower(string(r.Body))
	bad := r.Status == http.StatusBadRequest || r.Status == http.StatusUnprocessableEntity
	if !bad && r.Status != http.StatusForbidden {
		return "", false
	}
	has := func(path ...string) bool {
		var in any = sent
		for _, name := range path {
			inner, _ := in.(object)
			in = inner[name]
		}
		return in != nil
	}
	const extra, cache = "additionalModelRequestFields", "prompt caching|cachepoint|cache_control|cache point"
	fields, _ := sent[extra].(object)
	thinking, _ := fields["thinking"].(*wire.Thinking)
	output, _ := fields["output_config"].(object)
	effort, _ := output["effort"].(string)
	reasons := has(extra, "reasoningConfig") || has(extra, "reasoning_effort")
	cached := regexp.MustCompile(cache).MatchString(said)
	return wire.Taught(said, slices.Concat([]wire.Lesson{
		{What: noToolCache, Sent: cached, Says: "#/toolconfig"},
		{What: noSystemCache, Sent: cached, Says: "#/system"},
		{What: noMessageCache, Sent: cached, Says: "#/messages"},
		{What: noCache, Sent: cached},
		{What: "", Sent: !bad},
		{What: noSignature, Sent: strings.Contains(said, "reasoningtext.signature"), Says: "doesn't support|not support"},
		{What: noReasoning, Sent: strings.Contains(said, "reasoningcontent"), Says: "doesn't support|not support|extraneous|not permitted"},
	}, wire.ThinkingLessons(said, thinking, effort), []wire.Lesson{
		{What: noSchema, Sent: has("outputConfig"), Says: "output_?config|textformat|structured output|schema"},
		{What: wire.NoThinking, Sent: reasons, Says: "reasoning_?config|reasoning[_ ]effort"},
		{What: noTopP, Sent: has("inferenceConfig", "topP"), Says: "top_?p"},
		{What: noTemperature, Sent: has("inferenceConfig", "temperature"), Says: "temperature"},
		{What: noStop, Sent: has("inferenceConfig", "stopSequences"), Says: "stop[_ ]?sequences"},
		{What: noParallel, Sent: has(extra, "tool_choice"), Says: "tool_choice|disable_parallel"},
		{What: noChoice, Sent: has("toolConfig", "toolChoice"), Says: "tool[_ ]?choice"},
		{What: noTier, Sent: has("serviceTier"), Says: "service[_ ]?tier"},
		{What: noSystem, Sent: has("system"), Says: "system (messages?|prompt)"},
		{What: apart, Sent: true, Says: "tool result blocks cannot be provided in the same turn"},
	}))
}
