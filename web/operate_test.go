package web

import (
	"encoding/json"
	"net/url"
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
