package web

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/internal/wording"
	"github.com/lingserve/lingserve/run"
	"github.com/lingserve/lingserve/web/wire/aisdk"
	"github.com/lingserve/lingserve/web/wire/aisdk/aisdktest"
)

// uiBody is what the SDK sends: the chat's id and what the user says, behind what was said before.
func uiBody(chat, text string, before ...string) string {
	quoted, _ := json.Marshal(text)
	id, _ := json.Marshal(chat)
	messages := append(before, `{"id":"m","role":"user","parts":[{"type":"text","text":`+string(quoted)+`}]}`)
	return `{"id":` + string(id) + `,"messages":[` + strings.Join(messages, ",") + `],"trigger":"submit-message"}`
}

// uiMessage reads a stream to its end, as version 5 does unless said otherwise.
func uiMessage(t testing.TB, resp *http.Response, version int) *aisdktest.Message {
	t.Helper()
	m := &aisdktest.Message{Version: version}
	body := text(t, resp)
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("%d: %s", resp.StatusCode, body)
	}
	if err := m.Write([]byte(body)); err != nil {
		t.Fatal(err)
	}
	if !m.Done {
		t.Fatalf("no end: %s", wording.Clip(body))
	}
	return m
}

// WIRES: the headers that the SDK itself sends; the message's id is stable.
func TestTheStreamOfAChatHasTheHeadersOfTheSDK(t *testing.T) {
	a := newAgentBench(t, nil)
	a.serve()
	resp := a.do("POST", "/v1/ui/assistant", uiBody("c", "hello"))
	for name, want := range map[string]string{
		"Content-Type": "text/event-stream", "X-Vercel-Ai-Ui-Message-Stream": "v1", "X-Accel-Buffering": "no", "Connection": "keep-alive",
		"Location": "/v1/runs/" + resp.Header.Get("X-Run-Id"),
	} {
		if got := resp.Header.Get(name); got != want {
			t.Errorf("%s: %q", name, got)
		}
	}
	if got := resp.Header.Get("Cache-Control"); !strings.HasPrefix(got, "no-cache") {
		t.Errorf("Cache-Control: %q", got)
	}
	m := uiMessage(t, resp, 5)
	if m.ID != resp.Header.Get("X-Run-Id") || m.Text() != "3: hello" || m.Finish != "stop" {
		t.Errorf("%+v", m)
	}
	usage := m.Metadata["usage"].(map[string]any)["assistant"].(map[string]any)["total_tokens"]
	if m.Metadata["session"] != "c" || m.Metadata["status"] != run.StatusCompleted || usage != 10.0 {
		t.Errorf("%v", m.Metadata)
	}
	eventually(t, "it is logged", func() bool {
		return strings.Contains(a.log.String(), "msg=request method=POST path=/v1/ui/assistant status=200") && strings.Contains(a.log.String(), "run="+m.ID)
	})
}

