package anthropic

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/internal/fakeproviders"
)

func user(text string) adapter.Message {
	return adapter.Message{Role: adapter.User, Content: text}
}

// body returns what is sent for a request, without what a row does not look at.
func body(t *testing.T, model string, req adapter.Request, without ...string) string {
	t.Helper()
	if req.Messages == nil {
		req.Messages = []adapter.Message{user("hi")}
	}
	_, sent := sentFor(t, model, req)
	var members map[string]json.RawMessage
	if err := json.Unmarshal(sent, &members); err != nil {
		t.Fatal(err)
	}
	for _, name := range append(without, "model", "stream") {
		delete(members, name)
	}
	out, _ := json.Marshal(members)
	return string(out)
}

func TestAddressesAreMadeOfBaseURLs(t *testing.T) {
	for base, want := range map[string]string{
		"":                                   "https://api.anthropic.com/v1/messages",
		"https://api.anthropic.com/":         "https://api.anthropic.com/v1/messages",
		"https://api.anthropic.com/v1":       "https://api.anthropic.com/v1/messages",
		"https://h/v1/messages":              "https://h/v1/messages",
		"https://api.moonshot.ai/anthropic":  "https://api.moonshot.ai/anthropic/v1/messages",
		"https://api.z.ai/api/anthropic/v1/": "https://api.z.ai/api/anthropic/v1/messages",
		"http://127.0.0.1:8080/x?tenant=a":   "http://127.0.0.1:8080/x/v1/messages?tenant=a",
	} {
		if p := newProvider(t, Options{BaseURL: base}).(*provider); p.messages != want {
			t.Errorf("%q: %s", base, p.messages)
		}
	}
	for _, base := range []string{"api.anthropic.com", "ftp://h", "http://", "http://h#x", ":"} {
		if _, err := New(Options{BaseURL: base}); err == nil || !strings.Contains(err.Error(), "expected one like") {
			t.Errorf("%q: %v", base, err)
		}
	}
}

func TestHeadersHaveTheKeyTheVersionAndAllBetas(t *testing.T) {
	from := answering("application/json", `{"content":[],"stop_reason":"end_turn"}`)
	p := newProvider(t, Options{Key: "k", Transport: from, Header: http.Header{"Anthropic-Beta": {"context-1m"}, "X-Own": {"yes"}}})
	m, _ := p.Model("claude-sonnet-4-5")
	for range m.Stream(t.Context(), adapter.Request{
		Messages: []adapter.Message{user("hi")}, Tools: []adapter.Tool{{Name: "look"}}, Options: adapter.Options{Reasoning: adapter.Reasoning{Effort: "low"}},
	}) {
	}
	h := from.Request.Header
	if h.Get("X-Api-Key") != "k" || h.Get("Anthropic-Version") != "2023-06-01" || h.Get("X-Own") != "yes" || h.Get("Authorization") != "" {
		t.Errorf("%v", h)
	}
	if diff := cmp.Diff([]string{"context-1m", "interleaved-thinking-2025-05-14"}, h["Anthropic-Beta"]); diff != "" {
		t.Error(diff)
	}
}

