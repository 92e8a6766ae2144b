//go:build nightly

package attacks

import (
	"strings"
	"testing"

	"github.com/lingserve/lingserve/internal/fakeproviders"
)

// said makes somebody write to the server by its channel "hook", and returns what was said. The session of it is hook:c1.
func said(t *testing.T, v *victim) (word string) {
	t.Helper()
	word = v.answer(fakeproviders.Answer{Text: "private answer"})
	v.hook(t, word, `{"sender":{"id":"ann"},"conversation":{"id":"c1","kind":"direct"},"text":"`+word+`"}`)
	v.eventually(t, "the channel has answered", func() bool { return strings.Contains(v.requests.String(), word) && len(v.back.Taken()) > 0 })
	return word
}

// everyWay asks for a session by every wire and verb, for what begins one of its own last.
var everyWay = []struct{ method, path, body string }{
	{"GET", "/v1/sessions/ID", ""},
	{"HEAD", "/v1/sessions/ID", ""},
	{"GET", "/v1/sessions/ID/tape", ""},
	{"GET", "/v1/sessions/ID/tape?format=jsonl", ""},
	{"POST", "/v1/sessions/ID/handoff", `{"name":"taken"}`},
	{"POST", "/v1/sessions/ID/fork", `{"session":"stolen"}`},
	{"DELETE", "/v1/sessions/ID", ""},
	{"POST", "/v1/runs", `{"agent":"assistant","session":"ID","input":"WORD"}`},
	{"POST", "/v1/runs", `{"agent":"assistant","session":"ID","on_busy":"steer","input":",tape.handoff name=taken"}`},
	{"POST", "/v1/runs", `{"workflow":"text","session":"ID","input":"WORD"}`},
	{"GET", "/v1/runs?agent=assistant&session=ID&input=WORD", ""},
	{"POST", "/v1/chat/completions", `{"model":"assistant","user":"ID","messages":[{"role":"user","content":"WORD"}]}`},
	{"POST", "/v1/ui/assistant", `{"id":"ID","messages":[{"id":"m","role":"user","parts":[{"type":"text","text":"WORD"}]}]}`},
	{"GET", "/v1/ui/assistant/ID", ""},
	{"GET", "/v1/ui/assistant/ID/stream?v=6", ""},
	{"POST", "/v1/agui/assistant", `{"threadId":"ID","runId":"r","messages":[{"id":"m","role":"user","content":"WORD"}]}`},
	{"GET", "/v1/agui/assistant/ID", ""},
}

// asksFor asks in every way for a session that is not the caller's. No answer, and no model, is told of it.
func (v *victim) asksFor(t *testing.T, id, word string, header ...string) {
	t.Helper()
	for _, way := range everyWay {
		more := v.answer(fakeproviders.Answer{Text: "blue"})
		path := strings.NewReplacer("WORD", more, "ID", escape(id)).Replace(way.path)
		before := len(v.requests.String())
		got := v.do(t, way.method, path, strings.NewReplacer("WORD", more, "ID", id).Replace(way.body), header...)
		if strings.Contains(got.body, word) || strings.Contains(got.body, "private answer") || strings.Contains(v.requests.String()[before:], word) {
			t.Errorf("%s %s: it tells of the session: %d %s", way.method, way.path, got.status, clip(got.body))
		}
		if strings.HasPrefix(way.path, "/v1/sessions/") && got.status != 404 {
			t.Errorf("%s %s: %d %s", way.method, way.path, got.status, clip(got.body))
		}
	}
}