// WIRES: of an answer that is no stream, the body is the error's message.
func TestWhatIsWrongWithAChatsRequestIsASentence(t *testing.T) {
	a := newAgentBench(t, nil)
	a.serve()
	draining := newAgentBench(t, nil)
	draining.serve()
	draining.s.runs.Inspect().Refuse()
	for _, c := range []struct {
		name, path, body string
		on               *agentBench
		status           int
		want             string
		header           []string
	}{
		{"nobody", "/v1/ui/nobody", uiBody("c", "x"), a, 404, `unknown agent or workflow "nobody"; expected one of assistant, chat, steps`, nil},
		{"no JSON", "/v1/ui/assistant", `{`, a, 400, "the body is invalid JSON at line 1, column 2: unexpected end of JSON input", nil},
		{"a file", "/v1/ui/assistant", `{"id":"c","messages":[{"role":"user","parts":[{"type":"file"}]}]}`, a, 400, "/messages/0/parts/0/url: expected the data, or the id of an uploaded file as file_id", nil},
		{"a model", "/v1/ui/assistant", `{"id":"c","model":"x","messages":[]}`, a, 400, "/model: is not supported here: the agent or workflow chooses its model", nil},
		{"no session", "/v1/ui/assistant", uiBody("a\nb", "x"), a, 400, `/id: the session id "a\nb" contains control characters; remove them`, nil},
		{"a version of tomorrow", "/v1/ui/assistant?v=8", uiBody("c", "x"), a, 400, "query parameter v: expected 5, 6 or 7, the major version of the package ai", nil},
		{"a parameter", "/v1/ui/assistant?x=8", uiBody("c", "x"), a, 400, "query parameter x: unknown; expected one of on_disconnect, v", nil},
		{"a key", "/v1/ui/assistant", uiBody("c", "x"), a, 400, "header Idempotency-Key: expected visible ASCII characters only", []string{"Idempotency-Key: a b"}},
		{"input of another kind", "/v1/ui/assistant", `{"id":"c","input":{"a":1},"messages":[{"role":"user","parts":[]}]}`, a, 400, "/input: expected a string, found an object", nil},
		{"input that does not fit", "/v1/ui/chat", `{"id":"c","input":{"a":1},"messages":[{"role":"user","parts":[]}]}`, a, 400, "", nil},
		{"text that does not fit", "/v1/ui/chat", uiBody("c", strings.Repeat("x", 200), `{"role":"assistant","parts":[]}`), a, 400, "/messages/1: question: expected at most 100 characters, got 200", nil},
		{"an answer to nothing", "/v1/ui/assistant?v=6", `{"id":"c","messages":[{"id":"x","role":"assistant","parts":[{"type":"tool-x","state":"approval-responded","approval":{"id":"a","approved":true}}]}]}`, a, 404, "unknown run; it never existed or has expired", nil},
		{"an answer of version 5", "/v1/ui/assistant", `{"id":"c","messages":[{"id":"x","role":"assistant","parts":[{"type":"tool-x","state":"approval-responded","approval":{"id":"a","approved":true}}]}]}`, a, 400, "query parameter v: expected 6 or 7 beside a message that answers a question", nil},
		{"shutting down", "/v1/ui/assistant", uiBody("c", "x"), draining, 503, "", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			resp := c.on.do("POST", c.path, c.body, c.header...)
			body := text(t, resp)
			if resp.StatusCode != c.status || resp.Header.Get("Content-Type") != "text/plain; charset=utf-8" {
				t.Errorf("%d %s: %s", resp.StatusCode, resp.Header.Get("Content-Type"), body)
			}
			if c.want != "" && body != c.want || body == "" || strings.ContainsAny(body, "{}\n") {
				t.Errorf("%q", body)
			}
			if (resp.Header.Get("Retry-After") != "") != (c.status == 503) {
				t.Errorf("Retry-After: %q", resp.Header.Get("Retry-After"))
			}
		})
	}
}

func TestARunOfAChatThatFailsSaysSoBehindItsStart(t *testing.T) {
	a := newAgentBench(t, nil)
	a.serve()
	m := uiMessage(t, a.do("POST", "/v1/ui/assistant", uiBody("c", "fail")), 5)
	if m.Error != "the model's server refused the key" || m.Finish != "error" || m.ID == "" || len(m.Parts) > 0 {
		t.Errorf("%+v", m)
	}
}

