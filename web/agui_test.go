package web

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingserve/lingserve/agent"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/run"
	"github.com/lingserve/lingserve/web/wire/agui/aguitest"
)

// aguiInput is what a client sends.
type aguiInput map[string]any

// says is an input with what was said, the user first and then in turn.
func says(thread string, texts ...string) aguiInput {
	messages := []any{}
	for i, text := range texts {
		role := []string{"user", "assistant"}[i%2]
		messages = append(messages, map[string]any{"id": "m" + strconv.Itoa(i), "role": role, "content": text})
	}
	return aguiInput{
		"threadId": thread, "runId": "r", "protocolVersion": "1.0", "messages": messages, "state": map[string]any{}, "tools": []any{},
		"context": []any{}, "forwardedProps": map[string]any{},
	}
}

// with is the input with another member.
func (in aguiInput) with(name string, value any) aguiInput {
	in[name] = value
	return in
}

func (in aguiInput) json() string {
	text, err := json.Marshal(in)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// postAGUI sends an input.
func (b *bench) postAGUI(agent string, in aguiInput) *http.Response {
	b.t.Helper()
	return b.do("POST", "/v1/agui/"+agent, in.json(), "Accept: text/event-stream", "Content-Type: application/json")
}

// runAGUI sends an input and lets the client read all that comes back.
func (b *bench) runAGUI(c *aguitest.Client, agent string, in aguiInput) *http.Response {
	b.t.Helper()
	resp := b.postAGUI(agent, in)
	b.readAGUI(c, resp)
	return resp
}

func (b *bench) readAGUI(c *aguitest.Client, resp *http.Response) {
	b.t.Helper()
	body := text(b.t, resp)
	if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "text/event-stream" {
		b.t.Fatalf("%d: %s", resp.StatusCode, body)
	}
	if c.Read([]byte(body)); c.Err != nil {
		b.t.Fatal(c.Err)
	}
	if !c.Ended {
		b.t.Fatalf("no end: %s", body)
	}
}

// refusedAGUI reads an answer that is none.
func (b *bench) refusedAGUI(resp *http.Response) (e struct {
	Message, Code string
	Errors        []run.Field
},
) {
	b.t.Helper()
	body := text(b.t, resp)
	if err := json.Unmarshal([]byte(body), &e); err != nil || e.Message == "" || resp.Header.Get("Content-Type") != "application/json" {
		b.t.Fatalf("%v: %d %s: %s", err, resp.StatusCode, resp.Header.Get("Content-Type"), body)
	}
	return e
}

func TestAGUI_AWorkflowsDocumentIsTheState(t *testing.T) {
	b := newBench(t, nil).serve()
	c := aguitest.Client{State: map[string]any{"of": "the run before"}}
	resp := b.runAGUI(&c, "chat", says("t", "q"))
	d := readDocument(t, b.do("GET", resp.Header.Get("Location"), ""))
	if diff := cmp.Diff(aguitest.Decode(d.Result), c.State); diff != "" {
		t.Error(diff)
	}
	want, _ := story(3)
	if diff := cmp.Diff(aguitest.Decode([]byte(`{"article":`+want+`}`)), c.State); diff != "" {
		t.Error(diff)
	}
	if c.Log[0] != "RUN_STARTED" || c.Log[1] != "STATE_SNAPSHOT" || c.Log[2] != "CUSTOM" || !strings.Contains(string(c.Notes[0].Value), d.Run) {
		t.Errorf("%q %s", c.Log[:3], c.Notes[0].Value)
	}
	if got := aguitest.Text(c.End["runId"]) + aguitest.Text(c.End["threadId"]); got != "rt" {
		t.Error(got)
	}
}

func TestAGUI_AnAgentTalksAndRemembersTheThread(t *testing.T) {
	a := newAgentBench(t, nil)
	a.serve()
	var c aguitest.Client
	a.runAGUI(&c, "assistant", says("t", "first", "1st", "second").
		with("context", []any{map[string]any{"description": "The page", "value": "Chapter 3"}}).with("state", map[string]any{"open": "menu"}))
	if diff := cmp.Diff([]string{"5: second"}, c.Texts("assistant")); diff != "" { // system, anchor, two from before, this one
		t.Error(diff)
	}
	req := a.talk.requests()[0]
	system := req.Messages[0].Content
	for _, want := range []string{"The page: Chapter 3", `{"open":"menu"}`} {
		if !strings.Contains(system, want) {
			t.Errorf("no %s in %s", want, system)
		}
	}
	if c.State != nil {
		t.Errorf("the page's own state has become %v", c.State)
	}
	// What the thread remembers is not told once more.
	a.runAGUI(&c, "agent%2Fassistant", says("t", "something", "else", "third"))
	got := roles(a.talk.requests()[1])
	if diff := cmp.Diff([]string{"user: first", "assistant: 1st", "user: second", "assistant: 5: second", "user: third"}, got[len(got)-5:]); diff != "" {
		t.Error(diff)
	}
}

func TestAGUI_WhatIsWrongIsSaidInWordsThatTheClientShows(t *testing.T) {
	a := newAgentBench(t, nil)
	a.serve()
	forwarded := func(name string, value any) string {
		return says("t", "x").with("forwardedProps", map[string]any{name: value}).json()
	}
	for _, c := range []struct {
		agent, body      string
		status           int
		message, pointer string
	}{
		{"nobody", says("t", "x").json(), 404, `unknown agent or workflow "nobody"; expected one of assistant, chat, steps`, ""},
		{"agent%2Fchat", says("t", "x").json(), 404, "unknown agent or workflow", ""},
		{"assistant", says("t").json(), 400, "/messages: expected a message of the user at the end, or forwardedProps.input", "/messages"},
		{"chat", forwarded("input", map[string]any{"question": 7}), 400, "/forwardedProps/input/question: ", "/forwardedProps/input/question"},
		{"assistant", forwarded("model", "test:facts"), 400, "/forwardedProps/model: an agent chooses its own model", "/forwardedProps/model"},
		{"assistant", answers("t", "x", "cancelled", nil).json(), 400, "/resume/0/interruptId: unknown id", "/resume/0/interruptId"},
		{"assistant", says("t", strings.Repeat("x", 5000)).json(), 413, "the request's body is larger than 4096 bytes", ""},
	} {
		resp := a.do("POST", "/v1/agui/"+c.agent, c.body)
		e := a.refusedAGUI(resp)
		if resp.StatusCode != c.status || !strings.Contains(e.Message, c.message) {
			t.Errorf("%s: %d %+v", c.message, resp.StatusCode, e)
		}
		if c.pointer != "" && (len(e.Errors) == 0 || e.Errors[0].Pointer != c.pointer) {
			t.Errorf("%s: %+v", c.message, e)
		}
	}
}

// interrupted asks for a call that asks, and returns what the client was asked.
func (a *agentBench) interrupted(c *aguitest.Client, thread string) (id string) {
	a.t.Helper()
	a.runAGUI(c, "assistant", says(thread, "use danger"))
	var o struct {
		Type       string
		Interrupts []struct{ ID, ToolCallID string }
	}
	if err := json.Unmarshal(c.End["outcome"], &o); err != nil || o.Type != "interrupt" || len(o.Interrupts) != 1 {
		a.t.Fatalf("%v %s", err, c.End["outcome"])
	}
	if call := c.Call(o.Interrupts[0].ToolCallID); call == nil || call.Name != "danger" {
		a.t.Fatalf("%+v is no call of %+v", o, c.Messages)
	}
	return o.Interrupts[0].ID
}

// answers is an input that answers a question.
func answers(thread, id, status string, payload any) aguiInput {
	entry := map[string]any{"interruptId": id, "status": status}
	if payload != nil {
		entry["payload"] = payload
	}
	return says(thread, "use danger", "Let me see.").with("resume", []any{entry}).with("runId", "next")
}

func TestAGUI_AQuestionInterruptsTheRunAndItsAnswerGoesOn(t *testing.T) {
	for _, c := range []struct {
		name, status string
		payload      any
		result       string
		ran          bool
	}{
		{"approved", "resolved", map[string]any{"approved": true}, "done", true},
		{"denied", "resolved", map[string]any{"approved": false, "reason": "not on a Sunday"}, `{"error":"the call has failed"}`, false},
		{"abandoned", "cancelled", nil, `{"error":"the call has failed"}`, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := newAgentBench(t, nil)
			a.serve()
			var client aguitest.Client
			id := a.interrupted(&client, "t")
			if len(a.ran) != 0 {
				t.Fatal("it has run")
			}
			resp := a.runAGUI(&client, "assistant", answers("t", id, c.status, c.payload))
			if got := client.Texts("tool"); len(got) != 1 || got[0] != c.result || (len(a.ran) == 1) != c.ran {
				t.Errorf("%q", got)
			}
			if got := aguitest.Text(client.End["runId"]); got != "next" || resp.Header.Get("X-Run-Id") != strings.Split(id, ":")[0] {
				t.Errorf("%s %s", got, resp.Header.Get("X-Run-Id"))
			}
			d := readDocument(t, a.do("GET", resp.Header.Get("Location"), ""))
			if !bytes.Equal(d.Result, client.End["result"]) || d.Status != run.StatusCompleted {
				t.Errorf("%s, and the client has %s", d.Result, client.End["result"])
			}
			if c.name == "denied" && !strings.Contains(string(d.Result), "not on a Sunday") {
				t.Errorf("the model is not told why: %s", d.Result)
			}
			// Answered again, it is told again what has come of it.
			a.runAGUI(new(aguitest.Client), "assistant", answers("t", id, "cancelled", nil))
		})
	}
}

