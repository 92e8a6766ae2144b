package web

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	adapterwire "github.com/lingserve/lingserve/adapter/wire"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/bot"
	"github.com/lingserve/lingserve/ling"
	"github.com/lingserve/lingserve/run"
	"github.com/lingserve/lingserve/tube"
	"github.com/lingserve/lingserve/web/wire"
	"github.com/lingserve/lingserve/web/wire/openai"
)

// chunk is one event of a stream of OpenAI's.
type chunk struct {
	ID      string
	Object  string
	Created int64
	Model   string
	Choices []struct {
		Index        int
		Delta        map[string]any
		FinishReason *string `json:"finish_reason"`
	}
	Usage json.RawMessage
	Error *openaiError
}

type openaiError struct {
	Message, Type string
	Param, Code   *string
}

// streamed is what a client makes of a stream.
type streamed struct {
	chunks  []chunk
	text    string
	thought string
	finish  string
	usage   string
	err     *openaiError
	done    bool // [DONE] has come
	raw     string
}

// readStream reads a stream as the rules of openai-python's decoder have it, the strictest of the clients: what is no line of data
// is an error, and an event must have data that is JSON.
func readStream(t testing.TB, body io.Reader) (s streamed, broken bool) {
	t.Helper()
	text, err := io.ReadAll(body)
	s.raw = string(text)
	for block := range strings.SplitSeq(strings.TrimSuffix(s.raw, "\n\n"), "\n\n") {
		if block == "" {
			continue
		}
		lines := strings.Split(block, "\n")
		for len(lines) > 0 && lines[0] == ":" { // a comment, which has no blank line behind it
			lines = lines[1:]
		}
		if len(lines) == 0 {
			continue
		}
		data, ok := strings.CutPrefix(lines[0], "data: ")
		if !ok || len(lines) != 1 || s.done || s.err != nil {
			t.Fatalf("no client reads %q, done %v, error %v", block, s.done, s.err)
		}
		if data == "[DONE]" {
			s.done = true
			continue
		}
		var c chunk
		if err := json.Unmarshal([]byte(data), &c); err != nil {
			t.Fatalf("%v in %q", err, data)
		}
		s.chunks = append(s.chunks, c)
		if c.Error != nil {
			s.err = c.Error
			continue
		}
		if first := s.chunks[0]; c.ID != first.ID || c.Created != first.Created || c.Model != first.Model || c.Object != "chat.completion.chunk" {
			t.Errorf("%+v after %+v", c, first)
		}
		if len(c.Choices) == 0 {
			s.usage = string(c.Usage)
			continue
		}
		choice := c.Choices[0]
		if _, has := choice.Delta["tool_calls"]; has {
			t.Errorf("a client would run %s", data)
		}
		if content, ok := choice.Delta["content"].(string); ok {
			s.text += content
		}
		if thought, ok := choice.Delta["reasoning_content"].(string); ok {
			s.thought += thought
			if choice.Delta["reasoning"] != thought {
				t.Errorf("%s", data)
			}
		}
		if choice.FinishReason != nil {
			s.finish = *choice.FinishReason
		}
	}
	return s, err != nil
}

// completed is an answer that was not streamed.
type completed struct {
	ID, Object, Model string
	Created           int64
	Choices           []struct {
		Message struct {
			Role, Content    string
			ReasoningContent string `json:"reasoning_content"`
			Reasoning        string
			ToolCalls        json.RawMessage `json:"tool_calls"`
		}
		FinishReason string `json:"finish_reason"`
	}
	Usage *struct {
		PromptTokens     int `json:"prompt_tokens"`
		CompletionTokens int `json:"completion_tokens"`
		TotalTokens      int `json:"total_tokens"`
	}
	Error *openaiError
}

const completions = "/v1/chat/completions"

// chatBody is the body of a request with one message.
func chatBody(model, text, more string) string {
	return `{"model":"` + model + `","messages":[{"role":"user","content":` + string(quoted(text)) + `}]` + more + `}`
}

func (b *bench) completes(body string, header ...string) (c completed, resp *http.Response) {
	b.t.Helper()
	resp = b.do("POST", completions, body, header...)
	body = text(b.t, resp)
	if err := json.Unmarshal([]byte(body), &c); err != nil {
		b.t.Fatalf("%v in %s", err, body)
	}
	if resp.StatusCode == http.StatusOK && (len(c.Choices) != 1 || c.Object != "chat.completion" || c.Choices[0].Message.Role != "assistant") {
		b.t.Fatalf("%s", body)
	}
	return c, resp
}

