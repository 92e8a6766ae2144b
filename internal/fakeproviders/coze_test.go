package fakeproviders

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// post sends a body to a path of the server and returns the response.
func post(t testing.TB, ctx context.Context, s *Server, path, body string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://coze"+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	res, err := s.Transport().RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

func read(t testing.TB, res *http.Response) string {
	t.Helper()
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// cozeEvent is a message or a chat as Coze writes it.
type cozeEvent struct {
	Event          string `json:"-"`
	ID             string
	ConversationID string `json:"conversation_id"`
	BotID          string `json:"bot_id"`
	ChatID         string `json:"chat_id"`
	Role           string
	Type           string
	Content        string
	ContentType    string `json:"content_type"`
	Reasoning      string `json:"reasoning_content"`
	Status         string
	CreatedAt      int64 `json:"created_at"`
	Usage          struct {
		Total  int `json:"token_count"`
		Output int `json:"output_count"`
		Input  int `json:"input_count"`
	}
	RequiredAction struct {
		Type   string
		Submit struct {
			Calls []struct {
				ID       string
				Type     string
				Function struct{ Name, Arguments string }
			} `json:"tool_calls"`
		} `json:"submit_tool_outputs"`
	} `json:"required_action"`
}

// cozeEvents reads a stream as Coze's own clients do: a line with the event, one with the data, a blank one.
func cozeEvents(t testing.TB, stream string) []cozeEvent {
	t.Helper()
	var list []cozeEvent
	for frame := range strings.SplitSeq(strings.TrimSuffix(stream, "\n\n"), "\n\n") {
		name, data, ok := strings.Cut(frame, "\n")
		name, isEvent := strings.CutPrefix(name, "event:")
		data, isData := strings.CutPrefix(data, "data:")
		if !ok || !isEvent || !isData || strings.Contains(data, "\n") {
			t.Fatalf("not an event: %q", frame)
		}
		e := cozeEvent{Event: name}
		if name == "done" {
			if data != `"[DONE]"` {
				t.Errorf("done with %s", data)
			}
		} else if err := json.Unmarshal([]byte(data), &e); err != nil {
			t.Fatalf("%v: %s", err, data)
		}
		list = append(list, e)
	}
	return list
}

const cozeBody = `{"bot_id":"7379","user_id":"u","stream":true,"additional_messages":[{"role":"user","type":"question","content":"Why is the sky blue?","content_type":"text"}]}`

func TestAChatHasTheWireFormatOfCoze(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		text := "Röntgen said \"hi\"\n\\ and\tleft \x01 🙂🙂🙂"
		s := &Server{Script: func(Request) Answer {
			return Answer{
				Text: text, Reasoning: "let me think",
				ToolCalls:   []ToolCall{{Name: "search", Arguments: `{"q":1}`}},
				ToolResults: []string{"found \"it\""},
			}
		}}
		defer s.Close()
		res := post(t, t.Context(), s, "/v3/chat", cozeBody)
		if kind := res.Header.Get("Content-Type"); kind != "text/event-stream" {
			t.Errorf("%q", kind)
		}
		var names []string
		var said, thought strings.Builder
		whole := ""
		list := cozeEvents(t, read(t, res))
		first := list[0]
		for _, e := range list {
			if name := strings.TrimSpace(e.Event + " " + e.Type); len(names) == 0 || names[len(names)-1] != name {
				names = append(names, name)
			}
			if e.Event == "done" {
				continue
			}
			if e.ID == "" || e.ConversationID != first.ConversationID || e.BotID != "7379" || e.CreatedAt != time.Now().Unix() {
				t.Errorf("%+v", e)
			}
			if strings.HasPrefix(e.Event, "conversation.message.") {
				if e.ChatID != first.ID || e.Role != "assistant" || e.ContentType != "text" {
					t.Errorf("%+v", e)
				}
			} else if e.ID != first.ID {
				t.Errorf("another chat: %+v", e)
			}
			switch {
			case e.Event == "conversation.message.delta":
				said.WriteString(e.Content)
				thought.WriteString(e.Reasoning)
			case e.Type == "answer":
				whole = e.Content
			case e.Type == "function_call":
				var call struct {
					Name      string
					Arguments map[string]any
				}
				if json.Unmarshal([]byte(e.Content), &call) != nil || call.Name != "search" || call.Arguments["q"] != 1.0 {
					t.Errorf("%s", e.Content)
				}
			case e.Type == "tool_response" && e.Content != "found \"it\"":
				t.Errorf("%q", e.Content)
			case e.Event == "conversation.chat.completed":
				if u := e.Usage; e.Status != "completed" || u.Input != 5 || u.Output != 3+9+2 || u.Total != u.Input+u.Output {
					t.Errorf("%+v", e)
				}
			}
		}
		want := []string{
			"conversation.chat.created", "conversation.chat.in_progress",
			"conversation.message.completed function_call", "conversation.message.completed tool_response",
			"conversation.message.delta answer", "conversation.message.completed answer",
			"conversation.message.completed verbose", "conversation.message.completed follow_up",
			"conversation.chat.completed", "done",
		}
		if diff := cmp.Diff(want, names); diff != "" {
			t.Error(diff)
		}
		if said.String() != text || whole != text || thought.String() != "let me think" {
			t.Errorf("%q %q %q", said.String(), whole, thought.String())
		}
	})
}

