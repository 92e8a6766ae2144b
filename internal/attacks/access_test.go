//go:build nightly

package attacks

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/lingserve/lingserve/internal/fakeproviders"
)

func bearer(key string) string { return "Authorization: Bearer " + key }

// property is what a user has on a server, for another to be after.
type property struct {
	done, waiting string // runs; the second waits for approval
	question      string // its question
	words         string // that were said in all of it
}

// owned makes a user have one of everything.
func owned(t *testing.T, v *victim) property {
	t.Helper()
	p := property{words: v.answer(fakeproviders.Answer{Tokens: []string{"the user's own words"}})}
	ask := func(path, body string, header ...string) reply {
		t.Helper()
		got := v.do(t, "POST", path, body, append(header, bearer(userKey))...)
		if got.status >= 300 {
			t.Fatalf("%s %s: %d %s", path, body, got.status, got.body)
		}
		return got
	}
	p.done = ask("/v1/runs", run("text", p.words), "Idempotency-Key: the-users-key").header.Get("X-Run-Id")
	ask("/v1/runs", `{"agent":"assistant","session":"private","input":"`+p.words+`"}`)
	ask("/v1/agui/assistant", `{"threadId":"thread","runId":"r","messages":[{"id":"m","role":"user","content":"`+p.words+`"}]}`)
	ask("/v1/ui/assistant", `{"id":"chat","messages":[{"id":"m","role":"user","parts":[{"type":"text","text":"`+p.words+`"}]}]}`)
	ask("/v1/chat/completions", `{"model":"assistant","user":"completion","messages":[{"role":"user","content":"`+p.words+`"}]}`)
	var once sync.Once
	waits := v.answer(func(fakeproviders.Request) (a fakeproviders.Answer) {
		a.Text = "written"
		once.Do(func() {
			a = fakeproviders.Answer{ToolCalls: []fakeproviders.ToolCall{{ID: "call_1", Name: "mcp_red_write", Arguments: `{}`}}}
		})
		return a
	})
	p.waiting = ask("/v1/runs", `{"agent":"assistant","session":"waits","input":"`+waits+`"}`, "Prefer: respond-async").header.Get("X-Run-Id")
	p.question = v.question(t, p.waiting, bearer(userKey))
	return p
}

