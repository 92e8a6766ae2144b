package anthropic

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/adaptertest"
	"github.com/lingserve/lingserve/internal/longtest"
)

// read is what an answer says, whatever its pieces are.
type read = adaptertest.Answer

// plainEvent is an event as encoding/json reads it.
type plainEvent struct {
	Type    string         `json:"type"`
	Index   int            `json:"index"`
	Block   map[string]any `json:"content_block"`
	Usage   map[string]any `json:"usage"`
	Message struct {
		Usage map[string]any `json:"usage"`
	} `json:"message"`
	Delta struct {
		Type      string         `json:"type"`
		Text      string         `json:"text"`
		Thinking  string         `json:"thinking"`
		Signature string         `json:"signature"`
		Partial   string         `json:"partial_json"`
		Citation  map[string]any `json:"citation"`
		Reason    string         `json:"stop_reason"`
	} `json:"delta"`
}

// readPlainly reads a stream of the Messages API in the plainest way, and the content that it makes, as it has to go back.
func readPlainly(t *testing.T, body []byte) (r read, content []any) {
	t.Helper()
	blocks, inputs := map[int]map[string]any{}, map[int]string{}
	usage := map[string]any{}
	for line := range strings.Lines(string(body)) {
		data, ok := strings.CutPrefix(strings.TrimSpace(line), "data:")
		if !ok {
			continue
		}
		var e plainEvent
		if err := json.Unmarshal([]byte(data), &e); err != nil {
			t.Fatalf("%s: %v", data, err)
		}
		for _, counts := range []map[string]any{e.Message.Usage, e.Usage} {
			for name, n := range counts {
				usage[name] = n
			}
		}
		b := blocks[e.Index]
		switch e.Type {
		case "content_block_start":
			blocks[e.Index] = e.Block
		case "content_block_delta":
			inputs[e.Index] += e.Delta.Partial
			switch e.Delta.Type {
			case "text_delta":
				b["text"] = b["text"].(string) + e.Delta.Text
			case "thinking_delta":
				b["thinking"] = b["thinking"].(string) + e.Delta.Thinking
			case "signature_delta":
				b["signature"] = b["signature"].(string) + e.Delta.Signature
			case "citations_delta":
				b["citations"] = append(b["citations"].([]any), any(e.Delta.Citation))
			}
		case "message_delta":
			r.Finish = e.Delta.Reason
		}
	}
	for i := range len(blocks) {
		b := blocks[i]
		start := utf8.RuneCountInString(r.Text)
		switch b["type"] {
		case "text":
			r.Text += b["text"].(string)
		case "thinking":
			r.Reasoning += b["thinking"].(string)
		case "tool_use", "server_tool_use":
			if inputs[i] != "" {
				var input any
				if err := json.Unmarshal([]byte(inputs[i]), &input); err != nil {
					t.Fatal(err)
				}
				b["input"] = input
			}
			if b["type"] == "tool_use" {
				args := inputs[i]
				if args == "" {
					args = "{}"
				}
				r.Calls = append(r.Calls, adapter.ToolCall{Index: len(r.Calls), ID: b["id"].(string), Name: b["name"].(string), Arguments: args})
			}
		}
		cited, _ := b["citations"].([]any)
		for _, c := range cited {
			str := func(names ...string) string {
				for _, name := range names {
					if s, ok := c.(map[string]any)[name].(string); ok {
						return s
					}
				}
				return ""
			}
			r.Citations = append(r.Citations, adapter.Citation{
				URL: str("url"), Title: str("title", "document_title"), Text: str("cited_text"), Start: start, End: utf8.RuneCountInString(r.Text),
			})
		}
		if len(cited) == 0 {
			delete(b, "citations")
		}
		content = append(content, b)
	}
	count := func(name string) int { n, _ := usage[name].(float64); return int(n) }
	details, _ := usage["output_tokens_details"].(map[string]any)
	thought, _ := details["thinking_tokens"].(float64)
	r.Usage = adapter.Usage{
		PromptTokens:     count("input_tokens") + count("cache_read_input_tokens") + count("cache_creation_input_tokens"),
		CompletionTokens: count("output_tokens"), CachedTokens: count("cache_read_input_tokens"),
		CacheWriteTokens: count("cache_creation_input_tokens"), ReasoningTokens: int(thought),
	}
	r.Usage.TotalTokens = r.Usage.PromptTokens + r.Usage.CompletionTokens
	r.Finish = map[string]string{
		"end_turn": adapter.FinishStop, "stop_sequence": adapter.FinishStop, "tool_use": adapter.FinishToolCalls, "max_tokens": adapter.FinishLength,
		"refusal": adapter.FinishRefusal,
	}[r.Finish]
	return r, content
}

// answering gives an answer of some type.
func answering(kind, body string) *adaptertest.Answering {
	return &adaptertest.Answering{Type: kind, Body: strings.NewReader(body)}
}

// streaming gives an answer that is a stream.
func streaming(body string) *adaptertest.Answering { return answering("text/event-stream", body) }

// readOurs reads an answer with the adapter, and makes a message of it as it goes into the history.
func readOurs(t testing.TB, model string, from http.RoundTripper, req adapter.Request) (read, adapter.Message) {
	t.Helper()
	m, err := newProvider(t, Options{Transport: from, BaseURL: "http://model.test", Key: "k"}).Model(model)
	if err != nil {
		t.Fatal(err)
	}
	r, msg, _ := adaptertest.ReadAnswer(m.Stream(t.Context(), req))
	return r, msg
}