// MO-22: options as Anthropic has them; what it does not have is left out.
func TestOptionsGoOutInAnthropicsWords(t *testing.T) {
	tools := []adapter.Tool{{Name: "look", Description: "looks", Parameters: json.RawMessage(`{"properties":{"q":{}}}`)}}
	for name, row := range map[string]struct {
		model string
		req   adapter.Request
		want  string
	}{
		"nothing":            {"claude-sonnet-4-5", adapter.Request{}, `{"max_tokens":32000}`},
		"an old model":       {"claude-3-haiku-20240307", adapter.Request{}, `{"max_tokens":4096}`},
		"another maker's":    {"kimi-k2", adapter.Request{}, `{"max_tokens":8192}`},
		"sampling":           {"claude-sonnet-4-5", opt(adapter.Options{Temperature: new(0.0), TopP: new(0.5), Seed: new(1), FrequencyPenalty: new(1.0)}), `{"max_tokens":32000,"temperature":0}`},
		"top_p alone":        {"claude-sonnet-4-5", opt(adapter.Options{TopP: new(0.5)}), `{"max_tokens":32000,"top_p":0.5}`},
		"both, before":       {"claude-3-5-haiku-latest", opt(adapter.Options{Temperature: new(1.7), TopP: new(0.5)}), `{"max_tokens":8192,"temperature":1,"top_p":0.5}`},
		"neither, since 4.7": {"claude-opus-4-7", opt(adapter.Options{Temperature: new(0.0), TopP: new(0.5)}), `{"max_tokens":32000}`},
		"limit and stop":     {"claude-opus-4-6", opt(adapter.Options{MaxTokens: new(5), Stop: []string{"END", "\n"}, ServiceTier: "auto"}), `{"max_tokens":5,"service_tier":"auto","stop_sequences":["END"]}`},
		"a tool": {
			"m",
			adapter.Request{Tools: tools},
			`{"max_tokens":8192,"tools":[{"name":"look","description":"looks","input_schema":{"properties":{"q":{}},"type":"object"},"cache_control":{"type":"ephemeral"}}]}`,
		},
		"none of the tools":   {"m", adapter.Request{Tools: tools, Options: adapter.Options{ToolChoice: "none", ParallelToolCalls: new(false)}}, `{"max_tokens":8192,"tool_choice":{"type":"none"}}`},
		"any tool, but one":   {"m", adapter.Request{Tools: tools, Options: adapter.Options{ToolChoice: "required", ParallelToolCalls: new(false)}}, `{"max_tokens":8192,"tool_choice":{"type":"any","disable_parallel_tool_use":true}}`},
		"one tool":            {"m", adapter.Request{Tools: tools, Options: adapter.Options{ToolChoice: "look"}}, `{"max_tokens":8192,"tool_choice":{"type":"tool","name":"look"}}`},
		"one call at a time":  {"m", adapter.Request{Tools: tools, Options: adapter.Options{ParallelToolCalls: new(false)}}, `{"max_tokens":8192,"tool_choice":{"type":"auto","disable_parallel_tool_use":true}}`},
		"a choice of nothing": {"m", opt(adapter.Options{ToolChoice: "required"}), `{"max_tokens":8192}`},
		"extra members":       {"m", opt(adapter.Options{ExtraBody: map[string]json.RawMessage{"top_k": json.RawMessage("5"), "max_tokens": json.RawMessage("7")}}), `{"max_tokens":7,"top_k":5}`},
		"JSON alone":          {"m", adapter.Request{Format: adapter.Format{JSON: true}}, `{"max_tokens":8192}`},
		"a schema (MO-23)": {
			"claude-opus-4-7",
			adapter.Request{Format: adapter.Format{JSON: true, Schema: json.RawMessage(`{"type":"object","properties":{"a":{"type":"string"}}}`)}, Options: adapter.Options{Reasoning: adapter.Reasoning{Effort: "low"}}},
			`{"max_tokens":32000,"output_config":{"effort":"low","format":{"type":"json_schema","schema":{"type":"object","properties":{"a":{"type":"string"}},"additionalProperties":false}}},"thinking":{"type":"adaptive","display":"summarized"}}`,
		},
		"a schema that is not in the subset": {"claude-opus-4-7", adapter.Request{Format: adapter.Format{JSON: true, Schema: json.RawMessage(`{"type":"object"}`)}}, `{"max_tokens":32000}`},
		"a schema for a model without":       {"claude-3-7-sonnet-latest", adapter.Request{Format: adapter.Format{JSON: true, Schema: json.RawMessage(`{"type":"string"}`)}}, `{"max_tokens":32000}`},
	} {
		t.Run(name, func(t *testing.T) {
			without := []string{"messages"}
			if !strings.Contains(row.want, `"tools"`) {
				without = append(without, "tools")
			}
			if diff := cmp.Diff(row.want, body(t, row.model, row.req, without...)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func opt(o adapter.Options) adapter.Request { return adapter.Request{Options: o} }

// MO-22: how a model thinks, by its version. The stand-in refuses what Anthropic refuses; each of these is taken at once.
func TestThinkingIsAskedForAsEachModelTakesIt(t *testing.T) {
	effort := func(e string) adapter.Reasoning { return adapter.Reasoning{Effort: e} }
	budget := func(n int) adapter.Reasoning { return adapter.Reasoning{Budget: &n} }
	for _, row := range []struct {
		model    string
		think    adapter.Reasoning
		max      *int
		thinking string
		effort   string
		limit    int
	}{
		{"claude-haiku-4-5", effort("high"), nil, `{"type":"enabled","budget_tokens":12288}`, "", 32000},
		{"claude-haiku-4-5", effort("minimal"), new(500), `{"type":"enabled","budget_tokens":1024}`, "", 1524},
		{"claude-haiku-4-5", budget(40000), nil, `{"type":"enabled","budget_tokens":40000}`, "", 48192},
		{"claude-haiku-4-5", budget(5), nil, `{"type":"enabled","budget_tokens":1024}`, "", 32000},
		{"claude-haiku-4-5", adapter.Reasoning{Effort: "low", Show: new(false)}, nil, `{"type":"enabled","budget_tokens":2048,"display":"omitted"}`, "", 32000},
		{"claude-haiku-4-5", effort("none"), nil, "", "", 32000},
		{"claude-haiku-4-5", adapter.Reasoning{Show: new(true)}, nil, "", "", 32000},
		{"claude-opus-4-6", effort("xhigh"), nil, `{"type":"adaptive","display":"summarized"}`, "high", 32000},
		{"claude-opus-4-6", budget(3000), nil, `{"type":"enabled","budget_tokens":3000}`, "", 32000},
		{"claude-opus-4-7", effort("xhigh"), nil, `{"type":"adaptive","display":"summarized"}`, "xhigh", 32000},
		{"claude-opus-4-7", budget(3000), nil, `{"type":"adaptive","display":"summarized"}`, "medium", 32000},
		{"claude-opus-4-7", adapter.Reasoning{Effort: "minimal", Show: new(false)}, new(900), `{"type":"adaptive","display":"omitted"}`, "low", 900},
		{"claude-opus-4-7", effort("none"), nil, "", "", 32000},
		{"claude-opus-5", effort("none"), nil, `{"type":"disabled"}`, "", 32000},
		{"claude-opus-5", budget(0), nil, `{"type":"disabled"}`, "", 32000},
		{"claude-opus-5", adapter.Reasoning{}, nil, `{"type":"adaptive","display":"summarized"}`, "", 32000},
		{"claude-opus-5", adapter.Reasoning{Show: new(false)}, nil, "", "", 32000},
		{"claude-opus-4-7", adapter.Reasoning{}, nil, "", "", 32000},
		{"claude-opus-5", adapter.Reasoning{Show: new(true)}, nil, `{"type":"adaptive","display":"summarized"}`, "", 32000},
		{"kimi-k2-thinking", effort("medium"), nil, `{"type":"enabled","budget_tokens":6144}`, "", 8192},
		{"kimi-k2-thinking", effort("none"), nil, `{"type":"disabled"}`, "", 8192},
	} {
		o := adapter.Options{Reasoning: row.think, MaxTokens: row.max, Temperature: new(0.3)}
		if row.think.Effort == "" && row.think.Budget == nil || off(row.think) {
			o.Temperature = nil // it is left out beside thinking
		}
		sent, requests, err := accepted(t, row.model, adapter.Request{Messages: []adapter.Message{user("hi")}, Options: o}, nil)
		if err != nil || requests != 1 {
			t.Errorf("%s %+v: %d requests, %v", row.model, row.think, requests, err)
			continue
		}
		var in struct {
			Thinking json.RawMessage `json:"thinking"`
			Output   struct {
				Effort string `json:"effort"`
			} `json:"output_config"`
			Max int `json:"max_tokens"`
		}
		if err := json.Unmarshal(sent, &in); err != nil {
			t.Fatal(err)
		}
		if string(in.Thinking) != row.thinking || in.Output.Effort != row.effort || in.Max != row.limit {
			t.Errorf("%s %+v: %s %q %d", row.model, row.think, in.Thinking, in.Output.Effort, in.Max)
		}
	}
}

func off(r adapter.Reasoning) bool { return r.Effort == "none" || r.Budget != nil && *r.Budget == 0 }

// accepted asks the strict stand-in, and returns the last body and how many requests it took. A script may refuse more.
func accepted(t *testing.T, model string, req adapter.Request, script func(fakeproviders.Request) fakeproviders.Answer) (sent []byte, requests int, err error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		if script == nil {
			script = func(fakeproviders.Request) fakeproviders.Answer { return fakeproviders.Answer{Text: "ok"} }
		}
		up := &fakeproviders.Server{Script: func(r fakeproviders.Request) fakeproviders.Answer {
			sent = r.Body
			return script(r)
		}}
		defer up.Close()
		var m adapter.Model
		m, err = newProvider(t, Options{BaseURL: "http://model.test", Key: "k", Transport: up.Transport()}).Model(model)
		for _, e := range m.Stream(t.Context(), req) {
			if e != nil {
				err = e
			}
		}
		requests = up.Requests()
	})
	return sent, requests, err
}

// MO-04, MO-23: what the adapter adds by itself is left out of the request that a model has refused for it, and of no other.
func TestARefusedAdditionIsLeftOutOfTheSameRequest(t *testing.T) {
	schema := adapter.Format{JSON: true, Schema: json.RawMessage(`{"type":"object","properties":{"a":{"type":"string"}}}`)}
	think := func(e string) adapter.Options { return adapter.Options{Reasoning: adapter.Reasoning{Effort: e}} }
	for name, row := range map[string]struct {
		model  string
		req    adapter.Request
		refuse func(body string) string // with these words; "" is taken
		left   string                   // not in the request that is taken
		has    string
	}{
		"thinking by default":     {"claude-opus-5", adapter.Request{}, ifHas(`"thinking"`, `thinking: Extra inputs are not permitted`), `thinking`, ``},
		"how thinking is shown":   {"claude-opus-4-7", opt(think("low")), ifHas(`display`, `thinking.adaptive.display: Extra inputs are not permitted`), `display`, `adaptive`},
		"a schema":                {"m", adapter.Request{Format: schema}, ifHas(`output_config`, `output_config: Extra inputs are not permitted`), `output_config`, ``},
		"a schema for this model": {"m", adapter.Request{Format: schema}, ifHas(`output_config`, `'m' does not support output format.`), `output_config`, ``},
		"breakpoints":             {"m", adapter.Request{}, ifHas(`cache_control`, `messages.0.content.0.text.cache_control: Extra inputs are not permitted`), `cache_control`, ``},
		"a long answer":           {"claude-opus-4-1", opt(adapter.Options{MaxTokens: new(64000)}), ifHas(`"x"`, ""), ``, `"max_tokens":32000`},
		"a long answer and thought": {
			"claude-opus-4-1", opt(adapter.Options{Reasoning: adapter.Reasoning{Budget: new(40000)}}), ifHas(`"x"`, ""), ``, `"max_tokens":32000,`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var last string
				up := &fakeproviders.Server{Script: func(r fakeproviders.Request) fakeproviders.Answer {
					last = string(r.Body)
					if words := row.refuse(last); words != "" {
						return fakeproviders.Answer{Status: 400, Body: words}
					}
					return fakeproviders.Answer{Text: "ok"}
				}}
				defer up.Close()
				m, err := newProvider(t, Options{BaseURL: "http://model.test", Transport: up.Transport()}).Model(row.model)
				if err != nil {
					t.Fatal(err)
				}
				row.req.Messages = []adapter.Message{user("hi")}
				for i := range 2 {
					for _, err := range m.Stream(t.Context(), row.req) {
						if err != nil {
							t.Fatal(err, errors.Unwrap(err))
						}
					}
					if up.Requests() != 2*(i+1) {
						t.Errorf("%d requests", up.Requests())
					}
				}
				if row.left != "" && strings.Contains(last, row.left) || !strings.Contains(last, row.has) {
					t.Errorf("%s", last)
				}
			})
		})
	}
}