// SE-09: what is another's is not there: the answer is the one for what has never been, and nothing has happened.
func TestWhatIsAnothersIsNotThere(t *testing.T) { // SE-09
	v := ownServer(t, withKeys())
	p := owned(t, v)
	const none = "abcdefghijklmnopqrstuvwxyz" // a run that has never been
	for _, row := range []struct{ method, path, body string }{
		{"GET", "/v1/runs/DONE", ""},
		{"GET", "/v1/runs/DONE/events", ""},
		{"GET", "/v1/runs/DONE/events?format=jsonl&after=0", ""},
		{"GET", "/v1/runs/DONE/events?last_event_id=DONE:1", ""},
		{"POST", "/v1/runs/DONE/cancel", ""},
		{"GET", "/v1/runs/WAITING", ""},
		{"GET", "/v1/runs/WAITING/events?snapshot=1&on_disconnect=cancel", ""},
		{"POST", "/v1/runs/WAITING/cancel", ""},
		{"POST", "/v1/runs/WAITING/approvals/QUESTION", `{"decision":"approve"}`},
		{"POST", "/v1/runs?last_event_id=DONE:1", ""},
		{"POST", "/v1/runs?last_event_id=WAITING:0", `{"agent":"assistant","session":"waits","input":"x"}`},
		{"GET", "/v1/sessions/private", ""},
		{"GET", "/v1/sessions/private/tape", ""},
		{"POST", "/v1/sessions/private/handoff", `{"name":"x"}`},
		{"POST", "/v1/sessions/private/fork", `{"session":"mine"}`},
		{"DELETE", "/v1/sessions/private", ""},
		{"GET", "/v1/agui/assistant/thread", ""},
		{"GET", "/v1/ui/assistant/chat", ""},
		{"GET", "/v1/ui/assistant/chat/stream", ""},
		{"POST", "/v1/agui/assistant", `{"threadId":"nobody","runId":"r","messages":[],"resume":[{"interruptId":"WAITING:3:QUESTION","status":"resolved","payload":{"approved":true}}]}`},
	} {
		fill := func(done, waiting, private, thread, chat string) (path, body string) {
			r := strings.NewReplacer("DONE", done, "WAITING", waiting, "QUESTION", p.question, "/private", "/"+private, "/thread", "/"+thread, "/chat", "/"+chat)
			return r.Replace(row.path), strings.NewReplacer("DONE", done, "WAITING", waiting, "QUESTION", p.question).Replace(row.body)
		}
		path, body := fill(p.done, p.waiting, "private", "thread", "chat")
		got := v.do(t, row.method, path, body, bearer(otherKey))
		path, body = fill(none, none, "nowhere", "nothing", "none")
		missing := v.do(t, row.method, path, body, bearer(otherKey))
		same := func(r reply) string {
			return strings.NewReplacer(p.done, "RUN", p.waiting, "RUN", none, "RUN", "private", "NAME", "nowhere", "NAME", "thread", "NAME", "nothing", "NAME", "chat", "NAME", "none", "NAME").
				Replace(regexp.MustCompile(`"created":\d+|retry: \d+|"runId":"[^"]+"`).ReplaceAllString(r.body, ""))
		}
		if got.status != missing.status || same(got) != same(missing) {
			t.Errorf("%s %s: %d %s\nand of what is not there: %d %s", row.method, row.path, got.status, got.body, missing.status, missing.body)
		}
		if strings.Contains(got.body, "own words") || strings.Contains(got.body, p.words) {
			t.Errorf("%s %s: another is told: %s", row.method, row.path, got.body)
		}
		for name := range got.header {
			if _, is := missing.header[name]; !is {
				t.Errorf("%s %s: header %s", row.method, row.path, name)
			}
		}
		for _, key := range []string{"", wrongKey} {
			header := []string{}
			if key != "" {
				header = append(header, bearer(key))
			}
			path, body = fill(p.done, p.waiting, "private", "thread", "chat")
			if got := v.do(t, row.method, path, body, header...); got.status != 401 && got.status != 429 || strings.Contains(got.body, "own words") {
				t.Errorf("%s %s with the key %q: %d %s", row.method, row.path, key, got.status, got.body)
			}
		}
	}
	// Lists have one's own.
	for _, path := range []string{"/v1/sessions", "/v1/sessions?limit=100", "/v1/runs", "/v1/agents", "/v1/workflows"} {
		if got := v.do(t, "GET", path, "", bearer(otherKey)); strings.Contains(got.body, "private") || strings.Contains(got.body, p.words) {
			t.Errorf("%s: %s", path, got.body)
		}
	}
	// What was said to the same names by another is his own.
	before := len(v.requests.String())
	for name, ask := range map[string][2]string{
		"a session":      {"/v1/runs", `{"agent":"assistant","session":"private","input":"WORD"}`},
		"a thread":       {"/v1/agui/assistant", `{"threadId":"thread","runId":"r","messages":[{"id":"m","role":"user","content":"WORD"}]}`},
		"a chat":         {"/v1/ui/assistant", `{"id":"chat","messages":[{"id":"m","role":"user","parts":[{"type":"text","text":"WORD"}]}]}`},
		"a user":         {"/v1/chat/completions", `{"model":"assistant","user":"completion","messages":[{"role":"user","content":"WORD"}]}`},
		"one that waits": {"/v1/runs", `{"agent":"assistant","session":"waits","on_busy":"steer","input":"WORD"}`},
		"an interrupt":   {"/v1/runs", `{"agent":"assistant","session":"waits","on_busy":"interrupt","input":"WORD"}`},
		"an approval":    {"/v1/runs", `{"agent":"assistant","session":"waits","on_busy":"steer","input":",approve ` + p.question + `"}`},
		"a stop":         {"/v1/runs", `{"agent":"assistant","session":"waits","on_busy":"steer","input":",stop"}`},
	} {
		word := v.answer(fakeproviders.Answer{Text: "blue"})
		got := v.do(t, "POST", ask[0], strings.ReplaceAll(ask[1], "WORD", word), bearer(otherKey))
		if strings.Contains(got.body, "own words") || strings.Contains(got.body, p.waiting) || got.status >= 500 {
			t.Errorf("%s: %d %s", name, got.status, got.body)
		}
	}
	if told := v.requests.String()[before:]; strings.Contains(told, "own words") || strings.Contains(told, p.words) {
		t.Errorf("what the user has said is in what another's model is told: %s", told)
	}
	// A key of requests finds one's own runs.
	if got := v.do(t, "POST", "/v1/runs", run("text", p.words), "Idempotency-Key: the-users-key", bearer(otherKey)); got.header.Get("X-Run-Id") == p.done || got.header.Get("Idempotency-Replayed") != "" {
		t.Errorf("another's key has found the user's run: %v", got.header)
	}
	// And nothing has happened to what the user has.
	if v.wrote.Load() != 0 {
		t.Error("another has approved the user's call")
	}
	if got := v.do(t, "GET", "/v1/runs/"+p.waiting, "", bearer(userKey)); !strings.Contains(got.body, `"running"`) {
		t.Errorf("the user's run has ended: %s", got.body)
	}
	got := v.do(t, "GET", "/v1/sessions/private/tape", "", bearer(userKey))
	if got.status != 200 || strings.Count(got.body, p.words) != 1 || strings.Contains(got.body, "handoff") {
		t.Errorf("the user's session: %d %s", got.status, got.body)
	}
	// The user's own approval counts.
	if got := v.do(t, "POST", "/v1/runs/"+p.waiting+"/approvals/"+p.question, `{"decision":"approve"}`, bearer(userKey)); got.status != 204 {
		t.Errorf("%d %s", got.status, got.body)
	}
	v.eventually(t, "the tool runs", func() bool { return v.wrote.Load() == 1 })
}