func TestAChatIsASession(t *testing.T) {
	a := newAgentBench(t, nil)
	a.serve()
	before := []string{
		`{"id":"s","role":"system","parts":[{"type":"text","text":"Be kind."}]}`,
		`{"id":"a","role":"user","parts":[{"type":"text","text":"one"}]}`, `{"id":"b","role":"assistant","parts":[{"type":"text","text":"two"}]}`,
	}
	// The system prompt, what the client says was said, this, and the answer.
	if m := uiMessage(t, a.do("POST", "/v1/ui/agent%2Fassistant", uiBody("c/d", "three", before...)), 5); m.Text() != "5: three" {
		t.Errorf("%q", m.Text())
	}
	asked := a.talk.requests()[0].Messages
	if !strings.Contains(asked[0].Content, "Be kind.") || asked[1].Content != "one" || asked[2].Content != "two" {
		t.Errorf("%+v", asked)
	}
	// What the client says of it counts no more.
	if m := uiMessage(t, a.do("POST", "/v1/ui/assistant", uiBody("c/d", "four", before...)), 5); m.Text() != "7: four" {
		t.Errorf("%q", m.Text())
	}
	again := strings.Replace(uiBody("c/d", "four"), "submit-message", "regenerate-message", 1)
	if m := uiMessage(t, a.do("POST", "/v1/ui/assistant", again), 5); m.Text() != "9: four" {
		t.Errorf("%q", m.Text())
	}
	asked = a.talk.requests()[2].Messages
	if !strings.Contains(asked[0].Content, "The user wants another answer to this message, in place of the last one.") {
		t.Errorf("%s", asked[0].Content)
	}
}

func TestTheMessagesOfAChatAreThoseOfItsTape(t *testing.T) {
	a := newAgentBench(t, nil)
	a.serve()
	answer := uiMessage(t, a.do("POST", "/v1/ui/assistant", uiBody("c", "use weather")), 5)
	resp := a.do("POST", "/v1/ui/assistant", uiBody("c", "wait"))
	<-a.talk.waits
	type list struct {
		ID       string
		Messages []struct {
			ID, Role string
			Parts    []struct{ Type, Text, State string }
		}
	}
	read := func() (lines []string) {
		t.Helper()
		l := get[list](a.bench, "/v1/ui/assistant/c?v=6")
		if l.ID != "c" {
			t.Errorf("%+v", l)
		}
		for _, m := range l.Messages {
			line := m.Role
			for _, p := range m.Parts {
				line += " " + p.Type
			}
			lines = append(lines, line)
		}
		if len(l.Messages) > 1 && l.Messages[1].ID != answer.ID {
			t.Errorf("the answer has the id %s, and its stream %s", l.Messages[1].ID, answer.ID)
		}
		return lines
	}
	want := []string{"user text", "assistant step-start reasoning text dynamic-tool step-start text", "user text"}
	if diff := cmp.Diff(want, read()); diff != "" { // the stream of what is answered now tells it from its beginning
		t.Error(diff)
	}
	a.talk.goOn <- struct{}{}
	uiMessage(t, resp, 5)
	if diff := cmp.Diff(append(want, "assistant step-start text"), read()); diff != "" {
		t.Error(diff)
	}
	if l := get[list](a.bench, "/v1/ui/assistant/nobody"); l.ID != "nobody" || l.Messages == nil || len(l.Messages) > 0 {
		t.Errorf("%+v", l)
	}
}