func ifHas(what, words string) func(string) string {
	return func(body string) string {
		if strings.Contains(body, what) {
			return words
		}
		return ""
	}
}

// A history that leaves less room than the default limit is asked with what it leaves; a limit of the model's own is not remembered for it.
func TestALimitThatTheHistoryLeavesNoRoomForIsLowered(t *testing.T) {
	sent, requests, err := accepted(t, "claude-sonnet-4", adapter.Request{Messages: []adapter.Message{user("long")}}, func(r fakeproviders.Request) fakeproviders.Answer {
		if strings.Contains(string(r.Body), `"max_tokens":32000`) {
			return fakeproviders.Answer{Status: 400, Body: "input length and `max_tokens` exceed context limit: 190000 + 32000 > 200000, decrease input length or `max_tokens` and try again"}
		}
		return fakeproviders.Answer{Text: "ok"}
	})
	if err != nil || requests != 2 || !strings.Contains(string(sent), `"max_tokens":10000`) {
		t.Errorf("%v, %d requests, %s", err, requests, sent)
	}
	_, requests, err = accepted(t, "claude-sonnet-4", adapter.Request{Messages: []adapter.Message{user("long")}}, func(fakeproviders.Request) fakeproviders.Answer {
		return fakeproviders.Answer{Status: 400, Body: "prompt is too long: 200100 tokens > 200000 maximum"}
	})
	if e, ok := errors.AsType[*adapter.Error](err); requests != 1 || !ok || !e.ContextLength || e.Code != adapter.CodeInvalid {
		t.Errorf("%v, %d requests", err, requests)
	}
}

