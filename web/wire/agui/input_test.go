package agui_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/agent"
	"github.com/lingserve/lingserve/run"
	"github.com/lingserve/lingserve/web/wire/agui"
)

func TestAnInputIsRead(t *testing.T) {
	in, faults := agui.Read([]byte(`{
		"threadId": "t", "runId": "r", "parentRunId": "p", "protocolVersion": "2.7", "state": {"a": 1},
		"messages": [
			{"id": "1", "role": "system", "content": "Be brief."},
			{"id": "2", "role": "user", "content": "Hello"},
			{"id": "3", "role": "reasoning", "content": "hm"},
			{"id": "4", "role": "assistant", "toolCalls": [{"id": "c", "type": "function", "function": {"name": "n", "arguments": "{}"}}]},
			{"id": "5", "role": "tool", "toolCallId": "c", "content": "x"},
			{"id": "6", "role": "assistant", "content": "Hi."},
			{"id": "7", "role": "activity", "activityType": "PLAN", "content": {"steps": []}},
			{"id": "8", "role": "user", "content": [{"type": "text", "text": "Why is"}, {"type": "text", "text": "the sky blue?"}]},
			{"id": "9", "role": "developer", "content": "No jokes."},
			{"id": "10", "role": "hologram", "content": 7}
		],
		"tools": [{"name": "alert", "description": "d", "parameters": {}, "metadata": {}}],
		"context": [{"description": "The page", "value": "Chapter 3"}, {"description": "", "value": "x"}],
		"forwardedProps": {"input": {"question": "q"}, "theirs": [1]},
		"resume": [
			{"interruptId": "i", "status": "resolved", "payload": {"approved": true, "remember": "session", "more": 1}},
			{"interruptId": "j", "status": "resolved", "payload": {"approved": false, "reason": "not now", "remember": null}},
			{"interruptId": "k", "status": "resolved", "payload": true},
			{"interruptId": "l", "status": "cancelled", "metadata": {}}
		],
		"newer": {"than": "we"}
	}`))
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	want := &agui.Input{
		Thread: "t", Run: "r", Parent: "p", Version: "2.7", Text: "Why is\nthe sky blue?", Asks: true, At: "/messages/7/content",
		Said:         []adapter.Message{{Role: agui.User, Content: "Hello"}, {Role: agui.Assistant, Content: "Hi."}},
		Instructions: "Be brief.\n\nNo jokes.\n\nThe page: Chapter 3\n\nx",
		State:        json.RawMessage(`{"a": 1}`), Tools: []string{"alert"},
		Props: map[string]json.RawMessage{"input": json.RawMessage(`{"question": "q"}`), "theirs": json.RawMessage("[1]")},
		Resume: []agent.Answer{
			{ID: "i", Approve: true, Remember: true},
			{ID: "j", Reason: "not now"},
			{ID: "k", Approve: true},
			{ID: "l", Reason: "canceled without a decision"},
		},
	}
	if diff := cmp.Diff(want, in); diff != "" {
		t.Error(diff)
	}
}

func TestWhatIsSaidNowIsWhatNobodyHasAnswered(t *testing.T) {
	for _, c := range []struct {
		name, messages, text string
		asks                 bool
		said                 int
	}{
		{"nothing", `[]`, "", false, 0},
		{"a question", `[{"role":"user","content":"a"}]`, "a", true, 0},
		{"one that is answered", `[{"role":"user","content":"a"},{"role":"assistant","content":"b"}]`, "", false, 2},
		{"one that a tool has answered", `[{"role":"user","content":"a"},{"role":"tool","content":"b","toolCallId":"c"}]`, "", false, 1},
		{"two in a row", `[{"role":"user","content":"a"},{"role":"user","content":"b"}]`, "b", true, 1},
		{"instructions behind it", `[{"role":"user","content":"a"},{"role":"system","content":"b"}]`, "a", true, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			in, faults := agui.Read([]byte(`{"threadId":"t","runId":"r","messages":` + c.messages + `}`))
			if len(faults) > 0 || in.Text != c.text || in.Asks != c.asks || len(in.Said) != c.said {
				t.Errorf("%+v %v", in, faults)
			}
		})
	}
}

