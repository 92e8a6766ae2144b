package web

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
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
	if c, resp := b.completes(chatBody("workflow/chat", `{"question":"q","level":2}`, "")); resp.StatusCode != 200 {
		t.Errorf("an object as text: %+v", c.Error)
	}
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
	c, _ := b.completes(`{"model":"test:facts","temperature":0.5,"messages":[{"role":"developer","content":"Rhyme."},{"role":"user","content":"a"}]}`)
	req := <-asked
	if c.Choices[0].Message.Content != `{"a":1.0}` || *req.Temperature != 0.5 {
		t.Errorf("%+v %+v", c, req)
	}
	if d := cmp.Diff([]adapter.Message{{Role: adapter.System, Content: "Rhyme."}, {Role: adapter.User, Content: "a"}}, req.Messages); d != "" {
		t.Error(d)
	}
	s := b.streams(chatBody("test:facts", "q", `,"stream":true,"response_format":{"type":"json_schema","json_schema":{"name":"n","schema":{"type":"object"}}}`))
	if req := <-asked; s.text != `{"a":1.0}` || !req.Format.JSON || string(req.Format.Schema) != `{"type":"object"}` {
		t.Errorf("%q %+v", s.text, req.Format)
	}
}

// DH-05
func TestAStrictAnswerFitsItsSchemaOrIsAnError(t *testing.T) {
	b := newBench(t, nil)
	answer, finish := "", ""
	b.model.say = func(_ context.Context, _ string, _ adapter.Request, yield func(string) bool) error {
		yield(answer)
		return nil
	}
	b.model.finish = func() string { return finish }
	b.serve()
	format := func(strict bool) string {
		return fmt.Sprintf(`,"response_format":{"type":"json_schema","json_schema":{"name":"n","strict":%v,"schema":`+
			`{"type":"object","required":["a","mail"],"properties":{"a":{"type":"integer"},"mail":{"type":"string","pattern":"^(?!\\.)x"}}}}}`, strict)
	}
	const fits, misfits = `{"a":1,"mail":"y"}`, `{"a":"one","mail":"x"}` // Go has no look-ahead, so the pattern counts for nothing
	for _, row := range []struct {
		name, answer, finish string
		strict               bool
		status               int
		end                  string // of the stream
	}{
		{"a fit", fits, adapter.FinishStop, true, 200, openai.Stop},
		{"a misfit", misfits, adapter.FinishStop, true, 424, ""},
		{"a misfit that is not strict", misfits, adapter.FinishStop, false, 200, openai.Stop},
		{"no JSON", "I cannot.", adapter.FinishStop, true, 424, ""},
		{"an answer that was cut off", `{"a":1,`, adapter.FinishLength, true, 200, openai.Length},
	} {
		t.Run(row.name, func(t *testing.T) {
			answer, finish = row.answer, row.finish
			c, resp := b.completes(chatBody("test:story", "q", format(row.strict)))
			failed := row.status != 200
			if resp.StatusCode != row.status || failed && (*c.Error.Code != wire.CodeOutput || resp.Header.Get("X-Should-Retry") != "false") || !failed && c.Choices[0].FinishReason != row.end {
				t.Errorf("%d %+v %+v", resp.StatusCode, c, c.Error)
			}
			if row.answer == "I cannot." {
				return // it is an error before the stream begins
			}
			s := b.streams(chatBody("test:story", "q", streaming+format(row.strict)))
			if failed != (s.err != nil) || s.finish != row.end {
				t.Errorf("%+v %+v", s, s.err)
			}
		})
	}
}

