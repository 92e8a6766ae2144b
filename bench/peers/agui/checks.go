package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/lingserve/lingserve/bench/peers/play"
	"github.com/lingserve/lingserve/internal/fakeproviders"
)

// answer is what the model says to these clients alone: any document.
func answer(r fakeproviders.Request) (fakeproviders.Answer, bool) {
	text, ok := strings.CutPrefix(r.Messages[len(r.Messages)-1].Content, "JSON ")
	return fakeproviders.Answer{Tokens: pieces(text)}, ok
}

// pieces cuts a text as models do, mostly between characters.
func pieces(text string) (list []string) {
	for n := 1; text != ""; n = n%7 + 1 {
		at := 0
		for range n {
			for at++; at < len(text) && text[at]&0xc0 == 0x80; at++ {
			}
			if at >= len(text) {
				break
			}
		}
		at = min(at, len(text))
		list, text = append(list, text[:at]), text[at:]
	}
	return list
}

// keys are names that somebody may stumble over.
var keys = []string{
	"a", "b", "title", "", "/", "a/b", "~", "~0", "~1", `\`, "$", "$tools", ".", "0", "-", "__proto__", "constructor", "prototype", "toString",
	"hasOwnProperty", "length", "\"", "\n", "é ☀ 🌈",
}

// random is a document.
func random(r *rand.Rand, depth int) any {
	kind := r.IntN(10)
	switch {
	case kind < 4 && depth > 0:
		object := map[string]any{}
		for range r.IntN(6) {
			object[keys[r.IntN(len(keys))]] = random(r, depth-1)
		}
		return object
	case kind < 6 && depth > 0:
		array := []any{}
		for range r.IntN(5) {
			array = append(array, random(r, depth-1))
		}
		return array
	case kind < 9:
		return strings.Repeat("wörd \n\"", r.IntN(30))
	default:
		return []any{nil, true, 0, -1.5, 1e10}[r.IntN(5)]
	}
}

// forwarded is an input of a workflow, and nothing that a user says.
func forwarded(input any) job { return job{"forwardedProps": map[string]any{"input": input}} }

// answers is a list of answers to questions.
func answers(status string, payload any, ids ...string) job {
	var list []any
	for _, id := range ids {
		entry := map[string]any{"interruptId": id, "status": status}
		if payload != nil {
			entry["payload"] = payload
		}
		list = append(list, entry)
	}
	return job{"resume": list}
}

var checks = []check{
	{"text", func(g *game) {
		got := g.say("assistant", "nasty")
		g.Is("the messages", []string{"user: nasty", "assistant: " + play.Nasty}, got.said())
		g.Is("the end", "success", got.Outcome)
		quoted, _ := json.Marshal(play.Nasty)
		g.Same("the result", string(quoted), got.Result)
		g.Is("the page's state", "{}", got.State)
		run := g.Document(got.Run)
		g.Is("the run", "completed", run.Status)
		g.Same("the run's document", string(run.Result), got.Result)
		if len(got.Usage) != 1 || got.Usage[0].Provider != "openai" || got.Usage[0].Model != "gpt-script" || got.Usage[0].OutputTokens == 0 {
			g.Fail("the usage is %+v", got.Usage)
		}
		if len(got.Notes) == 0 || got.Notes[0].Name != "started" || !strings.Contains(string(got.Notes[0].Value), got.Run) {
			g.Fail("the client is not told the run: %+v", got.Notes)
		}
	}},
	{"a long text", func(g *game) {
		got := g.say("assistant", "megabyte")
		if n := len(got.Messages); n != 2 || got.Messages[1].Content != strings.Repeat("é\n", 1<<18)+"." {
			g.Fail("it is another one")
		}
	}},
	{"a text whose log is cut", func(g *game) {
		got := g.say("assistant", "flood")
		if n := len(got.Messages); n != 2 || got.Messages[1].Content != play.Flood {
			g.Fail("it is another one")
		}
	}},
	{"a thread remembers", func(g *game) {
		g.say("assistant", "first")
		got := g.do("run", job{"text": "second"})
		g.Is("the messages", []string{"user: first", "assistant: 2: first", "user: second", "assistant: 4: second"}, got.said())
	}},
	{"reasoning", func(g *game) {
		got := g.say("assistant", "think")
		g.Is("the messages", []string{"user: think", "reasoning: Light is scattered.", "assistant: Because of the air."}, got.said())
	}},
	{"tools of the agent", func(g *game) {
		got := g.say("assistant", "tools", job{"tools": []any{map[string]any{"name": "alert", "description": "d"}}})
		said := got.said()
		if len(said) < 6 || !slices.Contains(said, "assistant: Let me see. tape.info{} nonsense{\"a\":1}") && !slices.Contains(said, `assistant: Let me see. tape_info{} nonsense{"a":1}`) {
			g.Fail("the messages are %q", said)
		}
		results := 0
		for _, m := range got.Messages {
			if m.Role == "tool" {
				if results++; m.ToolCallID == "" || m.Content == "" {
					g.Fail("%+v", m)
				}
			}
		}
		g.Is("results", 2, results)
		g.Is("the end", "assistant: That is what came of it.", said[len(said)-1])
		g.Is("the note", "warning", got.Notes[0].Name)
		// A model may use the ids of its calls again, and the client has them all in one list.
		again := g.do("run", job{"text": "tool"})
		for _, m := range again.Messages {
			for _, c := range m.ToolCalls {
				if c.Function.Arguments != "{}" && c.Function.Arguments != `{"a":1}` {
					g.Fail("a call has the arguments %s", c.Function.Arguments)
				}
			}
		}
	}},
	{"the state is the document of encyclopedia", func(g *game) {
		got := g.say("encyclopedia", "Why is the sky blue?")
		result := string(g.Document(got.Run).Result)
		g.Same("the state", result, got.State)
		g.Same("the result", result, got.Result)
		if !slices.Contains(got.Events, "STEP_STARTED") || !slices.Contains(got.Events, "STEP_FINISHED") || len(got.Messages) < 3 {
			g.Fail("%q %q", got.Events, got.said())
		}
		again := g.do("run", job{"text": "Why is grass green?"}) // from the state that there is
		g.Same("the state", string(g.Document(again.Run).Result), again.State)
	}},
	{"the state is any document", func(g *game) {
		r := rand.New(rand.NewPCG(1, 2))
		g.do("open", job{"path": "document"})
		for i := range 40 {
			text, _ := json.Marshal(map[string]any{"document": random(r, 4), "n": i})
			got := g.do("run", forwarded(map[string]any{"text": "JSON " + string(text)}))
			g.Same("the state", string(text), got.State)
			g.Same("the run's document", string(g.Document(got.Run).Result), got.State)
			if g.Wrong() {
				return
			}
		}
	}},
	{"the state is what several bots write at the same time", func(g *game) {
		r := rand.New(rand.NewPCG(3, 4))
		g.do("open", job{"path": "workflow%2Fbelow"})
		for range 5 {
			left, _ := json.Marshal(map[string]any{"left": random(r, 3)})
			right, _ := json.Marshal([]any{random(r, 3)})
			got := g.do("run", forwarded(map[string]any{"left": "JSON " + string(left), "right": "JSON " + string(right)}))
			words, _ := json.Marshal(play.Long)
			g.Same("the state", fmt.Sprintf(`{"a":{"b":%s},"c":%s,"words":%s}`, left, right, words), got.State)
			if last := got.said(); last[len(last)-1] != "assistant: "+play.Long {
				g.Fail("the text is %q", last)
			}
		}
	}},
	{"ten thousand elements and a megabyte", func(g *game) {
		list := make([]int, 10_000)
		text, _ := json.Marshal(map[string]any{"list": list, "text": strings.Repeat("word ", 50_000)})
		g.do("open", job{"path": "document"})
		got := g.do("run", forwarded(map[string]any{"text": "JSON " + string(text)}))
		g.Same("the state", string(text), got.State)
	}},
	{"an approval", func(g *game) {
		got := g.say("assistant", "ask")
		if got.Outcome != "interrupt" || len(got.Interrupts) != 1 {
			g.Fail("%q %+v", got.Outcome, got.Interrupts)
			return
		}
		i := got.Interrupts[0]
		if i.Reason != "tool_call" || i.Message == "" || i.ExpiresAt == "" || i.ResponseSchema["type"] != "object" {
			g.Fail("%+v", i)
		}
		found := false
		for _, m := range got.Messages {
			for _, c := range m.ToolCalls {
				found = found || c.ID == i.ToolCallID
			}
		}
		if !found {
			g.Fail("there is no call %q", i.ToolCallID)
		}
		then := g.do("run", answers("resolved", map[string]any{"approved": true}, i.ID))
		g.Is("the end", "success", then.Outcome)
		g.Is("it is the same run", got.Run, then.Run)
		said := then.said()
		g.Is("the last message", "assistant: That is what came of it.", said[len(said)-1])
		if len(then.Interrupts) != 0 {
			g.Fail("it still waits for %+v", then.Interrupts)
		}
	}},
	{"a denial, and an approval after it", func(g *game) {
		got := g.say("assistant", "ask twice")
		for i, status := range []string{"cancelled", "resolved"} {
			if len(got.Interrupts) != 1 {
				g.Fail("question %d: %+v", i, got.Interrupts)
				return
			}
			var payload any
			if status == "resolved" {
				payload = map[string]any{"approved": true, "remember": "session"}
			}
			got = g.do("run", answers(status, payload, got.Interrupts[0].ID))
		}
		g.Is("the end", "success", got.Outcome)
		denied := 0
		for _, m := range got.Messages {
			if m.Role == "tool" && strings.Contains(m.Content, "error") {
				denied++
			}
		}
		g.Is("denied", 1, denied)
	}},
	{"an answer that comes too late", func(g *game) {
		got := g.say("assistant", "ask")
		g.Get("POST", "/v1/runs/"+got.Run+"/cancel", "")
		then := g.do("run", answers("resolved", map[string]any{"approved": true}, got.Interrupts[0].ID))
		g.Is("the end", "cancelled", then.Outcome)
		g.Is("the thread goes on", "success", g.do("run", job{"text": "next"}).Outcome)
	}},
	{"errors before a stream", func(g *game) {
		g.Loud = true // it prints what it throws
		got := g.say("nobody", "x")
		if got.Rejected == nil || got.Rejected.Status != 404 || got.Rejected.Code != "not_found" || !strings.Contains(got.Rejected.Message, "unknown agent or workflow") {
			g.Fail("%+v", got.Rejected)
		}
		got = g.say("encyclopedia", strings.Repeat("x", 3000))
		if got.Rejected == nil || got.Rejected.Status != 400 || !strings.Contains(got.Rejected.Message, "/messages/0/content") {
			g.Fail("%+v", got.Rejected)
		}
		got = g.say("assistant", "")
		if got.Rejected == nil || got.Rejected.Status != 400 {
			g.Fail("%+v", got.Rejected)
		}
	}},
	{"a model that refuses", func(g *game) {
		got := g.say("assistant", "refuse")
		if got.Failed == nil || got.Failed.Code != "upstream_auth" || got.Rejected != nil {
			g.Fail("%+v %+v", got.Failed, got.Rejected)
		}
		g.Is("the thread goes on", "success", g.do("run", job{"text": "next"}).Outcome)
	}},
	{"a model that breaks off", func(g *game) {
		got := g.say("assistant", "break")
		if got.Failed == nil || got.Failed.Code == "" || len(got.Messages) != 2 || got.Messages[1].Content != "The" {
			g.Fail("%+v %q", got.Failed, got.said())
		}
	}},
	{"two threads at once", func(g *game) {
		threads := []string{"one", "two"}
		for _, thread := range threads {
			g.do("open", job{"path": "assistant", "thread": thread})
		}
		got := g.do("both", job{"threads": threads})
		for i, part := range got.Parts {
			g.Is("thread "+threads[i], []string{"user: " + threads[i], "assistant: 2: " + threads[i]}, part.said())
		}
	}},
	{"abortRun leaves the run alone", func(g *game) {
		got := g.say("assistant", "slow", job{"abort": 3})
		if got.Rejected != nil {
			g.Fail("%+v", got.Rejected)
		}
		if status := g.Document(got.Run).Status; status != "running" && status != "completed" {
			g.Fail("the run is %s", status)
		}
		back := g.do("rejoin", nil) // and there it is again
		g.Is("the messages", []string{"user: slow", "assistant: " + play.Long}, back.said())
		g.Is("the end", "success", back.Outcome)
	}},
	{"abortRun ends a run that is to end with its client", func(g *game) {
		got := g.say("assistant?on_disconnect=cancel", "endless", job{"abort": 3})
		g.Eventually("the run is canceled", func() bool { return g.Document(got.Run).Status == "canceled" })
	}},
	{"a run that is canceled", func(g *game) {
		g.do("open", job{"path": "assistant"})
		begun := g.do("begin", job{"text": "endless"})
		g.Get("POST", "/v1/runs/"+begun.Run+"/cancel", "")
		got := g.do("end", nil)
		g.Is("the end", "cancelled", got.Outcome)
		if got.Rejected != nil || len(got.Messages) != 2 {
			g.Fail("%+v %q", got.Rejected, got.said())
		}
	}},
	{"a page that was reloaded", func(g *game) {
		g.do("open", job{"path": "assistant"})
		fresh := g.do("rejoin", nil)
		g.Is("a new thread", []string{"RUN_STARTED", "RUN_FINISHED"}, fresh.Events)
		whole := g.do("run", job{"text": "tool"})
		back := g.do("rejoin", nil)
		kinds := func(s *seen) []string {
			said := s.said()
			slices.Sort(said)
			return said
		}
		g.Is("the messages", kinds(whole), kinds(back))
		g.Is("the end", "success", back.Outcome)
		again := g.do("run", job{"text": "next"}) // with the messages that it was given
		g.Is("the thread goes on", "success", again.Outcome)
	}},
	{"a page that was reloaded while it is asked", func(g *game) {
		g.say("assistant", "ask")
		back := g.do("rejoin", nil)
		if len(back.Interrupts) != 1 {
			g.Fail("%+v", back)
			return
		}
		g.Is("the end", "success", g.do("run", answers("resolved", true, back.Interrupts[0].ID)).Outcome)
	}},
	{"the state of a workflow comes back", func(g *game) {
		whole := g.say("encyclopedia", "Why is the sky blue?")
		back := g.do("rejoin", nil)
		g.Same("the state", whole.State, back.State)
	}},
	{"a server that goes away", func(g *game) {
		g.Loud = true // the client rejects, and a rejection that nobody handles is beside it
		other, err := g.Start(g.Ctx)
		if err != nil {
			panic(err)
		}
		g.do("open", job{"path": "assistant", "base": other.URL})
		g.do("begin", job{"text": "endless"})
		if err := other.Stop(); err != nil {
			g.Fail("the server: %v", err)
		}
		got := g.do("end", nil)
		if got.Rejected == nil || got.Outcome != "" {
			g.Fail("the client takes it for success: %+v", got)
		}
	}},
	{"a server that is going", func(g *game) {
		g.Loud = true
		other, err := g.Start(g.Ctx, "--grace", "5s")
		if err != nil {
			panic(err)
		}
		g.do("open", job{"path": "assistant", "base": other.URL})
		g.do("begin", job{"text": "endless"})
		if err := other.Drain(); err != nil {
			g.Fail("the server: %v", err)
		}
		second := job{"path": "assistant", "base": other.URL, "thread": "second"}
		g.do("open", second)
		var got *seen
		for range 100 { // the signal takes a moment
			if got = g.do("run", job{"text": "x", "thread": "second"}); got.Rejected != nil {
				break
			}
		}
		if got.Rejected == nil || got.Rejected.Status != 503 || got.Rejected.Code != "draining" {
			g.Fail("%+v", got.Rejected)
		}
		if err := other.Wait(); err != nil {
			g.Fail("the server: %v", err)
		}
		if end := g.do("end", nil); end.Rejected == nil {
			g.Fail("the client takes it for success: %+v", end)
		}
	}},
}
