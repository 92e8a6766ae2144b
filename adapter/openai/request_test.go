package openai

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/adaptertest"
	"github.com/lingserve/lingserve/adapter/wire"
	"github.com/lingserve/lingserve/internal/fakeproviders"
)

// sent returns the body that a request has on the wire.
func sent(t *testing.T, o Options, name string, req adapter.Request) string {
	t.Helper()
	p, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	m, err := p.Model(name)
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal((&asking{model: m.(*model)}).request(&req))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestARequestInTheWordsOfTheFormat(t *testing.T) {
	user := []adapter.Message{{Role: adapter.User, Content: "hi"}}
	const head = `{"model":"m","stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"hi"}]`
	for _, row := range []struct {
		name  string
		model string
		req   adapter.Request
		want  string
	}{
		{"as little as possible", "m", adapter.Request{Messages: user}, head + `}`},
		{
			"all options, zeros included", "m",
			adapter.Request{
				Messages: user, Options: adapter.Options{Temperature: new(0.0), TopP: new(0.25), MaxTokens: new(100), Stop: []string{"END"}, Seed: new(0)},
				Params: map[string]any{"secret": "of the caller"},
			},
			`{"model":"m","max_tokens":100,"stream":true,"stop":["END"],"seed":0,"stream_options":{"include_usage":true},` +
				`"messages":[{"role":"user","content":"hi"}],"temperature":0,"top_p":0.25}`,
		},
		{
			"a model that reasons", "o3-mini",
			adapter.Request{Messages: user, Options: adapter.Options{MaxTokens: new(100)}},
			`{"model":"o3-mini","max_completion_tokens":100,"stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"hi"}]}`,
		},
		{
			"any JSON", "m",
			adapter.Request{Messages: user, Format: adapter.Format{JSON: true}},
			strings.Replace(head, `"stream_options"`, `"response_format":{"type":"json_object"},"stream_options"`, 1) + `}`,
		},
		{
			"JSON of a schema", "m",
			adapter.Request{Messages: user, Format: adapter.Format{JSON: true, Name: "an article!", Schema: json.RawMessage(`{"type": "object"}`)}},
			strings.Replace(head, `"stream_options"`, `"response_format":{"type":"json_schema","json_schema":{"name":"an_article_","schema":{"type":"object"},"strict":false}},"stream_options"`, 1) + `}`,
		},
		{
			"tools", "m",
			adapter.Request{Messages: user, Tools: []adapter.Tool{{Name: "f", Description: "does", Parameters: json.RawMessage(`{"type":"object"}`)}, {Name: "g"}}},
			strings.Replace(head, `"stream_options"`, `"tools":[{"function":{"name":"f","description":"does","parameters":{"type":"object","properties":{}}},"type":"function"},`+
				`{"function":{"name":"g","parameters":{"type":"object","properties":{}}},"type":"function"}],"stream_options"`, 1) + `}`,
		},
		{"a conversation with images, calls and empty texts", "m", adapter.Request{Messages: []adapter.Message{
			{Role: adapter.System, Content: ""},
			{Role: adapter.User, Content: "not sent beside parts", Parts: []adapter.Part{{Type: "text", Text: "see"}, {Type: "image_url", Image: "data:image/png;base64,AA=="}, {Type: "text"}}},
			{Role: adapter.Assistant, ToolCalls: []adapter.ToolCall{{ID: "a", Name: "f", Arguments: "{}"}}},
			{Role: adapter.ToolRole, ToolCallID: "a", Content: ""},
		}}, `{"model":"m","stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"system","content":""},` +
			`{"role":"user","content":[{"type":"text","text":"see"},{"type":"image_url","image_url":{"url":"data:image/png;base64,AA=="}}]},` +
			`{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}]},` +
			`{"role":"tool","content":"","tool_call_id":"a"}]}`},
		{"no messages", "m", adapter.Request{}, `{"model":"m","stream":true,"stream_options":{"include_usage":true},"messages":[]}`},
	} {
		t.Run(row.name, func(t *testing.T) {
			if diff := cmp.Diff(row.want, sent(t, Options{}, row.model, row.req)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// MO-22, MO-23, MO-24, MO-25: options, strict schemas and files, in the words of each server.
func TestOptionsInTheWordsOfEachServer(t *testing.T) {
	user := []adapter.Message{{Role: adapter.User, Content: "hi"}}
	tools := []adapter.Tool{{Name: "f"}}
	const strict = `{"type":"object","properties":{"a":{"type":"string"}},"required":["a"],"additionalProperties":false}`
	openai, other := "https://api.openai.com/v1", "https://llm.example.com/v1"
	for _, row := range []struct {
		name, url string
		req       adapter.Request
		want      []string // members
		not       []string
	}{
		{"penalties, verbosity, tier", other, adapter.Request{Options: adapter.Options{FrequencyPenalty: new(0.0), PresencePenalty: new(-0.5), Verbosity: "low", ServiceTier: "flex"}}, []string{`"frequency_penalty":0`, `"presence_penalty":-0.5`, `"verbosity":"low"`, `"service_tier":"flex"`}, nil},
		{"choices of tools", other, adapter.Request{Tools: tools, Options: adapter.Options{ToolChoice: "required", ParallelToolCalls: new(false)}}, []string{`"tool_choice":"required"`, `"parallel_tool_calls":false`}, nil},
		{"a tool by its name", other, adapter.Request{Tools: tools, Options: adapter.Options{ToolChoice: "f"}}, []string{`"tool_choice":{"type":"function","function":{"name":"f"}}`}, nil},
		{"no tools", other, adapter.Request{Options: adapter.Options{ToolChoice: "required", ParallelToolCalls: new(false)}}, nil, []string{"tool_choice", "parallel_tool_calls"}},
		{"members of one's own", other, adapter.Request{Options: adapter.Options{Temperature: new(1.0), ExtraBody: map[string]json.RawMessage{"temperature": json.RawMessage("0"), "provider": json.RawMessage(`{"order":["x"]}`)}}}, []string{`"temperature":0`, `"provider":{"order":["x"]}`}, []string{`"temperature":1`}},
		{"effort", other, adapter.Request{Options: adapter.Options{Reasoning: adapter.Reasoning{Effort: "high"}}}, []string{`"reasoning_effort":"high"`}, nil},
		{"a budget", other, adapter.Request{Options: adapter.Options{Reasoning: adapter.Reasoning{Budget: new(4000)}}}, []string{`"reasoning_effort":"medium"`}, nil},
		{"effort at OpenRouter", "https://openrouter.ai/api/v1", adapter.Request{Options: adapter.Options{Reasoning: adapter.Reasoning{Effort: "high", Show: new(false)}}}, []string{`"reasoning":{"effort":"high","exclude":true}`}, []string{"reasoning_effort"}},
		{"a budget at OpenRouter", "https://openrouter.ai/api/v1", adapter.Request{Options: adapter.Options{Reasoning: adapter.Reasoning{Budget: new(4000)}}}, []string{`"reasoning":{"max_tokens":4000}`}, nil},
		{"effort at DeepSeek", "https://api.deepseek.com", adapter.Request{Options: adapter.Options{Reasoning: adapter.Reasoning{Effort: "high"}}}, []string{`"thinking":{"type":"enabled"}`}, nil},
		{"no effort at Z.ai", "https://api.z.ai/api/paas/v4", adapter.Request{Options: adapter.Options{Reasoning: adapter.Reasoning{Effort: "none"}}}, []string{`"thinking":{"type":"disabled"}`}, nil},
		{"a budget at Qwen", "https://dashscope-intl.aliyuncs.com/compatible-mode/v1", adapter.Request{Options: adapter.Options{Reasoning: adapter.Reasoning{Budget: new(4000)}}}, []string{`"enable_thinking":true`, `"thinking_budget":4000`}, nil},
		{"a key for the cache", openai, adapter.Request{CacheKey: "k"}, []string{`"prompt_cache_key":"k"`}, nil},
		{"a strict schema", other, adapter.Request{Format: adapter.Format{JSON: true, Schema: json.RawMessage(strict)}}, []string{`"strict":true`}, nil},
		{"a PDF", other, adapter.Request{Messages: []adapter.Message{{Role: adapter.User, Parts: []adapter.Part{{Type: "file", File: "data:application/pdf;base64,AA==", Name: "a.pdf"}}}}}, []string{`{"type":"file","file":{"filename":"a.pdf","file_data":"data:application/pdf;base64,AA=="}}`}, nil},
		{"a sound", other, adapter.Request{Messages: []adapter.Message{{Role: adapter.User, Parts: []adapter.Part{{Type: "file", File: "data:audio/mpeg;base64,AA=="}}}}}, []string{`{"type":"input_audio","input_audio":{"data":"AA==","format":"mp3"}}`}, nil},
	} {
		t.Run(row.name, func(t *testing.T) {
			if row.req.Messages == nil {
				row.req.Messages = user
			}
			p, err := New(Options{BaseURL: row.url})
			if err != nil {
				t.Fatal(err)
			}
			m, err := p.Model("m")
			if err != nil {
				t.Fatal(err)
			}
			body, err := wire.Body((&asking{model: m.(*model)}).request(&row.req), row.req.ExtraBody)
			if err != nil || !json.Valid(body) {
				t.Fatalf("%v %s", err, body)
			}
			for _, want := range row.want {
				if !strings.Contains(string(body), want) {
					t.Errorf("%s is not in %s", want, body)
				}
			}
			for _, not := range row.not {
				if strings.Contains(string(body), not) {
					t.Errorf("%s is in %s", not, body)
				}
			}
		})
	}
}

func TestFamiliesThatReason(t *testing.T) {
	for name, want := range map[string]bool{
		"o1": true, "o1-mini": true, "o3": true, "o4-mini": true, "gpt-5": true, "gpt-5.1": true, "gpt-5-nano": true, "openai/o3": true,
		"gpt-4o": false, "o10": false, "gpt-50": false, "llama-o1": false, "": false,
	} {
		if reasons(name) != want {
			t.Errorf("%q: %v", name, !want)
		}
	}
}

func TestASchemaIsNamedAsTheAPIWantsIt(t *testing.T) {
	for name, want := range map[string]string{"": "answer", "a b/ü": "a_b__", strings.Repeat("x", 99): strings.Repeat("x", 64)} {
		if got := wire.SchemaName(name); got != want {
			t.Errorf("%q: %q", name, got)
		}
	}
}

// MO-23: what the adapter adds by itself is left out of the request that a server has refused for it, and of no other.
func TestARefusedAdditionIsLeftOutOfTheSameRequest(t *testing.T) {
	for _, row := range []struct {
		name    string
		refuses func(fakeproviders.Request) bool
		says    string
		sent    string // in the request that is taken
		refused int
	}{
		{"stream_options", func(r fakeproviders.Request) bool { return r.Usage }, `{"detail":"Extra inputs are not permitted: stream_options"}`, `"max_tokens":5`, 1},
		{
			"max_tokens", func(r fakeproviders.Request) bool { return strings.Contains(string(r.Body), `"max_tokens"`) },
			`{"error":{"message":"Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."}}`, `"max_completion_tokens":5`, 1,
		},
		{"json_schema", func(r fakeproviders.Request) bool { return r.Schema != nil }, `{"error":{"message":"This response_format type is unavailable now"}}`, `"response_format":{"type":"json_object"}`, 1},
		{
			"prompt_cache_key", func(r fakeproviders.Request) bool { return strings.Contains(string(r.Body), "prompt_cache_key") },
			`{"detail":[{"type":"extra_forbidden","loc":["body","prompt_cache_key"],"msg":"Extra inputs are not permitted"}]}`, `"max_tokens":5`, 1,
		},
		{"two of them", func(r fakeproviders.Request) bool { return r.Schema != nil || r.Usage }, `{"error":{"message":"unknown: stream_options, json_schema"}}`, `{"type":"json_object"}`, 2},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex
				refused, taken := 0, ""
				s := &fakeproviders.Server{Script: func(r fakeproviders.Request) fakeproviders.Answer {
					mu.Lock()
					defer mu.Unlock()
					if row.refuses(r) {
						refused++
						return fakeproviders.Answer{Status: 400, Body: row.says}
					}
					taken = string(r.Body)
					return fakeproviders.Answer{Text: "ok"}
				}}
				defer s.Close()
				p := newProvider(t, Options{Transport: s.Transport(), BaseURL: "http://model.test"})
				req := adapter.Request{CacheKey: "k", Options: adapter.Options{MaxTokens: new(5)}, Format: adapter.Format{JSON: true, Schema: json.RawMessage(`{"type":"object","properties":{},"additionalProperties":false}`)}}
				for i := range 2 {
					m, _ := p.Model("m")
					text := ""
					for c, err := range m.Stream(t.Context(), req) {
						if err != nil {
							t.Fatal(err)
						}
						text += c.Text
					}
					if text != "ok" || !strings.Contains(taken, row.sent) {
						t.Errorf("%q by %s", text, taken)
					}
					if want := row.refused * (i + 1); refused != want {
						t.Errorf("refused %d times after %d requests; expected %d", refused, i+1, want)
					}
				}
			})
		})
	}
}

// A server that refuses every fallback is asked a bounded number of times.
func TestFallbacksEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &fakeproviders.Server{Script: answers(fakeproviders.Answer{Status: 400, Body: "stream_options response_format json_schema max_tokens max_completion_tokens"})}
		defer s.Close()
		m := newModel(t, s, Options{})
		got := adaptertest.List(m.Stream(t.Context(), adapter.Request{Options: adapter.Options{MaxTokens: new(5)}, Format: adapter.Format{JSON: true, Schema: json.RawMessage(`{}`)}}))
		if !strings.Contains(got, "refused the request") || s.Requests() != 5 {
			t.Errorf("%d requests: %s", s.Requests(), got)
		}
	})
}

