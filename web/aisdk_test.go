package web

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/internal/wording"
	"github.com/lingserve/lingserve/run"
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
}

// WIRES: of an answer that is no stream, the body is the error's message.
func TestWhatIsWrongWithAChatsRequestIsASentence(t *testing.T) {
	a := newAgentBench(t, nil)
	a.serve()
	const answered = `{"id":"c","messages":[{"id":"x","role":"assistant","parts":[{"type":"tool-x","state":"approval-responded","approval":{"id":"a","approved":true}}]}]}`
	for _, c := range []struct {
		path, body string
		status     int
		want       string
	}{
		{"nobody", uiBody("c", "x"), 404, `unknown agent or workflow "nobody"; expected one of assistant, chat, steps`},
		{"assistant", uiBody("a\nb", "x"), 400, `/id: the session id "a\nb" contains control characters; remove them`},
		{"assistant?v=8", uiBody("c", "x"), 400, "query parameter v: expected 5, 6 or 7, found \"8\""},
		{"assistant", `{"id":"c","input":{"a":1},"messages":[{"role":"user","parts":[]}]}`, 400, "/input: expected a string, found an object"},
		{"chat", uiBody("c", strings.Repeat("x", 200), `{"role":"assistant","parts":[]}`), 400, "/messages/1: question: expected at most 100 characters, got 200"},
		{"assistant?v=6", answered, 404, "unknown run; it never existed or has expired"},
		{"assistant", answered, 400, "query parameter v: expected 6 or 7 beside a message that answers a question"},
	} {
		resp := a.do("POST", "/v1/ui/"+c.path, c.body)
		if body := text(t, resp); resp.StatusCode != c.status || resp.Header.Get("Content-Type") != "text/plain; charset=utf-8" || body != c.want {
			t.Errorf("%s: %d %s: %s", c.want, resp.StatusCode, resp.Header.Get("Content-Type"), body)
		}
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
	run := a.latest("c")
	eventually(t, "it is heard", run.Heard.Load)
	nothing(stream)

	// One that nobody has listened to up to its end is told once more.
	fourth := a.do("POST", "/v1/ui/assistant", uiBody("c", "wait"))
	<-a.talk.waits
	fourth.Body.Close()
	run = a.latest("c")
	eventually(t, "it is known that nobody listens", func() bool { return strings.Contains(a.log.String(), "stream broken off\" run="+run.ID) })
	a.talk.goOn <- struct{}{}
	<-run.Done()
	if m := uiMessage(t, a.do("GET", stream, ""), 5); m.ID != run.ID || m.Finish != "stop" {
		t.Errorf("%+v", m)
	}
	eventually(t, "it is heard", run.Heard.Load)
	nothing(stream)
}

func TestAQuestionEndsTheStreamOfAChatThatCanAnswerIt(t *testing.T) {
	a := newAgentBench(t, nil)
	a.serve()
	for version := 6; version <= 7; version++ {
		chat := fmt.Sprint("c", version)
		path := fmt.Sprint("/v1/ui/assistant?v=", version)
		m := uiMessage(t, a.do("POST", path, uiBody(chat, "use danger")), version)
		if m.Finish != "tool-calls" || m.Parts[3].State != "approval-requested" || a.latest(chat).Ended() {
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
	for _, c := range []struct {
		path, body string
		status     int
		want       string
	}{
		{"/v1/ui/assistant/object", `"hello"`, 200, "3: hello"},
		{"/v1/ui/assistant/object", `"fail"`, 424, "the model's server refused the key"},
		{"/v1/ui/assistant/object", `{"a":1}`, 400, "expected a string, found an object"},
	} {
		resp := a.do("POST", c.path, c.body)
		if body := text(t, resp); resp.StatusCode != c.status || body != c.want {
			t.Errorf("%s: %d %q", c.path, resp.StatusCode, body)
		}
	}
}
