package openai

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/adaptertest"
)

// read is what an answer says, whatever its pieces are.
type read = adaptertest.Answer

// readUsage reads counts and cost in the plainest way.
func readUsage(u map[string]any) (r adapter.Usage) {
	number := func(in any, name string) float64 {
		m, _ := in.(map[string]any)
		f, _ := m[name].(float64)
		return f
	}
	prompt, completion := u["prompt_tokens_details"], u["completion_tokens_details"]
	r.PromptTokens, r.CompletionTokens, r.TotalTokens = int(number(u, "prompt_tokens")), int(number(u, "completion_tokens")), int(number(u, "total_tokens"))
	r.CachedTokens = int(number(prompt, "cached_tokens"))
	r.CacheWriteTokens = int(number(prompt, "cache_write_tokens"))
	r.AudioTokens = int(number(prompt, "audio_tokens") + number(completion, "audio_tokens"))
	r.ReasoningTokens = int(number(completion, "reasoning_tokens"))
	if r.PromptTokens+r.CompletionTokens+r.ReasoningTokens == r.TotalTokens {
		r.CompletionTokens += r.ReasoningTokens
	}
	for _, dollars := range []float64{number(u, "cost"), number(u["cost"], "total_cost"), number(u, "cost_in_usd_ticks") / 1e10} {
		if dollars > 0 {
			r.Cost = int64(dollars*1e6 + 0.5)
		}
	}
	return r
}

// readPlainly reads a stream of chat completions in the plainest way: each event is decoded as a whole.
func readPlainly(t *testing.T, body []byte) (r read) {
	t.Helper()
	str := func(v any) string { s, _ := v.(string); return s }
	texts := func(v any, field string) (s string) {
		list, _ := v.([]any)
		for _, e := range list {
			if m, ok := e.(map[string]any); ok {
				s += str(m[field])
			}
		}
		return s
	}
	for line := range strings.Lines(string(body)) {
		data, ok := strings.CutPrefix(strings.TrimSpace(line), "data:")
		if data = strings.TrimSpace(data); !ok || data == "[DONE]" {
			continue
		}
		var event struct {
			Choices []struct {
				Delta  map[string]any `json:"delta"`
				Finish string         `json:"finish_reason"`
			} `json:"choices"`
			Usage map[string]any `json:"usage"`
		}
		if err := json.Unmarshal([]byte(data), &event); err != nil {
			t.Fatalf("%s: %v", data, err)
		}
		if event.Usage != nil {
			r.Usage = readUsage(event.Usage)
		}
		if len(event.Choices) == 0 {
			continue
		}
		delta := event.Choices[0].Delta
		r.Text += str(delta["content"])
		if parts, ok := delta["content"].([]any); ok {
			for _, e := range parts {
				part := e.(map[string]any)
				r.Text += str(part["text"])
				r.Reasoning += str(part["thinking"]) + texts(part["thinking"], "text")
			}
		}
		thought := str(delta["reasoning_content"])
		if thought == "" {
			thought = str(delta["reasoning"])
		}
		if thought == "" {
			thought = texts(delta["reasoning_details"], "text")
		}
		r.Reasoning += thought
		calls, _ := delta["tool_calls"].([]any)
		for _, e := range calls {
			call := e.(map[string]any)
			i := int(call["index"].(float64))
			for len(r.Calls) <= i {
				r.Calls = append(r.Calls, adapter.ToolCall{Index: len(r.Calls)})
			}
			f, _ := call["function"].(map[string]any)
			r.Calls[i].ID += str(call["id"])
			r.Calls[i].Name += str(f["name"])
			r.Calls[i].Arguments += str(f["arguments"])
		}
		if event.Choices[0].Finish != "" {
			r.Finish = event.Choices[0].Finish
		}
	}
	return r
}

// readOurs reads an answer with the adapter.
func readOurs(t *testing.T, kind string, body io.Reader) read {
	t.Helper()
	m, err := newProvider(t, Options{Transport: &adaptertest.Answering{Type: kind, Body: body}, BaseURL: "http://model.test/v1"}).Model("m")
	if err != nil {
		t.Fatal(err)
	}
	r, _, err := adaptertest.ReadAnswer(m.Stream(t.Context(), adapter.Request{Messages: []adapter.Message{{Role: adapter.User, Content: "?"}}}))
	if err != nil {
		t.Fatal(err)
	}
	r.Citations, r.Media = nil, nil // which readPlainly does not read
	return r
}

