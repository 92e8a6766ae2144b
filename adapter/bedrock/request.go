package bedrock

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/wire"
	"github.com/lingserve/lingserve/internal/heavy"
)

// object is a JSON object. Its members are written in the order of their names, so that equal requests are equal to the byte.
type object = map[string]any

// learned are the things that a model has refused.
type learned uint32

const (
	noToolCache learned = 1 << iota // cache points
	noSystemCache
	noMessageCache
	noSchema
	noThinking
	adaptive // thinking: the other form of it
	budgeted
	noDisplay
	noEffort
	noReasoning // in the history
	noSignature
	noTemperature
	noTopP
	noStop
	noTier
	noChoice
	noParallel
	noSystem
	apart // results of tools and text in one turn
)

const anyCache = noToolCache | noSystemCache | noMessageCache

// ask sends the request and returns the answer once it is known to be one: status 200.
func (m *model) ask(ctx context.Context, req adapter.Request) (*http.Response, error) {
	known, _ := m.p.learned.LoadOrStore(m.name, new(atomic.Uint32))
	all := known.(*atomic.Uint32)
	var now learned // for this request alone
	for {
		without := learned(all.Load()) | now
		var sent object
		var body []byte
		var err error
		heavy.Do(int(req.Size()), func() {
			if sent, err = m.request(&req, without); err == nil {
				body, err = wire.Marshal(sent)
			}
		})
		if _, ours := err.(*adapter.Error); ours {
			return nil, err
		}
		if err != nil {
			return nil, &adapter.Error{
				Code: adapter.CodeInvalid, Message: "the request to the model cannot be written: a schema is not JSON",
				Cause: adapter.RedactError(err, m.p.Key()),
			}
		}
		res, refusal, err := m.post(ctx, body)
		if refusal == nil {
			return res, err
		}
		what, once := m.refusedWhat(sent, refusal, without)
		if what &^= without; what == 0 {
			return nil, m.p.refused(refusal)
		}
		if once {
			now |= what
			continue
		}
		all.Or(uint32(what))
		adapter.Learned(ctx, m.p.Redact(m.p.auth.hide(refusal.Body)))
	}
}

