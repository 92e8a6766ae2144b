package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/lingserve/lingserve/internal/upstream"
)

// nasty is text that a parser may stumble over.
const nasty = "He said \"blue\" \\ & <b>green</b>\n\tdata: x\r\n\r\ndata: [DONE]\n\né ☀ 🌈 空\u2028\u0001 \\u0041 {\"type\":\"RUN_ERROR\"}"

// long is a text that takes some time.
var long = strings.Repeat("Light is scattered by air. ", 40)

// answer is what the model says, by the last thing that it is told.
func (s *stage) answer(r upstream.Request) upstream.Answer {
	s.mu.Lock()
	s.last = r
	s.mu.Unlock()
	last := r.Messages[len(r.Messages)-1]
	call := func(calls ...upstream.ToolCall) upstream.Answer {
		return upstream.Answer{Reasoning: "A tool helps.", Text: "Let me see.", ToolCalls: calls}
	}
	if last.Role == "tool" {
		return upstream.Answer{Text: "That is what came of it."}
	}
	if text, ok := strings.CutPrefix(last.Content, "JSON "); ok {
		return upstream.Answer{Tokens: pieces(text)}
	}
	switch last.Content {
	case "nasty":
		return upstream.Answer{Text: nasty, Pace: 400}
	case "think":
		return upstream.Answer{Reasoning: "Light is scattered.", Text: "Because of the air."}
	case "megabyte":
		return upstream.Answer{Tokens: []string{strings.Repeat("é\n", 1<<18), "."}}
	case "tool":
		return call(upstream.ToolCall{ID: "call_1", Name: "tape_info", Arguments: "{}"})
	case "tools":
		return call(upstream.ToolCall{ID: "call_1", Name: "tape_info", Arguments: "{}"}, upstream.ToolCall{ID: "call_2", Name: "nonsense", Arguments: `{"a":1}`})
	case "ask":
		return call(upstream.ToolCall{ID: "call_1", Name: "tape_anchors", Arguments: "{}"})
	case "ask twice":
		return call(upstream.ToolCall{ID: "call_1", Name: "tape_anchors", Arguments: "{}"}, upstream.ToolCall{ID: "call_2", Name: "tape_anchors", Arguments: "{}"})
	case "slow":
		return upstream.Answer{Text: long, Pace: 400}
	case "endless":
		return upstream.Answer{Text: strings.Repeat("blue ", 100_000), Pace: 200}
	case "flood": // the log of it is cut
		return upstream.Answer{Text: strings.Repeat("Light is scattered by air. ", 20_000), Pace: 200_000}
	case "refuse":
		return upstream.Answer{Status: http.StatusUnauthorized}
	case "break":
		frame := `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"The"},"logprobs":null,"finish_reason":null}]}` + "\n\n"
		return upstream.Answer{Raw: []upstream.Raw{{Bytes: frame}, {Wait: 50 * time.Millisecond, Cut: true}}}
	}
	return upstream.Answer{Text: "You said: " + last.Content, Pace: 200}
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
		g.is("the messages", []string{"user: nasty", "assistant: " + nasty}, got.said())
		g.is("the end", "success", got.Outcome)
		quoted, _ := json.Marshal(nasty)
		g.same("the result", string(quoted), got.Result)
		g.is("the page's state", "{}", got.State)
		status, result := g.run(got.Run)
		g.is("the run", "completed", status)
		g.same("the run's document", result, got.Result)
		if len(got.Usage) != 1 || got.Usage[0].Provider != "openai" || got.Usage[0].Model != "gpt-script" || got.Usage[0].OutputTokens == 0 {
			g.fail("the usage is %+v", got.Usage)
		}
		if len(got.Notes) == 0 || got.Notes[0].Name != "started" || !strings.Contains(string(got.Notes[0].Value), got.Run) {
			g.fail("the client is not told the run: %+v", got.Notes)
		}
	}},
	{"a long text", func(g *game) {
		got := g.say("assistant", "megabyte")
		if n := len(got.Messages); n != 2 || got.Messages[1].Content != strings.Repeat("é\n", 1<<18)+"." {
			g.fail("it is another one")
		}
	}},
	{"a text whose log is cut", func(g *game) {
		got := g.say("assistant", "flood")
		if n := len(got.Messages); n != 2 || got.Messages[1].Content != strings.Repeat("Light is scattered by air. ", 20_000) {
			g.fail("it is another one")
		}
	}},
	{"a thread remembers", func(g *game) {
		g.say("assistant", "first")
		got := g.do("run", job{"text": "second"})
		g.is("the messages", []string{"user: first", "assistant: You said: first", "user: second", "assistant: You said: second"}, got.said())
		g.mu.Lock()
		n := len(g.last.Messages)
		g.mu.Unlock()
		if n < 4 {
			g.fail("the model was told %d messages", n)
		}
	}},
	{"reasoning", func(g *game) {
		got := g.say("assistant", "think")
		g.is("the messages", []string{"user: think", "reasoning: Light is scattered.", "assistant: Because of the air."}, got.said())
	}},
	{"tools of the agent", func(g *game) {
		got := g.say("assistant", "tools", job{"tools": []any{map[string]any{"name": "alert", "description": "d"}}})
		said := got.said()
		if len(said) < 6 || !slices.Contains(said, "assistant: Let me see. tape.info{} nonsense{\"a\":1}") && !slices.Contains(said, `assistant: Let me see. tape_info{} nonsense{"a":1}`) {
			g.fail("the messages are %q", said)
		}
		results := 0
		for _, m := range got.Messages {
			if m.Role == "tool" {
				if results++; m.ToolCallID == "" || m.Content == "" {
					g.fail("%+v", m)
				}
			}
		}
		g.is("results", 2, results)
		g.is("the end", "assistant: That is what came of it.", said[len(said)-1])
		g.is("the note", "warning", got.Notes[0].Name)
		// A model may use the ids of its calls again, and the client has them all in one list.
		again := g.do("run", job{"text": "tool"})
		for _, m := range again.Messages {
			for _, c := range m.ToolCalls {
				if c.Function.Arguments != "{}" && c.Function.Arguments != `{"a":1}` {
					g.fail("a call has the arguments %s", c.Function.Arguments)
				}
			}
		}
	}},
	{"the state is the document of encyclopedia", func(g *game) {
		got := g.say("encyclopedia", "Why is the sky blue?")
		_, result := g.run(got.Run)
		g.same("the state", result, got.State)
		g.same("the result", result, got.Result)
		if !slices.Contains(got.Events, "STEP_STARTED") || !slices.Contains(got.Events, "STEP_FINISHED") || len(got.Messages) < 3 {
			g.fail("%q %q", got.Events, got.said())
		}
		again := g.do("run", job{"text": "Why is grass green?"}) // from the state that there is
		_, result = g.run(again.Run)
		g.same("the state", result, again.State)
	}},
	{"the state is any document", func(g *game) {
		r := rand.New(rand.NewPCG(1, 2))
		g.do("open", job{"path": "document"})
		for i := range 40 {
			text, _ := json.Marshal(map[string]any{"document": random(r, 4), "n": i})
			got := g.do("run", forwarded(map[string]any{"text": "JSON " + string(text)}))
			g.same("the state", string(text), got.State)
			_, result := g.run(got.Run)
			g.same("the run's document", result, got.State)
			if len(g.wrong) > 0 {
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
			words, _ := json.Marshal(long)
			g.same("the state", fmt.Sprintf(`{"a":{"b":%s},"c":%s,"words":%s}`, left, right, words), got.State)
			if last := got.said(); last[len(last)-1] != "assistant: "+long {
				g.fail("the text is %q", last)
			}
		}
	}},
	{"ten thousand elements and a megabyte", func(g *game) {
		list := make([]int, 10_000)
		text, _ := json.Marshal(map[string]any{"list": list, "text": strings.Repeat("word ", 50_000)})
		g.do("open", job{"path": "document"})
		got := g.do("run", forwarded(map[string]any{"text": "JSON " + string(text)}))
		g.same("the state", string(text), got.State)
	}},
	{"an approval", func(g *game) {
		got := g.say("assistant", "ask")
		if got.Outcome != "interrupt" || len(got.Interrupts) != 1 {
			g.fail("%q %+v", got.Outcome, got.Interrupts)
			return
		}
		i := got.Interrupts[0]
		if i.Reason != "tool_call" || i.Message == "" || i.ExpiresAt == "" || i.ResponseSchema["type"] != "object" {
			g.fail("%+v", i)
		}
		found := false
		for _, m := range got.Messages {
			for _, c := range m.ToolCalls {
				found = found || c.ID == i.ToolCallID
			}
		}
		if !found {
			g.fail("there is no call %q", i.ToolCallID)
		}
		then := g.do("run", answers("resolved", map[string]any{"approved": true}, i.ID))
		g.is("the end", "success", then.Outcome)
		g.is("it is the same run", got.Run, then.Run)
		said := then.said()
		g.is("the last message", "assistant: That is what came of it.", said[len(said)-1])
		if len(then.Interrupts) != 0 {
			g.fail("it still waits for %+v", then.Interrupts)
		}
	}},
	{"a denial, and an approval after it", func(g *game) {
		got := g.say("assistant", "ask twice")
		for i, status := range []string{"cancelled", "resolved"} {
			if len(got.Interrupts) != 1 {
				g.fail("question %d: %+v", i, got.Interrupts)
				return
			}
			var payload any
			if status == "resolved" {
				payload = map[string]any{"approved": true, "remember": "session"}
			}
			got = g.do("run", answers(status, payload, got.Interrupts[0].ID))
		}
		g.is("the end", "success", got.Outcome)
		denied := 0
		for _, m := range got.Messages {
			if m.Role == "tool" && strings.Contains(m.Content, "error") {
				denied++
			}
		}
		g.is("denied", 1, denied)
	}},
	{"an answer that comes too late", func(g *game) {
		got := g.say("assistant", "ask")
		g.get("POST", "/v1/runs/"+got.Run+"/cancel", "")
		then := g.do("run", answers("resolved", map[string]any{"approved": true}, got.Interrupts[0].ID))
		g.is("the end", "cancelled", then.Outcome)
		g.is("the thread goes on", "success", g.do("run", job{"text": "next"}).Outcome)
	}},
	{"errors before a stream", func(g *game) {
		g.loud = true // it prints what it throws
		got := g.say("nobody", "x")
		if got.Rejected == nil || got.Rejected.Status != 404 || got.Rejected.Code != "not_found" || !strings.Contains(got.Rejected.Message, "there is no agent or workflow") {
			g.fail("%+v", got.Rejected)
		}
		got = g.say("encyclopedia", strings.Repeat("x", 3000))
		if got.Rejected == nil || got.Rejected.Status != 400 || !strings.Contains(got.Rejected.Message, "/messages/0/content") {
			g.fail("%+v", got.Rejected)
		}
		got = g.say("assistant", "")
		if got.Rejected == nil || got.Rejected.Status != 400 {
			g.fail("%+v", got.Rejected)
		}
	}},
	{"a model that refuses", func(g *game) {
		got := g.say("assistant", "refuse")
		if got.Failed == nil || got.Failed.Code != "upstream_auth" || got.Rejected != nil {
			g.fail("%+v %+v", got.Failed, got.Rejected)
		}
		g.is("the thread goes on", "success", g.do("run", job{"text": "next"}).Outcome)
	}},
	{"a model that breaks off", func(g *game) {
		got := g.say("assistant", "break")
		if got.Failed == nil || got.Failed.Code == "" || len(got.Messages) != 2 || got.Messages[1].Content != "The" {
			g.fail("%+v %q", got.Failed, got.said())
		}
	}},
	{"two threads at once", func(g *game) {
		threads := []string{"one", "two"}
		for _, thread := range threads {
			g.do("open", job{"path": "assistant", "thread": thread})
		}
		got := g.do("both", job{"threads": threads})
		for i, part := range got.Parts {
			g.is("thread "+threads[i], []string{"user: " + threads[i], "assistant: You said: " + threads[i]}, part.said())
		}
	}},
	{"abortRun leaves the run alone", func(g *game) {
		got := g.say("assistant", "slow", job{"abort": 3})
		if got.Rejected != nil {
			g.fail("%+v", got.Rejected)
		}
		if status, _ := g.run(got.Run); status != "running" && status != "completed" {
			g.fail("the run is %s", status)
		}
		back := g.do("rejoin", nil) // and there it is again
		g.is("the messages", []string{"user: slow", "assistant: " + long}, back.said())
		g.is("the end", "success", back.Outcome)
	}},
	{"abortRun ends a run that is to end with its client", func(g *game) {
		got := g.say("assistant?on_disconnect=cancel", "endless", job{"abort": 3})
		status := ""
		for deadline := time.Now().Add(5 * time.Second); status != "canceled" && time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
			status, _ = g.run(got.Run)
		}
		g.is("the run", "canceled", status)
	}},
	{"a run that is canceled", func(g *game) {
		g.do("open", job{"path": "assistant"})
		begun := g.do("begin", job{"text": "endless"})
		g.get("POST", "/v1/runs/"+begun.Run+"/cancel", "")
		got := g.do("end", nil)
		g.is("the end", "cancelled", got.Outcome)
		if got.Rejected != nil || len(got.Messages) != 2 {
			g.fail("%+v %q", got.Rejected, got.said())
		}
	}},
	{"a page that was reloaded", func(g *game) {
		g.do("open", job{"path": "assistant"})
		fresh := g.do("rejoin", nil)
		g.is("a new thread", []string{"RUN_STARTED", "RUN_FINISHED"}, fresh.Events)
		whole := g.do("run", job{"text": "tool"})
		back := g.do("rejoin", nil)
		kinds := func(s *seen) []string {
			said := s.said()
			slices.Sort(said)
			return said
		}
		g.is("the messages", kinds(whole), kinds(back))
		g.is("the end", "success", back.Outcome)
		again := g.do("run", job{"text": "next"}) // with the messages that it was given
		g.is("the thread goes on", "success", again.Outcome)
	}},
	{"a page that was reloaded while it is asked", func(g *game) {
		g.say("assistant", "ask")
		back := g.do("rejoin", nil)
		if len(back.Interrupts) != 1 {
			g.fail("%+v", back)
			return
		}
		g.is("the end", "success", g.do("run", answers("resolved", true, back.Interrupts[0].ID)).Outcome)
	}},
	{"the state of a workflow comes back", func(g *game) {
		whole := g.say("encyclopedia", "Why is the sky blue?")
		back := g.do("rejoin", nil)
		g.same("the state", whole.State, back.State)
	}},
	{"a server that goes away", func(g *game) {
		g.loud = true // the client rejects, and a rejection that nobody handles is beside it
		other, err := g.start(g.ctx)
		if err != nil {
			panic(err)
		}
		g.do("open", job{"path": "assistant", "base": other.URL})
		g.do("begin", job{"text": "endless"})
		if err := other.Stop(); err != nil {
			g.fail("the server: %v", err)
		}
		got := g.do("end", nil)
		if got.Rejected == nil || got.Outcome != "" {
			g.fail("the client takes it for success: %+v", got)
		}
	}},
	{"a server that is going", func(g *game) {
		g.loud = true
		other, err := g.start(g.ctx, "--grace", "5s")
		if err != nil {
			panic(err)
		}
		g.do("open", job{"path": "assistant", "base": other.URL})
		g.do("begin", job{"text": "endless"})
		if err := other.Drain(); err != nil {
			g.fail("the server: %v", err)
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
			g.fail("%+v", got.Rejected)
		}
		if err := other.Wait(); err != nil {
			g.fail("the server: %v", err)
		}
		if end := g.do("end", nil); end.Rejected == nil {
			g.fail("the client takes it for success: %+v", end)
		}
	}},
}