// DA-15: without keys nobody is an operator, so the sessions of channels are not there.
func TestDA_15_WithoutKeysTheSessionsOfChannelsAreNotThere(t *testing.T) {
	v := ownServer(t, setup{})
	word := said(t, v)
	v.asksFor(t, "hook:c1", word)
	for _, path := range []string{"/v1/sessions", "/v1/sessions?limit=1", "/v1/sessions?limit=200"} {
		if got := v.do(t, "GET", path, ""); got.status != 200 || strings.Contains(got.body, "hook") || strings.Contains(got.body, word) {
			t.Errorf("%s: %d %s", path, got.status, got.body)
		}
	}
	// One's own sessions are there, whatever they are called, and lists have all of them.
	for _, id := range []string{"mine", "user:42", "ann@example.com", "hooks:c1", "hook"} {
		if got := v.do(t, "POST", "/v1/runs", `{"agent":"assistant","session":"`+id+`","input":"`+v.answer(fakeproviders.Answer{Text: "blue"})+`"}`); got.status != 200 {
			t.Errorf("%s: %d %s", id, got.status, got.body)
		}
	}
	v.hook(t, word+"2", `{"sender":{"id":"ann"},"conversation":{"id":"c1","kind":"direct"},"text":"`+word+`"}`)
	v.eventually(t, "the channel has answered again", func() bool { return len(v.back.Taken()) > 1 })
	list, next := "", "/v1/sessions?limit=2"
	for pages := 0; next != "" && pages < 10; pages++ {
		got := v.do(t, "GET", next, "")
		list += got.body
		next = ""
		if _, after, more := strings.Cut(got.body, `"next":"`); more {
			after, _, _ = strings.Cut(after, `"`)
			next = "/v1/sessions?limit=2&after=" + escape(after)
		}
	}
	for _, id := range []string{"mine", "user:42", "ann@example.com", "hooks:c1", "hook"} {
		if strings.Count(list, `"id":"`+id+`"`) != 1 {
			t.Errorf("%s is not in the list once: %s", id, list)
		}
	}
	if strings.Contains(list, "hook:c1") {
		t.Errorf("the list has the channel's session: %s", list)
	}
}

// DA-15: with keys, operators and admins reach the sessions of channels, and users do not.
func TestDA_15_OperatorsReachTheSessionsOfChannelsAndUsersDoNot(t *testing.T) {
	v := ownServer(t, withKeys())
	word := said(t, v)
	v.asksFor(t, "hook:c1", word, bearer(userKey))
	v.asksFor(t, "web:user#private", word, bearer(adminKey)) // the sessions of others are no channel's
	if got := v.do(t, "GET", "/v1/sessions/hook:c1/tape", "", bearer(adminKey)); got.status != 200 || !strings.Contains(got.body, word) || strings.Contains(got.body, "taken") {
		t.Errorf("%d %s", got.status, got.body)
	}
	if got := v.do(t, "GET", "/v1/sessions/hook:c1", "", bearer(adminKey)); got.status != 200 || !strings.Contains(got.body, `"id":"hook:c1"`) {
		t.Errorf("%d %s", got.status, got.body)
	}
	// Nobody goes on with it by HTTP.
	for _, way := range everyWay {
		if way.method != "POST" || strings.HasPrefix(way.path, "/v1/sessions/") {
			continue
		}
		fill := strings.NewReplacer("WORD", v.answer(fakeproviders.Answer{Text: "blue"}), "ID", "hook:c1")
		if got := v.do(t, "POST", way.path, fill.Replace(way.body), bearer(adminKey)); got.status != 400 {
			t.Errorf("%s %s: %d %s", way.path, way.body, got.status, clip(got.body))
		}
	}
	if got := v.do(t, "POST", "/v1/sessions/hook:c1/fork", `{"session":"copy"}`, bearer(adminKey)); got.status != 201 || !strings.Contains(got.body, `"id":"copy"`) {
		t.Errorf("%d %s", got.status, got.body)
	}
	if got := v.do(t, "DELETE", "/v1/sessions/hook:c1", "", bearer(adminKey)); got.status != 204 {
		t.Errorf("%d %s", got.status, got.body)
	}
	if got := v.do(t, "GET", "/v1/sessions/hook:c1", "", bearer(adminKey)); got.status != 404 {
		t.Errorf("%d %s", got.status, got.body)
	}
}
