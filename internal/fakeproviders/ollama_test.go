package fakeproviders

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// askOllama posts a request to /api/chat and returns the answer's kind and body.
func askOllama(t *testing.T, s *Server, body string) (status int, kind, said string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://model/api/chat", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	res, err := s.Transport().RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, res.Header.Get("Content-Type"), string(b)
}

// AD-04: the lines of Ollama. A bubble's time begins at midnight of the year 2000.
func TestAStreamHasTheLinesOfOllama(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Server{Script: func(Request) Answer {
			return Answer{
				Reasoning: "hm", Text: "a \"b\"\n<c>", Pace: 2, Delay: time.Second,
				ToolCalls: []ToolCall{{"c1", "look", "{ \"q\": [1.10, \"ü\"]\n}"}, {"", "see", "{}"}},
			}
		}}
		defer s.Close()
		status, kind, said := askOllama(t, s, `{"model":"m:1","messages":[{"role":"user","content":"hi"}]}`)
		if status != 200 || kind != "application/x-ndjson" {
			t.Errorf("%d %s", status, kind)
		}
		want := []string{
			`{"model":"m:1","created_at":"2000-01-01T00:00:01Z","message":{"role":"assistant","content":"","thinking":"hm"},"done":false}`,
			`{"model":"m:1","created_at":"2000-01-01T00:00:01.5Z","message":{"role":"assistant","content":"a \"b"},"done":false}`,
			`{"model":"m:1","created_at":"2000-01-01T00:00:02Z","message":{"role":"assistant","content":"\"\n\u003cc"},"done":false}`,
			`{"model":"m:1","created_at":"2000-01-01T00:00:02.5Z","message":{"role":"assistant","content":"\u003e"},"done":false}`,
			// A call comes when it is complete, with the last of its five tokens.
			`{"model":"m:1","created_at":"2000-01-01T00:00:05Z","message":{"role":"assistant","content":"","tool_calls":[{"id":"c1","function":{"index":0,"name":"look","arguments":{"q":[1.10,"ü"]}}}]},"done":false}`,
			`{"model":"m:1","created_at":"2000-01-01T00:00:05.5Z","message":{"role":"assistant","content":"","tool_calls":[{"function":{"index":1,"name":"see","arguments":{}}}]},"done":false}`,
			`{"model":"m:1","created_at":"2000-01-01T00:00:06Z","message":{"role":"assistant","content":""},"done":true,"done_reason":"stop","total_duration":6000000000,"load_duration":1000000000,"prompt_eval_count":1,"eval_count":10,"eval_duration":5000000000}`,
		}
		if diff := cmp.Diff(want, strings.Split(strings.TrimSuffix(said, "\n"), "\n")); diff != "" {
			t.Error(diff)
		}
	})
}

func TestOllamasAnswerInOnePiece(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answer := Answer{Reasoning: "hm", Text: "hello", ToolCalls: []ToolCall{{"c1", "look", "{}"}, {"c2", "look", "not JSON"}}, Finish: "length"}
		s := &Server{Script: func(Request) Answer { return answer }}
		defer s.Close()
		_, kind, said := askOllama(t, s, `{"model":"m","stream":false}`)
		want := `{"model":"m","created_at":"2000-01-01T00:00:00Z","message":{"role":"assistant","content":"hello","thinking":"hm",` +
			`"tool_calls":[{"id":"c1","function":{"index":0,"name":"look","arguments":{}}},{"id":"c2","function":{"index":1,"name":"look","arguments":"not JSON"}}]},` +
			`"done":true,"done_reason":"length","eval_count":6}`
		if said != want || kind != "application/json" {
			t.Errorf("%s: %s", kind, cmp.Diff(want, said))
		}
		answer = Answer{Finish: "-"}
		for body, end := range map[string]string{`{"model":"m","stream":false}`: `,"done":false}`, `{"model":"m","stream":true}`: ``} {
			if _, _, said := askOllama(t, s, body); !strings.HasSuffix(said, end) || strings.Contains(said, "done_reason") {
				t.Errorf("%s: %s", body, said)
			}
		}
	})
}

