package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lingserve/lingserve/channel/platform"
	"github.com/lingserve/lingserve/channel/webhook"
	"github.com/lingserve/lingserve/internal/config"
	"github.com/lingserve/lingserve/internal/fakecallback"
	"github.com/lingserve/lingserve/internal/faketelegram"
)

const hookSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

// backend is one that has a webhook channel and gets its replies.
type backend struct {
	t    *testing.T
	back *fakecallback.Server
	url  string
}

func newBackend(t *testing.T) *backend {
	t.Helper()
	b := &backend{t: t, back: fakecallback.New(hookSecret)}
	server := httptest.NewServer(b.back)
	t.Cleanup(server.Close)
	b.url = server.URL
	return b
}

// settings are those of a channel "hook"; more are lines of it.
func (b *backend) settings(more ...string) string {
	if !slices.Contains(more, "ack: result") {
		more = append(more, "callback: "+b.url, "allow_insecure: true", "allow_private: [127.0.0.1]")
	}
	return "channels:\n  hook:\n    type: webhook\n    secret: " + hookSecret + "\n    " + strings.Join(more, "\n    ") + "\n"
}

// say sends a message to a server, again while its channel is not open yet, and returns the status and the answer.
func (b *backend) say(p *process, id, text string) (status int, answer map[string]any) {
	b.t.Helper()
	for end := time.Now().Add(patient); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if status, answer = b.sayOnce(p, id, text); status != http.StatusServiceUnavailable {
			break
		}
	}
	return status, answer
}

func (b *backend) sayOnce(p *process, id, text string) (int, map[string]any) {
	b.t.Helper()
	body := fmt.Appendf(nil, `{"sender":{"id":"ann"},"conversation":{"id":"c1","kind":"direct"},"text":%q}`, text)
	req, err := http.NewRequestWithContext(b.t.Context(), http.MethodPost, p.base+"/v1/channels/hook/webhook", bytes.NewReader(body))
	if err != nil {
		b.t.Fatal(err)
	}
	secrets, err := webhook.ParseSecrets(hookSecret)
	if err != nil {
		b.t.Fatal(err)
	}
	secrets.Sign(req.Header, id, time.Now(), body)
	res, err := httpClient(b.t).Do(req)
	if err != nil {
		b.t.Fatal(err)
	}
	defer res.Body.Close()
	var answer map[string]any
	if err := json.NewDecoder(res.Body).Decode(&answer); err != nil {
		b.t.Fatal(err)
	}
	return res.StatusCode, answer
}

// taken waits for so many replies.
func (b *backend) taken(n int) []fakecallback.Message {
	b.t.Helper()
	for end := time.Now().Add(patient); len(b.back.Taken()) < n; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			b.t.Fatalf("the callback got %d replies, expected %d", len(b.back.Taken()), n)
		}
	}
	return b.back.Taken()
}

func serverWith(t *testing.T, dir, configuration string, args ...string) *process {
	t.Helper()
	write(t, dir, "lingserve.yaml", configuration)
	return startServerIn(t, dir, append([]string{"--demo-pace", "0"}, args...)...)
}

func readyz(t *testing.T, p *process) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.base+"/readyz", nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := httpClient(t).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatal(res.Status, err)
	}
	return string(body)
}

func TestAServerThatIsKilledAnswersAfterItsNextStartOnce(t *testing.T) { // CH-71, CH-74, CH-192
	b, dir := newBackend(t), t.TempDir()
	p := serverWith(t, dir, b.settings("dm: {policy: open}"), "--demo-pace", "1") // it would take minutes
	if status, answer := b.say(p, "msg-1", "Why?"); status != http.StatusAccepted {
		t.Fatalf("got %d %v", status, answer)
	}
	p.signal(os.Kill)
	p.wait()
	p = serverWith(t, dir, b.settings("dm: {policy: open}"))
	if status, answer := b.say(p, "msg-1", "Why?"); status != http.StatusAccepted || answer["duplicate"] != true {
		t.Errorf("got %d %v", status, answer)
	}
	b.taken(1)
	b.say(p, "msg-2", "And why not?")
	if got := b.taken(2); len(got) != 2 || !strings.Contains(got[0].Text, "Why?") || !strings.Contains(got[1].Text, "And why not?") {
		t.Errorf("got %+v", got)
	}
}

