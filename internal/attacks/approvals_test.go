//go:build nightly

package attacks

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/lingserve/lingserve/internal/fakeproviders"
	"github.com/lingserve/lingserve/internal/fakeslack"
	"github.com/lingserve/lingserve/internal/faketelegram"
)

// threeCalls makes a model that gives one id to three calls of the tool that asks: one of the turn and one of each of two subagents, which
// run at the same time. They write the word and "own", "allowed" and "denied". The message that starts the turn ends with the word.
func (v *victim) threeCalls() (word string) {
	write := func(name string) fakeproviders.ToolCall {
		return fakeproviders.ToolCall{ID: "call_1", Name: "mcp_red_write", Arguments: `{"name":` + quoted(name) + `}`}
	}
	word = v.answer(func(r fakeproviders.Request) fakeproviders.Answer {
		last := r.Messages[len(r.Messages)-1]
		if last.Role != "user" {
			return fakeproviders.Answer{Text: "blue"}
		}
		said := last.Content[strings.LastIndex(last.Content, "word"):]
		if strings.Contains(said, " ") { // of a subagent
			return fakeproviders.Answer{ToolCalls: []fakeproviders.ToolCall{write(said)}}
		}
		task := func(id, name string) fakeproviders.ToolCall {
			return fakeproviders.ToolCall{ID: id, Name: "subagent", Arguments: `{"task":` + quoted(said+" "+name) + `}`}
		}
		return fakeproviders.Answer{ToolCalls: []fakeproviders.ToolCall{write(said + " own"), task("call_2", "allowed"), task("call_3", "denied")}}
	})
	return word
}

// written returns what the tool that asks has written for a word.
func (v *victim) written(word string) (names []string) {
	for line := range strings.Lines(v.names.String()) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), word+" "); ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// stream is an answer that is read while it comes.
type stream struct {
	text
	header http.Header
	ended  chan struct{}
}

func (v *victim) follow(t *testing.T, method, path, body string, header ...string) *stream {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, v.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	for _, line := range header {
		name, value, _ := strings.Cut(line, ": ")
		req.Header.Set(name, value)
	}
	resp, err := v.http.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	s := &stream{header: resp.Header, ended: make(chan struct{})}
	go func() {
		defer close(s.ended)
		defer resp.Body.Close()
		_, _ = io.Copy(&s.text, resp.Body) // what is missing is seen
	}()
	t.Cleanup(func() { <-s.ended })
	return s
}

// asked is a question as some wire has it.
type asked struct {
	ID, Call, Subagent, Tool string
	Arguments                struct{ Name string }
}

var serverID = regexp.MustCompile(`^[a-z2-7]{26}$`) // 130 bits

// questions reads the questions of a stream: all objects in it that have the member as the name of one, whatever stands around them.
func questions(t *testing.T, text, before string) map[string]asked {
	t.Helper()
	list := map[string]asked{}
	for rest := text; ; {
		_, after, ok := strings.Cut(rest, before)
		if !ok {
			return list
		}
		var q asked
		if json.NewDecoder(strings.NewReader(after)).Decode(&q) == nil { // else it is not complete yet
			if _, name, _ := strings.Cut(q.Arguments.Name, " "); q.ID != "" {
				list[name] = q
			}
		}
		rest = after
	}
}

// check checks that each question has an id of the server's, and that the calls have the model's.
func check(t *testing.T, list map[string]asked) {
	t.Helper()
	ids := map[string]bool{}
	for name, q := range list {
		if !serverID.MatchString(q.ID) || q.Call != "call_1" || q.Tool != "mcp.red.write" || (q.Subagent == "") != (name == "own") {
			t.Errorf("%s: %+v", name, q)
		}
		ids[q.ID] = true
	}
	if len(ids) != len(list) {
		t.Errorf("questions share an id: %+v", list)
	}
}

