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
func readPlainly(t *testing.T, body []byte) (r adaptertest.Answer) {
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
func readOurs(t *testing.T, kind string, body io.Reader) adaptertest.Answer {
	t.Helper()
	m, err := newProvider(t, Options{Transport: &adaptertest.Answering{Type: kind, Body: body}, BaseURL: "http://model.test/v1"}).Model("m")
	if err != nil {
		t.Fatal(err)
	}
	r, _, err := adaptertest.ReadAnswer(m.Stream(t.Context(), adapter.Request{Messages: []adapter.Message{{Role: adapter.User, Content: "?"}}}))
	if err != nil {
		t.Fatal(err)
	}
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
				got := readOurs(t, r.Type, from)
				got.Citations, got.Media = nil, nil // others look at them
				if diff := cmp.Diff(want, got); diff != "" {
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
		"details alone":                    {`"content":"1","reasoning_details":[{"type":"reasoning.text","text":"abc"},{"type":"reasoning.encrypted","data":"x"}]`, "1", "abc"},
		"a summary":                        {`"content":"1","reasoning_details":[{"type":"reasoning.summary","summary":"abc"}]`, "1", "abc"},
		"details that repeat the text":     {`"reasoning_details":[{"type":"reasoning.text","text":"abc"}],"reasoning":"abc","content":"1"`, "1", "abc"},
		"blocks of thinking beside a text": {`"reasoning_content":"abc","thinking_blocks":[{"type":"thinking","thinking":"abc","signature":"s"}],"content":"1"`, "1", "abc"},
		"blocks of thinking":               {`"thinking_blocks":[{"type":"thinking","thinking":"abc","signature":"s"},{"type":"redacted_thinking","data":"x"}],"content":"1"`, "1", "abc"},
	} {
		t.Run(name, func(t *testing.T) {
			want := adaptertest.Answer{Text: row.text, Reasoning: row.reasoning, Finish: adapter.FinishStop}
			switch name {
			case "a refusal":
				want.Finish = adapter.FinishRefusal
			case "a reference":
				want.Citations = []adapter.Citation{{Title: "reference 1"}}
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