func (b *bench) streams(body string) streamed {
	b.t.Helper()
	resp := b.do("POST", completions, body)
	if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "text/event-stream" {
		b.t.Fatalf("%d: %s", resp.StatusCode, text(b.t, resp))
	}
	s, broken := readStream(b.t, resp.Body)
	resp.Body.Close()
	if broken {
		b.t.Error("the stream was broken off")
	}
	return s
}

const streaming = `,"stream":true,"stream_options":{"include_usage":true}`

func TestAnAgentTakesTheModelsPlace(t *testing.T) {
	a := newAgentBench(t, nil)
	a.serve()
	c, resp := a.completes(chatBody("assistant", "hello <you>", ""))
	m := c.Choices[0].Message
	if m.Content != "3: hello <you>" || c.Choices[0].FinishReason != openai.Stop || c.Usage.TotalTokens != 10 || c.Model != "assistant" ||
		c.ID != "chatcmpl-"+resp.Header.Get("X-Run-Id") || c.Created == 0 {
		t.Errorf("%+v", c)
	}
	if resp.Header.Get("X-Request-Id") == "" {
		t.Error("there is no id to ask for")
	}
	s := a.streams(chatBody("agent/assistant", "hello <you>", streaming))
	if s.text != "3: hello <you>" || s.finish != openai.Stop || !s.done || s.usage != `{"prompt_tokens":4,"completion_tokens":6,"total_tokens":10}` {
		t.Errorf("%+v", s)
	}
	if first := s.chunks[0].Choices[0].Delta; first["role"] != "assistant" || first["content"] != "" {
		t.Errorf("the first delta is %v", first)
	}
	for i, c := range s.chunks[:len(s.chunks)-1] {
		if string(c.Usage) != "null" {
			t.Errorf("the usage of chunk %d is %s", i, c.Usage)
		}
	}
	if bytes.Contains([]byte(a.streams(chatBody("assistant", "x", `,"stream":true`)).raw), []byte("usage")) {
		t.Error("there is usage though nobody has asked for it")
	}
}

func TestToolsOfAnAgentAreNotTheClientsToCall(t *testing.T) {
	a := newAgentBench(t, nil)
	a.serve()
	c, _ := a.completes(chatBody("assistant", "use weather", ""))
	m := c.Choices[0].Message
	if m.ToolCalls != nil || m.ReasoningContent != "A tool helps." || m.Reasoning != m.ReasoningContent || m.Content != unquote(t, readDocument(t, a.say("use weather", "")).Result) {
		t.Errorf("%+v", m)
	}
	s := a.streams(chatBody("assistant", "use weather", `,"stream":true`))
	if s.text != m.Content || s.thought != m.Reasoning || strings.Contains(s.raw, "tool_calls") {
		t.Errorf("%+v", s)
	}
}

func TestAnAgentWhoseWorkflowAnswersIsAModelToo(t *testing.T) {
	a := echoBench(t)
	a.s.o.Agents = byEcho{a.s.o.Agents}
	a.s.wire.Agents = a.s.o.Agents
	a.s.runs.Inspect().Options().Agents = a.s.o.Agents
	for _, want := range []string{"2: hello", "4: hello"} { // the workflow knows what was said in the session
		if c, _ := a.completes(chatBody("writer", "hello", `,"user":"s"`)); c.Choices[0].Message.Content != want {
			t.Errorf("%q", c.Choices[0].Message.Content)
		}
	}
	if s := a.streams(chatBody("writer", "hello", `,"user":"s",`+streaming[1:])); s.text != "6: hello" || s.finish != openai.Stop || s.usage == "" {
		t.Errorf("%+v", s)
	}
	c, resp := a.completes(chatBody("broken", "hello", ""))
	if resp.StatusCode != 500 || *c.Error.Code != wire.CodeInternal || resp.Header.Get("X-Request-Id") == "" || strings.Contains(c.Error.Message, "nothing-there") {
		t.Errorf("%d %+v", resp.StatusCode, c.Error)
	}
	if c, resp := a.completes(`{"model":"writer","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,AA=="}}]}]}`); resp.StatusCode != 200 {
		t.Errorf("%d %+v", resp.StatusCode, c.Error)
	}
}

