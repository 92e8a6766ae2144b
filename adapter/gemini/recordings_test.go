package gemini

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/adaptertest"
	"github.com/lingserve/lingserve/adapter/wire"
)

// heard is what an answer says, whatever its pieces are. Its calls have no ids that the adapter made.
type heard struct {
	adaptertest.Answer
	Signatures []string
}

// readPlainly reads a recording in the plainest way: all events at once, by encoding/json.
func readPlainly(t *testing.T, body []byte) (h heard) {
	t.Helper()
	type object = map[string]any
	count := func(v any) int { n, _ := v.(float64); return int(n) }
	str := func(v any) string { s, _ := v.(string); return s }
	for line := range strings.Lines(string(body)) {
		data, ok := strings.CutPrefix(strings.TrimSpace(line), "data:")
		if !ok {
			continue
		}
		var event object
		if err := json.Unmarshal([]byte(data), &event); err != nil {
			t.Fatal(err)
		}
		if u, ok := event["usageMetadata"].(object); ok && u["totalTokenCount"] != nil {
			h.Usage = adapter.Usage{
				PromptTokens: count(u["promptTokenCount"]), CompletionTokens: count(u["candidatesTokenCount"]) + count(u["thoughtsTokenCount"]),
				ReasoningTokens: count(u["thoughtsTokenCount"]), CachedTokens: count(u["cachedContentTokenCount"]), TotalTokens: count(u["totalTokenCount"]),
			}
		}
		for _, c := range event["candidates"].([]any) {
			c := c.(object)
			h.Finish += str(c["finishReason"])
			content, _ := c["content"].(object)
			parts, _ := content["parts"].([]any)
			for _, p := range parts {
				p := p.(object)
				if p["thought"] == true {
					h.Reasoning += str(p["text"])
				} else {
					h.Text += str(p["text"])
				}
				if call, ok := p["functionCall"].(object); ok {
					args, _ := json.Marshal(call["args"])
					h.Calls = append(h.Calls, adapter.ToolCall{Index: len(h.Calls), ID: str(call["id"]), Name: str(call["name"]), Arguments: string(args)})
				}
				if s := str(p["thoughtSignature"]); s != "" {
					h.Signatures = append(h.Signatures, s)
				}
			}
		}
	}
	h.Finish = map[string]string{"STOP": adapter.FinishStop, "MAX_TOKENS": adapter.FinishLength}[h.Finish]
	if len(h.Calls) > 0 {
		h.Finish = adapter.FinishToolCalls
	}
	return h
}

func stream(body io.Reader) *adaptertest.Answering {
	return &adaptertest.Answering{Type: "text/event-stream", Body: body}
}