// SE-09: no spelling of a name is another's session, and those of people on platforms are no caller's.
func TestNoSpellingIsAnothersSession(t *testing.T) { // SE-09
	v := ownServer(t, withKeys())
	p := owned(t, v)
	word := v.answer(fakeproviders.Answer{Tokens: []string{"the user's own words"}})
	v.hook(t, word, `{"sender":{"id":"ann"},"conversation":{"id":"conversation","kind":"direct"},"text":"`+word+`"}`)
	v.eventually(t, "the model is asked", func() bool { return strings.Contains(v.requests.String(), word) })
	names := []string{
		"private", "Private", "PRIVATE", "private ", " private", "private/", "/private", "./private", "private/.", "x/../private", "private%00", "private\x00", "pr\u0456vate", "ｐｒｉｖａｔｅ",
		"user:private", "user/private", "user@private", "user@key:private", "key/user/private", "user#private", "user~private", "user!private", "user\x1fprivate", "user\nprivate",
		"user%3Aprivate", "user%2Fprivate", "other/../user/private", "../user/private", "user::private", ":private", "web:private", "web:user:private", "web@user:private", "local:private",
		"hook:conversation", "hook%3Aconversation", "hook:conversation~assistant", "hook:ann", "hook", "Hook:conversation", "hook@:conversation", "web:hook:conversation",
		"private*", "*", "%", "_", "private' OR '1'='1",
	}
	for _, name := range names {
		for _, path := range []string{"", "/tape"} {
			if got := v.do(t, "GET", "/v1/sessions/"+escape(name)+path, "", bearer(otherKey)); got.status != 404 && got.status != 400 {
				t.Errorf("%q: %d %s", name, got.status, got.body)
			}
		}
		if got := v.do(t, "DELETE", "/v1/sessions/"+escape(name), "", bearer(otherKey)); got.status != 404 && got.status != 400 && got.status != 204 {
			t.Errorf("%q: %d %s", name, got.status, got.body)
		}
		got := v.do(t, "POST", "/v1/runs", `{"agent":"assistant","session":`+quoted(name)+`,"input":"hello"}`, bearer(otherKey))
		if strings.Contains(got.body, "own words") || got.status >= 500 {
			t.Errorf("%q: %d %s", name, got.status, got.body)
		}
	}
	got := v.do(t, "GET", "/v1/sessions/private/tape", "", bearer(userKey))
	if got.status != 200 || strings.Count(got.body, p.words) != 1 {
		t.Errorf("the user's session: %d %s", got.status, got.body)
	}
}

