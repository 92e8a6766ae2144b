package agent

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/openai"
	"github.com/lingserve/lingserve/internal/fakeproviders"
	"github.com/lingserve/lingserve/tape"
	"github.com/lingserve/lingserve/tape/tapetest"
)

// asked is a message as a server gets it.
type asked struct {
	Role      string
	Content   json.RawMessage
	Reasoning *string         `json:"reasoning_content"`
	Short     *string         `json:"reasoning"`
	Details   json.RawMessage `json:"reasoning_details"`
	Blocks    json.RawMessage `json:"thinking_blocks"`
	Calls     []struct {
		ID    string
		Extra json.RawMessage `json:"extra_content"`
	} `json:"tool_calls"`
	CallID string `json:"tool_call_id"`
}

// thinker is a server whose model thinks, calls a tool and answers, and that refuses histories as the real one does. delta is what it thinks, in the
// deltas that the real one sends; beside stands in its first call.
type thinker struct {
	deltas []string
	beside string
	refuse func(n int, m asked) string // what is wrong with an assistant's message number n; "" is nothing
}

const (
	signature = `"EqQBCkYIBRgCKkDx/9+a=="`
	details   = `[{"format":"anthropic-claude-v1","index":0,"signature":` + signature + `,"text":"I need it.","type":"reasoning.text"},{"data":"AbC+/==","index":1,"type":"reasoning.encrypted"}]`
	blocks    = `[{"signature":` + signature + `,"thinking":"I need it.","type":"thinking"}]`
	thought   = `{"google":{"thought_signature":"Ctk+/AB=="}}`
)

var thinkers = map[string]thinker{
	"DeepSeek": {[]string{`"reasoning_content":"I "`, `"reasoning_content":"need it."`}, "", func(n int, m asked) string {
		if len(m.Calls) > 0 && (m.Reasoning == nil || *m.Reasoning != "I need it.") {
			return fmt.Sprintf("Missing `reasoning_content` field in the assistant message at message index %d.", n)
		}
		return ""
	}},
	"Kimi": {[]string{`"reasoning_content":"I need it."`}, "", func(n int, m asked) string {
		if len(m.Calls) > 0 && (m.Reasoning == nil || *m.Reasoning == "") {
			return fmt.Sprintf("thinking is enabled but reasoning_content is missing in assistant tool call message at index %d", n)
		}
		return ""
	}},
	"a server that wants no reasoning": {[]string{`"reasoning_content":"I need it."`}, "", func(n int, m asked) string {
		if m.Reasoning != nil {
			return fmt.Sprintf("messages.%d.reasoning_content: Extra inputs are not permitted", n)
		}
		return ""
	}},
	"Groq": {[]string{`"reasoning":"I need it."`}, "", func(n int, m asked) string {
		if m.Reasoning != nil {
			return fmt.Sprintf("'messages.%d' : for 'role:assistant' the following must be satisfied[('messages.%d' : property 'reasoning_content' is unsupported, did you mean 'reasoning'?)]", n, n)
		}
		if len(m.Calls) > 0 && m.Short == nil {
			return "it should have come back"
		}
		return ""
	}},
	"Gemini": {[]string{`"content":""`}, `,"extra_content":` + thought, func(n int, m asked) string {
		if len(m.Calls) > 0 && string(m.Calls[0].Extra) != thought {
			return "Function call is missing a thought_signature in functionCall parts. This is required for tools to work correctly."
		}
		return ""
	}},
	"OpenRouter": {
		[]string{
			`"reasoning":"I ","reasoning_details":[{"type":"reasoning.text","text":"I ","format":"anthropic-claude-v1","index":0}]`,
			`"reasoning":"need it.","reasoning_details":[{"type":"reasoning.text","text":"need it.","format":"anthropic-claude-v1","index":0}]`,
			`"reasoning_details":[{"type":"reasoning.text","signature":` + signature + `,"format":"anthropic-claude-v1","index":0}]`,
			`"reasoning_details":[{"type":"reasoning.encrypted","data":"AbC+/==","index":1}]`,
		},
		"",
		func(n int, m asked) string {
			if string(m.Details) != details {
				return fmt.Sprintf("messages.%d.content.0.type: Expected `thinking` or `redacted_thinking`, but found `tool_use`", n)
			}
			return ""
		},
	},
	"LiteLLM": {
		[]string{
			`"reasoning_content":"I need it.","thinking_blocks":[{"type":"thinking","thinking":"I need ","signature":""}]`,
			`"thinking_blocks":[{"type":"thinking","thinking":"it.","signature":null}]`,
			`"thinking_blocks":[{"type":"thinking","thinking":"","signature":` + signature + `}]`,
		},
		"",
		func(n int, m asked) string {
			if string(m.Blocks) != blocks {
				return fmt.Sprintf("messages.%d.content.0.type: Expected `thinking` or `redacted_thinking`, but found `tool_use`", n)
			}
			return ""
		},
	},
	"Mistral": {[]string{`"content":[{"type":"thinking","thinking":[{"type":"text","text":"I need it."}]}]`}, "", func(n int, m asked) string {
		if !strings.HasPrefix(string(m.Content), `[{"type":"thinking","thinking":[{"type":"text","text":"I need it."}]}`) {
			return "thinking should have come back"
		}
		return ""
	}},
}