// DA-01: calls that the model gives one id are decided one by one, over every wire: what runs is what was shown and allowed.
func TestDA_01_EachQuestionHasAnIDOfItsOwn(t *testing.T) {
	v := ownServer(t, setup{}) // it writes, which other tests count
	decide := func(t *testing.T, run, id, decision string) {
		t.Helper()
		if got := v.do(t, "POST", "/v1/runs/"+run+"/approvals/"+id, `{"decision":"`+decision+`"}`); got.status != 204 {
			t.Errorf("%s: %d %s", decision, got.status, got.body)
		}
	}
	only := func(t *testing.T, word string, want ...string) {
		t.Helper()
		if got := v.written(word); !slices.Equal(got, want) {
			t.Errorf("the calls that ran are %q, expected %q", got, want)
		}
	}
	await := func(t *testing.T, s *stream, before string, n int) (list map[string]asked) {
		t.Helper()
		v.eventually(t, fmt.Sprint(n, " questions"), func() bool {
			list = questions(t, s.String(), before)
			return len(list) == n
		})
		check(t, list)
		return list
	}
	for format, before := range map[string]string{"sse": "event: approval_required\ndata: ", "jsonl": `"event":"approval_required","data":`} {
		t.Run(format, func(t *testing.T) {
			word := v.threeCalls()
			s := v.follow(t, "POST", "/v1/runs?format="+format, `{"agent":"assistant","input":"`+word+`"}`)
			run := s.header.Get("X-Run-Id")
			list := await(t, s, before, 3)
			for _, old := range []string{"call_1", "call_1_1_1", list["own"].ID + "a", "a%2Fb", "%20"} {
				got := v.do(t, "POST", "/v1/runs/"+run+"/approvals/"+old, `{"decision":"approve"}`)
				if got.status != 410 || !strings.Contains(got.body, "/v1/runs/{run}/approvals/{approval}") || !strings.Contains(got.body, "approval_required") {
					t.Errorf("%s: %d %s", old, got.status, got.body)
				}
				if strings.Contains(got.body, list["own"].ID) {
					t.Errorf("the answer tells an id: %s", got.body)
				}
			}
			if got := v.do(t, "POST", "/v1/runs/"+run+"/approvals/abcdefghijklmnopqrstuvwxyz", `{"decision":"approve"}`); got.status != 404 {
				t.Errorf("an unknown id: %d %s", got.status, got.body)
			}
			decide(t, run, list["denied"].ID, "deny")
			decide(t, run, strings.ToUpper(list["allowed"].ID), "approve") // as a person may type it
			decide(t, run, list["own"].ID, "deny")
			if got := v.do(t, "POST", "/v1/runs/"+run+"/approvals/"+list["denied"].ID, `{"decision":"approve"}`); got.status != 409 {
				t.Errorf("a second answer: %d %s", got.status, got.body)
			}
			<-s.ended
			only(t, word, "allowed")
			for name, decision := range map[string]string{"own": "deny", "allowed": "approve", "denied": "deny"} {
				if !regexp.MustCompile(`"id":"` + list[name].ID + `","call":"call_1",("subagent":"\w+",)?"decision":"` + decision + `"`).MatchString(s.String()) {
					t.Errorf("no event says %s of %s", decision, name)
				}
			}
		})
	}
	t.Run("ai sdk 5", func(t *testing.T) {
		word := v.threeCalls()
		s := v.follow(t, "POST", "/v1/ui/assistant", `{"id":"`+word+`","messages":[{"id":"m","role":"user","parts":[{"type":"text","text":"`+word+`"}]}]}`)
		var list map[string]asked
		v.eventually(t, "three parts", func() bool { list = parts(t, s.String()); return len(list) == 3 })
		check(t, list)
		decide(t, s.header.Get("X-Run-Id"), list["allowed"].ID, "approve")
		decide(t, s.header.Get("X-Run-Id"), list["denied"].ID, "deny")
		decide(t, s.header.Get("X-Run-Id"), list["own"].ID, "deny")
		<-s.ended
		only(t, word, "allowed")
	})
	for _, version := range []string{"6", "7"} {
		t.Run("ai sdk "+version, func(t *testing.T) {
			word := v.threeCalls()
			path := "/v1/ui/assistant?v=" + version
			s := v.follow(t, "POST", path, `{"id":"`+word+`","messages":[{"id":"m","role":"user","parts":[{"type":"text","text":"`+word+`"}]}]}`)
			run := s.header.Get("X-Run-Id")
			// The turn's own call is a question of the SDK's; the subagents' calls are parts of their own.
			var list map[string]asked
			own := regexp.MustCompile(`"type":"tool-approval-request","approvalId":"([a-z2-7]{26})","toolCallId":"call_1"}`)
			v.eventually(t, "three questions", func() bool {
				list = parts(t, s.String())
				return len(list) == 2 && own.MatchString(s.String())
			})
			check(t, list)
			if list["allowed"].ID == "" || list["denied"].ID == "" || len(own.FindAllString(s.String(), -1)) != 1 {
				t.Fatalf("%s", s.String())
			}
			decide(t, run, list["denied"].ID, "deny")
			decide(t, run, list["allowed"].ID, "deny")
			<-s.ended // it is for the client to answer its own question
			only(t, word)
			id := own.FindStringSubmatch(s.String())[1]
			answer := func(id string) reply {
				return v.do(t, "POST", path, `{"id":"`+word+`","messages":[{"id":"`+run+`","role":"assistant","parts":[{"type":"dynamic-tool","toolName":"mcp_red_write","toolCallId":"call_1",
					"state":"approval-responded","approval":{"id":"`+id+`","approved":true}}]}]}`)
			}
			for _, wrong := range []string{"call_1", list["allowed"].ID, "abcdefghijklmnopqrstuvwxyz"} {
				if got := answer(wrong); got.status != 409 {
					t.Errorf("%s: %d %s", wrong, got.status, got.body)
				}
			}
			if got := answer(id); got.status != 200 {
				t.Errorf("%d %s", got.status, got.body)
			}
			only(t, word, "own")
		})
	}
	t.Run("ag-ui", func(t *testing.T) {
		word := v.threeCalls()
		answer := "]"
		for n := 1; ; n++ {
			got := v.do(t, "POST", "/v1/agui/assistant", `{"threadId":"`+word+`","runId":"r`+itoa(n)+`","messages":[{"id":"u","role":"user","content":"`+word+`"}`+answer+`}`)
			_, last, ok := strings.Cut(got.body, `"interrupts":[`)
			if !ok {
				if got.status != 200 || !strings.Contains(got.body, `"success"`) || n != 4 {
					t.Errorf("%d: %d %s", n, got.status, got.body)
				}
				break
			}
			var i struct {
				ID, ToolCallID string
				Metadata       asked
			}
			if err := json.NewDecoder(strings.NewReader(last)).Decode(&i); err != nil || n > 3 {
				t.Fatalf("%d: %v %s", n, err, last)
			}
			_, name, _ := strings.Cut(i.Metadata.Arguments.Name, " ")
			check(t, map[string]asked{name: i.Metadata})
			if !strings.HasSuffix(i.ID, ":"+i.Metadata.ID) || (i.ToolCallID != "") != (name == "own") {
				t.Errorf("%s: %+v", name, i)
			}
			answer = `,{"id":"a","role":"assistant","content":"x"}],"resume":[{"interruptId":"` + i.ID + `","status":"resolved","payload":{"approved":` + fmt.Sprint(name == "allowed") + `}}]`
		}
		only(t, word, "allowed")
	})
	t.Run("chat", func(t *testing.T) {
		word := v.threeCalls()
		say := func(id, text string) {
			body := `{"sender":{"id":"decider"},"conversation":{"id":"` + word + `","kind":"direct"},"text":` + quoted(text) + `}`
			if got := v.hook(t, id, body); got.status >= 300 {
				t.Errorf("%s: %d %s", text, got.status, got.body)
			}
		}
		say(word, word)
		shown := regexp.MustCompile("(?s)^The agent wants to call the tool `mcp\\.red\\.write` with\n\n```json\n(.*)\n```\n\nWrite `,approve ([a-z2-7]{26})` to approve, or `,deny ([a-z2-7]{26})` to deny\\.$")
		ids := map[string]string{}
		v.eventually(t, "three questions", func() bool {
			for _, m := range v.back.Taken() {
				var in struct{ Name string }
				if f := shown.FindStringSubmatch(m.Text); f != nil && f[2] == f[3] && json.Unmarshal([]byte(f[1]), &in) == nil {
					if name, ok := strings.CutPrefix(in.Name, word+" "); ok {
						ids[name] = f[2]
					}
				}
			}
			return len(ids) == 3
		})
		say(word+"1", ",approve call_1")
		say(word+"2", ",approve")
		say(word+"3", ",deny "+ids["denied"]+" no")
		say(word+"4", ",approve "+strings.ToUpper(ids["allowed"]))
		say(word+"5", ",deny "+ids["own"])
		v.eventually(t, "the answer", func() bool {
			for _, m := range v.back.Taken() {
				if m.Text == "blue" && strings.Contains(string(m.Body), word) {
					return true
				}
			}
			return false
		})
		only(t, word, "allowed")
	})
}