// A question that waits in a thread or a chat is denied when its user goes on with something else, from a page that was loaded anew.
func TestWhoGoesOnWithoutAnAnswerHasNotApproved(t *testing.T) {
	for path, body := range map[string]func(text string) string{
		"/v1/agui/assistant":   func(text string) string { return says("t", text).json() },
		"/v1/ui/assistant?v=6": func(text string) string { return uiBody("t", text) },
	} {
		a := newAgentBench(t, nil)
		a.serve()
		asked := a.do("POST", path, body("use danger"))
		text(t, asked)
		if said := text(t, a.do("POST", path, body("never mind"))); !strings.Contains(said, ": never mind") && !strings.Contains(said, `"never mind"`) {
			t.Errorf("%s: %s", path, said)
		}
		d := readDocument(t, a.do("GET", asked.Header.Get("Location"), ""))
		if !strings.Contains(string(d.Result), "the user sent another message instead") || len(a.ran) != 0 {
			t.Errorf("%s: %s", path, d.Result)
		}
	}
}

func TestAGUI_AnAnswerThatComesTooLateIsNoDeadEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAgentBench(t, func(o *Options, _ *agent.Options) { o.Retention = 5 * time.Minute })
		a.servePipes()
		defer a.down()
		var c aguitest.Client
		id := a.interrupted(&c, "t")
		time.Sleep(6 * time.Minute) // the question's time is over: that is a denial
		a.runAGUI(&c, "assistant", answers("t", id, "cancelled", nil))
		if string(c.End["outcome"]) != `{"type":"success"}` || len(a.ran) != 0 {
			t.Errorf("%s", c.End)
		}
		time.Sleep(6 * time.Minute) // the run is not known any more
		c = aguitest.Client{}
		a.runAGUI(&c, "assistant", answers("t", id, "cancelled", nil))
		if string(c.End["outcome"]) != `{"type":"cancelled"}` {
			t.Errorf("%s", c.End)
		}
	})
}

