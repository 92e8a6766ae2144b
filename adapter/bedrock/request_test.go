package bedrock

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/internal/fakeproviders"
)

var question = []adapter.Message{{Role: adapter.User, Content: "Why?"}}

var look = []adapter.Tool{{Name: "look", Description: "Looks.", Parameters: json.RawMessage(`{"type":"object","properties":{"q":{"type":"string"}}}`)}}

// bodyOf returns the request's body as it is sent first.
func bodyOf(t *testing.T, name string, req adapter.Request) string {
	t.Helper()
	m, err := newProvider(t, Options{Key: "test-key"}, AWS{Region: "us-east-1"}).Model(name)
	if err != nil {
		t.Fatal(err)
	}
	own := m.(*model)
	body, err := (&asking{model: own}).request(&req)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func reasoning(effort string) adapter.Options {
	return adapter.Options{Reasoning: adapter.Reasoning{Effort: effort}}
}

func with(o adapter.Options, change func(*adapter.Options)) adapter.Options {
	change(&o)
	return o
}

// MO-22, MO-23, MO-24: each option in Bedrock's words.
func TestRequestsSayWhatIsAsked(t *testing.T) {
	const (
		why   = `"messages":[{"role":"user","content":[{"text":"Why?"}]}]`
		whyAt = `"messages":[{"role":"user","content":[{"text":"Why?"},{"cachePoint":{"type":"default"}}]}]`
		spec  = `{"toolSpec":{"description":"Looks.","inputSchema":{"json":{"type":"object","properties":{"q":{"type":"string"}}}},"name":"look"}}`
		point = `{"cachePoint":{"type":"default"}}`
	)
	for _, row := range []struct {
		name, model string
		req         adapter.Request
		want        string
	}{
		{"a question", gptoss, adapter.Request{Messages: question}, `{` + why + `}`},
		{"cache points of Claude", haiku, adapter.Request{
			Messages: append([]adapter.Message{{Role: adapter.System, Content: "Be kind."}}, question...), Tools: look,
		}, `{` + whyAt + `,"system":[{"text":"Be kind."},` + point + `],"toolConfig":{"tools":[` + spec + `,` + point + `]}}`},
		{"cache points of Nova", lite, adapter.Request{Messages: question, Tools: look}, `{` + whyAt + `,"toolConfig":{"tools":[` + spec + `]}}`},
		{"options", gptoss, adapter.Request{Messages: question, Options: adapter.Options{
			Temperature: new(0.0), TopP: new(0.5), MaxTokens: new(7), Stop: []string{"."}, ServiceTier: "flex", Seed: new(1),
		}}, `{"inferenceConfig":{"maxTokens":7,"stopSequences":["."],"temperature":0,"topP":0.5},` + why + `,"serviceTier":{"type":"flex"}}`},
		{
			"a tool that must be called", gptoss,
			adapter.Request{Messages: question, Tools: look, Options: adapter.Options{ToolChoice: "required"}},
			`{` + why + `,"toolConfig":{"toolChoice":{"any":{}},"tools":[` + spec + `]}}`,
		},
		{
			"one tool", gptoss,
			adapter.Request{Messages: question, Tools: look, Options: adapter.Options{ToolChoice: "look"}},
			`{` + why + `,"toolConfig":{"toolChoice":{"tool":{"name":"look"}},"tools":[` + spec + `]}}`,
		},
		{"no tool", gptoss, adapter.Request{Messages: question, Tools: look, Options: adapter.Options{ToolChoice: "none"}}, `{` + why + `}`},
		{
			"one call at a time", haiku,
			adapter.Request{Messages: question, Tools: look, Options: adapter.Options{ParallelToolCalls: new(false), ToolChoice: "auto"}},
			`{"additionalModelRequestFields":{"tool_choice":{"disable_parallel_tool_use":true,"type":"auto"}},` + whyAt + `,"toolConfig":{"tools":[` + spec + `,` + point + `]}}`,
		},
		{
			"Claude thinks by a budget", haiku,
			adapter.Request{Messages: question, Options: with(reasoning("low"), func(o *adapter.Options) { o.Temperature, o.TopP = new(0.5), new(0.5) })},
			`{"additionalModelRequestFields":{"thinking":{"type":"enabled","budget_tokens":2048}},` + whyAt + `}`,
		},
		{
			"within the tokens of the answer", haiku,
			adapter.Request{Messages: question, Options: with(reasoning("high"), func(o *adapter.Options) { o.MaxTokens = new(4000) })},
			`{"additionalModelRequestFields":{"thinking":{"type":"enabled","budget_tokens":2000}},"inferenceConfig":{"maxTokens":4000},` + whyAt + `}`,
		},
		{
			"no room to think", haiku,
			adapter.Request{Messages: question, Options: with(reasoning("high"), func(o *adapter.Options) { o.MaxTokens = new(500) })},
			`{"inferenceConfig":{"maxTokens":500},` + whyAt + `}`,
		},
		{"no thinking", haiku, adapter.Request{Messages: question, Options: reasoning("none")}, `{` + whyAt + `}`},
		{
			"a forced tool and thinking", haiku,
			adapter.Request{Messages: question, Tools: look, Options: with(reasoning("high"), func(o *adapter.Options) { o.ToolChoice = "required" })},
			`{` + whyAt + `,"toolConfig":{"toolChoice":{"any":{}},"tools":[` + spec + `,` + point + `]}}`,
		},
		{
			"Claude decides how long it thinks", opus,
			adapter.Request{Messages: question, Options: reasoning("xhigh")},
			`{"additionalModelRequestFields":{"output_config":{"effort":"max"},"thinking":{"type":"adaptive","display":"summarized"}},` + whyAt + `}`,
		},
		{
			"and is not shown", opus,
			adapter.Request{Messages: question, Options: adapter.Options{Reasoning: adapter.Reasoning{Budget: new(3000), Show: new(false)}}},
			`{"additionalModelRequestFields":{"output_config":{"effort":"medium"},"thinking":{"type":"adaptive","display":"omitted"}},` + whyAt + `}`,
		},
		{
			"Nova thinks", lite,
			adapter.Request{Messages: question, Options: with(reasoning("high"), func(o *adapter.Options) { o.Temperature, o.MaxTokens = new(0.5), new(5) })},
			`{"additionalModelRequestFields":{"reasoningConfig":{"maxReasoningEffort":"high","type":"enabled"}},` + whyAt + `}`,
		},
		{
			"gpt-oss thinks", gptoss,
			adapter.Request{Messages: question, Options: reasoning("minimal")},
			`{"additionalModelRequestFields":{"reasoning_effort":"low"},` + why + `}`,
		},
		{
			"a schema (MO-23)", gptoss,
			adapter.Request{Messages: question, Format: adapter.Format{JSON: true, Name: "a b", Schema: json.RawMessage(`{"type":"object","properties":{"z":{"type":"number","minimum":1},"a":{"type":"string"}}}`)}},
			`{` + why + `,"outputConfig":{"textFormat":{"structure":{"jsonSchema":{"name":"a_b","schema":"{\"type\":\"object\",\"properties\":{\"z\":{\"type\":\"number\"},\"a\":{\"type\":\"string\"}},\"additionalProperties\":false}"}},"type":"json_schema"}}}`,
		},
		{"a schema that is not strict", gptoss, adapter.Request{Messages: question, Format: adapter.Format{JSON: true, Schema: json.RawMessage(`{"type":"object"}`)}}, `{` + why + `}`},
		{"more members", gptoss, adapter.Request{Messages: question, Tools: look, Options: adapter.Options{MaxTokens: new(7), ExtraBody: map[string]json.RawMessage{
			"additionalModelRequestFields": json.RawMessage(`{"top_k":5}`), "performanceConfig": json.RawMessage(`{"latency":"optimized"}`), "inferenceConfig": json.RawMessage(`{"topP":0.1}`),
			"toolConfig": json.RawMessage(`{"tools":[{"systemTool":{"name":"nova_grounding"}}]}`),
		}}}, `{"additionalModelRequestFields":{"top_k":5},"inferenceConfig":{"maxTokens":7,"topP":0.1},` + why +
			`,"performanceConfig":{"latency":"optimized"},"toolConfig":{"tools":[` + spec + `,{"systemTool":{"name":"nova_grounding"}}]}}`},
		{"files (MO-25)", gptoss, adapter.Request{Messages: []adapter.Message{{Role: adapter.User, Parts: []adapter.Part{
			{Type: "image_url", Image: "data:image/png;base64,iVBO"},
			{Type: "file", File: "data:application/pdf;base64,JVBE", Name: "My  report_2 (final).pdf"},
			{Type: "file", File: "data:text/plain;base64,YSBi", Name: "My report 2 (final).txt"},
		}}}}, `{"messages":[{"role":"user","content":[{"image":{"format":"png","source":{"bytes":"iVBO"}}},` +
			`{"document":{"format":"pdf","name":"My report 2 (final)","source":{"bytes":"JVBE"}}},` +
			`{"document":{"format":"txt","name":"My report 2 (final) (2)","source":{"bytes":"YSBi"}}},{"text":"(see the file)"}]}]}`},
		{"results of tools, one with an image", gptoss, adapter.Request{Messages: []adapter.Message{
			question[0],
			{Role: adapter.Assistant, ToolCalls: []adapter.ToolCall{{ID: "c1", Name: "look", Arguments: `{"q":"a"}`}, {ID: "call|2", Name: "look", Arguments: ``}}},
			{Role: adapter.ToolRole, ToolCallID: "c1", Content: " "},
			{Role: adapter.ToolRole, ToolCallID: "call|2", Parts: []adapter.Part{{Type: "image_url", Image: "data:image/jpeg;base64,/9j/"}}},
		}}, `{"messages":[{"role":"user","content":[{"text":"Why?"}]},{"role":"assistant","content":[{"toolUse":{"input":{"q":"a"},"name":"look","toolUseId":"c1"}},` +
			`{"toolUse":{"input":{},"name":"look","toolUseId":"call_2"}}]},` +
			`{"role":"user","content":[{"toolResult":{"content":[{"text":"(no output)"}],"toolUseId":"c1"}},` +
			`{"toolResult":{"content":[{"image":{"format":"jpeg","source":{"bytes":"/9j/"}}}],"toolUseId":"call_2"}}]}],` +
			`"toolConfig":{"tools":[{"toolSpec":{"description":"This tool is not available any more.","inputSchema":{"json":{"type":"object","properties":{}}},"name":"look"}}]}}`},
	} {
		t.Run(row.name, func(t *testing.T) {
			if diff := cmp.Diff(row.want, bodyOf(t, row.model, row.req)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// MO-25: what Bedrock cannot take is refused before it is asked.
func TestFilesThatBedrockDoesNotTakeAreRefused(t *testing.T) {
	m, err := newProvider(t, Options{Key: "test-key"}, AWS{Region: "us-east-1"}).Model(haiku)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []adapter.Part{
		{Type: "image_url", Image: "https://example.org/a.png"},
		{Type: "file", File: "https://example.org/a.pdf"},
		{Type: "image_url", Image: "data:image/tiff;base64,AAAA"},
		{Type: "file", File: "data:application/zip;base64,AAAA"},
	} {
		for _, err := range m.Stream(t.Context(), adapter.Request{Messages: []adapter.Message{{Role: adapter.User, Parts: []adapter.Part{part}}}}) {
			if e, ok := errors.AsType[*adapter.Error](err); !ok || e.Code != adapter.CodeInvalid || e.Cause == nil {
				t.Errorf("%+v: %v", part, err)
			}
		}
	}
}

// MO-01, MO-02: an agent that thinks goes on with its tools: the strict stand-in refuses a changed or missing signature. Without what was
// made, as in a history of another model, the request is accepted as well.
func TestAnAgentThatThinksIsNotRefused(t *testing.T) {
	for _, kept := range []bool{true, false} {
		t.Run(fmt.Sprintf("kept %v", kept), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var bodies []string
				up := &fakeproviders.Server{Script: func(r fakeproviders.Request) fakeproviders.Answer {
					bodies = append(bodies, string(r.Body))
					if r.Attempt > 8 {
						return fakeproviders.Answer{Text: "done"}
					}
					return fakeproviders.Answer{Reasoning: "I <think> é\n", Text: "I look", ToolCalls: []fakeproviders.ToolCall{
						{ID: fmt.Sprint("c", 2*r.Attempt), Name: "look", Arguments: `{"q":"<a>"}`}, {ID: fmt.Sprint("c", 2*r.Attempt+1), Name: "look", Arguments: `{}`},
					}}
				}}
				defer up.Close()
				m, err := newProvider(t, Options{Transport: up.Transport(), BaseURL: "http://model.test", Key: "test-key"}, AWS{}).Model(haiku)
				if err != nil {
					t.Fatal(err)
				}
				req := adapter.Request{Messages: question, Tools: look, Options: reasoning("high")}
				for range 9 {
					msg, err := collect(t, m, req)
					if err != nil {
						t.Fatal(errors.Unwrap(err))
					}
					if !kept {
						msg.Made = nil
					}
					req.Messages = append(req.Messages, msg)
					for _, c := range msg.ToolCalls {
						req.Messages = append(req.Messages, adapter.Message{Role: adapter.ToolRole, ToolCallID: c.ID, Content: "seen"})
					}
				}
				last := bodies[len(bodies)-1]
				if len(bodies) != 9 || kept != strings.Contains(last, fakeproviders.Signature("I <think> é\n")) || kept != strings.Contains(last, "budget_tokens") {
					t.Errorf("%d requests: %s", len(bodies), last)
				}
				// MO-24: each request begins as the one before, up to its cache points.
				for i := 1; i < len(bodies); i++ {
					bare := func(s string) string {
						s = strings.ReplaceAll(s, `,{"cachePoint":{"type":"default"}}`, "")
						s, _, _ = strings.Cut(s[strings.Index(s, `"messages"`):], `],"toolConfig"`)
						return s
					}
					if a, b := bare(bodies[i-1]), bare(bodies[i]); !strings.HasPrefix(b, a) {
						t.Errorf("not the same beginning:\n%s\n%s", a, b)
					}
				}
			})
		})
	}
}

// MO-02: redacted reasoning, reasoning whose text is not shown, and blocks of Bedrock's own tools go back as they came, in their places.
func TestOpaquePartsGoBackAsTheyCame(t *testing.T) {
	var stream []byte
	add := func(name, members string) {
		stream = fakeproviders.AppendFrame(stream, "event", name, "{"+members+"}")
	}
	delta := func(block int, members string) {
		add("contentBlockDelta", fmt.Sprintf(`"contentBlockIndex":%d,"delta":{%s}`, block, members))
	}
	stop := func(block int) { add("contentBlockStop", fmt.Sprintf(`"contentBlockIndex":%d`, block)) }
	add("messageStart", `"role":"assistant"`)
	delta(0, `"reasoningContent":{"redactedContent":"AQID"}`)
	delta(0, `"reasoningContent":{"redactedContent":"BAU="}`)
	stop(0)
	delta(1, `"reasoningContent":{"text":"so"}`)
	delta(1, `"reasoningContent":{"signature":"c2ln"}`)
	delta(1, `"reasoningContent":{"signature":"bmVk"}`)
	stop(1)
	delta(2, `"reasoningContent":{"signature":"aGlkZGVu"}`)
	stop(2)
	add("contentBlockStart", `"contentBlockIndex":3,"start":{"toolUse":{"name":"nova_grounding","toolUseId":"s1","type":"server_tool_use"}}`)
	delta(3, `"toolUse":{"input":"{\"query\":\"é\"}"}`)
	stop(3)
	add("contentBlockStart", `"contentBlockIndex":4,"start":{"toolResult":{"status":"success","toolUseId":"s1","type":"nova_grounding_result"}}`)
	delta(4, `"toolResult":[{"text":"found"}]`)
	delta(4, `"toolResult":[{"json":{"b":1,"a":2}}]`)
	stop(4)
	delta(5, `"text":"It is"`)
	stop(5)
	add("contentBlockStart", `"contentBlockIndex":6,"start":{"toolUse":{"name":"look","toolUseId":"c1"}}`)
	delta(6, `"toolUse":{"input":"{\"q\":"}`)
	delta(6, `"toolUse":{"input":"\"a\"}"}`)
	stop(6)
	add("contentBlockStart", `"contentBlockIndex":7,"start":{"somethingNew":{}}`)
	delta(7, `"somethingNew":{}`)
	stop(7)
	add("somethingNew", `"a":1`)
	add("messageStop", `"stopReason":"tool_use"`)
	add("metadata", `"usage":{"inputTokens":5,"outputTokens":7,"totalTokens":112,"cacheReadInputTokens":90,"cacheWriteInputTokens":10}`)
	r, msg := readOurs(t, haiku, streaming(bytes.NewReader(stream)))
	if r.Text != "It is" || r.Reasoning != "so" || len(r.Calls) != 1 || r.Finish != adapter.FinishToolCalls {
		t.Errorf("%+v", r)
	}
	if want := (adapter.Usage{PromptTokens: 105, CompletionTokens: 7, TotalTokens: 112, CachedTokens: 90, CacheWriteTokens: 10}); r.Usage != want {
		t.Errorf("usage %+v", r.Usage)
	}
	data, err := json.Marshal(msg) // as a tape keeps it
	if err == nil {
		msg = adapter.Message{}
		err = json.Unmarshal(data, &msg)
	}
	if err != nil {
		t.Fatal(err)
	}
	body := bodyOf(t, haiku, adapter.Request{Messages: []adapter.Message{question[0], msg, {Role: adapter.ToolRole, ToolCallID: "c1", Content: "seen"}}, Tools: look})
	want := `{"role":"assistant","content":[{"reasoningContent":{"redactedContent":"AQIDBAU="}},` +
		`{"reasoningContent":{"reasoningText":{"signature":"c2lnbmVk","text":"so"}}},` +
		`{"reasoningContent":{"reasoningText":{"signature":"aGlkZGVu","text":""}}},` +
		`{"toolUse":{"name":"nova_grounding","toolUseId":"s1","type":"server_tool_use","input":{"query":"é"}}},` +
		`{"toolResult":{"status":"success","toolUseId":"s1","type":"nova_grounding_result","content":[{"text":"found"},{"json":{"b":1,"a":2}}]}},` +
		`{"text":"It is"},{"toolUse":{"input":{"q":"a"},"name":"look","toolUseId":"c1"}}]}`
	if !strings.Contains(body, want) {
		t.Errorf("%s\nhas not\n%s", body, want)
	}
}

// Histories that a provider would refuse become such as the strict stand-in takes.
func TestHistoriesOfAllSortsAreAccepted(t *testing.T) {
	call := func(ids ...string) adapter.Message {
		m := adapter.Message{Role: adapter.Assistant}
		for _, id := range ids {
			m.ToolCalls = append(m.ToolCalls, adapter.ToolCall{ID: id, Name: "lo ok", Arguments: `[1]`})
		}
		return m
	}
	user, tool := adapter.Message{Role: adapter.User, Content: "hi"}, func(id string) adapter.Message {
		return adapter.Message{Role: adapter.ToolRole, ToolCallID: id, Content: "seen"}
	}
	for name, messages := range map[string][]adapter.Message{
		"nothing":                          nil,
		"blanks":                           {{Role: adapter.User, Content: " "}, {Role: adapter.Assistant, Content: "\n"}, {Role: adapter.User}},
		"an assistant first":               {{Role: adapter.Assistant, Content: "a"}, user},
		"a call without a result":          {user, call("a", "b"), tool("b"), user},
		"a call at the end":                {user, call("a")},
		"a result without a call":          {user, tool("x"), user},
		"results in another order":         {user, call("a", "b"), tool("b"), tool("a")},
		"the same result twice":            {user, call("a"), tool("a"), tool("a")},
		"ids of another provider":          {user, call("call_1|fc_2", strings.Repeat("é", 90)), tool("call_1|fc_2"), tool(strings.Repeat("é", 90))},
		"two assistants":                   {user, {Role: adapter.Assistant, Content: "a"}, {Role: adapter.Assistant, Content: "b"}, user},
		"reasoning alone":                  {user, {Role: adapter.Assistant, Made: &adapter.Made{Parts: []adapter.MadePart{{Type: adapter.PartReasoning, Text: "so", Data: json.RawMessage(`{"signature":"` + fakeproviders.Signature("so") + `"}`)}}}}, user},
		"reasoning without its signature":  {user, {Role: adapter.Assistant, Content: "a", Made: &adapter.Made{Parts: []adapter.MadePart{{Type: adapter.PartReasoning, Text: "so"}}}}, user},
		"text that was made, and the same": {user, {Role: adapter.Assistant, Content: "a", Made: &adapter.Made{Parts: []adapter.MadePart{{Type: adapter.PartText, Text: "a"}}}}, user},
	} {
		for _, effort := range []string{"", "low"} {
			t.Run(name+effort, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					up := &fakeproviders.Server{Script: func(fakeproviders.Request) fakeproviders.Answer { return fakeproviders.Answer{Text: "ok"} }}
					defer up.Close()
					m, err := newProvider(t, Options{Transport: up.Transport(), BaseURL: "http://model.test", Key: "test-key"}, AWS{}).Model(haiku)
					if err != nil {
						t.Fatal(err)
					}
					if msg, err := collect(t, m, adapter.Request{Messages: messages, Options: reasoning(effort)}); err != nil || msg.Content != "ok" {
						t.Error(errors.Unwrap(err))
					}
				})
			})
		}
	}
}