// MO-04: a server that wants thinking at the start of more turns than Anthropic says is asked without, for this history only.
func TestAHistoryThatForbidsThinkingIsAskedWithout(t *testing.T) {
	req := adapter.Request{Messages: []adapter.Message{user("a"), {Role: adapter.Assistant, Content: "b"}, user("c")}, Options: adapter.Options{Reasoning: adapter.Reasoning{Effort: "low"}}}
	sent, requests, err := accepted(t, "claude-haiku-4-5", req, func(r fakeproviders.Request) fakeproviders.Answer {
		if strings.Contains(string(r.Body), `"enabled"`) {
			return fakeproviders.Answer{Status: 400, Body: "messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found `text`. When `thinking` is enabled, a final `assistant` message must start with a thinking block."}
		}
		return fakeproviders.Answer{Text: "ok"}
	})
	if err != nil || requests != 2 || strings.Contains(string(sent), "thinking") {
		t.Errorf("%v, %d requests, %s", err, requests, sent)
	}
}

// MO-22: an option that the user has set is not left out, and a refusal of something else is an error.
func TestARefusedOptionIsAnError(t *testing.T) {
	for _, said := range []string{
		`"thinking.type.enabled" is not supported; adaptive thinking is not supported either`,
		"messages.1.content.0: Invalid `signature` in `thinking` block",
		"messages: text content blocks must be non-empty",
		"`temperature` is deprecated for this model.",
	} {
		for _, effort := range []string{"low", "none"} {
			req := adapter.Request{Messages: []adapter.Message{user("a")}, Options: adapter.Options{Reasoning: adapter.Reasoning{Effort: effort}}}
			_, requests, err := accepted(t, "claude-opus-5", req, func(fakeproviders.Request) fakeproviders.Answer { return fakeproviders.Answer{Status: 400, Body: said} })
			if e, ok := errors.AsType[*adapter.Error](err); !ok || e.Code != adapter.CodeProtocol || requests != 1 {
				t.Errorf("%s: %d requests, %v", said, requests, err)
			}
		}
	}
}