// WIRES: 204 is nothing to resume; anything else is the whole stream from "start", under the same id.
func TestAChatGoesOnWithTheWholeAnswer(t *testing.T) {
	a := newAgentBench(t, nil)
	a.serve()
	const stream = "/v1/ui/assistant/c/stream"
	nothing := func(path string) {
		t.Helper()
		resp := a.do("GET", path, "")
		if body := text(t, resp); resp.StatusCode != http.StatusNoContent || body != "" {
			t.Errorf("%d: %s", resp.StatusCode, body)
		}
	}
	nothing(stream)
	first := a.do("POST", "/v1/ui/assistant", uiBody("c", "wait"))
	<-a.talk.waits
	second := a.do("GET", stream+"?v=7", "")
	third := a.do("GET", stream, "")
	third.Body.Close() // a client that goes away cancels nothing
	nothing("/v1/ui/assistant/other/stream")
	a.talk.goOn <- struct{}{}
	one, two := uiMessage(t, first, 5), uiMessage(t, second, 7)
	if one.ID != two.ID || one.Text() != "…" || two.Text() != "…" || two.Finish != "stop" {
		t.Errorf("%+v\n%+v", one, two)
	}
	run := a.s.runs.Inspect().Latest(laneOf("c"))
	eventually(t, "it is heard", run.Heard.Load)
	nothing(stream)

	// One that nobody has listened to up to its end is told once more.
	fourth := a.do("POST", "/v1/ui/assistant", uiBody("c", "wait"))
	<-a.talk.waits
	fourth.Body.Close()
	run = a.s.runs.Inspect().Latest(laneOf("c"))
	eventually(t, "it is known that nobody listens", func() bool { return strings.Contains(a.log.String(), "stream broken off\" run="+run.ID) })
	a.talk.goOn <- struct{}{}
	<-run.Done()
	if m := uiMessage(t, a.do("GET", stream, ""), 5); m.ID != run.ID || m.Finish != "stop" {
		t.Errorf("%+v", m)
	}
	eventually(t, "it is heard", run.Heard.Load)
	nothing(stream)
	for path, want := range map[string]string{"/v1/ui/nobody/c/stream": "unknown agent", stream + "?v=1": "query parameter v: "} {
		if body := text(t, a.do("GET", path, "")); !strings.HasPrefix(body, want) {
			t.Errorf("%s: %s", path, body)
		}
	}
}

// WIRES: a clean end before the run's reads as success, so a stream whose run goes on is broken off instead.
func TestAChatsStreamIsBrokenOffWhenTheServerGoes(t *testing.T) {
	b := newBench(t, nil).serve()
	resp := b.do("POST", "/v1/ui/steps", uiBody("c", "x"))
	if resp.StatusCode != http.StatusBadRequest { // it takes no input
		t.Fatal(resp.StatusCode)
	}
	resp = b.do("POST", "/v1/ui/steps", `{"id":"c","messages":[{"role":"user","parts":[]}],"input":{}}`)
	st := <-b.steps.came
	st.send("answer", "half of")
	var body []byte
	for !strings.Contains(string(body), "half of") {
		piece := make([]byte, 100)
		n, err := resp.Body.Read(piece)
		if err != nil {
			t.Fatal(err)
		}
		body = append(body, piece[:n]...)
	}
	go b.s.wire.Break()
	rest, err := io.ReadAll(resp.Body)
	if err == nil {
		t.Error("the stream ends as if it were complete")
	}
	m := &aisdktest.Message{Version: 5}
	if err := m.Write(append(body, rest...)); err != nil || m.Done || m.Text() != "half of" {
		t.Errorf("%v: %+v", err, m)
	}
	st.finish()
}

// One log, several encodings: what a chat's parts fold to is the run's document, also where the log has been cut before the client came.
func TestAChatsPartsFoldToTheRunsDocument(t *testing.T) {
	for _, most := range []int{0, 8 << 10} {
		t.Run(fmt.Sprint("a log of ", most), func(t *testing.T) {
			b := newBench(t, func(o *Options) { o.MaxLog = most }).serve()
			whole, pieces := story(30)
			b.model.say = func(_ context.Context, _ string, _ adapter.Request, yield func(string) bool) error {
				for _, p := range pieces {
					if !yield(p) {
						break
					}
				}
				return nil
			}
			resp := b.do("POST", "/v1/ui/chat", uiBody("c", "why?"))
			m := uiMessage(t, resp, 5)
			d := readDocument(t, b.do("GET", "/v1/runs/"+m.ID, ""))
			for what, of := range map[string]func() (string, error){"parts": m.Document, "deltas": m.Deltas} {
				document, err := of()
				if err != nil {
					t.Fatal(err)
				}
				sameJSON(t, what, string(d.Result), document)
				sameJSON(t, what, `{"article":`+whole+`}`, document)
			}
			late := &aisdktest.Message{Version: 6}
			run := b.runOf(m.ID)
			o := aisdk.Options{Run: run.ID, Version: aisdk.Version6}
			o.Pass = aisdk.Passed(o, run.Events().Waiting())
			e := aisdk.New(o)
			for ev := range run.Events().Waiting() {
				if err := late.Write(e.Append(nil, ev)); err != nil {
					t.Fatal(err)
				}
			}
			document, err := late.Document()
			if err != nil {
				t.Fatal(err)
			}
			sameJSON(t, "late", string(d.Result), document)
			if (late.Chunks < 20) != (most > 0) {
				t.Errorf("%d chunks for who came late", late.Chunks)
			}
		})
	}
}