// MO-04, MO-23, MO-24: what the adapter adds by itself is left out of the request that a model has refused for it, and of no other.
func TestARefusedAdditionIsLeftOutOfTheSameRequest(t *testing.T) {
	history := []adapter.Message{
		{Role: adapter.System, Content: "Be kind."},
		question[0],
		{Role: adapter.Assistant, ToolCalls: []adapter.ToolCall{{ID: "c1", Name: "look", Arguments: "{}"}}, Made: &adapter.Made{Parts: []adapter.MadePart{
			{Type: adapter.PartReasoning, Text: "so", Data: json.RawMessage(`{"signature":"c2ln"}`)}, {Type: adapter.PartCall, Call: "c1"},
		}}},
		{Role: adapter.ToolRole, ToolCallID: "c1", Content: "seen"},
		{Role: adapter.User, Content: "And now?"},
	}
	for _, row := range []struct {
		said, model string
		status      int
		unless      string // it is in the body, the request is refused
	}{
		{"The model returned the following errors: Malformed input request: #/toolConfig/tools/18: extraneous key [cachePoint] is not permitted", haiku, 400, `cachePoint`},
		{"You invoked an unsupported model or your request did not allow prompt caching.", haiku, 403, `cachePoint`},
		{"The model returned the following errors: output_config.format: Extra inputs are not permitted", haiku, 400, `outputConfig`},
		{"thinking.adaptive.display: Extra inputs are not permitted", opus, 400, `display`},
		{"This model doesn't support system messages. Try again without a system message or use a model that supports system messages.", gptoss, 400, `"system":`},
		{"The model returned the following errors: messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found `tool_use`.", haiku, 400, "budget_tokens"},
		{"messages.2.content: Conversation blocks and tool result blocks cannot be provided in the same turn.", haiku, 400, `"toolUseId":"c1"}},{"text"`},
	} {
		t.Run(row.said, func(t *testing.T) {
			requests := 0
			m := modelAt(t, row.model, transport(func(r *http.Request) (*http.Response, error) {
				requests++
				if body, _ := io.ReadAll(r.Body); strings.Contains(string(body), row.unless) {
					return refusing(row.status, row.said).RoundTrip(r)
				}
				return streaming(whole()).RoundTrip(r)
			}))
			req := adapter.Request{
				Messages: history, Tools: look, Options: reasoning("low"),
				Format: adapter.Format{JSON: true, Schema: json.RawMessage(`{"type":"object","properties":{"a":{"type":"string"}}}`)},
			}
			for n := range 2 {
				if _, err := collect(t, m, req); err != nil || requests != 2*(n+1) {
					t.Errorf("%d requests, %v", requests, err)
				}
			}
		})
	}
}