// DC-01: a call that nobody on a channel may approve is denied at once, and the person is told.
func TestAToolThatNobodyOnAChannelMayApproveIsDeniedAtOnce(t *testing.T) {
	b, dir := newBackend(t), t.TempDir()
	p := serverWith(t, dir, b.settings("ack: result", "dm: {policy: open}")+"model: demo:fast\nagents: {assistant: {ask_always: [tape.info]}}\n")
	status, answer := b.say(p, "msg-1", "Call tape.info please")
	replies, _ := json.Marshal(answer["replies"])
	if status != http.StatusOK || !strings.Contains(string(replies), "The tool `tape.info` was not run: it needs approval, but nobody in this conversation may approve it.") {
		t.Errorf("got %d %v", status, answer)
	}
}

func TestWhoMayTalkIsReadAgainOnSIGHUP(t *testing.T) { // CH-61
	b, dir := newBackend(t), t.TempDir()
	p := serverWith(t, dir, b.settings("ack: result"))
	p.waitFor("channel admits no senders")
	if _, answer := b.say(p, "msg-1", "x"); answer["reason"] != "no_policy" {
		t.Errorf("got %v", answer)
	}
	write(t, dir, "lingserve.yaml", b.settings("ack: result", "dm: {policy: everybody}"))
	p.signal(syscall.SIGHUP)
	p.waitFor(`"everybody\\?" is invalid; expected one of disabled, open, allowlist, pairing`)
	write(t, dir, "lingserve.yaml", b.settings("ack: result", "dm: {policy: open}"))
	p.signal(syscall.SIGHUP)
	p.waitFor("channel settings reloaded")
	if _, answer := b.say(p, "msg-2", "x"); answer["outcome"] != "visible" {
		t.Errorf("got %v", answer)
	}
	write(t, dir, "lingserve.yaml", b.settings("dm: {policy: open}"))
	p.signal(syscall.SIGHUP)
	p.waitFor("channels need a restart")
}

func TestAChannelWhosePlatformRefusesItsTokenStopsAndTheServerGoesOn(t *testing.T) { // CH-179
	fake := faketelegram.New(nil)
	t.Cleanup(func() { _ = fake.Close() })
	api := httptest.NewServer(fake)
	t.Cleanup(api.Close)
	b := newBackend(t)
	p := serverWith(t, t.TempDir(), b.settings("dm: {policy: open}")+
		"  telegram: {token: \"123:wrong\", api: \""+api.URL+"\", dm: {policy: open}}\n")
	p.waitFor("channel failed; it stays down")
	if got := readyz(t, p); !strings.Contains(got, `"status":"ready"`) || !strings.Contains(got, `"channels":{"telegram":"`) || strings.Contains(got, "wrong") {
		t.Errorf("got %s", got)
	}
	b.say(p, "msg-1", "x")
	b.taken(1)
}

// DC-15: the question of an agent's tool is answered by a button, by whoever is on the list, and the agent goes on.
func TestDC_15_AToolIsApprovedByAButton(t *testing.T) {
	fake := faketelegram.New(nil)
	t.Cleanup(func() { _ = fake.Close() })
	api := httptest.NewServer(fake)
	t.Cleanup(api.Close)
	chat := faketelegram.Chat{ID: 7, Type: "private", FirstName: "Ann"}
	fake.AddChat(chat)
	serverWith(t, t.TempDir(), `
agents:
  careful: {model: "demo:fast", ask_always: [tape.info]}
channels:
  telegram:
    token: "`+fake.Token()+`"
    api: `+api.URL+`
    agent: careful
    dm: {policy: allowlist, allow_from: ["7"]}
    commands: {operators: ["7"]}
`)
	ann := &faketelegram.User{ID: 7, FirstName: "Ann"}
	fake.Say(faketelegram.Message{Chat: chat, From: ann, Text: "What does tape info say?"})
	waitShown(t, fake, "The agent wants to call the tool tape.info with")
	asked := fake.Messages(7, fake.Me().ID)
	press := fake.Press(7, asked[len(asked)-1].ID, ann, "Approve")
	ctx, cancel := context.WithTimeout(t.Context(), patient)
	defer cancel()
	err := fake.Await(ctx, func() bool {
		all := fake.Messages(7, fake.Me().ID)
		texts, _ := fake.Answers(press)
		return slices.Equal(texts, []string{"Approved."}) && len(all) > len(asked) && all[len(asked)-1].Keyboard == nil &&
			strings.HasSuffix(all[len(asked)-1].Text, "Approved by Ann.")
	})
	if err != nil {
		t.Errorf("%v: the chat has %+v", err, fake.Messages(7, fake.Me().ID))
	}
	if menu := fake.Menu("7"); !strings.Contains(menu, `"command":"tape_info"`) || !strings.Contains(menu, `"command":"mcp"`) || strings.Contains(menu, `"command":"approve"`) || strings.Contains(menu, `"command":"forget"`) {
		t.Errorf("Ann's menu is %s", menu)
	}
}

