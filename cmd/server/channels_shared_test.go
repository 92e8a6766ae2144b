package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/lingserve/lingserve/channel/webhook"
	"github.com/lingserve/lingserve/internal/fakecallback"
	"github.com/lingserve/lingserve/internal/fakefeishu"
	"github.com/lingserve/lingserve/internal/fakeproviders"
	"github.com/lingserve/lingserve/internal/fakeslack"
	"github.com/lingserve/lingserve/internal/faketelegram"
	"github.com/lingserve/lingserve/internal/postgrestest"
)

// platforms are all that replicas talk to: those where people write, a model that repeats what it is told, and the database that they share.
type platforms struct {
	t        *testing.T
	database *postgrestest.Server
	model    *fakeproviders.Server
	telegram *faketelegram.Server
	slack    *fakeslack.Server
	feishu   *fakefeishu.Server
	backend  *backend
	both     *both
	settings string
	shared   string // the workspace

	mu   sync.Mutex
	held map[string]bool // what the model was told to hold, once
}

// both brings each event to all replicas at once, as a platform does that got no answer in time. The answer is the worst one.
type both struct {
	mu    sync.Mutex
	bases []string
	post  http.RoundTripper
}

func (b *both) to(replicas ...*process) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.bases = nil
	for _, p := range replicas {
		b.bases = append(b.bases, strings.TrimPrefix(p.base, "http://"))
	}
}