// MO-22: an option that the user has set is not left out.
func TestARefusedOptionIsAnError(t *testing.T) {
	requests := 0
	m := modelAt(t, gptoss, transport(func(r *http.Request) (*http.Response, error) {
		requests++
		return refusing(400, "`temperature` is deprecated for this model.").RoundTrip(r)
	}))
	_, err := collect(t, m, adapter.Request{Messages: question, Options: adapter.Options{Temperature: new(0.5)}})
	if e, ok := errors.AsType[*adapter.Error](err); !ok || e.Status != 400 || requests != 1 {
		t.Errorf("%d requests, %v", requests, err)
	}
}

type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestWhichClaudesDecideHowLongTheyThink(t *testing.T) {
	var got []string
	for _, name := range []string{
		"anthropic.claude-3-haiku-20240307-v1:0", "anthropic.claude-v2:1", "anthropic.claude-instant-v1", "us.anthropic.claude-3-7-sonnet-20250219-v1:0",
		"us.anthropic.claude-sonnet-4-20250514-v1:0", "us.anthropic.claude-opus-4-1-20250805-v1:0", haiku, "global.anthropic.claude-opus-4-5-20251101-v1:0",
		opus, "anthropic.claude-sonnet-4-6", "anthropic.claude-opus-4-7", "anthropic.claude-opus-5", "anthropic.claude-mythos-preview", "anthropic.claude-fable-5",
	} {
		if strings.Contains(bodyOf(t, name, adapter.Request{Messages: question, Options: reasoning("low")}), `"adaptive"`) {
			got = append(got, name)
		}
	}
	want := []string{opus, "anthropic.claude-sonnet-4-6", "anthropic.claude-opus-4-7", "anthropic.claude-opus-5", "anthropic.claude-mythos-preview", "anthropic.claude-fable-5"}
	if !slices.Equal(want, got) {
		t.Errorf("%q", got)
	}
}