// sentFor returns the turns of a request with these messages.
func sentFor(t testing.TB, model string, req adapter.Request) (turns []map[string]any, body []byte) {
	t.Helper()
	from := answering("application/json", `{"content":[],"stop_reason":"end_turn"}`)
	readOurs(t, model, from, req)
	var in struct {
		Messages []map[string]any `json:"messages"`
	}
	if err := json.Unmarshal(from.Asked, &in); err != nil {
		t.Fatalf("%s: %v", from.Asked, err)
	}
	return in.Messages, from.Asked
}

// recording is a recording of the Messages API with what was asked.
type recording struct {
	adaptertest.Recording
	Asked struct {
		Model    string           `json:"model"`
		Messages []map[string]any `json:"messages"`
	}
}

// recorded returns the recordings of the Messages API.
func recorded(t *testing.T) (all []recording) {
	t.Helper()
	for _, r := range adaptertest.Recordings(t, "/v1/messages") {
		of := recording{Recording: r}
		if err := json.Unmarshal(r.Request, &of.Asked); err != nil {
			t.Fatal(err)
		}
		all = append(all, of)
	}
	return all
}

// goesBack returns the content that a request has for a message of the model.
func goesBack(t *testing.T, model string, msg adapter.Message) any {
	t.Helper()
	turns, _ := sentFor(t, model, adapter.Request{Messages: []adapter.Message{user("?"), msg}})
	return turns[1]["content"]
}

// MO-13, MO-15, MO-30, MO-32: recorded answers say what a plain reader reads of them, wherever they are cut. MO-02: what was made goes back as
// it was.
func TestRecordedAnswersAreReadAsAPlainReaderReadsThem(t *testing.T) {
	for _, rec := range recorded(t) {
		t.Run(rec.Name, func(t *testing.T) {
			if rec.Status != http.StatusOK {
				got, _ := readOurs(t, rec.Asked.Model, rec.Transport(), adapter.Request{})
				if want := map[int]string{400: adapter.CodeInvalid, 401: adapter.CodeAuth}[rec.Status]; got.Code != want {
					t.Errorf("code %q, want %q", got.Code, want)
				}
				return
			}
			want, content := readPlainly(t, rec.Body)
			for name, from := range rec.Cuts(longtest.Times(2, 20)) {
				got, msg := readOurs(t, rec.Asked.Model, &adaptertest.Answering{Type: "text/event-stream", Body: from}, adapter.Request{})
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("%s:\n%s", name, diff)
				}
				if diff := cmp.Diff(any(content), goesBack(t, rec.Asked.Model, msg)); diff != "" {
					t.Errorf("%s: what goes back:\n%s", name, diff)
				}
			}
		})
	}
}

// MO-10: an answer in one piece says the same as its stream.
func TestRecordedAnswersInOnePieceSayTheSame(t *testing.T) {
	for _, rec := range recorded(t) {
		if rec.Status != http.StatusOK {
			continue
		}
		want, content := readPlainly(t, rec.Body)
		var usage map[string]any
		for line := range strings.Lines(string(rec.Body)) {
			if data, ok := strings.CutPrefix(line, "data:"); ok && strings.Contains(data, `"message_delta"`) {
				var e plainEvent
				json.Unmarshal([]byte(data), &e)
				usage = e.Usage
			}
		}
		reason := map[string]string{adapter.FinishStop: "end_turn", adapter.FinishToolCalls: "tool_use", adapter.FinishLength: "max_tokens"}[want.Finish]
		body, err := json.Marshal(map[string]any{"type": "message", "role": "assistant", "content": content, "stop_reason": reason, "usage": usage})
		if err != nil {
			t.Fatal(err)
		}
		got, msg := readOurs(t, rec.Asked.Model, answering("application/json", string(body)), adapter.Request{})
		compact := cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".Arguments" }, cmp.Transformer("JSON", func(s string) (v any) {
			json.Unmarshal([]byte(s), &v)
			return v
		}))
		if diff := cmp.Diff(want, got, compact); diff != "" {
			t.Errorf("%s:\n%s", rec.Name, diff)
		}
		if diff := cmp.Diff(any(content), goesBack(t, rec.Asked.Model, msg)); diff != "" {
			t.Errorf("%s: what goes back:\n%s", rec.Name, diff)
		}
	}
}

// MO-02: the later requests of recorded conversations are those that we make of the answers to the earlier ones.
func TestRecordedConversationsAreContinuedAsTheyWere(t *testing.T) {
	all := recorded(t)
	tried := 0
	for i := 1; i < len(all); i++ {
		before, after := all[i-1], all[i]
		n := len(before.Asked.Messages)
		if n == 0 || len(after.Asked.Messages) <= n || !before.IsContinuedBy(&after.Recording) {
			continue
		}
		tried++
		_, msg := readOurs(t, before.Asked.Model, before.Transport(), adapter.Request{})
		history := []adapter.Message{user("?"), msg}
		for _, c := range msg.ToolCalls {
			history = append(history, adapter.Message{Role: adapter.ToolRole, ToolCallID: c.ID, Content: "It is warm."})
		}
		turns, _ := sentFor(t, before.Asked.Model, adapter.Request{Messages: history})
		was := after.Asked.Messages[n]
		for _, b := range turns[1]["content"].([]any) {
			delete(b.(map[string]any), "caller") // which the recording client lost
		}
		if diff := cmp.Diff(was, turns[1]); diff != "" {
			t.Errorf("%s: -as it was +as we send it\n%s", after.Name, diff)
		}
		if len(msg.ToolCalls) > 0 {
			result, ours := after.Asked.Messages[n+1]["content"].([]any)[0].(map[string]any), turns[2]["content"].([]any)[0].(map[string]any)
			if ours["type"] != "tool_result" || ours["tool_use_id"] != result["tool_use_id"] {
				t.Errorf("%s: %v, was %v", after.Name, ours, result)
			}
		}
	}
	if tried == 0 {
		t.Error("there is no conversation")
	}
}