// modelAt is a model whose answers come by a transport.
func modelAt(t testing.TB, name string, from http.RoundTripper) adapter.Model {
	t.Helper()
	m, err := newProvider(t, Options{Transport: from, Key: "k"}).Model(name)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// ask asks a model whose answer is given. It returns the message that the answer is in a history, too.
func ask(t *testing.T, from http.RoundTripper) (h heard, msg adapter.Message, err error) {
	t.Helper()
	h.Answer, msg, err = adaptertest.ReadAnswer(modelAt(t, "gemini-3-flash-preview", from).Stream(t.Context(), adapter.Request{}))
	for i := range h.Calls {
		c := &h.Calls[i]
		if strings.HasPrefix(c.ID, "call_") {
			c.ID = ""
		}
		var args any
		if err := json.Unmarshal([]byte(c.Arguments), &args); err != nil {
			t.Fatal(err)
		}
		sorted, _ := json.Marshal(args)
		c.Arguments = string(sorted)
	}
	if msg.Made != nil {
		for _, p := range msg.Made.Parts {
			if s := wire.ReadObject(p.Data).Text(signature); s != "" {
				h.Signatures = append(h.Signatures, s)
			}
		}
	}
	return h, msg, err
}

// MO-10, MO-12, MO-13, MO-32: recorded answers are read as a plain reader reads them, wherever they are cut.
func TestRecordedAnswersAreReadAsAPlainReaderReadsThem(t *testing.T) {
	for _, r := range adaptertest.Recordings(t, "enerateContent") {
		if r.Status != http.StatusOK || !strings.HasPrefix(r.Type, "text/event-stream") {
			continue
		}
		t.Run(r.Name, func(t *testing.T) {
			want := readPlainly(t, r.Body)
			for name, from := range r.Cuts(1) {
				got, _, err := ask(t, stream(from))
				if diff := cmp.Diff(want, got); diff != "" || err != nil {
					t.Errorf("%s: %v\n%s", name, err, diff)
				}
			}
		})
	}
}

// MO-32: an answer that ends before its end is an error at every byte; what was passed on is a beginning of it.
func TestRecordedAnswersThatAreCutOffAreErrors(t *testing.T) {
	for _, r := range adaptertest.Recordings(t, "enerateContent") {
		if r.Status != http.StatusOK || len(r.Body) > 2<<10 {
			continue
		}
		t.Run(r.Name, func(t *testing.T) {
			whole := readPlainly(t, r.Body)
			end := bytes.LastIndex(r.Body, []byte("finishReason"))
			for at := range end {
				got, _, err := ask(t, stream(bytes.NewReader(r.Body[:at])))
				if e, ok := errors.AsType[*adapter.Error](err); !ok || e.Code != adapter.CodeProtocol || !strings.HasPrefix(whole.Text, got.Text) {
					t.Fatalf("cut after %d bytes: %+v %v", at, got, err)
				}
			}
		})
	}
}

// MO-16, MO-32: recorded refusals have their codes.
func TestRecordedRefusalsHaveTheirCodes(t *testing.T) {
	for _, r := range adaptertest.Recordings(t, "enerateContent") {
		if r.Status == http.StatusOK {
			continue
		}
		t.Run(r.Name, func(t *testing.T) {
			_, _, err := ask(t, r.Transport())
			e, ok := errors.AsType[*adapter.Error](err)
			if !ok {
				t.Fatal(err)
			}
			switch body := string(r.Body); {
			case strings.Contains(body, "API_KEY_INVALID"):
				if e.Code != adapter.CodeAuth || e.Retryable || !strings.Contains(e.Message, "GEMINI_API_KEY") {
					t.Errorf("%+v", e)
				}
			case strings.Contains(body, "RESOURCE_EXHAUSTED"):
				if e.Code != adapter.CodeRateLimited || strings.Contains(body, "retryDelay") != (e.RetryAfter > 0) {
					t.Errorf("%+v", e)
				}
			case strings.Contains(body, "input token count"):
				if !e.ContextLength {
					t.Errorf("%+v", e)
				}
			case e.Status != r.Status || e.Retryable:
				t.Errorf("%+v", e)
			}
		})
	}
}

// MO-01, MO-02: the history that we make of recorded answers has the parts that the recorded requests give back: signatures byte for byte, on
// the parts that they came with.
func TestRecordedConversationsGoBackAsTheyWere(t *testing.T) {
	answers := map[string][]adapter.Message{} // by conversation
	checked := 0
	for _, r := range adaptertest.Recordings(t, "enerateContent") {
		if r.Status != http.StatusOK {
			continue
		}
		name := r.Name[:strings.LastIndexByte(r.Name, '.')]
		var asked struct {
			Contents []turn `json:"contents"`
		}
		if err := json.Unmarshal(r.Request, &asked); err != nil {
			t.Fatal(err)
		}
		before := answers[name]
		_, msg, err := ask(t, stream(bytes.NewReader(r.Body)))
		if err != nil {
			t.Fatal(err)
		}
		answers[name] = append(before, msg)
		t.Run(r.Name, func(t *testing.T) {
			var messages []adapter.Message
			for _, c := range asked.Contents {
				switch {
				case c.Role == "model":
					messages = append(messages, before[0])
					before = before[1:]
				case c.Parts[0]["functionResponse"] != nil:
					for i := range c.Parts {
						messages = append(messages, adapter.Message{Role: adapter.ToolRole, ToolCallID: messages[len(messages)-1-i].ToolCalls[i].ID, Content: "sunny"})
					}
				default:
					messages = append(messages, adapter.Message{Role: adapter.User, Content: c.Parts[0]["text"].(string)})
				}
			}
			sent := sentBy(t, "gemini-2.5-flash", adapter.Request{Messages: messages})
			if len(sent.Contents) != len(asked.Contents) {
				t.Fatalf("%d contents, recorded are %d", len(sent.Contents), len(asked.Contents))
			}
			for i, want := range asked.Contents {
				got := sent.Contents[i]
				if want.Role != got.Role {
					t.Errorf("content %d is of %q", i, got.Role)
				}
				if want.Role != "model" {
					continue
				}
				checked++
				if diff := cmp.Diff(textOf(want), textOf(got)); diff != "" {
					t.Error(diff)
				}
				if diff := cmp.Diff(signedOf(want), signedOf(got)); diff != "" {
					t.Error(diff)
				}
			}
		})
	}
	if checked == 0 {
		t.Error("no recorded request has a history")
	}
}

func textOf(c turn) (s string) {
	for _, p := range c.Parts {
		t, _ := p["text"].(string)
		s += t
	}
	return s
}

// signedOf returns the calls and what else is signed.
func signedOf(c turn) (parts []object) {
	for _, p := range c.Parts {
		if p["functionCall"] != nil || p[signature] != nil {
			parts = append(parts, p)
		}
	}
	return parts
}