// parts reads the questions that are parts of a message of the AI SDK.
func parts(t *testing.T, text string) map[string]asked {
	t.Helper()
	list := map[string]asked{}
	for line := range strings.Lines(text) {
		var chunk struct {
			Type, ID string
			Data     struct {
				asked
				Decision string
			}
		}
		if json.Unmarshal([]byte(strings.TrimPrefix(strings.TrimSpace(line), "data: ")), &chunk) != nil || chunk.Type != "data-approval" {
			continue
		}
		if chunk.ID != chunk.Data.ID {
			t.Errorf("the part %s has the question %s", chunk.ID, chunk.Data.ID)
		}
		_, name, _ := strings.Cut(chunk.Data.Arguments.Name, " ")
		list[name] = chunk.Data.asked
	}
	return list
}

// question waits for the question of a run, and returns its id.
func (v *victim) question(t *testing.T, run string, header ...string) (id string) {
	t.Helper()
	line := v.waitIn(t, "/v1/runs/"+run+"/events?format=jsonl", `"approval_required"`, header...)
	for _, q := range questions(t, line, `"event":"approval_required","data":`) {
		id = q.ID
	}
	if !serverID.MatchString(id) {
		t.Fatalf("the run asks %s", line)
	}
	return id
}

// DA-07: what a person sees in a chat, on whichever platform, is one message whose JSON means exactly what would run, with nothing invisible
// in it.
func TestDA_07_ChatsShowExactlyWhatWouldRun(t *testing.T) {
	v := ownServer(t, setup{config: func(c string) string {
		c = strings.Replace(c, "assistant: {", "assistant: {approval_timeout: 1s, ", 1) // the calls are denied, so that the turns end
		c = strings.Replace(c, "commands: {users: [decider]}", "", 1)
		return strings.ReplaceAll(c, "dm: {policy: open}", "dm: {policy: open}\n    commands: {mode: senders}") // whoever asks may approve
	}})
	const name = "rm -rf _a_ *b* ~c~ [d](http://evil.example) # > | `e` ``` ```` \\ \\* \" <b> &amp; <at user_id=all></at> <!channel> <http://evil.example|f>" +
		"\u202egpj\u2066\u200b\u00ad\u3164\u00a0\u2028\n\t\x7f\U000e0041 :g: @here 天气 😀"
	seen := map[string]func(id string) []string{
		"hook": func(string) (texts []string) {
			for _, m := range v.back.Taken() {
				texts = append(texts, m.Text)
			}
			return texts
		},
		"telegram": func(id string) (texts []string) {
			chat, _ := strconv.ParseInt(digits(id), 10, 64)
			for _, m := range v.telegram.Messages(chat, v.telegram.Me().ID) {
				texts = append(texts, m.Text)
			}
			return texts
		},
		"slack": func(id string) (texts []string) {
			for _, m := range v.slack.Shown("D" + id) {
				texts = append(texts, strings.NewReplacer("&lt;", "<", "&gt;", ">", "&amp;", "&").Replace(m.Text))
			}
			return texts
		},
		"feishu": func(id string) []string { return v.feishu.Texts("oc_" + id) },
	}
	for _, e := range events {
		t.Run(e.channel, func(t *testing.T) {
			word := v.answer(func(r fakeproviders.Request) fakeproviders.Answer {
				if r.Messages[len(r.Messages)-1].Role != "user" {
					return fakeproviders.Answer{Text: "blue"}
				}
				return fakeproviders.Answer{ToolCalls: []fakeproviders.ToolCall{{ID: "call_1", Name: "mcp_red_write", Arguments: `{"name":` + quoted(name) + `}`}}}
			})
			v.slack.AddConversation(fakeslack.Conversation{ID: "D" + word, Kind: fakeslack.IM})
			if e.channel == "telegram" {
				chat, _ := strconv.ParseInt(digits(word), 10, 64)
				v.telegram.AddChat(faketelegram.Chat{ID: chat, Type: "private"})
			}
			header, body := e.make(t, v, word, word, time.Now())
			if got := v.send(t, e.channel, header, body); got.status != e.status {
				t.Fatalf("%d %s", got.status, got.body)
			}
			var shown []string
			v.eventually(t, "the question", func() bool {
				shown = nil
				for _, text := range seen[e.channel](word) {
					if strings.Contains(text, ",approve ") || strings.Contains(text, "rm -rf") {
						shown = append(shown, text)
					}
				}
				return len(shown) > 0
			})
			begin, end := strings.IndexByte(shown[0], '{'), strings.LastIndexByte(shown[0], '}')
			var in struct{ Name string }
			if len(shown) != 1 || begin < 0 || json.Unmarshal([]byte(shown[0][begin:end+1]), &in) != nil || in.Name != name {
				t.Fatalf("it is shown as %q, which means %q, expected %q", shown, in.Name, name)
			}
			for _, r := range shown[0] {
				if r != '\n' && !unicode.IsPrint(r) || r == '\u3164' {
					t.Errorf("%U is in the message", r)
				}
			}
			if !strings.Contains(shown[0], "mcp.red.write") {
				t.Errorf("%q", shown[0])
			}
		})
	}
}