// SE-10: a ticket is for one request, of one method, at one path, of the one who asked for it, and nothing else stands in for a key.
func TestATicketIsUsedOnce(t *testing.T) { // SE-10
	v := ownServer(t, withKeys())
	p := owned(t, v)
	path := "/v1/runs/" + p.done + "/events"
	ticket := func(key, path string) string {
		t.Helper()
		got := v.do(t, "POST", "/v1/tickets", `{"path":`+quoted(path)+`}`, bearer(key))
		var d struct{ Ticket string }
		if err := json.Unmarshal([]byte(got.body), &d); err != nil || got.status != 201 && got.status != 200 || len(d.Ticket) < 30 {
			t.Fatalf("%d %s", got.status, got.body)
		}
		return d.Ticket
	}
	// One that was tried elsewhere may be used up by that, or not; it is never good there.
	for name, try := range map[string]func(ticket string) reply{
		"another run":       func(k string) reply { return v.do(t, "GET", "/v1/runs/"+p.waiting+"/events?ticket="+k, "") },
		"another path":      func(k string) reply { return v.do(t, "GET", "/v1/sessions?ticket="+k, "") },
		"another method":    func(k string) reply { return v.do(t, "POST", "/v1/runs/"+p.done+"/cancel?ticket="+k, "") },
		"a header":          func(k string) reply { return v.do(t, "GET", path, "", bearer(k)) },
		"another case":      func(k string) reply { return v.do(t, "GET", path+"?ticket="+strings.ToUpper(k), "") },
		"twice in a query":  func(k string) reply { return v.do(t, "GET", path+"?ticket="+k+"&ticket="+k, "") },
		"half of it":        func(k string) reply { return v.do(t, "GET", path+"?ticket="+k[:len(k)-1], "") },
		"a path around":     func(k string) reply { return v.do(t, "GET", path+"/../../"+p.waiting+"/events?ticket="+k, "") },
		"a cookie":          func(k string) reply { return v.do(t, "GET", path, "", "Cookie: ticket="+k) },
		"a key in its room": func(string) reply { return v.do(t, "GET", path+"?ticket="+userKey, "") },
	} {
		if got := try(ticket(userKey, path)); got.status < 400 {
			t.Errorf("%s: %d %s", name, got.status, got.body)
		}
	}
	k := ticket(userKey, path)
	if got := v.do(t, "GET", path+"?format=jsonl&ticket="+k, ""); got.status != 200 || !strings.Contains(got.body, "own words") {
		t.Errorf("%d %s", got.status, got.body)
	}
	for range 3 {
		if got := v.do(t, "GET", path+"?format=jsonl&ticket="+k, ""); got.status != 401 || strings.Contains(got.body, k) {
			t.Errorf("once more: %d %s", got.status, got.body)
		}
	}
	// Another's ticket leads to what is another's.
	if got := v.do(t, "GET", path+"?ticket="+ticket(otherKey, path), ""); got.status != 404 {
		t.Errorf("another's: %d %s", got.status, got.body)
	}
	// Many at once: one of them is let in.
	k = ticket(userKey, path)
	var wg sync.WaitGroup
	var mu sync.Mutex
	var statuses []int
	for range 8 {
		wg.Go(func() {
			got := v.do(t, "GET", path+"?format=jsonl&ticket="+k, "")
			mu.Lock()
			defer mu.Unlock()
			statuses = append(statuses, got.status)
		})
	}
	wg.Wait()
	if slices.Sort(statuses); statuses[0] != 200 || statuses[1] == 200 {
		t.Errorf("%d", statuses)
	}
	if log := v.Log.String(); strings.Contains(log, "lst_") {
		t.Errorf("a ticket is in the log: %q", around(log, strings.Index(log, "lst_")))
	}
}

// SE-10: everything but what says that the server is there asks for a key.
func TestEverythingAsksForAKey(t *testing.T) { // SE-10
	v := ownServer(t, withKeys())
	free := []string{"/", "/assets/{name}", "/healthz", "/readyz", "/openapi.yaml", "/v1/channels/{channel}/webhook"}
	contract := v.do(t, "GET", "/openapi.yaml", "").body
	asked := 0
	for _, path := range regexp.MustCompile(`(?m)^  (/\S*):`).FindAllStringSubmatch(contract, -1) {
		if slices.Contains(free, path[1]) {
			continue
		}
		asked++
		at := regexp.MustCompile(`\{[^}]*\}`).ReplaceAllString(path[1], "x")
		for _, method := range []string{"GET", "POST", "DELETE", "HEAD"} {
			if got := v.do(t, method, at, ""); got.status != 401 && got.status != 405 && got.status != 429 {
				t.Errorf("%s %s: %d %s", method, at, got.status, clip(got.body))
			}
		}
	}
	if asked < 20 {
		t.Errorf("%d paths were asked", asked)
	}
}
