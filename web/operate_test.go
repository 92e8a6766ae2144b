package web

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/lingserve/lingserve/agent"
	"github.com/lingserve/lingserve/turn"
)

// DC-01: an operator sees what waits for approval in a session of a chat platform, answers it, and ends the turn. Others do not.
func TestAnOperatorAnswersAndEndsTheTurnsOfAChannel(t *testing.T) {
	k := newKeyring(t, "op:operator", "bob:user")
	a := keyedBench(t, k, func(o *Options) { o.ChannelNames = []string{"telegram"} })
	op, bob := k.bearer["op"], k.bearer["bob"]
	path := "/v1/sessions/" + url.PathEscape("telegram:42")
	begin := func() *turn.Ticket {
		asked := make(chan struct{}, 1)
		ticket, err := a.s.o.Turns.Submit(t.Context(), &turn.Envelope{SessionID: "telegram:42", Channel: "telegram", ChatID: "42", Content: "use danger"},
			turn.WithSink(func(e turn.Event, _ error) {
				if e.Kind == agent.ApprovalRequiredEvent {
					asked <- struct{}{}
				}
			}))
		if err != nil {
			t.Fatal(err)
		}
		<-asked
		return ticket
	}
	ticket := begin()
	var list struct{ Approvals []agent.Question }
	if err := json.Unmarshal([]byte(text(t, a.do("GET", path+"/approvals", "", op))), &list); err != nil || len(list.Approvals) != 1 || list.Approvals[0].Tool != "danger" {
		t.Fatalf("%+v, %v", list, err)
	}
	answer := path + "/approvals/" + list.Approvals[0].ID
	for _, r := range [][2]string{{"GET", path + "/approvals"}, {"POST", answer}, {"POST", path + "/cancel"}} {
		body := ""
		if r[1] == answer {
			body = `{"decision":"approve"}`
		}
		if resp := a.do(r[0], r[1], body, bob); resp.StatusCode != 404 {
			t.Errorf("%s %s as a user: %d", r[0], r[1], resp.StatusCode)
		}
	}
	if resp := a.do("POST", answer, `{"decision":"approve"}`, op); resp.StatusCode != 204 {
		t.Fatal(resp.StatusCode, text(t, resp))
	}
	if got := <-a.ran; got != "here" {
		t.Errorf("the tool ran for %q", got)
	}
	if _, err := ticket.Wait(t.Context()); err != nil {
		t.Error(err)
	}
	ticket = begin()
	if resp := a.do("POST", path+"/cancel", "", op); resp.StatusCode != 202 {
		t.Fatal(resp.StatusCode, text(t, resp))
	}
	if _, err := ticket.Wait(t.Context()); err == nil {
		t.Error("the turn was not ended")
	}
	if resp := a.do("POST", path+"/cancel", "", op); resp.StatusCode != 409 {
		t.Error(resp.StatusCode)
	}
}

// DA-15: by whatever wire, a session of a chat platform is an operator's to read and nobody's to go on with.
func TestSessionsOfChannelsAreForOperatorsAlone(t *testing.T) {
	k := newKeyring(t, "op:operator", "bob:user")
	a := keyedBench(t, k, func(o *Options) { o.ChannelNames = []string{"telegram"} })
	ticket, err := a.s.o.Turns.Submit(t.Context(), &turn.Envelope{SessionID: "telegram:42", Channel: "telegram", ChatID: "42", Content: "swordfish"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ticket.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, way := range []struct{ method, path, body string }{
		{"GET", "/v1/sessions/telegram:42", ""},
		{"GET", "/v1/sessions/telegram:42/tape", ""},
		{"POST", "/v1/sessions/telegram:42/handoff", `{"name":"taken"}`},
		{"POST", "/v1/sessions/telegram:42/fork", `{"session":"stolen"}`},
		{"DELETE", "/v1/sessions/telegram:42", ""},
		{"GET", "/v1/ui/assistant/telegram:42", ""},
		{"GET", "/v1/agui/assistant/telegram:42", ""},
		{"GET", "/v1/sessions", ""},
		{"POST", "/v1/runs", `{"agent":"assistant","session":"telegram:42","input":"hello"}`},
		{"POST", "/v1/runs", `{"workflow":"chat","session":"telegram:42","input":"hello"}`},
		{"POST", "/v1/chat/completions", `{"model":"assistant","user":"telegram:42","messages":[{"role":"user","content":"hello"}]}`},
		{"POST", "/v1/ui/assistant", fmt.Sprintf(chatMessage, "telegram:42")},
		{"POST", "/v1/agui/assistant", fmt.Sprintf(agchatMessage, "telegram:42")},
	} {
		if got := a.whole(way.method, way.path, way.body, k.bearer["bob"]); strings.Contains(got.Body, "swordfish") || strings.HasPrefix(way.path, "/v1/sessions/") && got.Status != 404 {
			t.Errorf("%s %s as a user: %+v", way.method, way.path, got)
		}
		if way.method == "POST" && !strings.HasPrefix(way.path, "/v1/sessions/") {
			if got := a.whole(way.method, way.path, way.body, k.bearer["op"]); got.Status != 400 {
				t.Errorf("%s %s as an operator: %+v", way.method, way.path, got)
			}
		}
	}
	if got := a.whole("GET", "/v1/sessions/telegram:42/tape", "", k.bearer["op"]); got.Status != 200 || !strings.Contains(got.Body, "swordfish") || strings.Contains(got.Body, "hello") || strings.Contains(got.Body, "taken") {
		t.Errorf("as an operator: %+v", got)
	}
	for _, r := range a.talk.requests() {
		if text := fmt.Sprint(r.Messages); strings.Contains(text, "swordfish") && strings.Contains(text, "hello") {
			t.Errorf("a model was told what somebody else has said: %s", text)
		}
	}
	// Without keys there are no operators.
	open := newAgentBench(t, func(o *Options, _ *agent.Options) { o.ChannelNames = []string{"telegram"} })
	open.serve()
	open.session("telegram:42", "swordfish")
	for _, path := range []string{"/v1/sessions/telegram:42", "/v1/sessions", "/v1/sessions?limit=1"} {
		if got := open.whole("GET", path, ""); strings.Contains(got.Body, "telegram") || (got.Status == 404) != (path == "/v1/sessions/telegram:42") {
			t.Errorf("%s without keys: %+v", path, got)
		}
	}
}