// A call of the client's ends the chat, which goes on, under the same ids, once its output was submitted.
func TestAChatOfCozeWaitsForOutputs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked Request
		s := &Server{Script: func(r Request) Answer {
			asked = r
			if len(r.Messages) > 0 && r.Messages[0].Role == "tool" {
				return Answer{Text: r.Messages[0].Content}
			}
			return Answer{Text: "Wait.", ToolCalls: []ToolCall{{"", "a", `{}`}, {"c1", "b", `{"x":1}`}, {"", "c", `oops`}}, ToolResults: []string{"ra"}}
		}}
		defer s.Close()
		list := cozeEvents(t, read(t, post(t, t.Context(), s, "/v3/chat", cozeBody)))
		action := list[len(list)-2]
		calls := action.RequiredAction.Submit.Calls
		if action.Event != "conversation.chat.requires_action" || action.Status != "requires_action" || action.RequiredAction.Type != "submit_tool_outputs" ||
			len(calls) != 2 || calls[0].ID != "c1" || calls[0].Type != "function" || calls[0].Function.Name != "b" || calls[0].Function.Arguments != `{"x":1}` ||
			calls[1].ID == "" || calls[1].Function.Arguments != "oops" {
			t.Errorf("%+v", action)
		}
		list = cozeEvents(t, read(t, post(t, t.Context(), s, "/v3/chat/submit_tool_outputs?conversation_id="+action.ConversationID+"&chat_id="+action.ID,
			`{"stream":true,"tool_outputs":[{"tool_call_id":"c1","output":"wet"},{"tool_call_id":"x","output":"dry"}]}`)))
		end := list[len(list)-2]
		if end.Event != "conversation.chat.completed" || end.ID != action.ID || end.ConversationID != action.ConversationID {
			t.Errorf("%+v", end)
		}
		asked.Header, asked.Body = nil, nil
		want := Request{
			Messages: []Message{{"tool", "wet"}, {"tool", "dry"}}, Stream: true, Usage: true,
			Path: "/v3/chat/submit_tool_outputs", Attempt: 2,
		}
		if diff := cmp.Diff(want, asked); diff != "" {
			t.Error(diff)
		}
	})
}

func TestTheScriptSeesWhatCozeWasAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked Request
		s := &Server{Script: func(r Request) Answer {
			asked = r
			return Answer{Text: "ok"}
		}}
		defer s.Close()
		read(t, post(t, t.Context(), s, "/v3/chat?conversation_id=7", `{"bot_id":"7379","stream":true,"custom_variables":{"system_prompt":"Be kind.","tone":"calm"},"additional_messages":[
			{"role":"user","type":"question","content":"[{\"type\":\"text\",\"text\":\"see \"},{\"type\":\"image\",\"file_url\":\"x\"},{\"type\":\"text\",\"text\":\"this\"}]","content_type":"object_string"},
			{"role":"assistant","type":"function_call","content":"{}","content_type":"text"},
			{"role":"assistant","type":"tool_output","content":"out","content_type":"text"}]}`))
		asked.Header, asked.Body = nil, nil
		want := Request{
			Model: "7379", Stream: true, Usage: true, Path: "/v3/chat", Attempt: 1,
			Messages:  []Message{{"system", "Be kind."}, {"user", "see this"}, {"assistant", "{}"}, {"tool", "out"}},
			Variables: map[string]string{"system_prompt": "Be kind.", "tone": "calm"},
		}
		if diff := cmp.Diff(want, asked); diff != "" {
			t.Error(diff)
		}
	})
}

