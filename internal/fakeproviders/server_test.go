package fakeproviders

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// ask posts a request through the server's transport and returns the response.
func ask(t testing.TB, ctx context.Context, s *Server, body string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://model/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	res, err := s.Transport().RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// events returns the data of a stream's events.
func events(t testing.TB, body io.Reader) []string {
	t.Helper()
	b, err := io.ReadAll(body)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for e := range strings.SplitSeq(strings.TrimSuffix(string(b), "\n\n"), "\n\n") {
		data, ok := strings.CutPrefix(e, "data: ")
		if !ok {
			t.Fatalf("not an event: %q", e)
		}
		out = append(out, data)
	}
	return out
}

type frame struct {
	ID, Object, Model string
	Created           int64
	Choices           []struct {
		Delta struct {
			Role             string
			Content          *string
			ReasoningContent string `json:"reasoning_content"`
			ToolCalls        []struct {
				Index    int
				ID       string
				Function struct{ Name, Arguments string }
			} `json:"tool_calls"`
		}
		FinishReason *string `json:"finish_reason"`
	}
	Usage *struct {
		PromptTokens     int `json:"prompt_tokens"`
		CompletionTokens int `json:"completion_tokens"`
		TotalTokens      int `json:"total_tokens"`
	}
}

func TestAStreamHasTheWireFormatOfChatCompletions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		text := "Röntgen said \"hi\"\n\\ and\tleft \x01 🙂🙂🙂"
		s := &Server{Script: func(r Request) Answer {
			return Answer{Text: text, Reasoning: "let me think", ToolCalls: []ToolCall{{"c1", "look", `{"q":1}`}, {"c2", "see", `{}`}}}
		}}
		defer s.Close()
		res := ask(t, t.Context(), s, `{"model":"m\"1","stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"12345"}]}`)
		defer res.Body.Close()
		if ct := res.Header.Get("Content-Type"); !strings.HasPrefix(ct, "text/event-stream") {
			t.Errorf("Content-Type %q", ct)
		}
		all := events(t, res.Body)
		if last := all[len(all)-1]; last != "[DONE]" {
			t.Errorf("last event is %q", last)
		}
		var gotText, reasoning, finish strings.Builder
		args := map[int]string{}
		ids := map[string]bool{}
		usage := 0
		for i, data := range all[:len(all)-1] {
			var f frame
			if err := json.Unmarshal([]byte(data), &f); err != nil {
				t.Fatalf("%v in %s", err, data)
			}
			ids[f.ID] = true
			if f.Object != "chat.completion.chunk" || f.Model != `m"1` || f.Created == 0 {
				t.Errorf("frame %s", data)
			}
			if len(f.Choices) == 0 {
				usage++
				if f.Usage == nil || f.Usage.PromptTokens != 2 || f.Usage.TotalTokens != f.Usage.PromptTokens+f.Usage.CompletionTokens {
					t.Errorf("usage %s", data)
				}
				continue
			}
			c := f.Choices[0]
			if (c.Delta.Role == "assistant") != (i == 0) {
				t.Errorf("event %d has role %q", i, c.Delta.Role)
			}
			if c.Delta.Content != nil {
				gotText.WriteString(*c.Delta.Content)
			}
			reasoning.WriteString(c.Delta.ReasoningContent)
			for _, call := range c.Delta.ToolCalls {
				args[call.Index] += call.ID + call.Function.Name + call.Function.Arguments
			}
			if c.FinishReason != nil {
				finish.WriteString(*c.FinishReason)
			}
		}
		if diff := cmp.Diff(text, gotText.String()); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff("let me think", reasoning.String()); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff(map[int]string{0: `c1look{"q":1}`, 1: `c2see{}`}, args); diff != "" {
			t.Error(diff)
		}
		if finish.String() != "tool_calls" || usage != 1 || len(ids) != 1 {
			t.Errorf("finish %q, %d usage chunks, %d ids", finish.String(), usage, len(ids))
		}
	})
}

func TestADeploymentAnswersAsAzureDoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Server{Script: func(r Request) Answer {
			if r.Attempt == 2 {
				return Answer{Status: 429}
			}
			return Answer{Text: "blue", ToolCalls: []ToolCall{{"c1", "look", `{}`}}}
		}}
		defer s.Close()
		ask := func() *http.Response {
			body := strings.NewReader(`{"model":"gpt-4o","stream":true,"stream_options":{"include_usage":true},"messages":[]}`)
			res, err := s.Transport().RoundTrip(httptest.NewRequestWithContext(t.Context(), http.MethodPost,
				"http://x.openai.azure.com/openai/deployments/gpt-4o/chat/completions?api-version=2024-10-21", body))
			if err != nil {
				t.Fatal(err)
			}
			return res
		}
		res := ask()
		defer res.Body.Close()
		text, finish, filtered, usage := "", "", 0, 0
		for i, data := range events(t, res.Body) {
			if data == "[DONE]" {
				break
			}
			var f struct {
				frame
				PromptFilterResults []any `json:"prompt_filter_results"`
				Choices             []struct {
					ContentFilterResults map[string]any `json:"content_filter_results"`
					Delta                struct{ Content string }
					FinishReason         *string `json:"finish_reason"`
				}
			}
			if err := json.Unmarshal([]byte(data), &f); err != nil {
				t.Fatalf("%v in %s", err, data)
			}
			if (len(f.PromptFilterResults) == 1) != (i == 0) {
				t.Errorf("event %d: %s", i, data)
			}
			if f.Usage != nil {
				usage++
			}
			for _, c := range f.Choices {
				text += c.Delta.Content
				if len(c.ContentFilterResults) == 4 {
					filtered++
				}
				if c.FinishReason != nil {
					finish += *c.FinishReason
				}
			}
		}
		if text != "blue" || finish != "tool_calls" || filtered != 5 || usage != 1 {
			t.Errorf("%q %q, %d choices looked at by the filter, %d with usage", text, finish, filtered, usage)
		}
		refused := ask()
		defer refused.Body.Close()
		if said, err := io.ReadAll(refused.Body); err != nil || string(said) != `{"error":{"code":"429","message":"Too Many Requests"}}` {
			t.Errorf("%s %v", said, err)
		}
	})
}

func TestAnAnswerThatIsNotStreamedIsOneObject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Server{Models: []string{"m"}, Script: func(Request) Answer {
			return Answer{Text: `a "b"`, ToolCalls: []ToolCall{{"c", "f", "{}"}}, Pace: 1}
		}}
		defer s.Close()
		began := time.Now()
		res := ask(t, t.Context(), s, `{"model":"m","messages":[]}`)
		defer res.Body.Close()
		var got struct {
			Object  string
			Choices []struct {
				Message struct {
					Content   string
					ToolCalls []struct{ ID string } `json:"tool_calls"`
				}
				FinishReason string `json:"finish_reason"`
			}
		}
		if err := json.NewDecoder(res.Body).Decode(&got); err != nil {
			t.Fatal(err)
		}
		if got.Object != "chat.completion" || got.Choices[0].Message.Content != `a "b"` ||
			got.Choices[0].Message.ToolCalls[0].ID != "c" || got.Choices[0].FinishReason != "tool_calls" {
			t.Errorf("%+v", got)
		}
		if d := time.Since(began); d != 3*time.Second { // two tokens of text, one of arguments
			t.Errorf("took %v", d)
		}
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://model/v1/models", nil)
		list, err := s.Transport().RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		defer list.Body.Close()
		b, _ := io.ReadAll(list.Body)
		if !strings.Contains(string(b), `"id":"m"`) {
			t.Errorf("models: %s", b)
		}
	})
}

func TestPaceFollowsTheClockAndDoesNotDrift(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tokens := make([]string, 500)
		for i := range tokens {
			tokens[i] = "x"
		}
		s := &Server{Script: func(Request) Answer { return Answer{Tokens: tokens, Pace: 50, Delay: time.Second} }}
		defer s.Close()
		began := time.Now()
		res := ask(t, t.Context(), s, `{"model":"m","stream":true}`)
		defer res.Body.Close()
		if d := time.Since(began); d != time.Second {
			t.Errorf("header after %v", d)
		}
		lines := bufio.NewScanner(res.Body)
		for n := 0; lines.Scan(); {
			if !strings.Contains(lines.Text(), `"content":"x"`) {
				continue
			}
			if at, want := time.Since(began), time.Second+time.Duration(n)*20*time.Millisecond; at != want {
				t.Fatalf("token %d after %v, want %v", n, at, want)
			}
			n++
		}
		if d := time.Since(began); d != 11*time.Second {
			t.Errorf("end after %v", d)
		}
	})
}

func TestAClientThatGoesAwayIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Server{Script: func(r Request) Answer {
			return map[string]Answer{
				"paced": {Text: strings.Repeat("word", 1000), Pace: 10},
				"hang":  {Raw: []Raw{{Bytes: ": hello\n\n"}, {Hang: true}}},
				"quick": {Text: strings.Repeat("word", 1<<20)},
			}[r.Model]
		}}
		defer s.Close()
		for i, model := range []string{"paced", "hang", "quick"} {
			ctx, cancel := context.WithCancel(t.Context())
			res := ask(t, ctx, s, `{"model":"`+model+`","stream":true}`)
			synctest.Wait()
			if s.Open() != 1 || s.Requests() != i+1 {
				t.Errorf("%s: open %d, requests %d", model, s.Open(), s.Requests())
			}
			cancel()
			res.Body.Close()
			synctest.Wait()
			if s.Open() != 0 || s.Canceled() != i+1 {
				t.Errorf("%s: open %d, canceled %d", model, s.Open(), s.Canceled())
			}
		}
	})
}

func TestARawScriptIsSentAsItIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Server{Script: func(Request) Answer {
			return Answer{
				Header: http.Header{"Content-Type": {"text/html"}},
				Raw:    []Raw{{Bytes: "a\xffb"}, {Wait: time.Hour, Bytes: "c"}, {Cut: true}},
			}
		}}
		defer s.Close()
		began := time.Now()
		res := ask(t, t.Context(), s, `{"model":"m","stream":true}`)
		defer res.Body.Close()
		b, err := io.ReadAll(res.Body)
		if err != io.ErrUnexpectedEOF {
			t.Errorf("error %v", err)
		}
		if string(b) != "a\xffbc" || res.Header.Get("Content-Type") != "text/html" || time.Since(began) != time.Hour {
			t.Errorf("%q after %v, %v", b, time.Since(began), res.Header)
		}
		synctest.Wait()
		if s.Canceled() != 0 || s.Open() != 0 {
			t.Errorf("canceled %d, open %d: the server cut this one", s.Canceled(), s.Open())
		}
	})
}

func TestAnErrorAnswerHasItsStatusHeaderAndBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Server{Script: func(r Request) Answer {
			if r.Attempt == 1 {
				return Answer{Status: 429, Header: http.Header{"Retry-After": {"7"}}}
			}
			return Answer{Status: 400, Body: `{"error":{"code":"x"}}`}
		}}
		defer s.Close()
		res := ask(t, t.Context(), s, `{"model":"m"}`)
		b, _ := io.ReadAll(res.Body)
		res.Body.Close()
		if res.StatusCode != 429 || res.Header.Get("Retry-After") != "7" || !strings.Contains(string(b), `"error":{`) {
			t.Errorf("%v %v %s", res.Status, res.Header, b)
		}
		res = ask(t, t.Context(), s, `{"model":"m"}`)
		b, _ = io.ReadAll(res.Body)
		res.Body.Close()
		if res.StatusCode != 400 || string(b) != `{"error":{"code":"x"}}` {
			t.Errorf("%v %s", res.Status, b)
		}
	})
}

func TestTheScriptSeesWhatWasAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got Request
		s := &Server{Script: func(r Request) Answer { got = r; return Answer{} }}
		defer s.Close()
		body := `{"model":"m","stream":true,"messages":[{"role":"system","content":"s"},{"role":"user","content":[{"type":"text","text":"a"},{"type":"image_url"},{"type":"text","text":"b"}]},{"role":"assistant","content":null}],
			"response_format":{"type":"json_schema","json_schema":{"name":"n","schema":{"type":"object"}}},"tools":[{"function":{"name":"f"}}]}`
		res := ask(t, t.Context(), s, body)
		io.Copy(io.Discard, res.Body)
		res.Body.Close()
		want := Request{
			Model: "m", Stream: true, JSON: true, Schema: json.RawMessage(`{"type":"object"}`), Tools: []string{"f"},
			Messages: []Message{{"system", "s"}, {"user", "ab"}, {"assistant", ""}}, Body: []byte(body), Attempt: 1,
		}
		got.Header = nil
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	})
}

func TestCloseBreaksWhatIsOpenAndWaitsForIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Server{Script: func(Request) Answer { return Answer{Raw: []Raw{{Bytes: "x"}, {Hang: true}}} }}
		res := ask(t, t.Context(), s, `{"model":"m","stream":true}`)
		defer res.Body.Close()
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if s.Open() != 0 {
			t.Errorf("open after Close: %d", s.Open())
		}
		if _, err := io.ReadAll(res.Body); err == nil {
			t.Error("a broken stream ended cleanly")
		}
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://model/models", nil)
		if _, err := s.Transport().RoundTrip(req); err == nil {
			t.Error("a closed server answered")
		}
	})
}

func TestItServesFromASocketToo(t *testing.T) {
	s := &Server{Script: func(Request) Answer { return Answer{Text: "hello there"} }}
	h := httptest.NewServer(s)
	defer h.Close()
	res, err := http.Post(h.URL+"/chat/completions", "application/json", strings.NewReader(`{"model":"m","stream":true}`))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if n := len(events(t, res.Body)); n != 6 {
		t.Errorf("%d events", n)
	}
	if err := s.Until(t.Context(), func() bool { return s.Open() == 0 }); err != nil {
		t.Error(err)
	}
}

// A token's way from the script to the client's buffer, with a flush for each, as a paced answer has it.
func BenchmarkPacedToken(b *testing.B) {
	s := &Server{Script: func(Request) Answer { return Answer{Tokens: make([]string, b.N), Pace: 1e12} }}
	defer s.Close()
	b.ReportAllocs()
	res := ask(b, b.Context(), s, `{"model":"m","stream":true}`)
	defer res.Body.Close()
	io.Copy(io.Discard, res.Body)
}

func BenchmarkFastToken(b *testing.B) {
	s := &Server{Script: func(Request) Answer { return Answer{Tokens: make([]string, b.N)} }}
	defer s.Close()
	b.ReportAllocs()
	res := ask(b, b.Context(), s, `{"model":"m","stream":true}`)
	defer res.Body.Close()
	io.Copy(io.Discard, res.Body)
}
