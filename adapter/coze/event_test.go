package coze

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/adaptertest"
	"github.com/lingserve/lingserve/adapter/wire"
	"pgregory.net/rapid"
)

// plainEvent is an event as encoding/json reads it.
type plainEvent struct {
	ID               string `json:"id"`
	ConversationID   string `json:"conversation_id"`
	Type             string `json:"type"`
	Content          string `json:"content"`
	ContentType      string `json:"content_type"`
	ReasoningContent string `json:"reasoning_content"`
}

// Whatever stands around the members that are needed, the decoder gives of them what encoding/json gives; nothing of one event
// shows in the next.
func TestDecodingIsTheSameAsEncodingJSONs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var e event
		texts := rapid.OneOf(rapid.SampledFrom([]string{"", "a", "}", `"`, `\`, "\n", `","type":"answer`, "ü", "🙂", "\u2028", "]"}), rapid.String())
		for range rapid.IntRange(1, 10).Draw(t, "events") {
			data := []byte("{")
			for i := range rapid.IntRange(0, 8).Draw(t, "members") {
				if i > 0 {
					data = append(data, ',')
				}
				name, _ := json.Marshal(rapid.SampledFrom([]string{
					"id", "conversation_id", "type", "content", "content_type", "reasoning_content", "usage", "other", "Content",
				}).Draw(t, "name"))
				if string(name) == `"Content"` {
					name = []byte(`"c\u006fntent"`) // the same as content; another case would be the same to encoding/json alone
				}
				value, _ := json.Marshal(texts.Draw(t, "text"))
				if rapid.IntRange(0, 9).Draw(t, "null") == 0 || string(name) == `"usage"` || string(name) == `"other"` {
					value = []byte(rapid.SampledFrom([]string{"null", `{"content":"inner","id":"x"}`, `[{"id":"y"}]`, "7", "true"}).Draw(t, "value"))
				}
				if value[0] != '"' && value[0] != 'n' && string(name) != `"usage"` && string(name) != `"other"` {
					value = []byte("null") // encoding/json takes nothing else for a string
				}
				data = append(append(append(data, name...), ':'), value...)
			}
			data = append(data, '}')
			var want plainEvent
			if err := json.Unmarshal(data, &want); err != nil {
				t.Fatalf("%v: %s", err, data)
			}
			if diff := cmp.Diff(want, decoded(t, &e, string(data))); diff != "" {
				t.Fatalf("%s: -want +got\n%s", data, diff)
			}
		}
	})
}

// decoded decodes an event as encoding/json would.
func decoded(t *rapid.T, e *event, data string) plainEvent {
	if err := e.decode([]byte(data)); err != nil {
		t.Fatalf("%v: %s", err, data)
	}
	text := func(raw []byte) string {
		s, err := wire.Unescape(raw)
		if err != nil {
			t.Fatalf("%v: %s", err, data)
		}
		return s
	}
	return plainEvent{text(e.id), text(e.conversation), text(e.kind), text(e.content), text(e.contentType), text(e.reasoning)}
}

// What comes of one event does not depend on the events before; nothing makes it panic.
func FuzzDecode(f *testing.F) {
	for _, data := range []string{
		`{"id":"1","type":"answer","content":"a"}`, `{"id":"1","type":"answer","reasoning_content":"a","content_type":"text"}`, `{}`, `[]`, ``, ` `, `{`,
		`{"type":"function_call","content":"{\"name\":\"f\",\"arguments\":{}}"}`, `{"usage":{"token_count":1e9,"input_count":-1}}`, `{"last_error":{"code":"4000"}}`,
		`{"required_action":{"submit_tool_outputs":{"tool_calls":[{"id":"a","function":{"name":"f","arguments":"{}"}},1,null]}}}`, `{"content":"a`,
	} {
		f.Add(`{"id":"1","type":"answer","content":"a"}`, data)
	}
	f.Fuzz(func(t *testing.T, first, second string) {
		type result struct {
			plain           plainEvent
			failed, text    bool
			usage           *adapter.Usage
			name, arguments string
			wanted          []wanted
			code            int
		}
		run := func(events ...string) (r result) {
			var e event
			for _, data := range events {
				if err := e.decode([]byte(data)); err != nil {
					r = result{failed: true}
					continue
				}
				f, _ := e.call()
				r = result{
					plain: plainEvent{string(e.id), string(e.conversation), string(e.kind), string(e.content), string(e.contentType), string(e.reasoning)},
					text:  e.isText(), usage: e.tokens(), name: f.Name, arguments: f.arguments(), wanted: e.wanted(), code: codeOf(e.lastError),
				}
			}
			return r
		}
		if diff := cmp.Diff(run(second), run(first, second), cmp.AllowUnexported(result{}, wanted{})); diff != "" {
			t.Fatal(diff)
		}
	})
}

// Whatever comes as a stream.
func FuzzStream(f *testing.F) {
	adaptertest.Fuzz(f, subject,
		[]byte(chatCreated+text("a")+"event:conversation.message.completed\ndata:{\"id\":\"1\",\"type\":\"function_call\",\"content\":\"{\\\"name\\\":\\\"f\\\"}\"}\n\n"+
			"event:conversation.message.completed\ndata:{\"id\":\"2\",\"type\":\"tool_response\",\"content\":\"r\"}\n\n"+chatCompleted),
		[]byte("event:conversation.chat.requires_action\ndata:{\"required_action\":{\"submit_tool_outputs\":{\"tool_calls\":[{\"id\":\"a\",\"function\":{\"name\":\"f\"}}]}}}\n\n"),
		[]byte("event:conversation.chat.failed\ndata:{\"last_error\":{\"code\":4015}}\n\n"),
		[]byte(`{"code":4100,"msg":"x"}`),
		[]byte("event:conversation.message.completed\ndata:{\"id\":\"3\",\"type\":\"answer\",\"content\":\" a\"}\n\nevent:done\n\n"),
	)
}

// Whatever Coze says of a failure, our sentence is one of ours, and its code one of those that there are (AD-06, SE-06).
func FuzzFailure(f *testing.F) {
	for _, body := range []string{``, `[]`, `{"code":4000,"msg":"x"}`, `{"code":"4100"}`, `{"code":1e3}`, `{"code":-1}`, `{"error":{"message":"x","code":429}}`, `{"code":99999999999999999999}`} {
		f.Add(400, []byte(body))
		f.Add(200, []byte(body))
	}
	p, err := New(Options{Key: adaptertest.Key}, "")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, status int, body []byte) {
		e := p.(*provider).Refused(&wire.Refusal{Status: status, Body: body})
		switch e.Code {
		case adapter.CodeInvalid, adapter.CodeAuth, adapter.CodeRateLimited, adapter.CodeUnavailable, adapter.CodeTimeout, adapter.CodeProtocol:
		default:
			t.Errorf("the code %q", e.Code)
		}
		if e.Message == "" || len(e.Message) > 300 || e.Cause == nil || len(e.Cause.Error()) > 3000 {
			t.Errorf("%+v", e)
		}
	})
}
