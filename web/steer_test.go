package web

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/lingserve/lingserve/agent"
	"github.com/lingserve/lingserve/run"
	"github.com/lingserve/lingserve/turn"
)

const steered = `,"on_busy":"steer"`

// busy is a server whose session s has a run that waits for its model.
func busy(t *testing.T, edit func(*Options, *agent.Options)) (*agentBench, *http.Response) {
	t.Helper()
	a := newAgentBench(t, edit)
	a.serve()
	resp := a.say("wait", "", asEvents)
	<-a.talk.waits
	return a, resp
}

// followUp is the run that a stream says goes on with what came too late for it.
func followUp(t *testing.T, data map[string]string) (run string) {
	t.Helper()
	var d struct{ Run string }
	if err := json.Unmarshal([]byte(data["follow_up"]), &d); err != nil || d.Run == "" {
		t.Fatalf("%v in %v", err, data)
	}
	return d.Run
}

// AG-70, TU-63
func TestASteeredMessageThatCameTooLateHasARunOfItsOwn(t *testing.T) {
	t.Run("the run is canceled", func(t *testing.T) {
		a, first := busy(t, nil)
		second := a.say("use danger", steered, asEvents)
		if second.Header.Get("X-Run-Id") != first.Header.Get("X-Run-Id") {
			t.Fatal("it is not told in the run that was to take it")
		}
		if r := a.do("POST", first.Header.Get("Location")+"/cancel", ""); r.StatusCode != 202 {
			t.Fatal(r.StatusCode)
		}
		f, data := named(t, second)
		if f.terminal != `canceled{"reason":"canceled by request"}` {
			t.Error(f.terminal)
		}
		if own := second.Header.Get("X-Follow-Up-Id"); own != followUp(t, data) {
			t.Errorf("who has steered several messages cannot tell whose run this is: %q", own)
		}
		// It streams, and its question can be answered.
		resp := a.do("GET", "/v1/runs/"+followUp(t, data)+"/events", "", asEvents)
		call, _, stop := a.question(resp)
		defer stop()
		if r := a.do("POST", resp.Header.Get("Location")+"/approvals/"+call, `{"decision":"approve"}`); r.StatusCode != 204 {
			t.Fatal(r.StatusCode)
		}
		if d := readDocument(t, a.do("GET", resp.Header.Get("Location")+"/events?format=json", "")); d.Status != run.StatusCompleted || d.Session != "s" ||
			!strings.Contains(string(d.Result), "done") {
			t.Errorf("%+v %s", d, d.Result)
		}
		if _, data := named(t, first); data["follow_up"] == "" {
			t.Error("who began the run is not told")
		}
	})
	t.Run("its caller waits for a document", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			a := newAgentBench(t, nil)
			a.servePipes()
			first := a.say("wait", "", asEvents)
			<-a.talk.waits
			got := make(chan document)
			go func() { got <- readDocument(t, a.say("late", steered)) }()
			synctest.Wait()
			a.do("POST", first.Header.Get("Location")+"/cancel", "")
			// The document is that of the run that answers the message.
			if d := <-got; d.Status != run.StatusCompleted || !strings.HasSuffix(string(d.Result), `: late"`) || d.Run == first.Header.Get("X-Run-Id") {
				t.Errorf("%+v %s", d, d.Result)
			}
			named(t, first)
		})
	})
}

// A turn of another door, such as a chat's, has no run that a caller could be sent to.
func TestAMessageThatIsSteeredToAnotherDoorsTurnHasTheAnswerInARunOfItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAgentBench(t, nil)
		a.servePipes()
		e := &turn.Envelope{SessionID: "s", Channel: "chat", Content: "wait"}
		if _, err := a.s.o.Turns.Submit(t.Context(), e); err != nil {
			t.Fatal(err)
		}
		<-a.talk.waits
		got := make(chan document)
		go func() { got <- readDocument(t, a.say("also this", steered)) }()
		synctest.Wait()
		a.talk.goOn <- struct{}{}
		if d := <-got; d.Status != run.StatusCompleted || !strings.HasSuffix(string(d.Result), `: also this"`) {
			t.Errorf("%+v %s", d, d.Result)
		}
	})
}