// WIRES: signs of life are exactly a colon and a line feed, between chunks.
func TestAChatsStreamIsKeptOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, nil).servePipes()
		resp := b.do("POST", "/v1/ui/steps", `{"id":"c","messages":[{"role":"user","parts":[]}],"input":{}}`)
		st := <-b.steps.came
		time.AfterFunc(25*time.Second, st.finish)
		body := text(t, resp)
		if n := strings.Count(body, "\n:\n"); n != 1 || strings.Count(body, ":\n:\n") != 1 || strings.Contains(body, "retry:") {
			t.Errorf("%q", body)
		}
		if err := (&aisdktest.Message{Version: 5}).Write([]byte(body)); err != nil {
			t.Error(err)
		}
		b.down()
	})
}

func TestAChatsRequestThatIsRepeatedIsTheSameRun(t *testing.T) {
	a := newAgentBench(t, nil)
	a.serve()
	first := a.do("POST", "/v1/ui/assistant", uiBody("c", "hello"), "Idempotency-Key: k")
	one := uiMessage(t, first, 5)
	second := a.do("POST", "/v1/ui/assistant", uiBody("c", "hello"), "Idempotency-Key: k")
	if two := uiMessage(t, second, 5); two.ID != one.ID || second.Header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("%s and %s", one.ID, two.ID)
	}
	other := a.do("POST", "/v1/ui/assistant", uiBody("c", "else"), "Idempotency-Key: k")
	if body := text(t, other); other.StatusCode != 422 || body != "the Idempotency-Key belongs to another request; use a new one" {
		t.Errorf("%d: %s", other.StatusCode, body)
	}
}

func TestAQuestionEndsTheStreamOfAChatThatCanAnswerIt(t *testing.T) {
	a := newAgentBench(t, nil)
	a.serve()
	for version := 6; version <= 7; version++ {
		chat := fmt.Sprint("c", version)
		path := fmt.Sprint("/v1/ui/assistant?v=", version)
		m := uiMessage(t, a.do("POST", path, uiBody(chat, "use danger")), version)
		if m.Finish != "tool-calls" || m.Parts[3].State != "approval-requested" || a.s.runs.Inspect().Latest(laneOf(chat)).Ended() {
			t.Fatalf("%+v", m)
		}
		// Who is loaded anew is told the same.
		again := uiMessage(t, a.do("GET", fmt.Sprint("/v1/ui/assistant/", chat, "/stream?v=", version), ""), version)
		if diff := cmp.Diff(m.Parts, again.Parts); diff != "" {
			t.Error(diff)
		}
		answer := func(id, chat, approval string) *http.Response {
			return a.do("POST", path, `{"id":"`+chat+`","messages":[{"id":"`+id+`","role":"assistant","parts":[
				{"type":"dynamic-tool","toolName":"danger","toolCallId":"c1","state":"approval-responded","approval":{"id":"`+approval+`","approved":true}}]}]}`)
		}
		question := m.Parts[3].Approval
		for _, wrong := range [][3]string{{m.ID, "else", question}, {run.NewID(), chat, question}, {m.ID, chat, run.NewID()}, {m.ID, chat, "c1"}} {
			if resp := answer(wrong[0], wrong[1], wrong[2]); resp.StatusCode < 400 {
				t.Errorf("%v: %d", wrong, resp.StatusCode)
			}
		}
		resp := answer(m.ID, chat, question)
		if resp.Header.Get("X-Run-Id") != m.ID {
			t.Error("it is another run")
		}
		m.Continue()
		rest := text(t, resp)
		if err := m.Write([]byte(rest)); err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(rest, `data: {"type":"start","messageId":"`+m.ID+`"`) || strings.Contains(rest, "Let me see.") {
			t.Errorf("%s", rest)
		}
		if p := m.Parts[3]; p.State != "output-available" || string(p.Output) != `"done"` || m.Finish != "stop" || <-a.ran != "here" {
			t.Errorf("%+v", m)
		}
		// A second answer comes too late, and is told how it went.
		late := text(t, answer(m.ID, chat, question))
		if !strings.Contains(late, "output-available") && !strings.Contains(late, "tool-output-available") {
			t.Errorf("%s", late)
		}
	}
}

