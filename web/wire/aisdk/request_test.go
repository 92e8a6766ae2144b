package aisdk_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/agent"
	"github.com/lingserve/lingserve/run"
	"github.com/lingserve/lingserve/web/wire/aisdk"
)

func said(role, text string) string {
	quoted, _ := json.Marshal(text)
	return fmt.Sprintf(`{"id":"m","role":%q,"parts":[{"type":"text","text":%s}]}`, role, quoted)
}

func TestARequestIsTheLastMessageAndWhatCameBefore(t *testing.T) {
	const answered = `{"id":"run","role":"assistant","parts":[{"type":"step-start"},
		{"type":"dynamic-tool","toolCallId":"a","state":"output-available","output":1,"approval":{"id":"a","approved":true}},
		{"type":"dynamic-tool","toolCallId":"b","state":"approval-responded","approval":{"id":"b","approved":false,"reason":"no"}},
		{"type":"tool-x","toolCallId":"c","state":"approval-responded","approval":{"id":"c","approved":true}},
		{"type":"dynamic-tool","toolCallId":"d","state":"approval-requested","approval":{"id":"d"}}]}`
	for _, c := range []struct {
		name, body string
		want       aisdk.Request
	}{
		{"a message", `{"id":"c","messages":[` + said("user", "hi") + `],"trigger":"submit-message"}`, aisdk.Request{Chat: "c", Text: "hi"}},
		{"with members of others", `{"id":"c","messages":[` + said("user", "hi") + `],"messageId":"m","webSearch":true}`, aisdk.Request{Chat: "c", Text: "hi"}},
		{"once more", `{"id":"c","messages":[` + said("user", "hi") + `],"trigger":"regenerate-message"}`, aisdk.Request{Chat: "c", Text: "hi", Regenerate: true}},
		{"input beside", `{"id":"c","messages":[{"role":"user","parts":[]}],"input":{"a":1}}`, aisdk.Request{Chat: "c", Input: json.RawMessage(`{"a":1}`)}},
		{"several texts", `{"id":"c","messages":[{"role":"user","parts":[{"type":"text","text":"a"},{"type":"data-x","data":1},{"type":"text","text":"b"},{"type":"text","text":" "}]}]}`, aisdk.Request{Chat: "c", Text: "a\n\nb"}},
		{
			"what was said", `{"id":"c","messages":[` + strings.Join([]string{
				said("system", "be kind"), said("user", "one"), `{"role":"assistant","parts":[{"type":"reasoning","text":"hm"},{"type":"text","text":"tw"},{"type":"dynamic-tool","state":"x"},{"type":"text","text":"o"}]}`,
				`{"role":"assistant","parts":[{"type":"data-ling","data":{}}]}`, said("system", "be brief"), said("user", "three"),
			}, ",") + `]}`,
			aisdk.Request{Chat: "c", Text: "three", Last: 5, System: "be kind\n\nbe brief", Before: []adapter.Message{{Role: "user", Content: "one"}, {Role: "assistant", Content: "two"}}},
		},
		{
			"answers", `{"id":"c","messages":[` + said("user", "hi") + `,` + answered + `]}`,
			aisdk.Request{Chat: "c", Message: "run", Answers: []agent.Answer{{ID: "b", Reason: "no"}, {ID: "c", Approve: true}}},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, faults := aisdk.Read([]byte(c.body))
			if len(faults) > 0 {
				t.Fatal(faults)
			}
			if diff := cmp.Diff(&c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestWhatDoesNotFitIsSaidWithItsPlace(t *testing.T) {
	for _, c := range []struct{ name, body, want string }{
		{"no object", `[]`, ": expected an object, found an array"},
		{"null", `null`, ": expected an object, found null"},
		{"no id", `{"messages":[]}`, "/id: missing"},
		{"an id that is a number", `{"id":7}`, "/id: expected a string, found a number"},
		{"an empty chat", `{"id":"c","messages":[]}`, ": expected the chat's id and at least one message"},
		{"no messages", `{"id":"c"}`, "/messages: missing"},
		{"a trigger of tomorrow", `{"id":"c","messages":[],"trigger":"dream"}`, `/trigger: expected submit-message or regenerate-message, found "dream"`},
		{"a message that is none", `{"id":"c","messages":[7]}`, "/messages/0: expected a message of the AI SDK: an id, a role and parts"},
		{"another's message", `{"id":"c","messages":[{"role":"user","content":"hi"}]}`, "/messages/0: is empty; expected text"},
		{"another role", `{"id":"c","messages":[{"role":"tool"}]}`, "/messages/0/role: expected user, assistant or system"},
		{"nothing from the user", `{"id":"c","messages":[` + said("system", "x") + `]}`, "/messages/0: expected a message of the user at the end"},
		{"nothing new", `{"id":"c","messages":[` + said("assistant", "x") + `]}`, "/messages/0: is an assistant message without an answer to a question; expected a user message at the end"},
		{"a file", `{"id":"c","messages":[{"role":"user","parts":[{"type":"text","text":"x"},{"type":"file","url":"data:"}]}]}`, "/messages/0/parts/1/url: expected data in base64, data:…;base64,…"},
		{"answers to nobody", `{"id":"c","messages":[{"role":"assistant","parts":[{"type":"tool-x","state":"approval-responded","approval":{"id":"a","approved":true}}]}]}`, "/messages/0/id: expected the message's id"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, faults := aisdk.Read([]byte(c.body))
			if len(faults) == 0 || faults[0].Pointer+": "+faults[0].Detail != c.want {
				t.Errorf("%v", faults)
			}
		})
	}
}

func TestOfALongPastTheNewestIsTaken(t *testing.T) {
	var list []string
	for i := range 3000 {
		list = append(list, said("user", fmt.Sprint(i)))
	}
	r, faults := aisdk.Read([]byte(`{"id":"c","messages":[` + strings.Join(list, ",") + `]}`))
	if len(faults) > 0 || len(r.Before) != 1000 || r.Before[0].Content != "1999" || r.Before[999].Content != "2998" {
		t.Errorf("%v: %d messages", faults, len(r.Before))
	}
	large := said("user", strings.Repeat("x", 400<<10))
	r, faults = aisdk.Read([]byte(`{"id":"c","messages":[` + said("user", "old") + "," + large + "," + large + "," + said("user", "now") + `]}`))
	if len(faults) > 0 || len(r.Before) != 1 {
		t.Errorf("%v: %d messages", faults, len(r.Before))
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"id":"c","messages":[` + said("user", "hi") + `],"trigger":"submit-message"}`))
	f.Add([]byte(`{"id":"c","messages":[{"id":"r","role":"assistant","parts":[{"type":"tool-x","state":"approval-responded","approval":{"id":"a","approved":true}}]}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		r, faults := aisdk.Read(body)
		if len(faults) > 0 {
			if slices.ContainsFunc(faults, func(f run.Field) bool { return f.Detail == "" }) {
				t.Errorf("%#v", faults)
			}
			return
		}
		if r.Chat == "" || r.Text == "" && r.Input == nil && len(r.Answers) == 0 {
			t.Errorf("%+v asks nothing", r)
		}
	})
}