func TestACallThatAsksIsDeniedSinceNobodyCanAnswer(t *testing.T) {
	a := newAgentBench(t, nil)
	a.serve()
	for _, more := range []string{"", `,"stream":true`} {
		resp := a.do("POST", completions, chatBody("assistant", "use danger", more))
		if resp.StatusCode != 200 {
			t.Errorf("%d", resp.StatusCode)
		}
		_ = text(t, resp)
	}
	if len(a.ran) > 0 {
		t.Error("it ran")
	}
}

func TestAWorkflowsDocumentIsContentThatGrows(t *testing.T) {
	b := newBench(t, nil).serve()
	whole, _ := story(3)
	want := `{"article":` + whole + `}`
	c, resp := b.completes(chatBody("chat", "q", ""))
	if d := cmp.Diff(decode(t, want), decode(t, c.Choices[0].Message.Content)); d != "" {
		t.Error(d)
	}
	if got := get[document](b, "/v1/runs/"+resp.Header.Get("X-Run-Id")).Result; string(got) != c.Choices[0].Message.Content {
		t.Errorf("%s", got)
	}
	s := b.streams(chatBody("chat", "q", streaming))
	if d := cmp.Diff(decode(t, want), decode(t, s.text)); d != "" || len(s.chunks) < 50 {
		t.Errorf("%d chunks: %s", len(s.chunks), d)
	}
	t.Run("by an object", func(t *testing.T) {
		c, resp := b.completes(chatBody("workflow/chat", `{"question":"q","level":2}`, ""))
		if resp.StatusCode != 200 {
			t.Errorf("%+v", c.Error)
		}
	})
	t.Run("that does not fit", func(t *testing.T) {
		c, resp := b.completes(chatBody("chat", `{"question":"q","level":0}`, ""))
		if resp.StatusCode != 400 || *c.Error.Param != "messages" || !strings.Contains(c.Error.Message, "level") {
			t.Errorf("%d %+v", resp.StatusCode, c.Error)
		}
	})
}

func decode(t testing.TB, text string) (value any) {
	t.Helper()
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	if err := dec.Decode(&value); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return value
}

func TestAModelAloneGetsTheMessagesAsTheyAre(t *testing.T) {
	b := newBench(t, nil)
	asked := make(chan adapter.Request, 1)
	b.model.say = func(_ context.Context, _ string, req adapter.Request, yield func(string) bool) error {
		asked <- req
		_ = yield(`{"a":`) && yield(`1.0}`)
		return nil
	}
	b.serve()
	c, _ := b.completes(`{"model":"test:facts","temperature":0.5,"max_tokens":1,"max_completion_tokens":7,"top_p":0.1,"seed":3,"stop":"x","messages":[
		{"role":"developer","content":"Rhyme."},{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},
		{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]},
		{"role":"tool","tool_call_id":"c","content":"r"},{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,AA=="}}]}]}`)
	if c.Choices[0].Message.Content != `{"a":1.0}` {
		t.Errorf("%+v", c)
	}
	req := <-asked
	if d := cmp.Diff([]adapter.Message{
		{Role: adapter.System, Content: "Rhyme."},
		{Role: adapter.User, Content: "a\nb"},
		{Role: adapter.Assistant, ToolCalls: []adapter.ToolCall{{ID: "c", Name: "f", Arguments: "{}"}}},
		{Role: adapter.ToolRole, ToolCallID: "c", Content: "r"},
		{Role: adapter.User, Parts: []adapter.Part{{Type: "image_url", Image: "data:image/png;base64,AA=="}}},
	}, req.Messages); d != "" {
		t.Error(d)
	}
	if *req.Temperature != 0.5 || *req.MaxTokens != 7 || *req.TopP != 0.1 || *req.Seed != 3 || !slices.Equal(req.Stop, []string{"x"}) {
		t.Errorf("%+v", req)
	}
	s := b.streams(chatBody("test:facts", "q", `,"stream":true,"response_format":{"type":"json_schema","json_schema":{"name":"n","schema":{"type":"object"}}}`))
	if req := <-asked; s.text != `{"a":1.0}` || !req.Format.JSON || string(req.Format.Schema) != `{"type":"object"}` {
		t.Errorf("%q %+v", s.text, req.Format)
	}
}