func TestWhoSaysSomethingElseHasNotApproved(t *testing.T) {
	a := newAgentBench(t, nil)
	a.serve()
	asked := uiMessage(t, a.do("POST", "/v1/ui/assistant?v=6", uiBody("c", "use danger")), 6)
	// Otherwise it would wait until the time of the question is over.
	if m := uiMessage(t, a.do("POST", "/v1/ui/assistant?v=6", uiBody("c", "never mind")), 6); !strings.HasSuffix(m.Text(), ": never mind") {
		t.Errorf("%+v", m)
	}
	resolved := text(t, a.do("GET", "/v1/runs/"+asked.ID+"/events", ""))
	if !strings.Contains(resolved, `"decision":"deny"`) || len(a.ran) > 0 {
		t.Errorf("%s", resolved)
	}
}

func TestAWorkflowChatsWithoutSessions(t *testing.T) {
	b := newBench(t, nil).serve()
	m := uiMessage(t, b.do("POST", "/v1/ui/workflow%2Fchat", uiBody("c", "why?")), 5)
	if m.Metadata["session"] != nil || m.Metadata["workflow"] != "chat" || m.Finish != "stop" {
		t.Errorf("%+v", m.Metadata)
	}
	if resp := b.do("GET", "/v1/ui/chat/c/stream", ""); resp.StatusCode != http.StatusNoContent {
		t.Error(resp.StatusCode)
	}
}

func TestAChatsInputMayBeAnObject(t *testing.T) {
	b := newBench(t, nil).serve()
	for _, body := range []string{
		`{"id":"c","messages":[{"role":"user","parts":[{"type":"text","text":"look"}]}],"input":{"question":"why?","level":2}}`,
		uiBody("c", ` {"question":"why?","level":2}`),
	} {
		resp := b.do("POST", "/v1/ui/chat", body)
		if m := uiMessage(t, resp, 5); m.Finish != "stop" {
			t.Errorf("%+v", m)
		}
	}
	if resp := b.do("POST", "/v1/ui/chat", uiBody("c", `{"question":"why?","level":0}`)); resp.StatusCode != http.StatusBadRequest {
		t.Errorf("%d", resp.StatusCode)
	}
}