func TestASchemaThatIsNotJSONIsTheCallersMistake(t *testing.T) {
	m, _ := newProvider(t, Options{Transport: bodyOf(nil)}).Model("m")
	got := adaptertest.List(m.Stream(t.Context(), adapter.Request{Format: adapter.Format{JSON: true, Schema: json.RawMessage(`{`)}}))
	if !strings.HasPrefix(got, "error invalid_request says") {
		t.Error(got)
	}
}

// The address and the headers, Azure's own form included (AD-02).
func TestAddressesAndHeaders(t *testing.T) {
	for _, row := range []struct{ base, model, url, header string }{
		{"", "gpt-4o", "https://api.openai.com/v1/chat/completions", "Authorization: Bearer k"},
		{"http://localhost:11434/v1/", "llama3:8b", "http://localhost:11434/v1/chat/completions", "Authorization: Bearer k"},
		{"http://localhost:8000", "m", "http://localhost:8000/chat/completions", "Authorization: Bearer k"},
		{"http://h/v1/chat/completions", "m", "http://h/v1/chat/completions", "Authorization: Bearer k"},
		{"http://h/v1?tenant=a%26b", "m", "http://h/v1/chat/completions?tenant=a%26b", "Authorization: Bearer k"},
		{"https://x.openai.azure.com?api-version=2024-10-21", "my gpt", "https://x.openai.azure.com/openai/deployments/my%20gpt/chat/completions?api-version=2024-10-21", "Api-Key: k"},
		{"https://x.openai.azure.com/openai/deployments/d?api-version=1", "m", "https://x.openai.azure.com/openai/deployments/d/chat/completions?api-version=1", "Api-Key: k"},
	} {
		var got *http.Request
		p := newProvider(t, Options{BaseURL: row.base, Key: "k", Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
			got = r
			return bodyOf(func() io.Reader { return strings.NewReader(textEvent("a") + finish) }).RoundTrip(r)
		})})
		m, _ := p.Model(row.model)
		if text, err := collect(m, t.Context()); text != "a" || err != nil {
			t.Errorf("%q %v", text, err)
		}
		if got.URL.String() != row.url {
			t.Errorf("%s: %s", row.base, got.URL)
		}
		name, value, _ := strings.Cut(row.header, ": ")
		if got.Header.Get(name) != value || len(got.Header["Authorization"])+len(got.Header["Api-Key"]) != 1 {
			t.Errorf("%s: %v", row.base, got.Header)
		}
		if _, ok := got.Header["X-Idempotency-Key"]; !ok || got.GetBody == nil { // FT-16
			t.Errorf("%s: cannot be repeated", row.base)
		}
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestABaseURLThatIsNone(t *testing.T) {
	for _, base := range []string{"api.openai.com/v1", "ftp://h", "http://", "://", "http://h/#x", "http://user:" + canary + "@h\x7f/"} {
		_, err := New(Options{Prefix: "mine", BaseURL: base})
		if err == nil || !strings.Contains(err.Error(), "mine") || !strings.Contains(err.Error(), "expected") || strings.Contains(err.Error(), "CANARY") {
			t.Errorf("%q: %v", base, err)
		}
	}
}

func TestAModelNeedsAName(t *testing.T) {
	p := newProvider(t, Options{Names: []string{"a", "b"}})
	if _, err := p.Model(""); err == nil || !strings.Contains(err.Error(), `"openai:"`) {
		t.Errorf("%v", err)
	}
	if diff := cmp.Diff([]string{"a", "b"}, p.Names()); diff != "" {
		t.Error(diff)
	}
}