func TestASessionIsTheUsersOrThatOfTheMetadata(t *testing.T) {
	a := newAgentBench(t, nil)
	a.serve()
	for i, more := range []string{`,"user":"ann"`, `,"user":"ann","metadata":{"session":"s-1"}`, `,"user":"ann"`, ``} {
		c, _ := a.completes(chatBody("assistant", "hello", more))
		if want := []string{"3: hello", "3: hello", "5: hello", "3: hello"}[i]; c.Choices[0].Message.Content != want {
			t.Errorf("%s: %q", more, c.Choices[0].Message.Content)
		}
	}
	for _, id := range []string{"ann", "s-1"} {
		if got := a.tapeOf(id); !strings.Contains(got, "hello") {
			t.Errorf("%s: %s", id, got)
		}
	}
}

func TestAConversationThatTheClientKeepsIsTheAgents(t *testing.T) {
	a := newAgentBench(t, nil)
	a.serve()
	a.completes(`{"model":"assistant","messages":[{"role":"system","content":"Rhyme."},{"role":"user","content":"one"},
		{"role":"assistant","content":"1"},{"role":"tool","tool_call_id":"c","content":"not told"},{"role":"user","content":"two"}]}`)
	req := a.talk.requests()[0]
	if got := roles(req); !cmp.Equal([]string{"user: one", "assistant: 1", "user: two"}, got[len(got)-3:]) {
		t.Errorf("%q", got)
	}
	if !strings.HasSuffix(req.Messages[0].Content, "\n\nRhyme.") {
		t.Errorf("%q", req.Messages[0].Content)
	}
}

func TestAnAgentSeesImagesThatAreInTheRequest(t *testing.T) {
	a := newAgentBench(t, nil)
	a.serve()
	a.completes(`{"model":"assistant","messages":[{"role":"user","content":[{"type":"text","text":"what?"},{"type":"image_url","image_url":{"url":"data:image/png;base64,AA=="}}]}]}`)
	req := a.talk.requests()[0]
	last := req.Messages[len(req.Messages)-1]
	if len(last.Parts) != 2 || last.Parts[1].Image != "data:image/png;base64,AA==" || !strings.Contains(last.Parts[0].Text, "what?") {
		t.Errorf("%+v", last)
	}
}

