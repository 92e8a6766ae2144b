package responses

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/adaptertest"
)

// readPlainly reads a stream in the plainest way: each event is decoded as a whole.
func readPlainly(t *testing.T, body []byte) (r adaptertest.Answer) {
	t.Helper()
	for line := range strings.Lines(string(body)) {
		data, ok := strings.CutPrefix(strings.TrimSpace(line), "data:")
		if !ok {
			continue
		}
		var event struct {
			Type, Delta string
			Item        struct {
				Type, Name, Arguments string
				CallID                string `json:"call_id"`
			}
			Response struct {
				Usage struct {
					Input  int `json:"input_tokens"`
					Output int `json:"output_tokens"`
					Total  int `json:"total_tokens"`
					In     struct {
						Cached int `json:"cached_tokens"`
					} `json:"input_tokens_details"`
					Out struct {
						Reasoning int `json:"reasoning_tokens"`
					} `json:"output_tokens_details"`
					Ticks int64 `json:"cost_in_usd_ticks"` // xAI's, 10¹⁰ for a dollar
				}
			}
		}
		if err := json.Unmarshal([]byte(data), &event); err != nil {
			t.Fatalf("%s: %v", data, err)
		}
		switch event.Type {
		case "response.output_text.delta":
			r.Text += event.Delta
		case "response.reasoning_text.delta", "response.reasoning_summary_text.delta":
			r.Reasoning += event.Delta
		case "response.output_item.done":
			if i := event.Item; i.Type == "function_call" {
				r.Calls = append(r.Calls, adapter.ToolCall{Index: len(r.Calls), ID: i.CallID, Name: i.Name, Arguments: i.Arguments})
			}
		case "response.completed":
			u := event.Response.Usage
			r.Usage = adapter.Usage{
				PromptTokens: u.Input, CompletionTokens: u.Output, TotalTokens: u.Total, CachedTokens: u.In.Cached, ReasoningTokens: u.Out.Reasoning,
				Cost: (u.Ticks + 5000) / 10000,
			}
			if r.Finish = "stop"; len(r.Calls) > 0 {
				r.Finish = "tool_calls"
			}
		}
	}
	return r
}

func modelAt(t testing.TB, from http.RoundTripper) adapter.Model {
	t.Helper()
	m, err := newProvider(t, Options{Transport: from, BaseURL: "http://model.test/v1"}).Model("m")
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// answerOf reads an answer: what it says, and the message as it goes into the history.
func answerOf(t testing.TB, m adapter.Model, req adapter.Request) (adaptertest.Answer, adapter.Message, error) {
	t.Helper()
	return adaptertest.ReadAnswer(m.Stream(t.Context(), req))
}

func ask(words string) adapter.Request {
	return adapter.Request{Messages: []adapter.Message{{Role: adapter.User, Content: words}}}
}

// MO-30, MO-32: streams of real providers say what a plain reader reads of them, wherever they are cut.
func TestRecordedAnswersOfProvidersAreReadAsAPlainReaderReadsThem(t *testing.T) {
	for _, r := range adaptertest.Recordings(t, "/responses") {
		if r.Status != http.StatusOK || !strings.HasPrefix(r.Type, "text/event-stream") {
			continue
		}
		t.Run(r.Name, func(t *testing.T) {
			want := readPlainly(t, r.Body)
			for name, from := range r.Cuts(1) {
				got, _, err := answerOf(t, modelAt(t, &adaptertest.Answering{Type: r.Type, Body: from}), ask("?"))
				if diff := cmp.Diff(want, got); diff != "" || err != nil {
					t.Errorf("%s: %v\n%s", name, err, diff)
				}
			}
			// The whole response is in the last event: read in one piece, it says the same.
			var last struct{ Response json.RawMessage }
			for line := range strings.Lines(string(r.Body)) {
				if data, ok := strings.CutPrefix(line, "data:"); ok {
					json.Unmarshal([]byte(data), &last)
				}
			}
			got, _, err := answerOf(t, modelAt(t, &adaptertest.Answering{Type: "application/json", Body: bytes.NewReader(last.Response)}), ask("?"))
			if diff := cmp.Diff(want, got); diff != "" || err != nil {
				t.Errorf("in one piece: %v\n%s", err, diff)
			}
		})
	}
}

// MO-16, MO-32: errors of real providers.
func TestRecordedErrorsHaveTheirCodes(t *testing.T) {
	for _, r := range adaptertest.Recordings(t, "/responses") {
		if r.Status == http.StatusOK {
			continue
		}
		_, _, err := answerOf(t, modelAt(t, r.Transport()), ask("?"))
		e, ok := errors.AsType[*adapter.Error](err)
		switch {
		case !ok:
			t.Errorf("%s: %v", r.Name, err)
		case bytes.Contains(r.Body, []byte("context_length")) && (!e.ContextLength || e.Code != adapter.CodeInvalid):
			t.Errorf("%s: %+v", r.Name, e)
		case r.Status == http.StatusUnauthorized && e.Code != adapter.CodeAuth:
			t.Errorf("%s: %+v", r.Name, e)
		}
	}
}

// MO-02, MO-32: what was recorded of an answer goes back as the recorded next request of the conversation has it.
func TestRecordedAnswersGoBackAsTheirClientSentThem(t *testing.T) {
	all := adaptertest.Recordings(t, "/responses")
	back := 0
	for i, r := range all[:len(all)-1] {
		next := all[i+1]
		if r.Status != http.StatusOK || !r.IsContinuedBy(&next) {
			continue
		}
		_, msg, err := answerOf(t, modelAt(t, r.Transport()), ask("?"))
		if err != nil {
			t.Fatal(err)
		}
		from := &adaptertest.Answering{Status: 500, Body: http.NoBody}
		req := ask("?")
		req.Messages = append(req.Messages, msg)
		answerOf(t, modelAt(t, from), req)
		var before, ours, theirs struct{ Input []any }
		for text, into := range map[string]any{string(from.Asked): &ours, string(next.Request): &theirs, string(r.Request): &before} {
			if err := json.Unmarshal([]byte(text), into); err != nil {
				t.Fatal(err)
			}
		}
		want := theirs.Input[len(before.Input):]
		got := ours.Input[1:]
		for _, list := range [][]any{want, got} {
			for _, item := range list { // a message may be a string or parts
				m := item.(map[string]any)
				if parts, ok := m["content"].([]any); ok && m["role"] == "assistant" {
					m["content"] = parts[0].(map[string]any)["text"]
				}
			}
		}
		if diff := cmp.Diff(want[:len(got)], got); diff != "" {
			t.Errorf("%s:\n%s", r.Name, diff)
		}
		back++
	}
	if back < 8 {
		t.Errorf("only %d answers went back", back)
	}
}