// MO-10, MO-11, MO-12, MO-32: streams of real providers say what a plain reader reads of them, wherever they are cut.
func TestRecordedAnswersOfProvidersAreReadAsAPlainReaderReadsThem(t *testing.T) {
	for _, r := range adaptertest.Recordings(t, "/chat/completions") {
		if r.Status != http.StatusOK || !strings.HasPrefix(r.Type, "text/event-stream") {
			continue
		}
		t.Run(r.Name, func(t *testing.T) {
			want := readPlainly(t, r.Body)
			for name, from := range r.Cuts(1) {
				if diff := cmp.Diff(want, readOurs(t, "text/event-stream", from)); diff != "" {
					t.Errorf("%s:\n%s", name, diff)
				}
			}
		})
	}
}

// MO-10, MO-11: forms of content that compatible servers send, in a delta and in an answer of one piece.
func TestContentMayComeAsParts(t *testing.T) {
	for name, row := range map[string]struct {
		message         string
		text, reasoning string
	}{
		"a string":                         {`"content":"144"`, "144", ""},
		"null":                             {`"content":null,"reasoning_content":"so"`, "", "so"},
		"text":                             {`"content":[{"type":"text","text":"1"},{"type":"text","text":"44"}]`, "144", ""},
		"strings":                          {`"content":["1","44"]`, "144", ""},
		"thinking, then text":              {`"content":[{"type":"thinking","thinking":[{"type":"text","text":"a\u0062"},{"type":"text","text":"c"}],"closed":true},{"type":"text","text":"1"}]`, "1", "abc"},
		"thinking as a string":             {`"content":[{"type":"thinking","thinking":"abc"},{"type":"text","text":"1"}]`, "1", "abc"},
		"reasoning":                        {`"content":[{"type":"reasoning","text":"abc"},{"type":"text","text":"1"}]`, "1", "abc"},
		"a refusal":                        {`"content":[{"type":"refusal","refusal":"no"}]`, "no", ""},
		"a reference":                      {`"content":[{"type":"text","text":"as "},{"type":"reference","reference_ids":[1]},{"type":"text","text":"said"}]`, "as said", ""},
		"half a pair and its other":        {`"content":[{"type":"text","text":"\ud83d"},{"type":"text","text":"\ude00"}]`, "\U0001F600", ""},
		"a string, and then parts":         {`"content":"1","content":[{"type":"text","text":"4"},{"type":"text","text":"4"}]`, "144", ""},
		"details alone":                    {`"content":"1","reasoning_details":[{"type":"reasoning.text","text":"abc"},{"type":"reasoning.encrypted","data":"x"}]`, "1", "abc"},
		"a summary":                        {`"content":"1","reasoning_details":[{"type":"reasoning.summary","summary":"abc"}]`, "1", "abc"},
		"details that repeat the text":     {`"reasoning_details":[{"type":"reasoning.text","text":"abc"}],"reasoning":"abc","content":"1"`, "1", "abc"},
		"blocks of thinking beside a text": {`"reasoning_content":"abc","thinking_blocks":[{"type":"thinking","thinking":"abc","signature":"s"}],"content":"1"`, "1", "abc"},
		"blocks of thinking":               {`"thinking_blocks":[{"type":"thinking","thinking":"abc","signature":"s"},{"type":"redacted_thinking","data":"x"}],"content":"1"`, "1", "abc"},
	} {
		t.Run(name, func(t *testing.T) {
			want := read{Text: row.text, Reasoning: row.reasoning, Finish: adapter.FinishStop}
			if name == "a refusal" {
				want.Finish = adapter.FinishRefusal
			}
			stream := `data: {"choices":[{"delta":{` + row.message + `}}]}` + "\n\n" + `data: {"choices":[{"delta":{},"finish_reason":"stop"}]}` + "\n\ndata: [DONE]\n\n"
			if diff := cmp.Diff(want, readOurs(t, "text/event-stream", strings.NewReader(stream))); diff != "" {
				t.Errorf("a delta:\n%s", diff)
			}
			whole := `{"choices":[{"message":{"role":"assistant",` + row.message + `},"finish_reason":"stop"}]}`
			if diff := cmp.Diff(want, readOurs(t, "application/json", strings.NewReader(whole))); diff != "" {
				t.Errorf("a whole answer:\n%s", diff)
			}
		})
	}
}