func TestWhatDoesNotFitIsNamed(t *testing.T) {
	with := func(members string) string {
		return `{"threadId":"t","runId":"r","messages":[{"role":"user","content":"x"}],` + members + `}`
	}
	for _, c := range []struct{ name, body, pointer, detail string }{
		{"no object", `[]`, "", "expected an object, found an array"},
		{"nothing", `{}`, "/threadId", "missing"},
		{"no JSON", `{"threadId"`, "", "expected JSON"},
		{"a thread that is a number", `{"threadId":7,"runId":"r","messages":[]}`, "/threadId", "expected a string, found a number"},
		{"a thread without a name", `{"threadId":"","runId":"r","messages":[]}`, "/threadId", "expected a string of 1 to 512 bytes, found 0"},
		{"a run that is null", `{"threadId":"t","runId":null,"messages":[]}`, "/runId", "expected a string, found null"},
		{"a run that is too long", `{"threadId":"t","runId":"` + strings.Repeat("x", 600) + `","messages":[]}`, "/runId", "expected a string of 1 to 512 bytes, found 600"},
		{"messages that are none", `{"threadId":"t","runId":"r","messages":{}}`, "/messages", "expected an array, found an object"},
		{"a message that is none", `{"threadId":"t","runId":"r","messages":["x"]}`, "/messages/0", "expected an object, found a string"},
		{"a message without a role", `{"threadId":"t","runId":"r","messages":[{"content":"x"}]}`, "/messages/0/role", "missing"},
		{"a content that is a number", `{"threadId":"t","runId":"r","messages":[{"role":"user","content":1}]}`, "/messages/0/content", "expected a string, found a number"},
		{"no content", `{"threadId":"t","runId":"r","messages":[{"role":"user"}]}`, "/messages/0/content", "expected a string, found nothing"},
		{
			"a picture", `{"threadId":"t","runId":"r","messages":[{"role":"user","content":[{"type":"text","text":"x"},{"type":"image","source":{}}]}]}`,
			"/messages/0/content/1/source", "expected the data, or the id of an uploaded file as file_id",
		},
		{"a part that is none", `{"threadId":"t","runId":"r","messages":[{"role":"user","content":[1]}]}`, "/messages/0/content/0", "expected an object, found a number"},
		{"tools that are none", with(`"tools":"x"`), "/tools", "expected an array, found a string"},
		{"a tool without a name", with(`"tools":[{}]`), "/tools/0/name", "missing"},
		{"a context that is none", with(`"context":[{"description":"d","value":1}]`), "/context/0/value", "expected a string, found a number"},
		{"a version that is a number", with(`"protocolVersion":1.0`), "/protocolVersion", "expected a string, found a number"},
		{"an answer to nothing", with(`"resume":[{"status":"resolved"}]`), "/resume/0/interruptId", "missing"},
		{"an answer that is none", with(`"resume":[{"interruptId":"i","status":"perhaps"}]`), "/resume/0/status", `expected resolved or cancelled, found "perhaps"`},
		{"an answer without a payload", with(`"resume":[{"interruptId":"i","status":"resolved"}]`), "/resume/0/payload", "expected an object with approved, true or false"},
		{"an answer of another kind", with(`"resume":[{"interruptId":"i","status":"resolved","payload":{"approved":"yes"}}]`), "/resume/0/payload/approved", "expected true or false, found a string"},
		{"an answer that says nothing", with(`"resume":[{"interruptId":"i","status":"resolved","payload":{}}]`), "/resume/0/payload/approved", "missing"},
		{"an answer that is a text", with(`"resume":[{"interruptId":"i","status":"resolved","payload":"yes"}]`), "/resume/0/payload", "expected an object, found a string"},
		{"what cannot be remembered", with(`"resume":[{"interruptId":"i","status":"resolved","payload":{"approved":true,"remember":"always"}}]`), "/resume/0/payload/remember", `expected session, found "always"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, faults := agui.Read([]byte(c.body))
			if slices.Contains(faults, (run.Field{Pointer: c.pointer, Detail: c.detail})) {
				return
			}
			t.Errorf("%q", faults)
		})
	}
}

func TestWhatIsNullIsLeftOut(t *testing.T) {
	_, faults := agui.Read([]byte(`{"threadId":"t","runId":"r","messages":[{"role":"assistant","content":null}],"state":null,"tools":null,
		"context":null,"forwardedProps":null,"resume":null,"parentRunId":null,"protocolVersion":null}`))
	if len(faults) > 0 {
		t.Error(faults)
	}
}

func FuzzAnInputIsReadOrItsFaultsAreNamed(f *testing.F) {
	for _, body := range []string{
		`{"threadId":"t","runId":"r","messages":[{"id":"1","role":"user","content":"x"}],"state":{},"tools":[],"context":[],"forwardedProps":{}}`,
		`{"threadId":"t","runId":"r","messages":[{"role":"user","content":[{"type":"text","text":"x"}]}],"resume":[{"interruptId":"a:1:c","status":"resolved","payload":{"approved":true}}]}`,
		`{"threadId":7,"messages":null}`, `[]`, ``, "{\"threadId\":\"\xff\"}", `{"resume":[{"status":"cancelled","payload":[]}]}`,
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		in, faults := agui.Read(body)
		for _, fault := range faults {
			if fault.Detail == "" || fault.Pointer != "" && fault.Pointer[0] != '/' {
				t.Errorf("%q", fault)
			}
		}
		if len(faults) > 0 {
			return
		}
		if !json.Valid(body) || in.Thread == "" || in.Run == "" || len(in.Thread) > 512 {
			t.Errorf("%q is taken for %+v", body, in)
		}
		if in.Text != "" && !in.Asks || in.Asks && !strings.HasPrefix(in.At, "/messages/") {
			t.Errorf("%+v", in)
		}
		for _, m := range in.Said {
			if m.Content == "" || m.Role != agui.User && m.Role != agui.Assistant {
				t.Errorf("%+v", m)
			}
		}
	})
}