// MO-03, MO-20, MO-21: histories that other models have made, and such as cancelled runs leave, are taken with and without thinking.
func TestHistoriesOfOtherModelsAreTaken(t *testing.T) {
	call := func(ids ...string) (m adapter.Message) {
		m.Role = adapter.Assistant
		for _, id := range ids {
			m.ToolCalls = append(m.ToolCalls, adapter.ToolCall{ID: id, Name: "look", Arguments: `{"q":"<a>"}`})
		}
		return m
	}
	result := func(id string) adapter.Message {
		return adapter.Message{Role: adapter.ToolRole, ToolCallID: id, Content: "dry"}
	}
	made := func(m adapter.Message, parts ...adapter.MadePart) adapter.Message {
		m.Made = &adapter.Made{Model: "anthropic:m", Parts: parts}
		return m
	}
	said := func(text string) adapter.Message { return adapter.Message{Role: adapter.Assistant, Content: text} }
	signed := adapter.MadePart{Type: adapter.PartReasoning, Text: "so", Data: json.RawMessage(`{"signature":"` + fakeproviders.Signature("so") + `"}`)}
	for name, row := range map[string]struct {
		messages []adapter.Message
		thinks   bool // thinking stays on, where a model needs its own at the start of a turn
	}{
		"text":                          {[]adapter.Message{user("a"), said("b"), user("c")}, true},
		"a finished loop, and then":     {[]adapter.Message{user("a"), call("c1"), result("c1"), said("b"), user("c")}, true},
		"an open loop":                  {[]adapter.Message{user("a"), call("c1"), result("c1")}, false},
		"an open loop that others end":  {[]adapter.Message{user("a"), made(call("c1"), signed, adapter.MadePart{Type: adapter.PartCall, Call: "c1"}), result("c1"), call("c2"), result("c2")}, true},
		"an open loop that we go on in": {[]adapter.Message{user("a"), call("c1"), result("c1"), made(call("c2"), signed), result("c2")}, false},
		"redacted":                      {[]adapter.Message{user("a"), made(call("c1"), adapter.MadePart{Type: adapter.PartOther, Data: json.RawMessage(`{"type":"redacted_thinking","data":"x"}`)}), result("c1")}, true},
		"thinking without a signature":  {[]adapter.Message{user("a"), made(call("c1"), adapter.MadePart{Type: adapter.PartReasoning, Text: "so"}), result("c1")}, false},
		"ids that come again":           {[]adapter.Message{user("a"), call("call:0"), result("call:0"), call("call:0", "call.0"), result("call:0"), result("call.0"), said("b"), user("c")}, true},
		"ids of all characters":         {[]adapter.Message{user("a"), call("functions.look:0|é"), result("functions.look:0|é"), said("b"), user("c")}, true},
		"no id":                         {[]adapter.Message{user("a"), call(""), result(""), said("b"), user("c")}, true},
		"a call without a result":       {[]adapter.Message{user("a"), call("c1", "c2"), result("c1"), user("never mind")}, false},
		"no result, and then an answer": {[]adapter.Message{user("a"), call("c1"), said("b"), user("c")}, true},
		"no result at the end":          {[]adapter.Message{user("a"), call("c1")}, false},
		"a result without a call":       {[]adapter.Message{user("a"), said("b"), result("c9")}, true},
		"blank texts":                   {[]adapter.Message{{Role: adapter.System, Content: " "}, user(""), said("\n"), user(" "), made(said("x"), adapter.MadePart{Type: adapter.PartText, Text: "\n\n"}), user("c")}, true},
		"arguments that are no object":  {[]adapter.Message{user("a"), {Role: adapter.Assistant, ToolCalls: []adapter.ToolCall{{ID: "c", Name: "look", Arguments: "[1"}}}, result("c"), said("b"), user("c")}, true},
		"a result of nothing":           {[]adapter.Message{user("a"), call("c1"), {Role: adapter.ToolRole, ToolCallID: "c1"}, said("b"), user("c")}, true},
		"an answer to go on with":       {[]adapter.Message{user("a"), said("b ")}, false},
		"a user after the results":      {[]adapter.Message{user("a"), call("c1"), result("c1"), user("and then?")}, false},
	} {
		for _, model := range []string{"claude-haiku-4-5", "claude-sonnet-4-6", "claude-opus-5"} {
			for _, effort := range []string{"", "high", "none"} {
				for _, tools := range [][]adapter.Tool{nil, {{Name: "look"}}} {
					req := adapter.Request{Messages: row.messages, Tools: tools, Options: adapter.Options{Reasoning: adapter.Reasoning{Effort: effort}}}
					sent, requests, err := accepted(t, model, req, nil)
					if err != nil || requests != 1 {
						t.Errorf("%s, %s, %q: %d requests, %v, %v", name, model, effort, requests, err, errors.Unwrap(err))
						continue
					}
					thinks := strings.Contains(string(sent), `"thinking":{"type":"enabled"`) || strings.Contains(string(sent), `"thinking":{"type":"adaptive"`)
					if want := effort == "high" && (row.thinks || model != "claude-haiku-4-5") || effort == "" && model == "claude-opus-5"; thinks != want {
						t.Errorf("%s, %s, %q: thinking %v", name, model, effort, thinks)
					}
				}
			}
		}
	}
}

