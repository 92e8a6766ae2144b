package web

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingserve/lingserve/agent"
	"github.com/lingserve/lingserve/run"
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
		started := a.say("wait", "", "Prefer: respond-async")
		<-a.talk.waits

		say := func(text string, header ...string) <-chan string {
			path, body := "/v1/runs", `{"agent":"assistant","input":"`+text+`"}`
			if text == "completions" {
				path, body = "/v1/chat/completions", `{"model":"assistant","stream":true,"messages":[{"role":"user","content":"hello"}]}`
			}
			resp := a.do("POST", path, body, header...)
			read := make(chan string)
			go func() {
				defer resp.Body.Close()
				text, _ := io.ReadAll(resp.Body)
				read <- string(text)
			}()
			synctest.Wait()
			return read
		}
		events, lines := say("events", asEvents), say("lines", "Accept: application/jsonl")
		document, completions := make(chan string, 1), say("completions")
		go func() {
			resp := a.do("POST", "/v1/runs", `{"agent":"assistant","input":"document"}`)
			defer resp.Body.Close()
			text, _ := io.ReadAll(resp.Body)
			document <- string(text)
		}()
		time.Sleep(8*time.Second + 10*time.Millisecond)
		a.talk.goOn <- struct{}{}

		text := <-events
		waited, told, _ := strings.Cut(text, "event: waiting\ndata: {\"position\":1,\"for\":\"slot\"}\n")
		_, told, begun := strings.Cut(told, "event: waiting\ndata: {\"position\":0}\n")
		if !begun || !strings.Contains(waited, "event: started") || strings.Contains(text, "queued") || strings.Contains(told, "waiting") ||
			!strings.HasSuffix(told, "event: finished\ndata: {\"status\":\"completed\"}\n\n") || strings.Count(text, "event: finished") != 1 {
			t.Errorf("%s", text)
		}
		if text := <-lines; !strings.Contains(text, `,"event":"waiting","data":{"position":2,"for":"slot"}}`) || !strings.Contains(text, `"completed"`) {
			t.Errorf("%s", text)
		}
		if text := <-completions; strings.Contains(text, "waiting") || !strings.Contains(text, "data: [DONE]") {
			t.Errorf("%s", text)
		}
		if text := <-document; strings.Contains(text, "waiting") || !strings.Contains(text, `"status":"completed"`) || !strings.Contains(text, `"errors":[]`) {
			t.Errorf("%s", text)
		}
		if resp := a.do(http.MethodGet, started.Header.Get("Location"), ""); readDocument(t, resp).Status != run.StatusCompleted {
			t.Error("the first run has not completed")
		}
	})
}

// DO-08: who comes back reads the same events, and a run that is canceled while it waits has one end.
func TestDO_08ARunThatWaitsIsResumedAndCanceled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAgentBench(t, nil)
		a.servePipes()
		defer a.down()
		a.say("wait", "", "Prefer: respond-async")
		<-a.talk.waits
		waiting := a.say("next", "", "Prefer: respond-async")
		time.Sleep(time.Second)
		if resp := a.do("POST", waiting.Header.Get("Location")+"/cancel", ""); resp.StatusCode != 202 {
			t.Fatal(resp.StatusCode)
		}
		f, data := named(t, a.do("GET", waiting.Header.Get("Location")+"/events", "", asEvents))
		if got := strings.Join(f.names, " "); got != "started queued waiting canceled" || data["waiting"] != `{"position":1,"for":"session"}` {
			t.Errorf("%s %v", got, data)
		}
		a.talk.goOn <- struct{}{}
	})
}
