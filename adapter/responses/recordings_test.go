package responses

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"github.com/lingserve/lingserve/adapter"
)

// recordings is where answers of real providers are kept, beside the project.
const recordings = "../../../shared/data/recordings"

// heard is what an answer says, whatever its pieces are.
type heard struct {
	Text, Reasoning string
	Calls           []adapter.ToolCall
	Usage           adapter.Usage
	Finish          string
}

// readPlainly reads a stream in the plainest way: each event is decoded as a whole.
func readPlainly(t *testing.T, body []byte) (r heard) {
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

// answering is a transport that gives one answer.
type answering struct {
	status int
	kind   string
	body   io.Reader
	asked  *[]byte // the request's body
}

func (a answering) RoundTrip(r *http.Request) (*http.Response, error) {
	if a.status == 0 {
		a.status = http.StatusOK
	}
	if a.asked != nil {
		*a.asked, _ = io.ReadAll(r.Body)
	}
	return &http.Response{StatusCode: a.status, ProtoMajor: 1, Header: http.Header{"Content-Type": {a.kind}}, Body: io.NopCloser(a.body)}, nil
}

// cut gives pieces of random length.
type cut struct {
	from io.Reader
	r    *rand.Rand
}

func (c cut) Read(p []byte) (int, error) { return c.from.Read(p[:min(len(p), 1+c.r.IntN(300))]) }

func modelAt(t testing.TB, from http.RoundTripper) adapter.Model {
	t.Helper()
	m, err := newProvider(t, Options{Transport: from, BaseURL: "http://model.test/v1"}).Model("m")
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// answerOf reads an answer: what it says, and the message as it goes into the history.
func answerOf(t testing.TB, m adapter.Model, req adapter.Request) (r heard, msg adapter.Message, err error) {
	t.Helper()
	var maker adapter.Maker
	for c, failed := range m.Stream(t.Context(), req) {
		if failed != nil {
			return r, msg, failed
		}
		maker.Take(&c)
		r.Text += c.Text
		r.Reasoning += c.Reasoning
		if c.Finish != "" {
			r.Finish = c.Finish
		}
		if c.Usage != nil {
			r.Usage = *c.Usage
		}
		if p := c.ToolCall; p != nil {
			for len(r.Calls) <= p.Index {
				r.Calls = append(r.Calls, adapter.ToolCall{Index: len(r.Calls)})
			}
			r.Calls[p.Index].ID += p.ID
			r.Calls[p.Index].Name += p.Name
			r.Calls[p.Index].Arguments += p.Arguments
		}
	}
	msg = adapter.Message{
		Role: adapter.Assistant, Content: r.Text, ToolCalls: r.Calls,
		Made: maker.Made("responses:m", func(i int) string { return r.Calls[i].ID }),
	}
	return r, msg, nil
}

func ask(words string) adapter.Request {
	return adapter.Request{Messages: []adapter.Message{{Role: adapter.User, Content: words}}}
}

// recording is one of the answers.
type recording struct {
	URL     string          `json:"url"`
	Status  int             `json:"status"`
	Type    string          `json:"content_type"`
	Request json.RawMessage `json:"request"`
	name    string
	body    []byte
}

func recorded(t *testing.T) (all []recording) {
	t.Helper()
	files, err := filepath.Glob(recordings + "/*/*.json")
	if err != nil || len(files) == 0 {
		t.Skip("the recordings are not here: ", recordings)
	}
	for _, file := range files {
		var r recording
		said, err := os.ReadFile(file)
		if err == nil {
			err = json.Unmarshal(said, &r)
		}
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(r.URL, "/responses") {
			continue
		}
		r.name = strings.TrimSuffix(file, ".json")
		if r.body, err = os.ReadFile(r.name + ".body"); err != nil {
			t.Fatal(err)
		}
		all = append(all, r)
	}
	return all
}

// MO-30, MO-32: streams of real providers say what a plain reader reads of them, wherever they are cut.
func TestRecordedAnswersOfProvidersAreReadAsAPlainReaderReadsThem(t *testing.T) {
	for _, r := range recorded(t) {
		if r.Status != http.StatusOK || !strings.HasPrefix(r.Type, "text/event-stream") {
			continue
		}
		t.Run(filepath.Base(filepath.Dir(r.name))+"/"+filepath.Base(r.name), func(t *testing.T) {
			want := readPlainly(t, r.body)
			readers := map[string]io.Reader{
				"whole": bytes.NewReader(r.body),
				"cut":   cut{bytes.NewReader(r.body), rand.New(rand.NewPCG(1, 2))},
			}
			if len(r.body) < 32<<10 {
				readers["byte by byte"] = iotest.OneByteReader(bytes.NewReader(r.body))
			}
			for name, from := range readers {
				got, _, err := answerOf(t, modelAt(t, answering{kind: r.Type, body: from}), ask("?"))
				if diff := cmp.Diff(want, got); diff != "" || err != nil {
					t.Errorf("%s: %v\n%s", name, err, diff)
				}
			}
			// The whole response is in the last event: read in one piece, it says the same.
			var last struct{ Response json.RawMessage }
			for line := range strings.Lines(string(r.body)) {
				if data, ok := strings.CutPrefix(line, "data:"); ok {
					json.Unmarshal([]byte(data), &last)
				}
			}
			got, _, err := answerOf(t, modelAt(t, answering{kind: "application/json", body: bytes.NewReader(last.Response)}), ask("?"))
			if diff := cmp.Diff(want, got); diff != "" || err != nil {
				t.Errorf("in one piece: %v\n%s", err, diff)
			}
		})
	}
}

// MO-16, MO-32: errors of real providers.
func TestRecordedErrorsHaveTheirCodes(t *testing.T) {
	for _, r := range recorded(t) {
		if r.Status == http.StatusOK {
			continue
		}
		_, _, err := answerOf(t, modelAt(t, answering{status: r.Status, kind: r.Type, body: bytes.NewReader(r.body)}), ask("?"))
		e, ok := errors.AsType[*adapter.Error](err)
		switch {
		case !ok:
			t.Errorf("%s: %v", r.name, err)
		case bytes.Contains(r.body, []byte("context_length")) && (!e.ContextLength || e.Code != adapter.CodeInvalid):
			t.Errorf("%s: %+v", r.name, e)
		case r.Status == http.StatusUnauthorized && e.Code != adapter.CodeAuth:
			t.Errorf("%s: %+v", r.name, e)
		}
	}
}

// MO-02, MO-32: what was recorded of an answer goes back as the recorded next request of the conversation has it.
func TestRecordedAnswersGoBackAsTheirClientSentThem(t *testing.T) {
	all := recorded(t)
	back := 0
	for i, r := range all[:len(all)-1] {
		next := all[i+1]
		stem := strings.TrimRight(r.name, "0123456789")
		if r.Status != http.StatusOK || !strings.HasPrefix(next.name, stem) {
			continue
		}
		_, msg, err := answerOf(t, modelAt(t, answering{kind: r.Type, body: bytes.NewReader(r.body)}), ask("?"))
		if err != nil {
			t.Fatal(err)
		}
		var asked []byte
		req := ask("?")
		req.Messages = append(req.Messages, msg)
		answerOf(t, modelAt(t, answering{status: 500, body: strings.NewReader(""), asked: &asked}), req)
		var before, ours, theirs struct{ Input []any }
		for text, into := range map[string]any{string(asked): &ours, string(next.Request): &theirs, string(r.Request): &before} {
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
			t.Errorf("%s:\n%s", r.name, diff)
		}
		back++
	}
	if back < 8 {
		t.Errorf("only %d answers went back", back)
	}
}