// MO-02: thinking of another maker's model that has no signature goes back to it.
func TestThinkingWithoutASignatureGoesBackToModelsThatGiveNone(t *testing.T) {
	turns, _ := sentFor(t, "deepseek-chat", adapter.Request{Messages: []adapter.Message{user("a"), {
		Role: adapter.Assistant, Content: "b", Made: &adapter.Made{Parts: []adapter.MadePart{
			{Type: adapter.PartReasoning, Text: "so"}, {Type: adapter.PartReasoning, Text: "it", Data: json.RawMessage(`{"signature":"a\/b"}`)}, {Type: adapter.PartText, Text: "b"},
		}},
	}}})
	want := []any{
		map[string]any{"type": "thinking", "thinking": "so", "signature": ""},
		map[string]any{"type": "thinking", "thinking": "it", "signature": "a/b"},
		map[string]any{"type": "text", "text": "b"},
	}
	if diff := cmp.Diff(want, turns[1]["content"]); diff != "" {
		t.Error(diff)
	}
}

// loop runs an agent of so many steps against the strict stand-in, and returns the bodies of its requests.
func loop(t *testing.T, model string, steps int, o adapter.Options) (bodies [][]byte) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		up := &fakeproviders.Server{Script: func(r fakeproviders.Request) fakeproviders.Answer {
			bodies = append(bodies, r.Body)
			a := fakeproviders.Answer{Reasoning: fmt.Sprintf("step <%d> & \"on\"\n", r.Attempt), Text: fmt.Sprintf("I look %d. ", r.Attempt)}
			if r.Attempt < steps {
				a.ToolCalls = []fakeproviders.ToolCall{
					{ID: fmt.Sprintf("toolu_%da", r.Attempt), Name: "look", Arguments: `{"q":"<1>"}`}, {ID: fmt.Sprintf("toolu_%db", r.Attempt), Name: "look", Arguments: `{}`},
				}
			}
			return a
		}}
		defer up.Close()
		m, err := newProvider(t, Options{BaseURL: "http://model.test", Transport: up.Transport()}).Model(model)
		if err != nil {
			t.Fatal(err)
		}
		history := []adapter.Message{{Role: adapter.System, Content: strings.Repeat("You are kind. ", 200)}, user("What is the weather?")}
		for range steps {
			var maker adapter.Maker
			msg := adapter.Message{Role: adapter.Assistant}
			req := adapter.Request{Messages: history, Tools: []adapter.Tool{{Name: "look", Description: strings.Repeat("It looks. ", 20)}}, Options: o}
			for c, err := range m.Stream(t.Context(), req) {
				if err != nil {
					t.Fatal(err, errors.Unwrap(err))
				}
				maker.Take(&c)
				msg.Content += c.Text
				if p := c.ToolCall; p != nil {
					if p.ID != "" {
						msg.ToolCalls = append(msg.ToolCalls, adapter.ToolCall{Index: p.Index})
					}
					call := &msg.ToolCalls[p.Index]
					call.ID, call.Name, call.Arguments = call.ID+p.ID, call.Name+p.Name, call.Arguments+p.Arguments
				}
			}
			msg.Made = maker.Made("anthropic:"+model, func(i int) string { return msg.ToolCalls[i].ID })
			raw, err := json.Marshal(msg) // the tape
			if err != nil {
				t.Fatal(err)
			}
			var kept adapter.Message
			if err := json.Unmarshal(raw, &kept); err != nil {
				t.Fatal(err)
			}
			history = append(history, kept)
			for _, c := range kept.ToolCalls {
				history = append(history, adapter.Message{Role: adapter.ToolRole, ToolCallID: c.ID, Content: strings.Repeat("Dry and hot. ", 10)})
			}
		}
		if up.Requests() != steps {
			t.Errorf("%d requests for %d steps", up.Requests(), steps)
		}
	})
	return bodies
}