// WIRES: useObject reads plain text of one JSON document, of any content type.
func TestAnObjectGrowsAsText(t *testing.T) {
	a := newAgentBench(t, nil)
	a.serve()
	begin := func() (*http.Response, *stepped) {
		t.Helper()
		var resp *http.Response
		begun := make(chan struct{})
		go func() { // it is answered when there is something to say
			defer close(begun)
			resp, _ = a.try(t.Context(), "POST", "/v1/ui/steps/object", `{}`)
		}()
		st := <-a.steps.came
		st.send("answer", "half of")
		<-begun
		return resp, st
	}
	resp, st := begin()
	if resp.Header.Get("Content-Type") != "text/plain; charset=utf-8" || resp.Header.Get("X-Accel-Buffering") != "no" {
		t.Error(resp.Header)
	}
	half := make([]byte, 18)
	if _, err := io.ReadFull(resp.Body, half); err != nil || string(half) != `{"answer":"half of` {
		t.Errorf("%v: %s", err, half)
	}
	st.send("answer", " it")
	st.finish()
	if rest := text(t, resp); rest != ` it"}` {
		t.Errorf("%s", rest)
	}
	// What fails later has no words for that.
	resp, st = begin()
	st.fail(&adapter.Error{Code: adapter.CodeAuth, Message: "the model's server refused the key"})
	if body, err := io.ReadAll(resp.Body); err == nil {
		t.Errorf("%s looks complete", body)
	}
	keyed := func(key string) *http.Response {
		return a.do("POST", "/v1/ui/assistant/object", `"hello"`, "Idempotency-Key: "+key)
	}
	one, two := keyed("k"), keyed("k")
	if two.Header.Get("X-Run-Id") != one.Header.Get("X-Run-Id") || two.Header.Get("Idempotency-Replayed") != "true" || text(t, two) != "3: hello" {
		t.Errorf("%v %v", one.Header, two.Header)
	}
	if resp := keyed("a b"); resp.StatusCode != 400 {
		t.Errorf("%d", resp.StatusCode)
	}
	for _, c := range []struct {
		path, body string
		status     int
		want       string
	}{
		{"/v1/ui/assistant/object", `"hello"`, 200, "3: hello"},
		{"/v1/ui/assistant/object", `"fail"`, 502, "the model's server refused the key"},
		{"/v1/ui/assistant/object", `{"a":1}`, 400, "expected a string, found an object"},
		{"/v1/ui/chat/object", `{"question":7}`, 400, "/question: expected a string, got a number"},
		{"/v1/ui/assistant/object?v=9", `"x"`, 400, "query parameter v: expected 5, 6 or 7, the major version of the package ai"},
		{"/v1/ui/nobody/object", `"x"`, 404, `unknown agent or workflow "nobody"; expected one of assistant, chat, steps`},
		{"/v1/ui/assistant/object", `{`, 400, "the body is invalid JSON at line 1, column 2: unexpected end of JSON input"},
	} {
		resp := a.do("POST", c.path, c.body)
		if body := text(t, resp); resp.StatusCode != c.status || body != c.want {
			t.Errorf("%s: %d %q", c.path, resp.StatusCode, body)
		}
	}
}

func TestAStreamThatIsLeftEndsTheRunWhereThatIsAskedFor(t *testing.T) {
	b := newBench(t, nil).serve()
	for _, leave := range []string{"cancel", "continue"} {
		resp := b.do("POST", "/v1/ui/steps?on_disconnect="+leave, `{"id":"c","messages":[{"role":"user","parts":[]}],"input":{}}`)
		st := <-b.steps.came
		run := b.runOf(resp.Header.Get("X-Run-Id"))
		resp.Body.Close()
		eventually(t, "it is known that nobody listens", func() bool { return strings.Contains(b.log.String(), "stream broken off\" run="+run.ID) })
		if leave == "continue" {
			st.finish()
		}
		<-run.Done()
		if status := run.Summary().Status; (status == "canceled") != (leave == "cancel") {
			t.Errorf("%s: %s", leave, status)
		}
	}
}

// sameJSON compares two documents, numbers by their text.
func sameJSON(t testing.TB, what, want, got string) {
	t.Helper()
	decode := func(s string) (v any) {
		dec := json.NewDecoder(strings.NewReader(s))
		dec.UseNumber()
		if err := dec.Decode(&v); err != nil {
			t.Fatalf("%s: %v in %s", what, err, wording.Clip(s))
		}
		return v
	}
	if diff := cmp.Diff(decode(want), decode(got)); diff != "" {
		t.Errorf("%s:\n%s", what, diff)
	}
}