// waitShown waits until the newest message of the bot to Ann says something.
func waitShown(t *testing.T, fake *faketelegram.Server, text string) {
	t.Helper()
	for end := time.Now().Add(patient); ; time.Sleep(10 * time.Millisecond) {
		messages := fake.Messages(7, fake.Me().ID)
		if len(messages) > 0 && strings.Contains(messages[len(messages)-1].Text, text) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("the chat has %+v", messages)
		}
	}
}

// loadFile loads a configuration in an empty folder.
func loadFile(t *testing.T, text string) *config.Config {
	t.Helper()
	t.Chdir(t.TempDir())
	if err := os.WriteFile("lingserve.yaml", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := config.Load(nil, []string{"LINGSERVE_DEMO_PACE=0"})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestAChannelThatCannotStartSaysWhy(t *testing.T) { // CH-179
	for _, test := range []struct{ name, file, want string }{
		{
			"no token", `channels: {telegram: {}}`,
			"lingserve.yaml:1:12: channels.telegram: token is missing; set it to the one that @BotFather shows",
		},
		{
			"a token that is none", `channels: {telegram: {token: hello}}`,
			"lingserve.yaml:1:12: channels.telegram: the token is invalid; expected a number, a colon and letters, as @BotFather shows it",
		},
		{
			"no callback", `channels: {a: {type: webhook, accounts: {work: {secret: ` + hookSecret + `}}}}`,
			"lingserve.yaml:1:42: channels.a.accounts.work: callback is missing; set it to the https address for replies, or set ack to result",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := loadFile(t, test.file)
			if _, err := makeChannel(c, c.Channels[0], platform.Settings{}, nil); err == nil || err.Error() != test.want {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestEveryTypeOfChannelCanBeMadeOrIsPartOfTheProgram(t *testing.T) { // CH-07
	inside := map[string]bool{"web": true, "cli": true}
	for _, name := range config.ChannelTypes() {
		if (channelMakers[name] == nil) != inside[name] {
			t.Errorf("the type %s is not made by anybody, or by two", name)
		}
	}
}

func TestPairsAreApprovedWhileTheServerRuns(t *testing.T) { // CH-101
	b, dir := newBackend(t), t.TempDir()
	p := serverWith(t, dir, b.settings("dm: {policy: pairing}"))
	b.say(p, "msg-1", "hello")
	_, code, ok := strings.Cut(strings.TrimSuffix(b.taken(1)[0].Text, "`"), "pair approve ")
	if !ok {
		t.Fatalf("got %+v", b.back.Taken())
	}
	run := func(args ...string) string {
		var out bytes.Buffer
		t.Chdir(dir)
		if status := command(append([]string{"channels"}, args...), nil, &out, &out); status != exitOK {
			t.Fatalf("%q: status %d: %s", args, status, &out)
		}
		return out.String()
	}
	if got := run("pair"); !strings.Contains(got, "hook") || !strings.Contains(got, "ann") || !strings.Contains(got, code) {
		t.Errorf("got %q", got)
	}
	if got := run("pair", "approve", strings.ToLower(code)); got != "ann is paired on hook\n" {
		t.Errorf("got %q", got)
	}
	// DC-13: the person is told, and the first message is answered.
	if got := b.taken(3); !strings.HasPrefix(got[1].Text, "You are paired") || !strings.Contains(got[2].Text, "hello") {
		t.Errorf("got %+v", got)
	}
	b.say(p, "msg-2", "hello again")
	if got := b.taken(4)[3]; !strings.Contains(got.Text, "hello again") {
		t.Errorf("got %+v", got)
	}
	if got := run("pair", "remove", "hook", "ann"); got != "removed the pairing of ann on hook\n" {
		t.Errorf("got %q", got)
	}
}