func (b *both) RoundTrip(r *http.Request) (worst *http.Response, err error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	answers, errs := make([]*http.Response, len(b.bases)), make([]error, len(b.bases))
	var wg sync.WaitGroup
	for i, host := range b.bases {
		wg.Go(func() {
			for { // until its channel is open
				one := r.Clone(r.Context())
				one.URL.Host, one.Host, one.Body = host, host, io.NopCloser(bytes.NewReader(body))
				answers[i], errs[i] = b.post.RoundTrip(one)
				if errs[i] != nil || answers[i].StatusCode != http.StatusServiceUnavailable {
					return
				}
				answers[i].Body.Close()
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	for _, a := range answers {
		if worst == nil || a.StatusCode > worst.StatusCode {
			worst = a
		}
	}
	for _, a := range answers {
		if a != worst {
			a.Body.Close()
		}
	}
	return worst, nil
}

// hold is in what the model is to think about for ever, the first time that it is told it.
const hold = "hold on"

// lookUp is in what it calls a tool for, which asks for approval.
const lookUp = "look it up"

func (p *platforms) script(r fakeproviders.Request) fakeproviders.Answer {
	last := r.Messages[len(r.Messages)-1].Content
	words := last[strings.LastIndex(last, "\n")+1:] // behind where it comes from
	p.mu.Lock()
	defer p.mu.Unlock()
	if strings.Contains(words, hold) && !p.held[words] {
		p.held[words] = true
		return fakeproviders.Answer{Raw: []fakeproviders.Raw{{Hang: true}}}
	}
	if strings.Contains(words, lookUp) && r.Messages[len(r.Messages)-1].Role == "user" {
		for _, tool := range r.Tools {
			if strings.Contains(tool, "info") {
				return fakeproviders.Answer{ToolCalls: []fakeproviders.ToolCall{{ID: "call_1", Name: tool, Arguments: "{}"}}}
			}
		}
	}
	return fakeproviders.Answer{Text: "heard: " + last}
}

func newPlatforms(t *testing.T) *platforms {
	t.Helper()
	p := &platforms{t: t, database: postgrestest.Run(t), backend: newBackend(t), shared: t.TempDir(), held: map[string]bool{}}
	serve := func(h http.Handler) string {
		s := httptest.NewServer(h)
		t.Cleanup(s.Close)
		return s.URL
	}
	p.model = &fakeproviders.Server{Models: []string{"m"}, Script: p.script}
	p.both = &both{post: httpClient(t).Transport}
	deliver := &http.Client{Transport: p.both}
	const hook = "http://replicas.test/v1/channels/"
	p.telegram = faketelegram.New(nil)
	p.slack = fakeslack.New(&fakeslack.Options{Hook: hook + "slack/webhook", Deliver: deliver})
	p.feishu = fakefeishu.New(&fakefeishu.Options{Deliver: deliver})
	p.feishu.SetURL(hook + "feishu/webhook")
	for _, f := range []io.Closer{p.telegram, p.slack, p.feishu} {
		t.Cleanup(func() { _ = f.Close() })
	}
	p.telegram.AddChat(faketelegram.Chat{ID: 7, Type: "private", FirstName: "Ann"})
	p.slack.AddConversation(fakeslack.Conversation{ID: "D0ANN", Kind: fakeslack.IM})
	p.slack.AddPerson("U0ANN", "ann", "Ann")
	p.feishu.AddChat("oc_ann", "p2p")
	f := p.feishu.Options()
	p.settings = p.backend.settings("dm: {policy: open}") + `
  asks:
    type: webhook
    secret: ` + hookSecret + `
    ack: result
    dm: {policy: pairing}
    groups: {policy: open}
    commands: {users: [ann]}
  telegram: {token: "` + p.telegram.Token() + `", api: "` + serve(p.telegram) + `", preview: "off", dm: {policy: open}}
  slack: {token: "` + p.slack.Token() + `", signing_secret: "` + p.slack.Secret() + `", api: "` + serve(p.slack) + `/api", preview: "off", dm: {policy: open}}
  feishu: {app_id: ` + f.AppID + `, app_secret: "` + f.AppSecret + `", encrypt_key: "` + f.Key + `", preview: "off", api: "` + serve(p.feishu) + `", dm: {policy: open}, commands: {operators: [ou_ann]}}
providers:
  openai: {base_url: "` + serve(p.model) + `/v1", key: sk-test}
agents:
  assistant: {model: "openai:m", ask_always: ["tape.*"]}
`
	return p
}

// engine are the flags of replicas, and of commands.
func (p *platforms) engine() []string {
	return []string{"--database", p.database.URL(), "--workspace", p.shared}
}

// replica starts one with a folder of its own.
func (p *platforms) replica(args ...string) *process {
	p.t.Helper()
	return serverWith(p.t, p.t.TempDir(), p.settings, append(append(p.engine(), "--grace", "200ms"), args...)...)
}

// asks sends a message of a group, or of somebody alone, to a replica, and returns what became of it.
func (p *platforms) asks(at *process, id, kind, text string, mentioned bool) string {
	p.t.Helper()
	body := p.body(kind, text, mentioned)
	for end := time.Now().Add(patient); ; time.Sleep(5 * time.Millisecond) {
		status, answer := p.post(at, "asks", id, body)
		if status == http.StatusOK || status == http.StatusForbidden {
			return answer
		}
		if status != http.StatusServiceUnavailable || time.Now().After(end) {
			p.t.Fatalf("%s is answered with %d %s", id, status, answer)
		}
	}
}

func (p *platforms) body(kind, text string, mentioned bool) []byte {
	p.t.Helper()
	body, err := json.Marshal(map[string]any{
		"sender": map[string]string{"id": "ann"}, "conversation": map[string]string{"id": "c-" + kind, "kind": kind}, "text": text, "mentioned": mentioned,
	})
	if err != nil {
		p.t.Fatal(err)
	}
	return body
}

func (p *platforms) post(at *process, name, id string, body []byte) (int, string) {
	p.t.Helper()
	req, err := http.NewRequestWithContext(p.t.Context(), http.MethodPost, at.base+"/v1/channels/"+name+"/webhook", bytes.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	secrets, err := webhook.ParseSecrets(hookSecret)
	if err != nil {
		p.t.Fatal(err)
	}
	secrets.Sign(req.Header, id, time.Now(), body)
	res, err := httpClient(p.t).Do(req)
	if err != nil {
		p.t.Fatal(err)
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return res.StatusCode, string(answer)
}

// shown are the bot's messages in a conversation of Slack.
func (p *platforms) shown() (texts []string) {
	for _, m := range p.slack.Shown("D0ANN") {
		if m.User == fakeslack.Bot || m.BotID != "" {
			texts = append(texts, m.Text)
		}
	}
	return texts
}

// told are the bot's messages to Ann on Telegram.
func (p *platforms) told() (texts []string) {
	for _, m := range p.telegram.Messages(7, p.telegram.Me().ID) {
		texts = append(texts, m.Text)
	}
	return texts
}

func (p *platforms) write(text string) {
	chat := faketelegram.Chat{ID: 7, Type: "private", FirstName: "Ann"}
	p.telegram.Say(faketelegram.Message{Chat: chat, From: &faketelegram.User{ID: 7, FirstName: "Ann"}, Text: text})
}

// run runs a command beside the replicas, with their settings.
func (p *platforms) run(args ...string) string {
	p.t.Helper()
	dir := p.t.TempDir()
	write(p.t, dir, "lingserve.yaml", p.settings)
	p.t.Chdir(dir)
	var out bytes.Buffer
	if status := command(append(args, p.engine()...), nil, &out, &out); status != exitOK {
		p.t.Fatalf("%q: status %d: %s", args, status, &out)
	}
	return out.String()
}

// await polls until something holds.
func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(patient); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("waited in vain until ", what)
		}
	}
}

const polls = "this replica polls the platform"

// Two replicas are one server for the platforms, whichever of them an event comes to.
func TestChannelsOfReplicas(t *testing.T) {
	p := newPlatforms(t)
	a := p.replica()
	a.waitFor(polls) // before there is another one
	b := p.replica("--admin-addr", "127.0.0.1:0")
	metrics := "http://" + b.waitFor(`admin listener is open.*addr=(127\.0\.0\.1:\d+)`)[1] + "/metrics"
	p.both.to(a, b)

	t.Run("an event that comes to both is answered once", func(t *testing.T) { // CL-02, CH-71, CH-72
		for i, text := range []string{"first", "second"} {
			p.slack.Say(fakeslack.Message{Channel: "D0ANN", User: "U0ANN", Text: text})
			event, _ := p.feishu.Say(fakefeishu.Said{Chat: "oc_ann", From: "ou_ann", Text: text})
			if got := p.feishu.Post(t.Context(), event); got.Status != http.StatusOK {
				t.Errorf("the event is answered with %d %s", got.Status, got.Body)
			}
			await(t, text+" is answered", func() bool { return len(p.shown()) > i && len(p.feishu.Texts("oc_ann")) > i })
		}
		slack, feishu := p.shown(), p.feishu.Texts("oc_ann")
		if len(slack) != 2 || !strings.Contains(slack[1], "second") || len(feishu) != 2 || !strings.Contains(feishu[1], "second") {
			t.Errorf("two messages, that came to both, are answered with %q and %q", slack, feishu)
		}
		if n := p.model.Requests(); n != 4 {
			t.Errorf("the model was asked %d times for four messages", n)
		}
	})
	t.Run("what is said to a turn reaches it at the other", func(t *testing.T) { // CL-08, CH-05
		say := func(at *process, text string) {
			t.Helper()
			p.both.to(at)
			event, _ := p.feishu.Say(fakefeishu.Said{Chat: "oc_ann", From: "ou_ann", Text: text})
			if got := p.feishu.Post(t.Context(), event); got.Status != http.StatusOK {
				t.Errorf("the event is answered with %d %s", got.Status, got.Body)
			}
		}
		shown := func(text string) int { return strings.Count(strings.Join(p.feishu.Texts("oc_ann"), "\n"), text) }
		for i, at := range [][2]*process{{a, b}, {b, a}} {
			say(at[0], fmt.Sprint(lookUp, " ", i))
			var press map[string]any // DC-15: a button that one replica has sent, pressed at the other
			await(t, "the tool asks", func() bool {
				for _, m := range p.feishu.Ours("oc_ann") {
					if event := p.feishu.Press(m, "Approve", "ou_ann"); event != nil {
						press = event
					}
				}
				return press != nil
			})
			p.both.to(at[1])
			if got := p.feishu.Post(t.Context(), press); got.Status != http.StatusOK {
				t.Errorf("the press is answered with %d %s", got.Status, got.Body)
			}
			await(t, "the tool has run", func() bool { return shown("heard: {") == i+1 })
			await(t, "the card says who decided", func() bool { return shown("Approved by") == i+1 })
		}
		p.both.to(a, b)
	})
	t.Run("a turn of a webhook is stopped at the other", func(t *testing.T) { // CL-08, CH-05, CH-182
		stop := p.body("group", ",stop", true)
		for i, at := range [][2]*process{{a, b}, {b, a}} {
			asked := p.model.Requests()
			asks, ended := fmt.Sprint("s-", i), make(chan string, 1)
			go func() {
				defer close(ended)
				ended <- p.asks(at[0], asks, "group", lookUp+" and wait", true)
			}()
			await(t, "the model is asked", func() bool { return p.model.Requests() > asked })
			// What runs may not be known at the other yet.
			var got string
			n := 0
			await(t, "it is stopped", func() bool {
				n++
				_, got = p.post(at[1], "asks", fmt.Sprint(asks, "-stop-", n), stop)
				return strings.Contains(got, "Stopped 1 turn.")
			})
			if again := p.asks(at[1], fmt.Sprint(asks, "-stop-", n), "group", ",stop", true); !strings.Contains(again, "Stopped 1 turn.") || !strings.Contains(again, `"duplicate":true`) {
				t.Errorf("once more, it is answered with %s", again)
			}
			if got := <-ended; !strings.Contains(got, `"status":"done"`) {
				t.Errorf("what was stopped is answered with %s", got)
			}
		}
	})
	t.Run("what waits in a group is known at both", func(t *testing.T) { // CL-02, CH-90, CH-96
		p.asks(a, "g-1", "group", "the cat is grey", false)
		if got := p.asks(b, "g-2", "group", "which colour?", true); !strings.Contains(got, "the cat is grey") {
			t.Errorf("it is answered with %s", got)
		}
		// CH-182: sent again to the other, it is answered as at first, and nothing runs.
		if got := p.asks(a, "g-2", "group", "which colour?", true); !strings.Contains(got, "the cat is grey") || !strings.Contains(got, `"duplicate":true`) {
			t.Errorf("once more, it is answered with %s", got)
		}
		if got := p.asks(a, "g-3", "group", "and now?", true); strings.Contains(got, "the cat is grey") || !strings.Contains(got, "and now?") {
			t.Errorf("what one has seen waits at the other: %s", got)
		}
	})
	t.Run("who is paired is paired at both", func(t *testing.T) { // CL-02, CH-101
		_, code, ok := strings.Cut(p.asks(a, "d-1", "direct", "let me in", false), "pair approve ")
		code, _, _ = strings.Cut(code, "`")
		if !ok || strings.Contains(p.asks(b, "d-2", "direct", "let me in", false), "pair approve") {
			t.Errorf("the code is %q, or was told again at the other", code)
		}
		if got := p.run("channels", "pair", "approve", code); got != "ann is paired on asks\n" {
			t.Errorf("got %q", got)
		}
		for i, at := range []*process{a, b} {
			if got := p.asks(at, fmt.Sprint("d-3", i), "direct", "hello", false); !strings.Contains(got, "heard: ") {
				t.Errorf("replica %d answers %s", i, got)
			}
		}
		if got := p.run("channels", "pair", "remove", "asks", "ann"); got != "removed the pairing of ann on asks\n" {
			t.Errorf("got %q", got)
		}
		if got := p.asks(b, "d-4", "direct", "hello", false); strings.Contains(got, "heard: ") {
			t.Errorf("who was removed gets %s", got)
		}
	})
	t.Run("a session that is erased is forgotten at both", func(t *testing.T) { // CL-02, CH-76
		p.asks(a, "g-4", "group", "the canary is yellow", false)
		p.run("tape", "delete", "asks:c-group", "--yes")
		if got := p.asks(b, "g-5", "group", "which colour?", true); strings.Contains(got, "yellow") || !strings.Contains(got, "which colour?") {
			t.Errorf("it is answered with %s", got)
		}
		p.asks(b, "g-1", "group", "the cat is grey", false) // the event is new again
		if got := p.asks(a, "g-6", "group", "and the cat?", true); !strings.Contains(got, "the cat is grey") {
			t.Errorf("it is answered with %s", got)
		}
	})
	t.Run("what a replica has accepted that dies is answered by the other", func(t *testing.T) { // CL-02, CH-74, CH-170, CH-192
		// CH-58: its callback has refused one reply, which waits in the outbox.
		p.backend.back.Then(fakecallback.Step{Status: http.StatusServiceUnavailable, RetryAfter: "60"})
		if status, answer := p.backend.say(a, "h-0", "hello"); status != http.StatusAccepted {
			t.Fatalf("got %d %v", status, answer)
		}
		await(t, "the callback has refused a reply", func() bool { return len(p.backend.back.Requests()) == 1 })
		before := p.model.Requests()
		p.write("please " + hold)
		if status, answer := p.backend.say(a, "h-1", hold+", too"); status != http.StatusAccepted {
			t.Fatalf("got %d %v", status, answer)
		}
		await(t, "both run", func() bool { return p.model.Requests() == before+2 })
		eventually(t, metrics, func(got asked) bool { // CH-124: of all replicas
			return strings.Contains(got.body, `lingserve_channel_journal_pending{channel="hook"} 1`) && strings.Contains(got.body, `lingserve_channel_journal_pending{channel="telegram"} 1`) &&
				strings.Contains(got.body, `lingserve_channel_outbox_pending{channel="hook"} 1`)
		})
		if strings.Contains(b.Log.String(), polls) {
			t.Error("both ask for the events of one bot")
		}
		a.signal(os.Kill)
		a.wait()
		if status, answer := p.backend.say(b, "h-1", hold+", too"); status != http.StatusAccepted || answer["duplicate"] != true {
			t.Errorf("what the dead one has taken is answered with %d %v", status, answer)
		}
		b.waitFor(polls)
		p.write("are you there?")
		await(t, "the bot is back", func() bool { return len(p.told()) == 2 })
		replies := p.backend.taken(2)
		if told := p.told(); !strings.Contains(told[0]+told[1], hold) || !strings.Contains(told[0]+told[1], "are you there?") {
			t.Errorf("Ann is told %q", told)
		}
		if len(replies) != 2 || !strings.Contains(replies[0].Text, "hello") || !strings.Contains(replies[1].Text, hold+", too") || len(p.backend.back.Requests()) != 3 {
			t.Errorf("the backend got %+v", replies)
		}
		if n := p.model.Requests() - before; n != 5 {
			t.Errorf("the model was asked %d times for three messages, two of which it was asked for twice", n)
		}
		eventually(t, metrics, func(got asked) bool {
			return !strings.Contains(got.body, "lingserve_channel_journal_pending{") || !strings.Contains(got.body, "pending{channel=\"hook\"} 1")
		})
	})
	t.Run("what a replica leaves that is told to go is answered by the other at once", func(t *testing.T) { // CL-11, CH-73
		c := p.replica()
		before := p.model.Requests()
		if status, answer := p.backend.say(b, "h-2", hold+" once more"); status != http.StatusAccepted {
			t.Fatalf("got %d %v", status, answer)
		}
		await(t, "it runs", func() bool { return p.model.Requests() == before+1 })
		b.signal(syscall.SIGTERM)
		if status := b.wait(); status != exitOK {
			t.Errorf("it has ended with %d", status)
		}
		replies := p.backend.taken(3)
		if len(replies) != 3 || !strings.Contains(replies[2].Text, hold+" once more") {
			t.Errorf("the backend got %+v", replies)
		}
		c.waitFor(polls)
		p.write("and you?")
		await(t, "the bot is back", func() bool { return len(p.told()) == 3 })
		if status, answer := p.backend.say(c, "h-2", hold+" once more"); status != http.StatusAccepted || answer["duplicate"] != true {
			t.Errorf("it is answered with %d %v", status, answer)
		}
	})
}

// CL-01: who is paired is not known while the database is away, and that is said with what to do.
func TestPairsWhileTheEngineIsAway(t *testing.T) {
	s := postgrestest.Run(t)
	if err := s.Shutdown(); err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	var out bytes.Buffer
	status := command([]string{"channels", "pair", "approve", "ABCD-EFGH", "--database", s.URL()}, nil, &out, &out)
	if status != exitFailed || !strings.Contains(out.String(), "database (flag --database): cannot use postgres://") {
		t.Errorf("%d %s", status, &out)
	}
}