func (m *model) post(ctx context.Context, body []byte) (*http.Response, *wire.Refusal, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, m.url, bytes.NewReader(body)) // sets GetBody
	if err != nil {
		return nil, nil, m.p.Unreachable(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/vnd.amazon.eventstream")
	if err := m.p.authorize(req, body); err != nil {
		return nil, nil, err
	}
	return m.p.Do(req, nil)
}

// request says in Bedrock's words what is asked.
func (m *model) request(req *adapter.Request, without learned) (object, error) {
	h := history{m: m, without: without}
	if err := h.write(req.Messages); err != nil {
		return nil, err
	}
	inference, extra := object{}, object{}
	body := object{"messages": h.turns}
	if len(h.system) > 0 {
		body["system"] = h.system
	}
	tools := m.tools(req, &h, without)
	if tools != nil {
		body["toolConfig"] = tools
	}
	if req.MaxTokens != nil {
		inference["maxTokens"] = *req.MaxTokens
	}
	_, chosen := tools["toolChoice"]
	forced := chosen && req.ToolChoice != "auto"
	thinks := without&noThinking == 0 && m.think(extra, req, forced, h.unthought, without)
	if req.Temperature != nil && without&noTemperature == 0 && !(thinks && m.family == claude) { // Claude thinks at 1 only
		inference["temperature"] = *req.Temperature
	}
	if req.TopP != nil && without&noTopP == 0 && !(thinks && m.family == claude && *req.TopP < 0.95) {
		inference["topP"] = *req.TopP
	}
	if len(req.Stop) > 0 && without&noStop == 0 {
		inference["stopSequences"] = req.Stop
	}
	if effort, _ := extra["reasoningConfig"].(object); effort["maxReasoningEffort"] == "high" { // Nova then takes none of these
		delete(inference, "temperature")
		delete(inference, "topP")
		delete(inference, "maxTokens")
	}
	if req.ServiceTier != "" && req.ServiceTier != "auto" && without&noTier == 0 {
		body["serviceTier"] = object{"type": req.ServiceTier}
	}
	if req.Format.JSON && len(req.Format.Schema) > 0 && without&noSchema == 0 {
		if schema, ok := strict(req.Format.Schema); ok {
			body["outputConfig"] = object{"textFormat": object{
				"type":      "json_schema",
				"structure": object{"jsonSchema": object{"name": wire.SchemaName(req.Format.Name), "schema": schema}},
			}}
		}
	}
	if p := req.ParallelToolCalls; p != nil && !*p && len(req.Tools) > 0 && m.family == claude && !forced && without&noParallel == 0 {
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
func (m *model) tools(req *adapter.Request, h *history, without learned) object {
	declared := req.Tools
	if req.ToolChoice == "none" && len(h.called) == 0 {
		declared = nil
	}
	if len(declared) == 0 {
		for _, name := range h.called {
			declared = append(declared, adapter.Tool{Name: name, Description: "This tool is not available any more."})
		}
	}
	if len(declared) == 0 {
		return nil
	}
	list := make([]any, 0, len(declared)+1)
	for _, t := range declared {
		schema := t.Parameters
		if len(schema) == 0 {
			schema = json.RawMessage(`{"type":"object","properties":{}}`)
		}
		spec := object{"name": t.Name, "inputSchema": object{"json": schema}}
		if strings.TrimSpace(t.Description) != "" {
			spec["description"] = t.Description
		}
		list = append(list, object{"toolSpec": spec})
	}
	if m.family == claude && without&noToolCache == 0 { // Nova has none here
		list = append(list, cachePoint)
	}
	config := object{"tools": list}
	if len(req.Tools) > 0 && without&noChoice == 0 {
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

// budgets are tokens to think, by effort.
var budgets = map[string]int{"minimal": 1024, "low": 2048, "medium": 8192, "high": 16384, "xhigh": 24000}

const minBudget = 1024 // of Claude's

// think asks for thinking in the words of the model's family; false where it is not asked for. forced says that a tool must be called, and
// unthought that the last calls were made without thinking: Claude refuses both with thinking by a budget.
func (m *model) think(extra object, req *adapter.Request, forced, unthought bool, without learned) bool {
	r := req.Reasoning
	if r.Effort == "none" || r.Budget != nil && *r.Budget <= 0 || r.Effort == "" && r.Budget == nil {
		return false
	}
	effort, budget := r.Effort, budgets[r.Effort]
	if r.Budget != nil {
		budget = *r.Budget
		if effort == "" {
			effort = wire.Effort(budget)
		}
	}
	if effort == "minimal" {
		effort = "low"
	}
	switch m.family {
	case claude:
		if forced {
			return false
		}
		if thinksAdaptively(m.name) && without&budgeted == 0 || without&adaptive != 0 {
			thinking := object{"type": "adaptive"}
			if without&noDisplay == 0 {
				thinking["display"] = "summarized"
				if r.Show != nil && !*r.Show {
					thinking["display"] = "omitted"
				}
			}
			if extra["thinking"] = thinking; without&noEffort == 0 {
				if effort == "xhigh" {
					effort = "max" // which all of them have
				}
				extra["output_config"] = object{"effort": effort}
			}
			return true
		}
		if req.MaxTokens != nil && budget >= *req.MaxTokens {
			budget = *req.MaxTokens / 2
		}
		budget = max(budget, minBudget)
		if unthought || req.MaxTokens != nil && budget >= *req.MaxTokens {
			return false
		}
		extra["thinking"] = object{"type": "enabled", "budget_tokens": budget}
	case nova:
		if effort == "xhigh" {
			effort = "high"
		}
		if !strings.Contains(m.name, "nova-2") {
			return false
		}
		extra["reasoningConfig"] = object{"type": "enabled", "maxReasoningEffort": effort}
	case gptOSS:
		if effort == "xhigh" {
			effort = "high"
		}
		extra["reasoning_effort"] = effort
	default:
		return false
	}
	return true
}

// thinksAdaptively says whether a Claude decides itself how long it thinks: from Opus 4.6 and Sonnet 4.6 on.
// https://docs.aws.amazon.com/bedrock/latest/userguide/claude-messages-adaptive-thinking.html
func thinksAdaptively(name string) bool {
	_, version, _ := strings.Cut(name, "claude-")
	parts := strings.Split(version, "-") // opus-4-6-v1, sonnet-4-20250514-v1:0, 3-7-sonnet-20250219-v1:0, mythos-preview
	if len(parts) < 2 || parts[0] == "instant" || parts[0] == "" || parts[0] == "v2" || parts[0] == "v2:1" {
		return false
	}
	if _, err := strconv.Atoi(parts[0]); err == nil {
		return false // before 4 the number came first
	}
	major, err := strconv.Atoi(parts[1])
	if err != nil || major != 4 {
		return err != nil || major > 4
	}
	minor := 0
	if len(parts) > 2 {
		minor, _ = strconv.Atoi(parts[2])
	}
	return 6 <= minor && minor < 100 // otherwise it is a date
}

// refusedWhat says what of a request a model has refused, by the provider's words; 0 where they name nothing that can be left out. once
// says that it is this history that was refused, and not what the model takes. (MO-04, MO-23, MO-24)
func (m *model) refusedWhat(sent object, r *wire.Refusal, without learned) (what learned, once bool) {
	said := strings.ToLower(string(r.Body))
	names := func(words ...string) bool {
		for _, w := range words {
			if strings.Contains(said, w) {
				return true
			}
		}
		return false
	}
	if names("prompt caching", "cachepoint", "cache_control", "cache point") && (r.Status == http.StatusForbidden || r.Status == http.StatusBadRequest) {
		switch {
		case names("#/toolconfig"):
			return noToolCache, false
		case names("#/system"):
			return noSystemCache, false
		case names("#/messages"):
			return noMessageCache, false
		}
		return anyCache, false
	}
	if r.Status != http.StatusBadRequest && r.Status != http.StatusUnprocessableEntity {
		return 0, false
	}
	extra, _ := sent["additionalModelRequestFields"].(object)
	inference, _ := sent["inferenceConfig"].(object)
	tools, _ := sent["toolConfig"].(object)
	thinking, _ := extra["thinking"].(object)
	has := func(in object, name string) bool { _, ok := in[name]; return ok }
	switch {
	case names("reasoningtext.signature", "reasoningcontent.reasoningtext.signature") && names("doesn't support", "does not support"):
		return noSignature, false
	case names("reasoningcontent") && names("doesn't support", "does not support", "extraneous", "not permitted", "not supported"):
		return noReasoning, false
	case thinking != nil && names("expected `thinking`", "must start with a thinking block", "tool_choice forces"):
		return noThinking, true
	case has(thinking, "display") && names("display"):
		return noDisplay, false
	case has(extra, "output_config") && names("effort"):
		return noEffort, false
	case thinking != nil && thinking["type"] == "adaptive" && names("adaptive"):
		return budgeted, false
	case thinking != nil && thinking["type"] == "enabled" && names("adaptive"):
		return adaptive, false
	case has(sent, "outputConfig") && names("outputconfig", "output_config", "textformat", "structured output", "json_schema", "jsonschema", "schema"):
		return noSchema, false
	case (thinking != nil || has(extra, "reasoningConfig") || has(extra, "reasoning_effort")) &&
		names("thinking", "reasoningconfig", "reasoning_config", "reasoning_effort", "reasoning effort") && !names("temperature", "top_p", "max_tokens"):
		return noThinking, false
	case has(inference, "topP") && names("top_p", "topp"):
		return noTopP, false
	case has(inference, "temperature") && names("temperature"):
		return noTemperature, false
	case has(inference, "stopSequences") && names("stopsequences", "stop_sequences", "stop sequences"):
		return noStop, false
	case has(extra, "tool_choice") && names("tool_choice", "disable_parallel"):
		return noParallel, false
	case has(tools, "toolChoice") && names("toolchoice", "tool_choice", "tool choice"):
		return noChoice, false
	case has(sent, "serviceTier") && names("servicetier", "service_tier", "service tier"):
		return noTier, false
	case has(sent, "system") && names("system messages", "system prompt", "system message"):
		return noSystem, false
	case names("tool result blocks cannot be provided in the same turn"):
		return apart, false
	}
	return 0, false
}