// MO-02: an agent that thinks has its thinking back with each step, signed as it was: the stand-in refuses all else.
func TestAnAgentThatThinksIsNeverRefused(t *testing.T) {
	for _, model := range []string{"claude-haiku-4-5", "claude-sonnet-4-6", "claude-opus-4-7", "claude-opus-5"} {
		bodies := loop(t, model, 5, adapter.Options{Reasoning: adapter.Reasoning{Effort: "high"}})
		last := string(bodies[len(bodies)-1])
		for i := 1; i < 5; i++ {
			if !strings.Contains(last, fakeproviders.Signature(fmt.Sprintf("step <%d> & \"on\"\n", i))) {
				t.Errorf("%s: the signature of step %d is not in %s", model, i, last)
			}
		}
	}
}

// MO-24: what was sent before is sent again to the byte, and at most four breakpoints are there: an agent of eight steps reads 80 % from the cache.
func TestAnAgentReadsItsPromptFromTheCache(t *testing.T) {
	cached, read, all := map[string]bool{}, 0, 0
	for _, body := range loop(t, "claude-sonnet-4-6", 8, adapter.Options{Reasoning: adapter.Reasoning{Effort: "low"}}) {
		var in struct {
			Tools    []json.RawMessage
			System   []json.RawMessage
			Messages []struct {
				Role    string
				Content []json.RawMessage
			}
		}
		if err := json.Unmarshal(body, &in); err != nil {
			t.Fatal(err)
		}
		blocks := append(in.Tools, in.System...)
		for _, m := range in.Messages {
			blocks = append(append(blocks, json.RawMessage(m.Role)), m.Content...)
		}
		const mark = `,"cache_control":{"type":"ephemeral"}`
		prefix, hit, marks := "", 0, 0
		for _, b := range blocks {
			plain := strings.Replace(string(b), mark, "", 1)
			prefix += plain
			if plain == string(b) {
				continue
			}
			marks++
			if cached[prefix] {
				hit = len(prefix)
			}
			cached[prefix] = true
		}
		if marks < 3 || marks > 4 {
			t.Errorf("%d breakpoints", marks)
		}
		read, all = read+hit, all+len(prefix)
	}
	if share := float64(read) / float64(all); share < 0.8 {
		t.Errorf("%.0f %% of %d bytes", share*100, all)
	}
}

