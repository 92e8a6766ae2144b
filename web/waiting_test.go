package web

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingserve/lingserve/agent"
	"github.com/lingserve/lingserve/turn"
)

// DO-08: a run that waits for a slot says so on the native wires; the others work as before.
func TestDO_08ARunThatWaitsForASlotSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAgentBench(t, func(o *Options, _ *agent.Options) {
			o.Turns = turn.New(turn.Options{Workspace: o.Workspace, Log: o.Log, Concurrency: 1})
		})
		a.servePipes()
		defer a.down()
		a.say("wait", "", "Prefer: respond-async")
		<-a.talk.waits
		post := func(path, body string) <-chan string {
			read := make(chan string, 1)
			answered := a.post(path, body)
			go func() { read <- text(t, <-answered) }()
			synctest.Wait()
			return read
		}
		events, lines := post("/v1/runs?format=sse", `{"agent":"assistant","input":"x"}`), post("/v1/runs?format=jsonl", `{"agent":"assistant","input":"x"}`)
		completion, document := post(completions, chatBody("assistant", "x", streaming)), post("/v1/runs", `{"agent":"assistant","input":"x"}`)
		time.Sleep(8*time.Second + 10*time.Millisecond)
		a.talk.goOn <- struct{}{}
		said := <-events
		waited, told, _ := strings.Cut(said, "event: waiting\ndata: {\"position\":1,\"for\":\"slot\"}\n")
		_, told, begun := strings.Cut(told, "event: waiting\ndata: {\"position\":0}\n")
		if !begun || !strings.Contains(waited, "event: started") || strings.Contains(said, "queued") || strings.Contains(told, "waiting") ||
			!strings.HasSuffix(told, "event: finished\ndata: {\"status\":\"completed\"}\n\n") {
			t.Errorf("%s", said)
		}
		if said := <-lines; !strings.Contains(said, `,"event":"waiting","data":{"position":2,"for":"slot"}}`) || !strings.Contains(said, `"completed"`) {
			t.Errorf("%s", said)
		}
		if said := <-completion; strings.Contains(said, "waiting") || !strings.Contains(said, "data: [DONE]") {
			t.Errorf("%s", said)
		}
		if said := <-document; strings.Contains(said, "waiting") || !strings.Contains(said, `"status":"completed"`) {
			t.Errorf("%s", said)
		}
	})
}