func TestOllamaRefusesInItsOwnWords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var answer Answer
		s := &Server{Script: func(Request) Answer { return answer }}
		defer s.Close()
		for _, row := range []struct {
			name   string
			answer Answer
			ask    string
			said   string
		}{
			{"a model that is not there", Answer{Status: 404}, `{"model":"a\"b"}`, `{"error":"model \"a\\\"b\" not found, try pulling it first"}`},
			{"a status", Answer{Status: 503}, `{"model":"m"}`, `{"error":"service unavailable"}`},
			{"words", Answer{Status: 400, Body: "m does not support tools"}, `{"model":"m"}`, `{"error":"m does not support tools"}`},
			{"an object", Answer{Status: 401, Body: `{"error":"x","signin_url":"y"}`}, `{"model":"m"}`, `{"error":"x","signin_url":"y"}`},
			{"a page", Answer{Status: 502, Body: `<html>`, Header: http.Header{"Content-Type": {"text/html"}}}, `{"model":"m"}`, `<html>`},
		} {
			answer = row.answer
			if status, _, said := askOllama(t, s, row.ask); status != row.answer.Status || said != row.said {
				t.Errorf("%s: %d %s", row.name, status, said)
			}
		}
	})
}

// What Ollama would not take is not taken here, so that a client's mistake is seen.
func TestWhatIsAskedOfOllama(t *testing.T) {
	var got Request
	s := &Server{Script: func(r Request) Answer {
		got = r
		return Answer{}
	}}
	defer s.Close()
	body := `{"model":"m","messages":[{"role":"user","content":"see","images":["AAEC"]},{"role":"assistant","content":"","tool_calls":[{"function":{"name":"f","arguments":{"a":1}}}]}],"format":{"type":"object"},"tools":[{"type":"function","function":{"name":"f"}}]}`
	if status, _, said := askOllama(t, s, body); status != 200 {
		t.Fatal(said)
	}
	want := Request{
		Model: "m", Stream: true, Usage: true, JSON: true, Schema: json.RawMessage(`{"type":"object"}`), Tools: []string{"f"},
		Messages: []Message{{Role: "user", Content: "see"}, {Role: "assistant"}},
	}
	got.Header, got.Body, got.Attempt, got.Path = nil, nil, 0, ""
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for format, isJSON := range map[string]bool{`"json"`: true, `null`: false, `""`: false} {
		if status, _, said := askOllama(t, s, `{"model":"m","format":`+format+`}`); status != 200 || got.JSON != isJSON || got.Schema != nil {
			t.Errorf("%s: %d %s", format, status, said)
		}
	}
	for name, body := range map[string]string{
		"a format that is none": `{"model":"m","format":"yaml"}`, "a list as format": `{"model":"m","format":[]}`, "no JSON": `{`,
		"arguments in a string": `{"model":"m","messages":[{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":"{}"}}]}]}`,
		"an image by address":   `{"model":"m","messages":[{"role":"user","images":["https://example.com/cat.png"]}]}`,
		"parts as content":      `{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"a"}]}]}`,
	} {
		if status, _, said := askOllama(t, s, body); status != 400 || !strings.HasPrefix(said, `{"error":"`) {
			t.Errorf("%s: %d %s", name, status, said)
		}
	}
}

func TestOllamasModelsAreListed(t *testing.T) {
	s := &Server{Models: []string{"a:1", "b"}}
	defer s.Close()
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://model/api/tags", nil)
	res, err := s.Transport().RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var list struct {
		Models []struct {
			Name, Model, Digest string
			ModifiedAt          time.Time `json:"modified_at"`
		}
	}
	if err := json.NewDecoder(res.Body).Decode(&list); err != nil || len(list.Models) != 2 || list.Models[0].Name != "a:1" || list.Models[1].Model != "b" ||
		len(list.Models[0].Digest) != 64 || list.Models[0].ModifiedAt.IsZero() {
		t.Errorf("%+v %v", list, err)
	}
}