// MO-25: images, PDF and text files.
func TestFilesGoOutAsBlocks(t *testing.T) {
	b64 := base64.StdEncoding.EncodeToString
	for name, row := range map[string]struct{ part, want string }{
		"text":               {`{"type":"text","text":"a"}`, `{"type":"text","text":"a"}`},
		"an image":           {`{"type":"image_url","image_url":"data:image/png;base64,AAAA"}`, `{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AAAA"}}`},
		"an image's address": {`{"type":"image_url","image_url":"https://h/a.png"}`, `{"type":"image","source":{"type":"url","url":"https://h/a.png"}}`},
		"an image as a file": {`{"type":"file","file":"data:image/webp;base64,AAAA"}`, `{"type":"image","source":{"type":"base64","media_type":"image/webp","data":"AAAA"}}`},
		"a PDF":              {`{"type":"file","file":"data:application/pdf;base64,AAAA","name":"a.pdf"}`, `{"type":"document","title":"a.pdf","source":{"type":"base64","media_type":"application/pdf","data":"AAAA"}}`},
		"a PDF's address":    {`{"type":"file","file":"https://h/a.pdf"}`, `{"type":"document","source":{"type":"url","url":"https://h/a.pdf"}}`},
		"Markdown":           {`{"type":"file","file":"data:text/markdown;charset=utf-8;base64,` + b64([]byte("# é")) + `"}`, `{"type":"document","source":{"type":"text","media_type":"text/plain","data":"# é"}}`},
		"audio":              {`{"type":"file","file":"data:audio/mpeg;base64,AAAA"}`, "does not take audio"},
		"an unknown image":   {`{"type":"image_url","image_url":"data:image/tiff;base64,AAAA"}`, "does not take an image of another type"},
		"another address":    {`{"type":"image_url","image_url":"ftp://h/a.png"}`, "does not take an image that is neither"},
		"a file of bytes":    {`{"type":"file","file":"data:application/zip;base64,` + b64([]byte{0xff, 0xfe}) + `"}`, "does not take a file that is neither a PDF nor text"},
	} {
		t.Run(name, func(t *testing.T) {
			var part adapter.Part
			if err := json.Unmarshal([]byte(row.part), &part); err != nil {
				t.Fatal(err)
			}
			for _, role := range []string{adapter.User, adapter.ToolRole} {
				messages := []adapter.Message{{Role: adapter.User, Parts: []adapter.Part{part}}}
				path := `"role":"user","content":[`
				if role == adapter.ToolRole {
					messages = []adapter.Message{
						user("a"),
						{Role: adapter.Assistant, ToolCalls: []adapter.ToolCall{{ID: "c", Name: "look"}}},
						{Role: role, ToolCallID: "c", Parts: []adapter.Part{part}},
					}
					path = `"tool_use_id":"c","content":[`
				}
				sent, _, err := accepted(t, "claude-haiku-4-5", adapter.Request{Messages: messages}, nil)
				if e, ok := errors.AsType[*adapter.Error](err); ok {
					if e.Code != adapter.CodeInvalid || !strings.Contains(e.Message, row.want) {
						t.Errorf("%+v", e)
					}
					continue
				}
				if got := strings.ReplaceAll(string(sent), `,"cache_control":{"type":"ephemeral"}`, ""); !strings.Contains(got, path+row.want) {
					t.Errorf("%s", got)
				}
			}
		})
	}
}

// MO-30
func TestTheListOfModelsIsOnePage(t *testing.T) {
	asked := ""
	p := newProvider(t, Options{Key: "k", Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
		asked = r.URL.Path + "?" + r.URL.RawQuery
		return &http.Response{StatusCode: 200, Body: io.NopCloser(strings.NewReader(`{"data":[{"id":"a"},{"id":"b"},{"id":""}]}`))}, nil
	})})
	names, err := p.(adapter.Lister).List(t.Context())
	if strings.Join(names, " ") != "a b" || err != nil || asked != "/v1/models?limit=1000" {
		t.Errorf("%q %v %q", names, err, asked)
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// MO-04: a signature that is refused ends no session: with the rules around the model, the history goes without it.
func TestAChangedSignatureEndsNoSession(t *testing.T) {
	for _, model := range []string{"claude-haiku-4-5", "claude-opus-5"} {
		synctest.Test(t, func(t *testing.T) {
			up := &fakeproviders.Server{Script: func(fakeproviders.Request) fakeproviders.Answer { return fakeproviders.Answer{Text: "ok"} }}
			defer up.Close()
			var r adapter.Registry
			r.Register("anthropic", newProvider(t, Options{BaseURL: "http://model.test", Transport: up.Transport()}))
			m, err := r.Model("anthropic:" + model)
			if err != nil {
				t.Fatal(err)
			}
			req := adapter.Request{
				Messages: []adapter.Message{user("a"), {
					Role: adapter.Assistant, ToolCalls: []adapter.ToolCall{{ID: "c", Name: "look", Arguments: "{}"}},
					Made: &adapter.Made{Model: "anthropic:" + model, Parts: []adapter.MadePart{{Type: adapter.PartReasoning, Text: "so", Data: json.RawMessage(`{"signature":"x"}`)}}},
				}, {Role: adapter.ToolRole, ToolCallID: "c", Content: "dry"}},
				Tools: []adapter.Tool{{Name: "look"}}, Options: adapter.Options{Reasoning: adapter.Reasoning{Effort: "high"}},
			}
			text := ""
			for c, err := range m.Stream(t.Context(), req) {
				if err != nil {
					t.Fatal(err, errors.Unwrap(err))
				}
				text += c.Text
			}
			if text != "ok" || up.Requests() != 2 {
				t.Errorf("%s: %q after %d requests", model, text, up.Requests())
			}
		})
	}
}