// alternating is what templates of models check that know of no other history.
func alternating(messages []asked) string {
	last, open := "", map[string]bool{}
	for i, m := range messages {
		switch {
		case m.Role == "system" && i > 0:
			return "System message must be at the beginning."
		case m.Role == "assistant" && (last == "" || last == "system"), m.Role != "tool" && m.Role == last:
			return "Conversation roles must alternate user/assistant/user/assistant/..."
		case m.Role == "tool" && !open[m.CallID]:
			return "messages with role 'tool' must be a response to a preceding message with 'tool_calls'"
		}
		for _, c := range m.Calls {
			open[c.ID] = true
		}
		last = m.Role
	}
	return ""
}

func (s thinker) script(r fakeproviders.Request) fakeproviders.Answer {
	var q struct{ Messages []asked }
	if err := json.Unmarshal(r.Body, &q); err != nil {
		panic(err)
	}
	refusal := alternating(q.Messages)
	for i, m := range q.Messages {
		if m.Role == "assistant" && refusal == "" {
			refusal = s.refuse(i, m)
		}
	}
	if refusal != "" {
		body, _ := json.Marshal(map[string]any{"error": map[string]any{"message": refusal, "type": "invalid_request_error", "code": "invalid_request_error"}})
		return fakeproviders.Answer{Status: 400, Body: string(body)}
	}
	var b strings.Builder
	event := func(delta, finish string) {
		fmt.Fprintf(&b, "data: {\"choices\":[{\"index\":0,\"delta\":{%s},\"finish_reason\":%s}]}\n\n", delta, finish)
	}
	for _, d := range s.deltas {
		event(d, "null")
	}
	if r.Messages[len(r.Messages)-1].Role == "tool" {
		event(`"content":"Sunny."`, `"stop"`)
	} else {
		event(`"tool_calls":[{"index":0,"id":"call_1","type":"function","function":{"name":"echo","arguments":"{\"text\":\"sunny\"}"}`+s.beside+`}]`, `"tool_calls"`)
	}
	b.WriteString("data: [DONE]\n\n")
	return fakeproviders.Answer{Raw: []fakeproviders.Raw{{Bytes: b.String()}}}
}