func TestAGUI_AnAnswerIsForTheQuestionAndTheThreadThatWasAsked(t *testing.T) {
	a := newAgentBench(t, nil)
	a.serve()
	var c aguitest.Client
	id := a.interrupted(&c, "t")
	if e := a.refusedAGUI(a.postAGUI("assistant", answers("other", id, "resolved", true))); !strings.Contains(e.Message, "belongs to another thread") {
		t.Error(e.Message)
	}
	resp := a.postAGUI("assistant", answers("t", id+"x", "resolved", true))
	if e := a.refusedAGUI(resp); resp.StatusCode != 404 || !strings.Contains(e.Message, "of this run waits for approval") {
		t.Errorf("%d %+v", resp.StatusCode, e)
	}
	if len(a.ran) != 0 {
		t.Error("it has run")
	}
}

// rejoin comes back to a thread.
func (b *bench) rejoin(agent, thread string) *http.Response {
	b.t.Helper()
	return b.do("GET", "/v1/agui/"+agent+"/"+url.PathEscape(thread), "", "Accept: text/event-stream")
}

func TestAGUI_APageThatWasReloadedComesBack(t *testing.T) {
	a := newAgentBench(t, nil)
	a.serve()
	t.Run("to a thread that nobody has written in", func(t *testing.T) {
		var c aguitest.Client
		a.readAGUI(&c, a.rejoin("assistant", "new"))
		if diff := cmp.Diff([]string{"RUN_STARTED", "RUN_FINISHED"}, c.Log); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("to one whose run has ended", func(t *testing.T) {
		a.runAGUI(new(aguitest.Client), "assistant", says("a/b", "hello"))
		a.runAGUI(new(aguitest.Client), "assistant", says("a/b", "hello", "x", "use weather"))
		var c aguitest.Client
		a.readAGUI(&c, a.rejoin("assistant", "a/b"))
		var said []string
		for _, m := range c.Messages {
			said = append(said, m.Role+": "+m.Content+fmt.Sprint(len(m.Calls)))
		}
		want := []string{
			"user: hello0", "assistant: 3: hello0", "user: use weather0", "assistant: Let me see.1", "reasoning: A tool helps.0",
			`tool: {"sky":"clear <here>"}0`, `assistant: 7: {"sky":"clear <here>"}0`,
		}
		if diff := cmp.Diff(want, said); diff != "" {
			t.Error(diff)
		}
		// Later, when nothing but the tape is there.
		a.s.runs.Forget(laneOf("a/b"))
		var later aguitest.Client
		a.readAGUI(&later, a.rejoin("assistant", "a/b"))
		if diff := cmp.Diff(c.Texts("assistant"), later.Texts("assistant")); diff != "" {
			t.Error(diff)
		}
		if tool := later.Messages[len(later.Messages)-2]; later.Call(tool.Call) == nil || tool.Content != `{"sky":"clear <here>"}` {
			t.Errorf("%+v", tool)
		}
	})
	t.Run("to one whose run goes on", func(t *testing.T) {
		first := a.postAGUI("assistant", says("live", "wait"))
		<-a.talk.waits
		back := a.rejoin("assistant", "live")
		part := make([]byte, 64<<10)
		n := 0
		for !bytes.Contains(part[:n], []byte("TEXT_MESSAGE_START")) { // what it has so far
			m, err := back.Body.Read(part[n:])
			if n += m; err != nil {
				t.Fatal(err)
			}
		}
		a.talk.goOn <- struct{}{}
		rest, err := io.ReadAll(back.Body)
		if err != nil {
			t.Fatal(err)
		}
		var c, other aguitest.Client
		c.Read(append(part[:n], rest...))
		a.readAGUI(&other, first)
		if diff := cmp.Diff(other.Texts("assistant"), c.Texts("assistant")); diff != "" || c.Err != nil || !c.Ended {
			t.Error(diff, c.Err)
		}
	})
}
