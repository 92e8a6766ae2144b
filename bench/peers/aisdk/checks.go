package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/lingserve/lingserve/bench/peers/play"
)

// Names of functions of the SDK that decide whether a chat sends by itself.
const (
	whenToolsAreDone = "lastAssistantMessageIsCompleteWithToolCalls"
	whenAnswered     = "lastAssistantMessageIsCompleteWithApprovalResponses"
)

var checks = []check{
	{name: "text, whatever is in it", play: func(g *game) {
		g.open("assistant")
		s := g.send("nasty")
		g.complete(s, play.Nasty)
		g.one(s)
		m := s.answer()
		g.Is("statuses", []string{"submitted", "streaming", "ready"}, s.Statuses)
		g.Is("the message's id is the run's", m.Metadata.Run, m.ID)
		g.Is("metadata", []string{g.id, "assistant", "completed"}, []string{m.Metadata.Session, m.Metadata.Agent, m.Metadata.Status})
		if m.Metadata.Usage["assistant"].Total == 0 {
			g.Fail("no usage: %+v", m.Metadata)
		}
		g.Is("the run", "completed", g.Document(m.ID).Status)
	}},
	{name: "much in one piece", play: func(g *game) {
		g.open("assistant")
		g.complete(g.send("megabyte"), strings.Repeat("é\n", 1<<18)+".")
	}},
	{name: "reasoning", play: func(g *game) {
		g.open("assistant")
		s := g.send("think")
		g.complete(s, "Because of the air.")
		g.Is("reasoning", "Light is scattered.", s.answer().text("reasoning"))
	}},
	{name: "what was said before", play: func(g *game) {
		g.open("assistant")
		g.send("hello")
		s := g.send("again")
		g.Is("messages", 4, len(s.Messages))
		// The system prompt, what was said and answered, and this.
		g.Is("text", "4: again", s.answer().text("text"))
	}},
	{name: "what was said before, without saying it again", play: func(g *game) {
		g.open("assistant", job{"short": true})
		g.send("hello")
		g.complete(g.send("again"), "4: again")
		g.complete(g.do("regenerate", nil), "6: again")
	}},
	{name: "what was said before to somebody else", play: func(g *game) {
		g.open("assistant", job{"messages": []any{
			map[string]any{"id": "s", "role": "system", "parts": []any{map[string]any{"type": "text", "text": "Be brief."}}},
			map[string]any{"id": "u", "role": "user", "parts": []any{map[string]any{"type": "text", "text": "one"}}},
			map[string]any{"id": "a", "role": "assistant", "parts": []any{map[string]any{"type": "text", "text": "two"}}},
		}})
		s := g.send("three")
		g.Is("status", "ready", s.Status)
		asked := g.Requests()
		var said []string
		for _, m := range asked[0].Messages {
			said = append(said, m.Role+" "+m.Content)
		}
		all := strings.Join(said, "\n")
		for _, want := range []string{"user one", "assistant two", "user three", "Be brief."} {
			if !strings.Contains(all, want) {
				g.Fail("the model was not told %q:\n%s", want, all)
			}
		}
	}},
	{name: "tools, which the client neither runs nor waits for", play: func(g *game) {
		g.open("assistant", job{"automatically": whenToolsAreDone})
		s := g.send("tools")
		g.complete(s, "Let me see.That is what came of it.")
		g.Is("tools", []string{"tape_info output-available", "nonsense output-error the tool nonsense has failed"}, s.tools())
		g.Is("calls of onToolCall", 0, s.Calls)
		g.Is("requests", 1, len(s.Requests))
		g.Is("requests to the model", 2, len(g.Requests()))
		var types []string
		for _, p := range s.answer().Parts {
			types = append(types, p.Type)
		}
		g.Is("parts", []string{"step-start", "reasoning", "text", "dynamic-tool", "dynamic-tool", "step-start", "text"}, types)
	}},
	{name: "a workflow's document", play: func(g *game) {
		g.open("encyclopedia")
		s := g.send("Why is the sky blue?")
		m := s.answer()
		g.Is("status", "ready", s.Status)
		g.one(s)
		g.Is("workflow", "encyclopedia", m.Metadata.Workflow)
		want := string(g.Document(m.ID).Result)
		document, err := s.document()
		if err != nil {
			g.Fail("%v", err)
		}
		g.Same("the parts", want, document)
		deltas, err := s.deltas()
		if err != nil {
			g.Fail("%v", err)
		}
		g.Same("the deltas", want, deltas)
		if n := len(withKind(s.Data, "data-ling")); n < 3 { // on a busy machine, many tokens come at once
			g.Fail("the document was told %d times, which is no growing", n)
		}
		if n := len(withKind(m.Parts, "data-delta")) + len(withKind(m.Parts, "data-event")); n > 0 {
			g.Fail("%d transient parts are in the message", n)
		}
	}},
	{name: "a workflow's text, by its prefix", play: func(g *game) {
		g.open("workflow%2Fchat")
		s := g.send("hello")
		g.Is("status", "ready", s.Status)
		want := struct {
			Answer string `json:"answer"`
		}{s.answer().text("text")}
		text, _ := json.Marshal(want)
		g.Same("the run", string(g.Document(s.answer().ID).Result), string(text))
	}},
	{name: "input beside the messages", play: func(g *game) {
		g.open("encyclopedia", job{"body": map[string]any{"input": map[string]any{"question": "Why?", "nonsense": 1}}})
		s := g.send("said")
		g.Is("status", "error", s.Status)
		g.Is("error", "/input/nonsense: unknown property", s.Failed)
	}},

	{name: "coming back to a stream that broke", play: func(g *game) {
		g.open("assistant", job{"cut": 2000})
		s := g.send("slow")
		g.Is("status", "error", s.Status)
		g.Is("disconnected", true, s.Finish.IsDisconnect)
		if n := len(s.answer().text("text")); n == 0 || n >= len(play.Long) {
			g.Fail("%d characters before the break", n)
		}
		s = g.comeBack(s, "assistant")
		g.complete(s, play.Long)
		g.one(s)
		g.Is("requests to the model", 1, len(g.Requests()))
	}},
	{name: "coming back after a reload", play: func(g *game) {
		g.open("assistant")
		g.do("begin", job{"text": "slow", "characters": 50})
		got := g.do("get", job{"path": "/v1/ui/assistant/" + strings.ReplaceAll(strings.ReplaceAll(g.id, "/", "%2F"), " ", "%20")})
		var list []message
		if err := json.Unmarshal(got.Got.Messages, &list); err != nil || len(list) != 1 || list[0].text("text") != "slow" {
			g.Fail("the messages are %s", got.Got.Messages)
		}
		g.open("assistant", job{"messages": got.Got.Messages})
		s := g.do("resume", nil)
		g.complete(s, play.Long)
		g.one(s)
	}},
	{name: "coming back when all is over", play: func(g *game) {
		g.open("assistant")
		before := g.send("hello")
		s := g.do("resume", nil)
		g.Is("status", "ready", s.Status)
		g.Is("messages", before.Messages, s.Messages)
		if last := s.Requests[len(s.Requests)-1]; !strings.HasSuffix(last, "/stream 204") {
			g.Fail("%s", last)
		}
		g.open("assistant") // a new page
		s = g.do("resume", nil)
		g.Is("status", "ready", s.Status)
		g.Is("messages", 0, len(s.Messages))
	}},
	{name: "coming back to an answer whose end nobody has heard", play: func(g *game) {
		g.open("assistant", job{"cut": 500})
		s := g.send("slow")
		g.Is("disconnected", true, s.Finish.IsDisconnect)
		g.Eventually("the run ends", func() bool { return g.Document(s.answer().ID).Status == "completed" })
		s = g.comeBack(s, "assistant")
		g.complete(s, play.Long)
		g.one(s)
		s = g.do("resume", nil)
		if last := s.Requests[len(s.Requests)-1]; !strings.HasSuffix(last, "/stream 204") {
			g.Fail("%s", last)
		}
	}},
	{name: "coming back to a run whose log was cut", play: func(g *game) {
		g.open("assistant", job{"cut": 5000})
		s := g.send("flood")
		g.Is("disconnected", true, s.Finish.IsDisconnect)
		g.Eventually("the run ends", func() bool { return g.Document(s.answer().ID).Status == "completed" })
		s = g.comeBack(s, "assistant")
		g.complete(s, play.Flood)
		g.one(s)
	}},
	{name: "messages after a reload", play: func(g *game) {
		g.open("assistant")
		before := g.send("tool")
		got := g.do("get", job{"path": "/v1/ui/assistant/" + strings.ReplaceAll(strings.ReplaceAll(g.id, "/", "%2F"), " ", "%20")})
		g.open("assistant", job{"messages": got.Got.Messages})
		s := g.send("and now")
		if len(s.Messages) != 4 || s.Messages[1].ID != before.answer().ID {
			g.Fail("%+v", s.Messages)
			return
		}
		after := &seen{Messages: s.Messages[:2]}
		g.Is("tools", before.tools(), after.tools())
		g.Is("reasoning", before.answer().text("reasoning"), after.answer().text("reasoning"))
		g.Is("status", "ready", s.Status)
	}},

	{name: "an agent that there is not", play: func(g *game) {
		g.open("nobody")
		s := g.send("hello")
		g.Is("status", "error", s.Status)
		if !strings.HasPrefix(s.Failed, `unknown agent or workflow "nobody"; expected one of assistant, `) {
			g.Fail("%q", s.Failed)
		}
		if g.version == 7 {
			g.Is("status code", http.StatusNotFound, s.Code)
		}
	}},
	{name: "a file", play: func(g *game) {
		g.open("assistant")
		s := g.do("send", job{"message": map[string]any{"text": "look", "files": []any{
			map[string]any{"type": "file", "mediaType": "image/png", "url": "data:image/png;base64,AA=="},
		}}})
		g.Is("status", "ready", s.Status)
	}},
	{name: "too much at once", play: func(g *game) {
		g.open("assistant")
		s := g.send(strings.Repeat("x", 2<<20))
		g.Is("status", "error", s.Status)
		if !strings.Contains(s.Failed, "expected at most 1000000 characters") {
			g.Fail("%q", s.Failed)
		}
	}},
	{name: "a model's server that refuses", play: func(g *game) {
		g.open("assistant")
		s := g.send("refuse")
		g.Is("status", "error", s.Status)
		g.Is("finish reason", "error", s.Finish.FinishReason)
		g.Is("text", "", s.answer().text("text"))
		if s.Failed == "" || strings.Contains(s.Failed, "127.0.0.1") || strings.Contains(s.Failed, "{") {
			g.Fail("%q is no sentence for people", s.Failed)
		}
		s = g.do("regenerate", nil)
		g.Is("status", "error", s.Status)
		s = g.send("hello")
		g.Is("status, once more", "ready", s.Status)
	}},
	{name: "a model's server that breaks off", play: func(g *game) {
		g.open("assistant")
		s := g.send("break")
		g.Is("status", "error", s.Status)
		g.Is("text", "The", s.answer().text("text"))
		g.Is("part", "done", s.answer().Parts[1].State)
	}},
	{name: "a server that shuts down", play: func(g *game) {
		other, err := g.Start(g.Ctx)
		if err != nil {
			panic(err)
		}
		defer other.Stop()
		g.Server, other = other, g.Server
		defer func() { g.Server, other = other, g.Server }()
		base := strings.Replace(g.Server.URL, "http://", "", 1)
		g.open("assistant", job{"base": base})
		g.do("begin", job{"text": "endless", "characters": 20})
		if err := g.Server.Drain(); err != nil {
			panic(err)
		}
		g.Eventually("it refuses", func() bool {
			status, _ := g.Get("GET", "/readyz", "")
			return status == http.StatusServiceUnavailable
		})
		first := g.id
		g.id += ", another"
		g.open("assistant", job{"base": base})
		s := g.send("hello")
		g.Is("status of another", "error", s.Status)
		g.Is("error of another", "the server is shutting down and starts no new runs; retry on another server, or later", s.Failed)
		g.id = first
		s = g.do("rest", nil)
		g.Is("status", "error", s.Status) // a clean end would read as the end of the answer
		if len(s.answer().text("text")) < 20 {
			g.Fail("what there was is lost")
		}
	}},

	{name: "stopping, and canceling", play: func(g *game) {
		g.open("assistant")
		g.do("begin", job{"text": "endless", "characters": 20})
		s := g.do("stop", nil)
		g.Is("status", "ready", s.Status)
		run := s.answer().Metadata.Run
		g.Is("the run", "running", g.Document(run).Status)
		status, _ := g.Get("POST", "/v1/runs/"+run+"/cancel", "")
		g.Is("cancel", http.StatusAccepted, status)
		g.Eventually("it is canceled", func() bool { return g.Document(run).Status == "canceled" })
		s = g.send("hello")
		g.Is("status of the next", "ready", s.Status)
	}},
	{name: "a run that is canceled while one listens", play: func(g *game) {
		g.open("assistant")
		s := g.do("begin", job{"text": "endless", "characters": 20})
		g.Get("POST", "/v1/runs/"+s.answer().Metadata.Run+"/cancel", "")
		s = g.do("rest", nil)
		g.Is("status", "ready", s.Status)
		g.Is("finish reason", "other", s.Finish.FinishReason)
		g.Is("metadata", "canceled", s.answer().Metadata.Status)
		g.Is("part", "done", s.answer().Parts[1].State)
	}},
	{name: "a run that ends with its connection", play: func(g *game) {
		g.open("assistant?on_disconnect=cancel")
		g.do("begin", job{"text": "endless", "characters": 20})
		s := g.do("stop", nil)
		g.Eventually("it is canceled", func() bool { return g.Document(s.answer().ID).Status == "canceled" })
	}},
	{name: "a document as useObject reads it", play: func(g *game) {
		o := g.do("object", job{"path": "/v1/ui/encyclopedia/object", "input": map[string]any{"question": "Why is the sky blue?"}}).Object
		g.Is("status", http.StatusOK, o.Status)
		g.Is("broken", "", o.Broken)
		g.Same("the object", string(g.Document(o.Run).Result), string(o.Value))
		if o.Pieces < 3 {
			g.Fail("it came in %d pieces, which is no growing", o.Pieces)
		}
	}},
	{name: "a document that there is not, as useObject reads it", play: func(g *game) {
		o := g.do("object", job{"path": "/v1/ui/encyclopedia/object", "input": 7}).Object
		g.Is("status", http.StatusBadRequest, o.Status)
		g.Is("text", "got a number, expected an object", o.Text)
		o = g.do("object", job{"path": "/v1/ui/assistant/object", "input": "break"}).Object
		g.Is("status", http.StatusOK, o.Status)
		if o.Text != "The" || o.Broken == "" {
			g.Fail("%+v", o)
		}
	}},
	{name: "ten chats at once", play: func(g *game) {
		var chats []job
		var want []string
		for i := range 10 {
			chats = append(chats, job{"id": fmt.Sprintf("%s %d", g.id, i), "text": fmt.Sprint("chat ", i)})
			want = append(want, fmt.Sprint("2: chat ", i))
		}
		g.Is("answers", want, g.do("together", job{"path": "/v1/ui/assistant", "chats": chats}).Answers)
	}},
	{name: "another answer", play: func(g *game) {
		g.open("assistant")
		first := g.send("hello")
		g.Requests()
		s := g.do("regenerate", nil)
		g.one(s)
		g.complete(s, "4: hello") // the tape remembers both
		if s.answer().ID == first.answer().ID {
			g.Fail("it has the id of the first one")
		}
		if asked := g.Requests(); !strings.Contains(asked[0].Messages[0].Content, "another answer") {
			g.Fail("the model does not know: %s", asked[0].Messages[0].Content)
		}
	}},
	{name: "a message that is edited", play: func(g *game) {
		g.open("assistant")
		s := g.send("hello")
		s = g.do("send", job{"text": "hallo", "messageId": s.Messages[0].ID})
		g.one(s)
		g.complete(s, "4: hallo")
	}},

	{name: "a question that is answered beside the stream", play: func(g *game) {
		g.open("assistant")
		s := g.do("begin", job{"text": "ask and look", "part": "data-approval"})
		asked := withKind(s.answer().Parts, "data-approval")
		var q struct{ Run, ID, Tool, Expires, Decision string }
		if len(asked) != 1 || json.Unmarshal(asked[0].Data, &q) != nil || q.Tool != "tape.anchors" || q.Expires == "" || q.Run != s.answer().ID {
			g.Fail("%+v", asked)
			return
		}
		status, _ := g.Get("POST", "/v1/runs/"+q.Run+"/approvals/"+q.ID, `{"decision":"approve"}`)
		g.Is("the answer", http.StatusNoContent, status)
		s = g.do("rest", nil)
		g.complete(s, "Let me see.That is what came of it.")
		g.Is("tools", []string{"tape_anchors output-available", "tape_info output-available"}, s.tools())
		asked = withKind(s.answer().Parts, "data-approval")
		if len(asked) != 1 || json.Unmarshal(asked[0].Data, &q) != nil || q.Decision != "approve" {
			g.Fail("%+v", asked)
		}
	}},
	{name: "a question of the SDK's own, approved", since: 6, play: func(g *game) {
		g.open(fmt.Sprint("assistant?v=", g.version), job{"automatically": whenAnswered})
		s := g.send("ask and look")
		g.Is("status", "ready", s.Status)
		g.Is("finish reason", "tool-calls", s.Finish.FinishReason)
		g.Is("tools", []string{"tape_anchors approval-requested", "tape_info output-available"}, s.tools())
		run := s.answer().ID
		g.Is("the run", "running", g.Document(run).Status)
		s = g.do("approve", job{"approved": true})
		g.complete(s, "Let me see.That is what came of it.")
		g.one(s)
		g.Is("tools", []string{"tape_anchors output-available", "tape_info output-available"}, s.tools())
		g.Is("the same run", run, s.answer().ID)
		g.Is("requests", 2, len(s.Requests))
	}},
	{name: "a question of the SDK's own, denied", since: 6, play: func(g *game) {
		g.open(fmt.Sprint("assistant?v=", g.version), job{"automatically": whenAnswered})
		g.send("ask and look")
		g.Requests()
		s := g.do("approve", job{"approved": false, "reason": "not on a Sunday"})
		g.complete(s, "Let me see.That is what came of it.")
		g.Is("tools", []string{"tape_anchors output-denied", "tape_info output-available"}, s.tools())
		asked := g.Requests()
		if last := asked[len(asked)-1].Messages; !strings.Contains(fmt.Sprint(last), "not on a Sunday") {
			g.Fail("the model does not know why: %v", last)
		}
	}},
	{name: "two questions of the SDK's own", since: 6, play: func(g *game) {
		g.open(fmt.Sprint("assistant?v=", g.version), job{"automatically": whenAnswered, "short": true})
		s := g.send("ask twice")
		g.Is("tools", []string{"tape_anchors approval-requested", "tape_anchors approval-requested"}, s.tools())
		s = g.do("approve", job{"approved": true, "settled": false})
		g.Is("requests", 1, len(s.Requests))
		s = g.do("approve", job{"approved": false})
		g.complete(s, "Let me see.That is what came of it.")
		g.Is("tools", []string{"tape_anchors output-available", "tape_anchors output-denied"}, s.tools())
	}},
	{name: "a question of the SDK's own, after a reload", since: 6, play: func(g *game) {
		path := fmt.Sprint("assistant?v=", g.version)
		g.open(path)
		s := g.send("ask and look")
		g.open(path, job{"messages": s.Messages[:1], "automatically": whenAnswered})
		s = g.do("resume", nil)
		g.Is("tools", []string{"tape_anchors approval-requested", "tape_info output-available"}, s.tools())
		g.one(s)
		s = g.do("approve", job{"approved": true})
		g.complete(s, "Let me see.That is what came of it.")
		g.one(s)
		s = g.do("resume", nil)
		if last := s.Requests[len(s.Requests)-1]; !strings.Contains(last, " 204") {
			g.Fail("%s", last)
		}
	}},
	{name: "a question of the SDK's own, sent by hand", since: 6, play: func(g *game) {
		g.open(fmt.Sprint("assistant?v=", g.version))
		g.send("ask and look")
		s := g.do("approve", job{"approved": true, "manually": true})
		g.complete(s, "Let me see.That is what came of it.")
		g.one(s)
	}},
	{name: "a question of the SDK's own that somebody else has answered", since: 6, play: func(g *game) {
		g.open(fmt.Sprint("assistant?v=", g.version), job{"automatically": whenAnswered})
		s := g.send("ask and look")
		parts := s.answer().Parts
		asked := slices.IndexFunc(parts, func(p part) bool { return p.State == "approval-requested" })
		if asked < 0 {
			g.Fail("%+v", parts)
			return
		}
		status, _ := g.Get("POST", "/v1/runs/"+s.answer().ID+"/approvals/"+parts[asked].Approval.ID, `{"decision":"deny"}`)
		g.Is("the answer", http.StatusNoContent, status)
		s = g.do("approve", job{"approved": true})
		g.complete(s, "Let me see.That is what came of it.")
		g.Is("tools", []string{"tape_anchors output-denied", "tape_info output-available"}, s.tools())
	}},
}

// comeBack resumes an answer whose stream broke. Version 5 appends what it is told from the beginning to what it has, so there it must
// be a chat that has only the question.
func (g *game) comeBack(s *seen, path string) *seen {
	if g.version == 5 {
		g.open(path, job{"messages": s.Messages[:len(s.Messages)-1]})
	}
	return g.do("resume", nil)
}