func TestWhatCannotBeDoneIsRefusedByItsName(t *testing.T) {
	a := newAgentBench(t, nil)
	a.serve()
	message := func(m string) string { return `{"model":"assistant","messages":[` + m + `]}` }
	for _, c := range []struct {
		name, body string
		status     int
		param      string
		code       string
	}{
		{"no JSON", `{`, 400, "", wire.CodeInvalid},
		{"a member twice", `{"model":"a","model":"b"}`, 400, "model", wire.CodeInvalid},
		{"no object", `[]`, 400, "", wire.CodeInvalid},
		{"no model", `{"messages":[{"role":"user","content":"x"}]}`, 400, "model", wire.CodeInvalid},
		{"another model", chatBody("gpt-9", "x", ""), 404, "model", "model_not_found"},
		{"a model of another provider", chatBody("nobody:gpt-9", "x", ""), 404, "model", "model_not_found"},
		{"no messages", `{"model":"assistant"}`, 400, "messages", wire.CodeInvalid},
		{"none of them", `{"model":"assistant","messages":[]}`, 400, "messages", wire.CodeInvalid},
		{"an empty one", chatBody("assistant", "", ""), 400, "messages", wire.CodeInvalid},
		{"not the user's at the end", message(`{"role":"assistant","content":"x"}`), 400, "messages", wire.CodeInvalid},
		{"a role", message(`{"role":"function","content":"x"}`), 400, "messages[0].role", wire.CodeInvalid},
		{"a content", message(`{"role":"user","content":7}`), 400, "messages[0].content", wire.CodeInvalid},
		{"a part", message(`{"role":"user","content":[{"type":"input_audio"}]}`), 400, "messages[0].content[0].input_audio", wire.CodeInvalid},
		{"an image's address", message(`{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://example.com/x.png"}}]}`), 400, "messages[0].content[0].image_url.url", wire.CodeInvalid},
		{"tools", chatBody("assistant", "x", `,"tools":[{"type":"function","function":{"name":"f"}}]`), 400, "tools", wire.CodeInvalid},
		{"several answers", chatBody("assistant", "x", `,"n":2`), 400, "n", wire.CodeInvalid},
		{"probabilities", chatBody("assistant", "x", `,"logprobs":true`), 400, "logprobs", wire.CodeInvalid},
		{"a schema for an agent", chatBody("assistant", "x", `,"response_format":{"type":"json_object"}`), 400, "response_format", wire.CodeInvalid},
		{"a temperature", chatBody("assistant", "x", `,"temperature":3}`), 400, "", wire.CodeInvalid},
		{"a temperature that is too high", chatBody("assistant", "x", `,"temperature":3`), 400, "temperature", wire.CodeInvalid},
		{"a limit of tokens", chatBody("assistant", "x", `,"max_completion_tokens":"7"`), 400, "max_completion_tokens", wire.CodeInvalid},
		{"a session", chatBody("assistant", "x", `,"user":"a\nb"`), 400, "user", wire.CodeInvalid},
		{"a session in metadata", chatBody("assistant", "x", `,"metadata":{"session":"a\nb"}`), 400, "metadata.session", wire.CodeInvalid},
		{"a body that is too large", chatBody("assistant", strings.Repeat("x", 5000), ""), 413, "", wire.CodeTooLarge},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, resp := a.completes(c.body)
			if resp.StatusCode != c.status || got.Error == nil || got.Error.Type != "invalid_request_error" || got.Error.Message == "" ||
				*got.Error.Code != c.code || resp.Header.Get("X-Request-Id") == "" || resp.Header.Get("Content-Type") != "application/json" {
				t.Fatalf("%d %+v", resp.StatusCode, got.Error)
			}
			if param := got.Error.Param; c.param == "" && param != nil || c.param != "" && (param == nil || *param != c.param) {
				t.Errorf("%+v, param %v", got.Error, *cmp1(param))
			}
		})
	}
}

func cmp1(text *string) *string {
	if text == nil {
		return new("none")
	}
	return text
}

func TestWhatNewerClientsSayIsPassedOver(t *testing.T) {
	a := newAgentBench(t, nil)
	a.serve()
	_, resp := a.completes(chatBody("assistant", "x", `,"a_member_of_tomorrow":{"x":1},"store":true,"service_tier":"auto","verbosity":"low",
		"reasoning_effort":"high","prediction":null,"parallel_tool_calls":true,"frequency_penalty":0.5,"presence_penalty":1,"logit_bias":{},
		"tools":[],"tool_choice":"auto","n":1,"logprobs":false,"stream_options":null,"modalities":["text"],"safety_identifier":"x",
		"prompt_cache_key":"x","temperature":null,"max_tokens":null,"stop":null,"user":null,"metadata":null,"response_format":{"type":"text"}`))
	if resp.StatusCode != 200 {
		t.Error(resp.StatusCode)
	}
}

// DP-11: a 429 of the model's server stays one, with its Retry-After.
func TestAFailureBeforeAnyOutputHasAStatusAlsoWhereItIsStreamed(t *testing.T) {
	b := newBench(t, nil)
	fails := &adapter.Error{Code: adapter.CodeRateLimited, Message: "the model's server has too much to do", Retryable: true, RetryAfter: 40 * time.Second}
	b.model.say = func(context.Context, string, adapter.Request, func(string) bool) error { return fails }
	b.serve()
	for _, more := range []string{"", `,"stream":true`} {
		for _, model := range []string{"chat", "test:story"} {
			c, resp := b.completes(chatBody(model, "q", more))
			if resp.StatusCode != 429 || *c.Error.Code != adapter.CodeRateLimited || c.Error.Type != "rate_limit_error" || c.Error.Param != nil ||
				len(resp.Header.Get("Retry-After")) != 2 || resp.Header.Get("X-Should-Retry") != "true" || resp.Header.Get("X-Run-Id") == "" {
				t.Errorf("%s%s: %d %+v %v", model, more, resp.StatusCode, c.Error, resp.Header)
			}
		}
	}
}