// MO-13: counts are read from where each provider puts them.
func TestUsageIsReadInTheFormOfEachProvider(t *testing.T) {
	for name, row := range map[string]struct {
		usage string
		want  adapter.Usage
	}{
		"no total": {`{"prompt_tokens":3,"completion_tokens":4}`, adapter.Usage{PromptTokens: 3, CompletionTokens: 4, TotalTokens: 7}},
		"OpenAI": {
			`{"prompt_tokens":300,"completion_tokens":40,"total_tokens":340,"prompt_tokens_details":{"cached_tokens":100,"cache_write_tokens":50,"audio_tokens":5},"completion_tokens_details":{"reasoning_tokens":30,"audio_tokens":2}}`,
			adapter.Usage{PromptTokens: 300, CompletionTokens: 40, TotalTokens: 340, CachedTokens: 100, CacheWriteTokens: 50, ReasoningTokens: 30, AudioTokens: 7},
		},
		"details that are null": {
			`{"prompt_tokens":3,"completion_tokens":4,"total_tokens":7,"prompt_tokens_details":null,"completion_tokens_details":null}`,
			adapter.Usage{PromptTokens: 3, CompletionTokens: 4, TotalTokens: 7},
		},
		"DeepSeek": {
			`{"prompt_tokens":30,"completion_tokens":4,"total_tokens":34,"prompt_cache_hit_tokens":20,"prompt_cache_miss_tokens":10}`,
			adapter.Usage{PromptTokens: 30, CompletionTokens: 4, TotalTokens: 34, CachedTokens: 20},
		},
		"Moonshot": {
			`{"prompt_tokens":30,"completion_tokens":4,"total_tokens":34,"cached_tokens":20}`,
			adapter.Usage{PromptTokens: 30, CompletionTokens: 4, TotalTokens: 34, CachedTokens: 20},
		},
		"LiteLLM with Anthropic behind it": {
			`{"prompt_tokens":30,"completion_tokens":4,"total_tokens":34,"cache_creation_input_tokens":9,"cache_read_input_tokens":20,"prompt_tokens_details":{"cached_tokens":20}}`,
			adapter.Usage{PromptTokens: 30, CompletionTokens: 4, TotalTokens: 34, CachedTokens: 20, CacheWriteTokens: 9},
		},
		"xAI, whose completion is without its reasoning": {
			`{"prompt_tokens":199,"completion_tokens":8,"total_tokens":359,"completion_tokens_details":{"reasoning_tokens":152},"cost_in_usd_ticks":5143500}`,
			adapter.Usage{PromptTokens: 199, CompletionTokens: 160, TotalTokens: 359, ReasoningTokens: 152, Cost: 514},
		},
		"OpenRouter": {
			`{"prompt_tokens":15,"completion_tokens":9,"total_tokens":24,"cost":0.00006,"is_byok":false,"cost_details":{"upstream_inference_cost":0.00006}}`,
			adapter.Usage{PromptTokens: 15, CompletionTokens: 9, TotalTokens: 24, Cost: 60},
		},
		"OpenRouter with a key of one's own": {
			`{"prompt_tokens":15,"completion_tokens":9,"total_tokens":24,"cost":0.000003,"is_byok":true,"cost_details":{"upstream_inference_cost":0.00006}}`,
			adapter.Usage{PromptTokens: 15, CompletionTokens: 9, TotalTokens: 24, Cost: 63},
		},
		"a cost of less than a millionth": {
			`{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2,"cost":0.0000001}`,
			adapter.Usage{PromptTokens: 1, CompletionTokens: 1, TotalTokens: 2, Cost: 1},
		},
		"Perplexity": {
			`{"prompt_tokens":8,"completion_tokens":5,"total_tokens":13,"cost":{"request_cost":0.005,"total_cost":0.00501}}`,
			adapter.Usage{PromptTokens: 8, CompletionTokens: 5, TotalTokens: 13, Cost: 5010},
		},
		"research of Perplexity": {
			`{"prompt_tokens":33,"completion_tokens":7163,"total_tokens":7196,"citation_tokens":19028,"num_search_queries":28,"reasoning_tokens":3081}`,
			adapter.Usage{PromptTokens: 19061, CompletionTokens: 10244, TotalTokens: 29305, ReasoningTokens: 3081},
		},
		"counts that are none": {
			`{"prompt_tokens":-3,"completion_tokens":"4","total_tokens":1e99,"cost":-1,"cost_in_usd_ticks":-5}`, adapter.Usage{},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(row.want, *usage([]byte(row.usage))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A whole answer without a reason for its end is not taken for complete.
func TestAWholeAnswerWithoutAnEndIsBrokenOff(t *testing.T) {
	for _, finish := range []string{`null`, `""`, `"null"`} {
		body := `{"choices":[{"message":{"content":"1"},"finish_reason":` + finish + `}]}`
		m, err := newProvider(t, Options{Transport: &adaptertest.Answering{Type: "application/json", Body: strings.NewReader(body)}, BaseURL: "http://model.test/v1"}).Model("m")
		if err != nil {
			t.Fatal(err)
		}
		for c, err := range m.Stream(t.Context(), adapter.Request{Messages: []adapter.Message{{Role: adapter.User, Content: "?"}}}) {
			if err == nil {
				t.Errorf("finish_reason %s: %+v; expected an error only", finish, c)
			}
		}
	}
}
