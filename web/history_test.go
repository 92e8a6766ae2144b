package web

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/adapter"
)

// quoted is a text as an input.
func quoted(text string) json.RawMessage {
	raw, _ := json.Marshal(text)
	return raw
}

// roles are who has said what in a request, without the system prompt.
func roles(req adapter.Request) (list []string) {
	for _, m := range req.Messages {
		if m.Role != adapter.System {
			list = append(list, m.Role+": "+m.Content)
		}
	}
	return list
}

func unquote(t testing.TB, raw json.RawMessage) (text string) {
	t.Helper()
	if err := json.Unmarshal(raw, &text); err != nil {
		t.Fatal(err)
	}
	return text
}

// talkBody is a request of a client that keeps the conversation.
func talkBody(model, more string) string {
	return `{"model":"` + model + `","messages":[{"role":"system","content":"Rhyme."},{"role":"user","content":"first"},{"role":"assistant","content":"1st"},
		{"role":"tool","tool_call_id":"c","content":"not told"},{"role":"user","content":"second"}]` + more + `}`
}

var talk = []string{"user: first", "assistant: 1st", "user: second"}

// What a client says was said before begins a session, and counts only there. An agent is told what the client instructs; a workflow is not.
func TestAConversationThatTheClientKeepsBeginsASession(t *testing.T) {
	a := newAgentBench(t, nil)
	asked := make(chan adapter.Request, 1)
	a.model.say = func(_ context.Context, _ string, req adapter.Request, yield func(string) bool) error {
		asked <- req
		yield(`{"answer":1}`)
		return nil
	}
	a.s.o.Models.Default = "test:story"
	a.serve()
	tail := func(list []string) []string { return list[max(0, len(list)-len(talk)):] }
	for _, more := range []string{"", `,"user":"s"`} {
		a.completes(talkBody("chat", more))
		req := <-asked
		if diff := cmp.Diff(talk, tail(roles(req))); diff != "" {
			t.Error(diff)
		}
		for _, m := range req.Messages {
			if strings.Contains(m.Content, "Rhyme.") {
				t.Errorf("a workflow is told what a caller instructs: %q", m.Content)
			}
		}
	}
	a.completes(talkBody("assistant", ""))
	req := a.talk.requests()[0]
	if diff := cmp.Diff(talk, tail(roles(req))); diff != "" || !strings.Contains(req.Messages[0].Content, "\n\nRhyme.\n\nToday is ") {
		t.Errorf("%s %q", diff, req.Messages[0].Content)
	}
	a.completes(talkBody("assistant", `,"user":"s"`))
	if said := a.tapeOf("s"); strings.Count(said, "1st") != 1 {
		t.Error(said)
	}
}