// MO-01, MO-02, MO-04, MO-20: an agent that thinks goes on with each of these servers, in this process and in the next one, in a fork, and where its
// session was written to a file and read again.
func TestWhatAModelThoughtGoesBackToIt(t *testing.T) {
	for name, s := range thinkers {
		t.Run(name, func(t *testing.T) {
			server := &fakeproviders.Server{Script: s.script}
			defer server.Close()
			place := t.TempDir()
			begin := func(store tape.Store) *world {
				return newWorldIn(t, place, nil, Options{Models: registryOf(t, server), Model: "openai:m", Tools: setOf(t, echoTool(t)), Store: store})
			}
			ask := func(w *world, session string) {
				t.Helper()
				e := message("weather?")
				e.SessionID = session
				if h := w.process(t.Context(), e); h.err != nil || h.Output != "Sunny." {
					t.Fatalf("%v\n%s\n%s", h.err, strings.Join(w.lines(), "\n"), w.log)
				}
			}
			store := tapetest.NewMemory(nil)
			w := begin(store)
			ask(w, "s")
			ask(w, "s")

			w = begin(store)
			ask(w, "s")

			if _, err := w.tape().ForkSession(t.Context(), "fork", 0); err != nil {
				t.Fatal(err)
			}
			ask(w, "fork")

			var text bytes.Buffer
			if err := w.tape().Export(t.Context(), &text); err != nil {
				t.Fatal(err)
			}
			other := tapetest.NewMemory(nil)
			if err := tape.Import(t.Context(), other, place, "s", &text); err != nil {
				t.Fatal(err)
			}
			ask(begin(other), "s")
			if n := server.Requests(); n > 2*10 { // each is refused once at most
				t.Errorf("%d requests for 10 answers", n)
			}
		})
	}
}

// registryOf has a server by OpenAI's wire.
func registryOf(t *testing.T, server *fakeproviders.Server) *adapter.Registry {
	t.Helper()
	p, err := openai.New(openai.Options{BaseURL: "http://upstream/v1", Key: "key", Transport: server.Transport()})
	if err != nil {
		t.Fatal(err)
	}
	r := &adapter.Registry{}
	r.Register("openai", p)
	return r
}

// MO-03, MO-04: what another model has said goes to a server that insists on reasoning or signatures with what it takes in their place, once it has
// refused the request. A server that refuses what its own model thought is asked without it.
func TestAHistoryOfAnotherModelIsTaken(t *testing.T) {
	for name, row := range map[string]struct {
		s    thinker
		made bool // it is its own history
		more int  // requests that are refused
	}{
		"Kimi": {thinkers["Kimi"], false, 4},
		"Gemini": {thinker{thinkers["Gemini"].deltas, thinkers["Gemini"].beside, func(n int, m asked) string {
			if len(m.Calls) > 0 && string(m.Calls[0].Extra) == `{"google":{"thought_signature":"skip_thought_signature_validator"}}` {
				return ""
			}
			return thinkers["Gemini"].refuse(n, m)
		}}, false, 4},
		"nothing known": {thinker{[]string{`"reasoning":"hm"`}, "", func(_ int, m asked) string {
			if m.Short != nil {
				return "the conversation is not valid"
			}
			return ""
		}}, true, 3},
	} {
		t.Run(name, func(t *testing.T) {
			plain := &fakeproviders.Server{Script: thinker{refuse: func(_ int, m asked) string {
				if m.Reasoning != nil || m.Short != nil || strings.Contains(string(m.Content), "I need it") {
					return "this was thought by somebody else"
				}
				return ""
			}}.script}
			server := &fakeproviders.Server{Script: row.s.script}
			defer plain.Close()
			defer server.Close()
			models := registryOf(t, server)
			p, err := openai.New(openai.Options{Prefix: "plain", BaseURL: "http://upstream/v1", Key: "key", Transport: plain.Transport()})
			if err != nil {
				t.Fatal(err)
			}
			models.Register("plain", p)
			var log bytes.Buffer
			models.Log = slog.New(slog.NewTextHandler(&log, nil))
			w := newWorld(t, nil, Options{Models: models, Model: "openai:m", Choices: []string{"plain:m"}, Tools: setOf(t, echoTool(t))})
			if row.made {
				w.say("weather?")
				w.say("weather?")
			} else {
				w.say(",model plain:m")
				w.say("weather?")
				w.say(",model openai:m")
				w.say("weather?")
				w.say("weather?")
				w.say(",model plain:m")
				w.say("weather?")
			}
			if got := server.Requests(); got != 4+row.more {
				t.Errorf("%d requests for 4 answers; expected %d more", got, row.more)
			}
			if strings.Count(log.String(), "model refused a request") != 1 || strings.Count(log.String(), "\n") != 1 {
				t.Error(log.String())
			}
		})
	}
}