func TestAFailureInMidStreamIsAnErrorAndTheJSONBeforeItIsWhole(t *testing.T) {
	b := newBench(t, nil).serve()
	for _, c := range []struct {
		name string
		end  func(*stepped)
		code string
	}{
		{"it fails", func(st *stepped) {
			st.fail(&bot.Failure{Code: adapter.CodeUnavailable, Message: "the model's server broke off"})
		}, adapter.CodeUnavailable},
		{"it is canceled", func(st *stepped) { st.m.Stop(run.ErrAsked) }, run.StatusCanceled},
		{"it is interrupted", func(st *stepped) { st.m.Stop(fmt.Errorf("x: %w", ling.ErrInterrupted)) }, wire.CodeDraining},
	} {
		for _, stream := range []bool{true, false} {
			t.Run(fmt.Sprint(c.name, ", streamed ", stream), func(t *testing.T) {
				more := ""
				if stream {
					more = streaming
				}
				over := make(chan struct{})
				go func() {
					defer close(over)
					st := <-b.steps.came
					st.send("a/b", `half an ans`)
					c.end(st)
				}()
				resp := b.do("POST", completions, chatBody("steps", "{}", more))
				<-over
				if !stream {
					var got completed
					if err := json.Unmarshal([]byte(text(t, resp)), &got); err != nil || got.Error == nil || *got.Error.Code != c.code || resp.StatusCode < 400 {
						t.Errorf("%d %+v", resp.StatusCode, got)
					}
					return
				}
				s, broken := readStream(t, resp.Body)
				if broken || s.done || s.err == nil || *s.err.Code != c.code || s.finish != "" || s.text != `{"a":{"b":"half an ans"}}` {
					t.Errorf("%v %+v", broken, s)
				}
			})
		}
	}
}

func TestAnAnswerThatWasCutOrFilteredSaysSo(t *testing.T) {
	b := newBench(t, nil)
	b.model.say = func(_ context.Context, _ string, _ adapter.Request, yield func(string) bool) error {
		yield("some")
		return adapterwire.Filtered(nil)
	}
	b.serve()
	if s := b.streams(chatBody("test:story", "q", `,"stream":true`)); s.finish != openai.ContentFilter || s.text != "some" || !s.done {
		t.Errorf("%+v", s)
	}
	if c, _ := b.completes(chatBody("test:story", "q", "")); c.Choices[0].FinishReason != openai.ContentFilter || c.Choices[0].Message.Content != "some" {
		t.Errorf("%+v", c)
	}
}

func TestAKeyIsTheSameRunAndSurvivesItsConnection(t *testing.T) {
	a := newAgentBench(t, nil)
	a.serve()
	const key = "Idempotency-Key: k"
	first, _ := a.completes(chatBody("assistant", "x", ""), key)
	second, resp := a.completes(chatBody("assistant", "x", ""), key)
	if first.ID != second.ID || resp.Header.Get("Idempotency-Replayed") != "true" || len(a.talk.requests()) != 1 {
		t.Errorf("%s and %s", first.ID, second.ID)
	}
	resp = a.do("POST", completions, chatBody("assistant", "x", streaming), key) // how it is answered is not what is asked
	if s, _ := readStream(t, resp.Body); s.chunks[0].ID != first.ID || s.text != first.Choices[0].Message.Content {
		t.Errorf("%+v", s)
	}
	if c, resp := a.completes(chatBody("assistant", "y", ""), key); resp.StatusCode != 422 || c.Error == nil {
		t.Errorf("%d %+v", resp.StatusCode, c)
	}
	if c, resp := a.completes(chatBody("assistant", "y", ""), "Idempotency-Key: a b"); resp.StatusCode != 400 || c.Error == nil {
		t.Errorf("%d %+v", resp.StatusCode, c)
	}
}

// FT-28
func TestARunThatACrashHasCutOffIsNotTriedAgainUnderItsKey(t *testing.T) {
	folder := t.TempDir()
	b := newBench(t, func(o *Options) { o.Data = folder }).serve()
	const key = "Idempotency-Key: k"
	body := chatBody("steps", "{}", "")
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		b.completes(body, key)
	}()
	st := <-b.steps.came
	st.send("a", "b")
	crashed := left(t, folder)
	st.finish()
	<-answered
	b.down()
	b = newBench(t, func(o *Options) { o.Data = crashed }).serve()
	c, resp := b.completes(body, key)
	if resp.StatusCode != 503 || resp.Header.Get("X-Should-Retry") != "false" || c.Error == nil || !strings.Contains(c.Error.Message, "another Idempotency-Key") {
		t.Errorf("%d %v %+v", resp.StatusCode, resp.Header, c.Error)
	}
	if b.steps.started() != 0 {
		t.Error("started again")
	}
}