// Errors come as Coze writes them, a gateway's as they are.
func TestCozeRefuses(t *testing.T) {
	for _, row := range []struct {
		name, want string
		answer     Answer
		status     int
	}{
		{"a wrong token", `{"code":4100,"msg":"Unauthorized","detail":{"logid":"20260102030405C0FFEE"}}`, Answer{Status: 401}, 401},
		{"too many requests, in words", `{"code":4009,"msg":"slow \"down\"","detail":{"logid":"20260102030405C0FFEE"}}`, Answer{Status: 429, Body: `slow "down"`}, 429},
		{"an error of its own", `{"code":1}`, Answer{Status: 400, Body: `{"code":1}`}, 400},
		{"a gateway", "<html>", Answer{Status: 502, Body: "<html>", Header: http.Header{"Content-Type": {"text/html"}}}, 502},
		{"with status 200", `{"code":4015}`, Answer{Raw: []Raw{{Bytes: `{"code":4015}`}}, Header: http.Header{"Content-Type": {"application/json"}}}, 200},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &Server{Script: func(Request) Answer { return row.answer }}
				defer s.Close()
				res := post(t, t.Context(), s, "/v3/chat", cozeBody)
				if got := read(t, res); got != row.want || res.StatusCode != row.status {
					t.Errorf("%d %s", res.StatusCode, got)
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		s := &Server{Script: func(Request) Answer { return Answer{} }}
		defer s.Close()
		if res := post(t, t.Context(), s, "/v3/chat", `{`); res.StatusCode != 400 || !strings.HasPrefix(read(t, res), `{"code":4000,"msg":"the body is not a chat request`) {
			t.Errorf("%d", res.StatusCode)
		}
	})
}

// A chat that is canceled is counted, and who waits for that is told; its stream goes on, as Coze's does.
func TestCozeCancels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Server{Script: func(Request) Answer { return Answer{Text: "word word", Pace: 10} }}
		defer s.Close()
		res := post(t, t.Context(), s, "/v3/chat", cozeBody)
		var heard atomic.Bool
		go func() {
			if s.Until(t.Context(), func() bool { return s.Cancels() == 1 }) == nil {
				heard.Store(true)
			}
		}()
		if said := read(t, post(t, t.Context(), s, "/v3/chat/cancel", `{"chat_id":"1"}`)); !strings.HasPrefix(said, `{"code":4000,`) || s.Cancels() != 0 {
			t.Errorf("%s", said)
		}
		want := `{"data":{"id":"1","conversation_id":"2","status":"canceled"},"code":0,"msg":""}`
		if said := read(t, post(t, t.Context(), s, "/v3/chat/cancel", `{"chat_id":"1","conversation_id":"2"}`)); said != want || s.Cancels() != 1 || s.Requests() != 1 {
			t.Errorf("%s", said)
		}
		synctest.Wait()
		if !heard.Load() {
			t.Error("nobody was told")
		}
		if list := cozeEvents(t, read(t, res)); list[len(list)-2].Status != "completed" {
			t.Errorf("%+v", list[len(list)-2])
		}
	})
}

// Files get ids of their own.
func TestCozeTakesFiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Server{}
		defer s.Close()
		send := func(field string) string {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://coze/v1/files/upload", strings.NewReader(
				"--b\r\nContent-Disposition: form-data; name=\""+field+"\"; filename=\"a.png\"\r\n\r\nbytes\r\n--b--\r\n"))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Content-Type", "multipart/form-data; boundary=b")
			res, err := s.Transport().RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			return read(t, res)
		}
		for _, id := range []string{"7500000000000000001", "7500000000000000002"} {
			if said := send("file"); said != `{"code":0,"data":{"bytes":5,"created_at":946684800,"file_name":"a.png","id":"`+id+`"},"msg":""}` {
				t.Errorf("%s", said)
			}
		}
		if said := send("other"); !strings.HasPrefix(said, `{"code":4300,`) {
			t.Errorf("%s", said)
		}
	})
}

// Without a stream Coze answers at once that the chat is in progress.
func TestAChatOfCozeWithoutAStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Server{Script: func(Request) Answer { return Answer{Text: "ok"} }}
		defer s.Close()
		var said struct {
			Code int
			Data cozeEvent
		}
		if err := json.Unmarshal([]byte(read(t, post(t, t.Context(), s, "/v3/chat", `{"bot_id":"7379"}`))), &said); err != nil {
			t.Fatal(err)
		}
		if said.Data.Status != "in_progress" || said.Data.ID == "" || said.Data.ConversationID == "" {
			t.Errorf("%+v", said)
		}
	})
}
