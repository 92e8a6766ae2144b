package fakeproviders

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// anthropic is the format of Anthropic's POST /v1/messages. It is as strict about a request as Anthropic is, in its words.
type anthropic struct {
	blocks  int    // that were begun
	inside  string // type of the block that is open
	thought string // of the block that is open
}

func (f *anthropic) kind() string { return "text/event-stream; charset=utf-8" }

func (f *anthropic) event(a *writer, kind, members string) {
	a.buf = append(a.buf, "event: "+kind+"\ndata: {\"type\":\""+kind+"\""+members+"}\n\n"...)
}

func (f *anthropic) begin(a *writer, kind, block string) {
	f.end(a)
	f.inside = kind
	f.event(a, "content_block_start", `,"index":`+strconv.Itoa(f.blocks)+`,"content_block":`+block)
	f.blocks++
}

func (f *anthropic) delta(a *writer, kind, member, text string) {
	a.buf = append(a.buf, "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":"...)
	a.buf = strconv.AppendInt(a.buf, int64(f.blocks-1), 10)
	a.buf = append(a.buf, `,"delta":{"type":"`+kind+`","`+member+`":`...)
	a.buf = appendString(a.buf, text)
	a.buf = append(a.buf, "}   }\n\n"...) // Anthropic pads its events
}

// end ends the block that is open.
func (f *anthropic) end(a *writer) {
	if f.inside == "" {
		return
	}
	if f.inside == "thinking" {
		f.delta(a, "signature_delta", "signature", Signature(f.thought))
		f.thought = ""
	}
	f.event(a, "content_block_stop", `,"index":`+strconv.Itoa(f.blocks-1))
	f.inside = ""
}

func (f *anthropic) open(a *writer) {
	prompt, _ := a.used()
	f.event(a, "message_start", `,"message":{"model":`+string(appendString(nil, a.req.Model))+`,"id":"`+f.id(a)+
		`","type":"message","role":"assistant","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":`+strconv.Itoa(prompt)+
		`,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":1,"service_tier":"standard"}}   `)
	f.event(a, "ping", "")
}

func (f *anthropic) text(a *writer, token string) {
	if f.inside != "text" {
		f.begin(a, "text", `{"type":"text","text":""}`)
	}
	f.delta(a, "text_delta", "text", token)
}

func (f *anthropic) reasoning(a *writer, token string) {
	if f.inside != "thinking" {
		f.begin(a, "thinking", `{"type":"thinking","thinking":"","signature":""}`)
	}
	f.thought += token
	f.delta(a, "thinking_delta", "thinking", token)
}

func (f *anthropic) call(a *writer, _ int, call ToolCall) bool {
	f.begin(a, "tool_use", `{"type":"tool_use","id":`+string(appendString(nil, call.ID))+`,"name":`+string(appendString(nil, call.Name))+`,"input":{}}`)
	f.delta(a, "input_json_delta", "partial_json", "")
	for token := range tokens(call.Arguments) {
		if !a.due() {
			return false
		}
		f.delta(a, "input_json_delta", "partial_json", token)
		if !a.paced() {
			return false
		}
	}
	return true
}

func (f *anthropic) close(a *writer) {
	f.end(a)
	_, completion := a.used()
	f.event(a, "message_delta", `,"delta":{"stop_reason":"`+stopReason(a.finish())+`","stop_sequence":null},"usage":{"output_tokens":`+strconv.Itoa(completion)+`}`)
	f.event(a, "message_stop", "")
}

func stopReason(finish string) string {
	switch finish {
	case "stop":
		return "end_turn"
	case "length":
		return "max_tokens"
	case "tool_calls":
		return "tool_use"
	}
	return finish
}

func (f *anthropic) id(a *writer) string { return "msg_" + strconv.Itoa(a.req.Attempt) }

// refuse answers with an error object as Anthropic sends it.
func (f *anthropic) refuse(w http.ResponseWriter, status int, body string) {
	kind := map[int]string{
		401: "authentication_error", 402: "billing_error", 403: "permission_error", 404: "not_found_error", 413: "request_too_large",
		429: "rate_limit_error", 504: "timeout_error", 529: "overloaded_error",
	}[status]
	if kind == "" && status >= 500 {
		kind = "api_error"
	}
	writeError(w, status, body, func(message string) any {
		return map[string]any{
			"type": "error", "request_id": "req_script", "error": map[string]string{"type": cmp.Or(kind, "invalid_request_error"), "message": message},
		}
	})
}

// asked is a request's body.
type asked struct {
	Model     string          `json:"model"`
	MaxTokens int             `json:"max_tokens"`
	System    json.RawMessage `json:"system"`
	Messages  []struct {
		Role    string          `json:"role"`
		Content json.RawMessage `json:"content"`
	} `json:"messages"`
	Stream bool `json:"stream"`
	Tools  []struct {
		Type         string          `json:"type"`
		Name         string          `json:"name"`
		Description  string          `json:"description"`
		Schema       json.RawMessage `json:"input_schema"`
		CacheControl json.RawMessage `json:"cache_control"`
	} `json:"tools"`
	ToolChoice struct {
		Type       string `json:"type"`
		Name       string `json:"name"`
		NoParallel bool   `json:"disable_parallel_tool_use"`
	} `json:"tool_choice"`
	Thinking struct {
		Type    string `json:"type"`
		Budget  int    `json:"budget_tokens"`
		Display string `json:"display"`
	} `json:"thinking"`
	Output struct {
		Effort string `json:"effort"`
		Format *struct {
			Type   string          `json:"type"`
			Schema json.RawMessage `json:"schema"`
		} `json:"format"`
	} `json:"output_config"`
	Temperature   *float64          `json:"temperature"`
	TopP          *float64          `json:"top_p"`
	TopK          *int              `json:"top_k"`
	StopSequences []string          `json:"stop_sequences"`
	ServiceTier   string            `json:"service_tier"`
	Metadata      map[string]string `json:"metadata"`
}

// members are those that a block of each type may have.
var members = map[string][]string{
	"text":                   {"text", "citations", "cache_control"},
	"thinking":               {"thinking", "signature"},
	"redacted_thinking":      {"data"},
	"tool_use":               {"id", "name", "input", "caller", "cache_control"},
	"tool_result":            {"tool_use_id", "content", "is_error", "cache_control"},
	"server_tool_use":        {"id", "name", "input", "caller", "cache_control"},
	"web_search_tool_result": {"tool_use_id", "content", "caller", "cache_control"},
	"image":                  {"source", "cache_control"},
	"document":               {"source", "title", "context", "citations", "cache_control"},
}

var (
	callID    = regexp.MustCompile(`^[a-zA-Z0-9_-]+$`)
	adaptive  = regexp.MustCompile(`claude-(opus|sonnet)-4-6`) // takes both
	onlyAdapt = regexp.MustCompile(`claude-(opus-4-[78]|[a-z]+-5)`)
)

// read takes what a script may want to know from a request's body, or says why Anthropic refuses it.
func (f *anthropic) read(r *http.Request, body []byte) (Request, error) {
	if r.Header.Get("Anthropic-Version") == "" {
		return Request{}, refused("anthropic-version: header is required")
	}
	var in asked
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(&in); err != nil {
		if _, name, ok := strings.Cut(err.Error(), "unknown field "); ok {
			return Request{}, refused(strings.Trim(name, `"`) + ": Extra inputs are not permitted")
		}
		return Request{}, err
	}
	if err := in.check(); err != nil {
		return Request{}, err
	}
	req := Request{Model: in.Model, Stream: in.Stream, Usage: true}
	if in.Output.Format != nil {
		req.JSON, req.Schema = true, in.Output.Format.Schema
	}
	h := history{ids: map[string]bool{}, thinks: in.Thinking.Type == "enabled"}
	for i, m := range in.Messages {
		if err := h.message(i, m.Role, m.Content); err != nil {
			return Request{}, err
		}
		req.Messages = append(req.Messages, Message{Role: m.Role, Content: joined(m.Content)})
	}
	if err := h.end(len(in.Messages)); err != nil {
		return Request{}, err
	}
	if h.role == "assistant" && (adaptive.MatchString(in.Model) || onlyAdapt.MatchString(in.Model)) {
		return Request{}, refused("This model does not support assistant message prefill. The conversation must end with a user message.")
	}
	if n := strings.Count(string(body), `"cache_control":{`); n > 4 {
		return Request{}, refusedf("A maximum of 4 blocks with cache_control may be provided. Found %d.", n)
	}
	for _, t := range in.Tools {
		req.Tools = append(req.Tools, t.Name)
	}
	return req, nil
}

// refused is what Anthropic says of a request that it does not take, in its words.
type refused string

func (r refused) Error() string { return string(r) }

func refusedf(format string, args ...any) error { return refused(fmt.Sprintf(format, args...)) }

// check looks at all but the messages.
func (in *asked) check() error {
	t := in.Thinking
	forced := in.ToolChoice.Type == "any" || in.ToolChoice.Type == "tool"
	on := t.Type == "enabled" || t.Type == "adaptive"
	claude := strings.Contains(in.Model, "claude")
	switch {
	case in.MaxTokens <= 0:
		return refused("max_tokens: Field required")
	case strings.Contains(in.Model, "claude-opus-4-1") && in.MaxTokens > 32000:
		return refusedf("max_tokens: %d > 32000, which is the maximum allowed number of output tokens for %s", in.MaxTokens, in.Model)
	case t.Type == "enabled" && onlyAdapt.MatchString(in.Model):
		return refused(`"thinking.type.enabled" is not supported for this model. Use "thinking.type.adaptive" and "output_config.effort" to control thinking behavior.`)
	case t.Type == "adaptive" && claude && !adaptive.MatchString(in.Model) && !onlyAdapt.MatchString(in.Model):
		return refused("adaptive thinking is not supported on this model")
	case t.Type == "disabled" && strings.Contains(in.Model, "claude-fable-5"):
		return refused(`"thinking.type.disabled" is not supported for this model. Thinking defaults to adaptive mode when not specified.`)
	case t.Type == "enabled" && t.Budget < 1024:
		return refused("thinking.enabled.budget_tokens: Input should be greater than or equal to 1024")
	case t.Type == "enabled" && in.MaxTokens <= t.Budget:
		return refused("`max_tokens` must be greater than `thinking.budget_tokens`. Please consult our documentation at https://docs.claude.com/en/docs/build-with-claude/extended-thinking#max-tokens-and-context-window-size")
	case in.Output.Effort == "xhigh" && adaptive.MatchString(in.Model):
		return refused("output_config.effort: Input should be 'low', 'medium', 'high' or 'max'")
	case in.Temperature != nil && *in.Temperature > 1:
		return refused("temperature: range: 0..1")
	case (in.Temperature != nil || in.TopP != nil) && onlyAdapt.MatchString(in.Model):
		return refused("`temperature` is deprecated for this model.")
	case in.Temperature != nil && in.TopP != nil && claude:
		return refused("`temperature` and `top_p` cannot both be specified for this model. Please use only one.")
	case on && in.Temperature != nil && *in.Temperature != 1:
		return refused("`temperature` may only be set to 1 when thinking is enabled or in adaptive mode.")
	case forced && (on || strings.Contains(in.Model, "claude-fable-5")):
		return refused("Thinking may not be enabled when tool_choice forces tool use.")
	case in.ToolChoice.Type != "" && len(in.Tools) == 0:
		return refused("tool_choice may only be specified while providing tools")
	case in.Output.Format != nil && bytes.Contains(in.Output.Format.Schema, []byte(`"object"`)) && !bytes.Contains(in.Output.Format.Schema, []byte(`"additionalProperties":false`)):
		return refused("output_config.format.schema: For 'object' type, 'additionalProperties' must be explicitly set to false")
	}
	for i, t := range in.Tools {
		var schema struct {
			Type  string          `json:"type"`
			AnyOf json.RawMessage `json:"anyOf"`
			OneOf json.RawMessage `json:"oneOf"`
			AllOf json.RawMessage `json:"allOf"`
		}
		if json.Unmarshal(t.Schema, &schema) != nil || schema.Type != "object" {
			return refusedf("tools.%d.custom.input_schema.type: Field required", i)
		}
		if schema.AnyOf != nil || schema.OneOf != nil || schema.AllOf != nil {
			return refusedf("tools.%d.custom.input_schema: input_schema does not support oneOf, allOf, or anyOf at the top level", i)
		}
	}
	return nil
}

// history checks messages.
type history struct {
	ids    map[string]bool
	thinks bool
	role   string
	waits  []string // calls without results
	begins string   // type of the block that the assistant's last turn began with
}

func (h *history) message(i int, role string, content json.RawMessage) error {
	if role != "user" && role != "assistant" {
		return refusedf("messages.%d.role: Input should be 'user' or 'assistant'", i)
	}
	if i == 0 && role != "user" {
		return refused("messages: first message must use the \"user\" role")
	}
	if role == h.role {
		return refusedf("messages: roles must alternate between \"user\" and \"assistant\", but found multiple %q roles in a row", role)
	}
	var text string
	if json.Unmarshal(content, &text) == nil {
		quoted, _ := json.Marshal(text)
		content = json.RawMessage(`[{"type":"text","text":` + string(quoted) + `}]`)
	}
	var blocks []map[string]json.RawMessage
	if json.Unmarshal(content, &blocks) != nil || len(blocks) == 0 {
		return refusedf("messages.%d: all messages must have non-empty content", i)
	}
	results := []string{}
	before := h.waits
	if role == "assistant" {
		before = nil
	}
	for j, b := range blocks {
		at := fmt.Sprintf("messages.%d.content.%d", i, j)
		str := func(name string) (s string) {
			json.Unmarshal(b[name], &s)
			return s
		}
		kind := str("type")
		allowed, known := members[kind]
		if !known {
			return refusedf("%s: Input tag '%s' found using 'type' does not match any of the expected tags", at, kind)
		}
		for name := range b {
			if name != "type" && !slices.Contains(allowed, name) {
				return refusedf("%s.%s.%s: Extra inputs are not permitted", at, kind, name)
			}
		}
		if j == 0 && role == "assistant" && h.begins == "" {
			h.begins = kind
		}
		switch kind {
		case "text":
			if str("text") == "" {
				return refused("messages: text content blocks must be non-empty")
			}
			if strings.TrimSpace(str("text")) == "" {
				return refused("messages: text content blocks must contain non-whitespace text")
			}
		case "thinking":
			switch signature := str("signature"); {
			case b["signature"] == nil:
				return refusedf("%s.thinking.signature: Field required", at)
			case signature != Signature(str("thinking")):
				return refusedf("%s: Invalid `signature` in `thinking` block", at)
			}
		case "tool_use":
			id := str("id")
			if !callID.MatchString(id) {
				return refusedf("%s.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'", at)
			}
			if h.ids[id] {
				return refused("messages: `tool_use` ids must be unique")
			}
			h.ids[id] = true
			h.waits = append(h.waits, id)
		case "tool_result":
			id := str("tool_use_id")
			if !slices.Contains(before, id) {
				return refusedf("%s: unexpected `tool_use_id` found in `tool_result` blocks: %s. Each `tool_result` block must have a corresponding `tool_use` block in the previous message.", at, id)
			}
			results = append(results, id)
		}
	}
	if role == "user" {
		for _, id := range before {
			if !slices.Contains(results, id) {
				return missingResult(i-1, id)
			}
		}
		h.waits = nil
		if len(results) == 0 {
			h.begins = ""
		}
	}
	h.role = role
	return nil
}

func missingResult(i int, id string) error {
	return refusedf("messages.%d: `tool_use` ids were found without `tool_result` blocks immediately after: %s. Each `tool_use` block must have a corresponding `tool_result` block in the next message.", i, id)
}

func (h *history) end(n int) error {
	if len(h.waits) > 0 {
		return missingResult(n-1, h.waits[0])
	}
	if h.thinks && h.begins != "" && h.begins != "thinking" && h.begins != "redacted_thinking" {
		return refusedf("messages.%d.content.0.type: Expected `thinking` or `redacted_thinking`, but found `%s`. When `thinking` is enabled, a final `assistant` message must start with a thinking block (preceeding the lastmost set of `tool_use` and `tool_result` blocks).", n-2, h.begins)
	}
	return nil
}