func TestAClientThatGoesAwayEndsItsRunUnlessItHasAKey(t *testing.T) {
	b := newBench(t, nil).serve()
	for _, stream := range []bool{true, false} {
		for _, said := range []bool{true, false} { // the run has made something
			for _, key := range []bool{true, false} {
				t.Run(fmt.Sprint("streamed ", stream, ", said ", said, ", keyed ", key), func(t *testing.T) {
					ctx, leave := context.WithCancel(t.Context())
					defer leave()
					over := make(chan struct{})
					var header []string
					if key {
						header = []string{fmt.Sprintf("Idempotency-Key: %v-%v", stream, said)}
					}
					go func() {
						defer close(over)
						resp, err := b.try(ctx, "POST", completions, chatBody("steps", "{}", fmt.Sprint(`,"stream":`, stream)), header...)
						if err == nil {
							_, _ = io.ReadAll(resp.Body)
							resp.Body.Close()
						}
					}()
					st := <-b.steps.came
					if said {
						st.send("a", "x")
					}
					leave()
					<-over
					if key {
						st.send("a", "y") // it goes on
						st.finish()
						return
					}
					<-st.ctx.Done()
					if !errors.Is(context.Cause(st.ctx), run.ErrLeft) {
						t.Error(context.Cause(st.ctx))
					}
				})
			}
		}
	}
}

func TestAnIdleStreamHasCommentsAndNothingElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, nil).servePipes()
		resp := make(chan *http.Response)
		go func() {
			r, err := b.try(t.Context(), "POST", completions, chatBody("steps", "{}", `,"stream":true`))
			if err != nil {
				t.Error(err)
			}
			resp <- r
		}()
		st := <-b.steps.came
		began := time.Now()
		r := <-resp // though nothing has been said
		if took := time.Since(began); took != 10*time.Second || r.StatusCode != 200 {
			t.Errorf("%d after %v", r.StatusCode, took)
		}
		go func() {
			time.Sleep(15 * time.Second)
			st.send("a", "x")
			time.Sleep(15 * time.Second)
			st.fail(&bot.Failure{Code: adapter.CodeUnavailable, Message: "it broke off"})
		}()
		s, broken := readStream(t, r.Body)
		r.Body.Close()
		if broken || s.err == nil || s.text != `{"a":"x"}` || strings.Count(s.raw, ":\n") != 2 || strings.Contains(s.raw, ":\n\n") {
			t.Errorf("%v %q", broken, s.raw)
		}
		b.down()
	})
}

func TestAnAnswerThatTakesLongHasSpaceInFrontOfIt(t *testing.T) {
	for _, fails := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t, nil).servePipes()
			resp := make(chan *http.Response)
			go func() {
				r, err := b.try(t.Context(), "POST", completions, chatBody("steps", "{}", ""))
				if err != nil {
					t.Error(err)
				}
				resp <- r
			}()
			st := <-b.steps.came
			began := time.Now()
			go func() {
				time.Sleep(75 * time.Second)
				st.send("a", "x")
				if fails {
					st.fail(&bot.Failure{Code: adapter.CodeUnavailable, Message: "it broke off"})
				} else {
					st.finish()
				}
			}()
			r := <-resp
			if took := time.Since(began); took != 30*time.Second || r.StatusCode != 200 {
				t.Errorf("%d after %v", r.StatusCode, took)
			}
			body := text(t, r)
			var c completed
			if err := json.Unmarshal([]byte(body), &c); err != nil || !strings.HasPrefix(body, "\n\n\n\n\n{") {
				t.Errorf("%v in %q", err, body)
			}
			if fails != (c.Error != nil) || !fails && c.Choices[0].Message.Content != `{"a":"x"}` {
				t.Errorf("%q", body)
			}
			b.down()
		})
	}
}