func TestWhatCannotBeDoneIsRefusedByItsName(t *testing.T) {
	a := newAgentBench(t, nil)
	a.serve()
	for _, c := range []struct {
		body        string
		status      int
		param, code string
	}{
		{`{`, 400, "", wire.CodeInvalid},
		{chatBody("gpt-9", "x", ""), 404, "model", "model_not_found"},
		{chatBody("assistant", "", ""), 400, "messages", wire.CodeInvalid},
		{`{"model":"assistant","messages":[{"role":"assistant","content":"x"}]}`, 400, "messages", wire.CodeInvalid},
		{chatBody("assistant", "x", `,"user":"a\nb"`), 400, "user", wire.CodeInvalid},
		{chatBody("assistant", strings.Repeat("x", 5000), ""), 413, "", wire.CodeTooLarge},
	} {
		got, resp := a.completes(c.body)
		if resp.StatusCode != c.status || got.Error == nil || got.Error.Type != "invalid_request_error" || got.Error.Message == "" ||
			*got.Error.Code != c.code || resp.Header.Get("X-Request-Id") == "" || resp.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%.80s: %d %+v", c.body, resp.StatusCode, got.Error)
			continue
		}
		if param := got.Error.Param; c.param == "" && param != nil || c.param != "" && (param == nil || *param != c.param) {
			t.Errorf("%.80s: %+v, expected the param %q", c.body, got.Error, c.param)
		}
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
	for code, end := range map[string]func(*stepped){
		adapter.CodeUnavailable: func(st *stepped) {
			st.fail(&bot.Failure{Code: adapter.CodeUnavailable, Message: "the model's server broke off"})
		},
		run.StatusCanceled: func(st *stepped) { st.m.Stop(run.ErrAsked) },
		wire.CodeDraining:  func(st *stepped) { st.m.Stop(fmt.Errorf("x: %w", ling.ErrInterrupted)) },
	} {
		for _, more := range []string{"", streaming} {
			answered := b.post(completions, chatBody("steps", "{}", more))
			st := <-b.steps.came
			st.send("a/b", `half an ans`)
			end(st)
			resp := <-answered
			if more == "" {
				var got completed
				if err := json.Unmarshal([]byte(text(t, resp)), &got); err != nil || got.Error == nil || *got.Error.Code != code || resp.StatusCode < 400 {
					t.Errorf("%s: %d %+v", code, resp.StatusCode, got)
				}
				continue
			}
			s, broken := readStream(t, resp.Body)
			if broken || s.done || s.err == nil || *s.err.Code != code || s.finish != "" || s.text != `{"a":{"b":"half an ans"}}` {
				t.Errorf("%s: %v %+v", code, broken, s)
			}
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
}

// FT-28
func TestARunThatACrashHasCutOffIsNotTriedAgainUnderItsKey(t *testing.T) {
	b := newBench(t, func(o *Options) { o.Data = t.TempDir() }).serve()
	const key = "Idempotency-Key: k"
	body := chatBody("steps", "{}", "")
	answered := b.post(completions, body, key)
	st := <-b.steps.came
	st.send("a", "b")
	crashed := b.crashed()
	st.finish()
	text(t, <-answered)
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

func TestAnIdleStreamHasCommentsAndNothingElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, nil).servePipes()
		answered := b.post(completions, chatBody("steps", "{}", `,"stream":true`))
		st := <-b.steps.came
		began := time.Now()
		r := <-answered // though nothing has been said
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
			answered := b.post(completions, chatBody("steps", "{}", ""))
			st := <-b.steps.came
			began := time.Now()
			time.AfterFunc(75*time.Second, func() {
				st.send("a", "x")
				if fails {
					st.fail(&bot.Failure{Code: adapter.CodeUnavailable, Message: "it broke off"})
				} else {
					st.finish()
				}
			})
			r := <-answered
			if took := time.Since(began); took != 30*time.Second || r.StatusCode != 200 {
				t.Errorf("%d after %v", r.StatusCode, took)
			}
			body, err := io.ReadAll(r.Body)
			r.Body.Close()
			if fails { // DH-03: the status says success, and no client looks for an error in the body
				if err == nil || len(bytes.TrimSpace(body)) > 0 {
					t.Errorf("%v after %q", err, body)
				}
				b.down()
				return
			}
			var c completed
			if err := json.Unmarshal(body, &c); err != nil || !bytes.HasPrefix(body, []byte("\n\n\n\n\n{")) || c.Choices[0].Message.Content != `{"a":"x"}` {
				t.Errorf("%v in %q", err, body)
			}
			b.down()
		})
	}
}