func TestAReaderThatFellBehindGoesOnFromASnapshot(t *testing.T) {
	b := newBench(t, func(o *Options) { o.MaxLog = 4 << 10 }).serve()
	over := make(chan streamed)
	go func() {
		resp := b.do("POST", completions, chatBody("steps", "{}", streaming))
		r := bufio.NewReader(resp.Body)
		if _, err := r.Peek(1); err != nil {
			t.Error(err)
		}
		s, _ := readStream(t, r)
		over <- s
	}()
	st := <-b.steps.came
	want := strings.Repeat("0123456789", 30_000)
	for i := 0; i < len(want); i += 1000 {
		st.send("a/b", want[i:i+1000])
	}
	st.finish()
	if s := <-over; s.text != `{"a":{"b":"`+want+`"}}` || s.finish != openai.Stop {
		t.Errorf("%d bytes, %q", len(s.text), s.finish)
	}
}

// One log, and three ways to read it: as it is, as chunks of a completion, and at the end as a document.
func TestARunIsTheSameDocumentInOpenAIsWords(t *testing.T) {
	b := newBench(t, nil).serve()
	random := rand.New(rand.NewPCG(1, 2))
	uris := []string{"a", "b/c", "b/d/0", "b/d/1/e", "f", `g\/h`, "$reasoning_context", "b/$tools/0"}
	for round := range 20 {
		stream := make(chan streamed)
		go func() {
			resp := b.do("POST", completions, chatBody("steps", "{}", streaming))
			s, _ := readStream(t, resp.Body)
			stream <- s
		}()
		st := <-b.steps.came
		live := b.do("GET", "/v1/runs/"+st.m.ID()+"/events", "")
		st.set("b/d", "[]")
		for range 60 {
			uri := uris[random.IntN(len(uris))]
			switch random.IntN(6) {
			case 0:
				st.set(uri, []string{"null", "1.50", "true", `{"x":[1]}`}[random.IntN(4)])
			case 1:
				st.do <- func(context.Context) error {
					_, err := st.m.Tube().Send(tube.Event{Kind: tube.Done, URI: []byte(uri)})
					return err
				}
			default:
				st.send(uri, []string{"word ", `\n`, `\"é`, "☀"}[random.IntN(4)])
			}
		}
		st.finish()
		events, chunks := fold(t, live), <-stream
		if chunks.err != nil || chunks.finish != openai.Stop {
			t.Fatalf("round %d: %+v", round, chunks)
		}
		result := get[document](b, "/v1/runs/"+st.m.ID()).Result
		want := decode(t, string(result))
		if d := cmp.Diff(want, decode(t, events.json())); d != "" {
			t.Errorf("round %d, events: %s", round, d)
		}
		if d := cmp.Diff(want, decode(t, chunks.text)); d != "" {
			t.Errorf("round %d, chunks: %s", round, d)
		}
	}
}

func TestModelsAreListedWithWhatTakesTheirPlace(t *testing.T) {
	a := newAgentBench(t, nil)
	a.serve()
	type list struct{ Data []openai.Model }
	owners := map[string]string{}
	for _, m := range get[list](a.bench, "/v1/models").Data {
		owners[m.ID] = m.OwnedBy
		escaped := strings.NewReplacer("/", "%2F", ":", "%3A").Replace(m.ID)
		for _, path := range []string{m.ID, escaped} {
			if got := get[openai.Model](a.bench, "/v1/models/"+path); got != m {
				t.Errorf("%s: %+v", path, got)
			}
		}
	}
	if d := cmp.Diff(map[string]string{
		"talk:talk": "talk", "test:story": "test", "test:facts": "test", "assistant": "agent", "chat": "workflow", "steps": "workflow",
	}, owners); d != "" {
		t.Error(d)
	}
	for _, name := range []string{"workflow/chat", "agent/assistant"} { // as a request may name it, too
		if got := get[openai.Model](a.bench, "/v1/models/"+name); got.ID != name || got.OwnedBy+"/" != name[:len(got.OwnedBy)+1] {
			t.Errorf("%+v", got)
		}
	}
	resp := a.do("GET", "/v1/models/no%2Fsuch", "")
	var c completed
	if err := json.Unmarshal([]byte(text(t, resp)), &c); err != nil || resp.StatusCode != 404 || *c.Error.Code != "model_not_found" || *c.Error.Param != "model" {
		t.Errorf("%d %+v", resp.StatusCode, c.Error)
	}
}
