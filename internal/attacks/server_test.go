//go:build nightly

package attacks

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/lingserve/lingserve/internal/fakecallback"
	"github.com/lingserve/lingserve/internal/fakefeishu"
	"github.com/lingserve/lingserve/internal/fakeproviders"
	"github.com/lingserve/lingserve/internal/fakeslack"
	"github.com/lingserve/lingserve/internal/faketelegram"
	"github.com/lingserve/lingserve/internal/program"
)

// Secrets of the server under attack. Each has a word that stands nowhere else.
const (
	canary         = "CANARY"
	hookSecret     = "whsec_CANARYhookCANARYhookCANARYhookxx"
	callbackSecret = "whsec_CANARYbackCANARYbackCANARYbackxx"
	telegramToken  = "4242:CANARYtelegram"
	slackToken     = "xoxb-CANARYslack"
	slackSecret    = "CANARYslacksecret"
	feishuSecret   = "CANARYfeishuapp"
	feishuKey      = "CANARYfeishukey-01"
	feishuToken    = "CANARYfeishutoken"
	mcpSecret      = "Bearer CANARYmcp"
	fileSecret     = "CANARYfile" // what stands in files outside of the folders that are served
)

// keyOf is the key that a provider's server is asked with.
func keyOf(provider string) string { return "sk-CANARY" + provider + "0123456789" }

// victim is a server in a process of its own, and everything that it talks to in this one.
type victim struct {
	*program.Process
	folder string // holds data, workflows and workspace
	seen   text   // all that was answered
	http   *http.Client

	model    *fakeproviders.Server
	answers  sync.Map // by a word of the message: fakeproviders.Answer, or func(fakeproviders.Request) fakeproviders.Answer
	words    atomic.Int64
	requests text // bodies that the model's server was sent
	back     *fakecallback.Server
	telegram *faketelegram.Server
	slack    *fakeslack.Server
	feishu   *fakefeishu.Server

	stops  []func() // of what it talks to, in the order of starting
	closed bool
}

// shared is the server that most tests attack, one after the other and at the same time: what one of them does must not matter to
// the others.
var shared once

type once struct {
	sync.Mutex
	v *victim
}

// server is the shared one.
func server(t testing.TB) *victim {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	if shared.v == nil {
		folder, err := os.MkdirTemp("", "lingserve-victim-")
		if err != nil {
			t.Fatal(err)
		}
		shared.v = start(t, folder, setup{})
	}
	return shared.v
}

func (o *once) end() error {
	if o.v == nil {
		return nil
	}
	defer os.RemoveAll(o.v.folder)
	return o.v.end()
}

// setup is what differs from test to test.
type setup struct {
	config func(string) string // changes it
	args   []string            // more flags
	env    []string            // more variables, NAME=value
}

// ownServer is one for a test alone.
func ownServer(t testing.TB, s setup) *victim {
	t.Helper()
	v := start(t, t.TempDir(), s)
	t.Cleanup(func() {
		if err := v.end(); err != nil {
			t.Errorf("%v\n%s", err, v.Log.Tail())
		}
	})
	return v
}

// workflows of the server under attack.
var workflows = map[string]string{
	"text": `
name: text
input: {type: object, required: [q], additionalProperties: false, properties: {q: {type: string, minLength: 1}}}
bots:
  writer: {prompt: "Answer.", message: "{{ input.q }}", root: answer, format: text}
`,
	"json": `
name: json
input: {type: object, required: [q], properties: {q: {type: string}}}
bots:
  writer: {prompt: "Answer in JSON.", message: "{{ input.q }}", root: doc}
`,
	"page": `
name: page
input: {type: object, required: [q], properties: {q: {type: string}}}
bots:
  writer: {prompt: "Write a page.", message: "{{ input.q }}", root: page, format: html}
`,
}

// configuration has every door, and a secret in every setting that is one.
func (v *victim) configuration(model, mcp, telegram, slack, feishu, back, door string) string {
	o := v.feishu.Options()
	return `
addr: 127.0.0.1:0
grace: 10ms
model: openai:m
inline_workflows: true
log: {level: debug, format: json}
retries: {attempts: 1}
providers:
  openai: {key: "` + keyOf("openai") + `", base_url: "` + model + `/v1", models: [m]}
  azure: {key: "` + keyOf("azure") + `", base_url: "` + model + `", models: [m]}
  coze: {key: "` + keyOf("coze") + `", base_url: "` + model + `", models: [m]}
  ollama: {key: "` + keyOf("ollama") + `", base_url: "` + model + `", models: [m]}
  deepseek: {key: "` + keyOf("deepseek") + `", base_url: "` + model + `/v1", models: [m]}
  qwen: {key: "` + keyOf("qwen") + `", base_url: "` + model + `/v1", models: [m]}
  moonshot: {key: "` + keyOf("moonshot") + `", base_url: "` + model + `/v1", models: [m]}
  openrouter: {key: "` + keyOf("openrouter") + `", base_url: "` + model + `/v1", models: [m]}
  own: {kind: openai, key: "` + keyOf("own") + `", base_url: "` + model + `/v1", models: [m]}
agents:
  assistant: {ask_never: [mcp.red.page]}
mcp:
  red: {url: "` + mcp + `", authorization: "` + mcpSecret + `"}
channels:
  hook:
    type: webhook
    secret: ` + hookSecret + `
    callback: ` + back + `
    callback_secret: ` + callbackSecret + `
    allow_insecure: true
    allow_private: [127.0.0.1]
    agent: assistant
    dm: {policy: open}
  telegram:
    token: "` + telegramToken + `"
    api: ` + telegram + `
    mode: webhook
    public_url: ` + door + `
    agent: assistant
    dm: {policy: open}
  slack:
    token: ` + slackToken + `
    signing_secret: ` + slackSecret + `
    api: ` + slack + `/api/
    agent: assistant
    dm: {policy: open}
  feishu:
    app_id: ` + o.AppID + `
    app_secret: ` + feishuSecret + `
    encrypt_key: ` + feishuKey + `
    api: ` + feishu + `
    agent: assistant
    dm: {policy: open}
`
}

// start starts a server in a folder, with everything that it talks to.
func start(t testing.TB, folder string, s setup) *victim {
	t.Helper()
	v := &victim{folder: folder}
	started := false
	defer func() {
		if !started { // and the test has failed, which must leave nothing behind
			if v.Process != nil {
				v.Kill()
			}
			for _, stop := range v.stops {
				stop()
			}
		}
	}()
	site := func(h http.Handler) string {
		server := httptest.NewServer(h)
		v.stops = append(v.stops, server.Close)
		return server.URL
	}
	transport := &http.Transport{MaxIdleConnsPerHost: 100}
	v.http = &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	v.stops = append(v.stops, transport.CloseIdleConnections)
	v.model = &fakeproviders.Server{Script: v.script, Models: []string{"m"}}
	v.back = fakecallback.New(callbackSecret)
	v.telegram = faketelegram.New(&faketelegram.Options{Token: telegramToken, Deliver: v.http})
	v.slack = fakeslack.New(&fakeslack.Options{Token: slackToken, Secret: slackSecret, Deliver: v.http})
	v.feishu = fakefeishu.New(&fakefeishu.Options{AppSecret: feishuSecret, Key: feishuKey, Token: feishuToken, Deliver: v.http})
	door := &door{}
	config := v.configuration(site(v.model), site(v.tools()), site(v.telegram), site(v.slack), site(v.feishu), site(v.back), site(door))
	for _, c := range []io.Closer{v.telegram, v.slack, v.feishu} {
		v.stops = append(v.stops, func() { _ = c.Close() })
	}
	if s.config != nil {
		config = s.config(config)
	}
	for name, file := range workflows {
		v.file(t, filepath.Join("workflows", name+".yaml"), file)
	}
	v.file(t, "workspace/AGENTS.md", "You work in a folder.\n")
	v.file(t, "workspace/.agents/skills/invoices/SKILL.md", "---\nname: invoices\ndescription: How invoices are numbered.\n---\nBy year.\n")
	v.file(t, "secret.txt", fileSecret)
	v.file(t, "lingserve.yaml", config)

	var err error
	if v.Process, err = program.Start(t.Context(), binaryPath(t), folder, &program.Options{Args: s.args, Env: s.env}); err != nil {
		t.Fatal(err)
	}
	door.to.Store(&v.URL)
	v.feishu.SetURL(v.URL + "/v1/channels/feishu/webhook")
	v.eventually(t, "the channels serve", func() bool { return strings.Count(v.Log.String(), `"channel is connected"`) >= 3 })
	started = true
	return v
}

// file writes a file into the victim's folder.
func (v *victim) file(t testing.TB, name, content string) {
	t.Helper()
	name = filepath.Join(v.folder, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// end ends the server and says what was wrong with it: it was gone before, did not end cleanly, or has made a mistake.
func (v *victim) end() error {
	if v.closed {
		return nil
	}
	v.closed = true
	defer func() {
		for _, stop := range v.stops {
			stop()
		}
	}()
	if !v.Alive() {
		return fmt.Errorf("it was gone before its end: %v\n%s", v.Wait(), v.Log.Tail())
	}
	if err := v.Stop(); err != nil {
		return err
	}
	for _, mistake := range []string{"panicked", "superfluous", "http: panic", "fatal error", "runtime error", "goroutine ", "DATA RACE"} {
		if log := v.Log.String(); strings.Contains(log, mistake) {
			return fmt.Errorf("it has made a mistake: %q", around(log, strings.Index(log, mistake)))
		}
	}
	if log := v.Log.String(); strings.Contains(log, canary) {
		return fmt.Errorf("a secret is in the log: %q", around(log, strings.Index(log, canary)))
	}
	if seen := v.seen.String(); strings.Contains(seen, canary) {
		return fmt.Errorf("a secret is in an answer: %q", around(seen, strings.Index(seen, canary)))
	}
	return nil
}

// door leads to the server from an address that is known before it listens.
type door struct{ to atomic.Pointer[string] }

func (d *door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	to := d.to.Load()
	if to == nil {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	target, err := url.Parse(*to)
	if err != nil {
		panic(err)
	}
	httputil.NewSingleHostReverseProxy(target).ServeHTTP(w, r)
}

// script answers as the test wants that has put its word into the message.
func (v *victim) script(r fakeproviders.Request) (a fakeproviders.Answer) {
	v.requests.Write(append(bytes.Clone(r.Body), '\n'))
	a.Text = "blue"
	v.answers.Range(func(word, answer any) bool {
		if !bytes.Contains(r.Body, []byte(word.(string))) {
			return true
		}
		if f, ok := answer.(func(fakeproviders.Request) fakeproviders.Answer); ok {
			a = f(r)
		} else {
			a = answer.(fakeproviders.Answer)
		}
		return false
	})
	return a
}

// answer makes the model answer so to a message that has the word.
func (v *victim) answer(answer any) (word string) {
	word = fmt.Sprintf("word%dend", v.words.Add(1))
	v.answers.Store(word, answer)
	return word
}

// tools is a server of one tool, which returns its input.
func (v *victim) tools() http.Handler {
	s := sdk.NewServer(&sdk.Implementation{Name: "red", Version: "1"}, nil)
	type in struct {
		Name string `json:"name,omitempty"`
	}
	sdk.AddTool(s, &sdk.Tool{Name: "page", Description: "Reads a page."}, func(_ context.Context, _ *sdk.CallToolRequest, in in) (*sdk.CallToolResult, any, error) {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: in.Name}}}, nil, nil
	})
	next := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, nil)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != mcpSecret {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// text collects what many write.
type text struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *text) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *text) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func around(text string, at int) string { return text[max(0, at-200):min(len(text), at+200)] }

// eventually waits for what the other process does, until the deadline of the tests.
func (v *victim) eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	for ; !is(); time.Sleep(time.Millisecond) {
		if !v.Alive() {
			t.Fatalf("the server has ended; still waiting: %s\n%s", what, v.Log.Tail())
		}
	}
}

// reply is an answer that was read to its end.
type reply struct {
	status int
	header http.Header
	body   string
	err    error // that ended the body
}

// do sends a request and reads the answer. Header lines are "Name: value"; the path is sent as it is.
func (v *victim) do(t testing.TB, method, path, body string, header ...string) reply {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, v.URL+"/", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if body == "" {
		req.Body = http.NoBody
	} else {
		req.Header.Set("Content-Type", "application/json")
	}
	req.URL.Opaque = "//" + v.Addr() + path // not cleaned, not escaped
	for _, line := range header {
		name, value, _ := strings.Cut(line, ": ")
		req.Header[name] = []string{value}
		if name == "Host" {
			req.Host = value
			delete(req.Header, name)
		}
	}
	return v.roundTrip(t, req)
}

// roundTrip sends a request and reads the answer, which must have no secret.
func (v *victim) roundTrip(t testing.TB, req *http.Request) reply {
	t.Helper()
	resp, err := v.http.Do(req)
	if err != nil {
		t.Fatalf("%s %s: %v", req.Method, clip(req.URL.String()), err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	v.seen.Write(fmt.Appendln(nil, resp.Header))
	v.seen.Write(append(b, '\n'))
	return reply{resp.StatusCode, resp.Header, string(b), err}
}

func clip(s string) string {
	if len(s) > 100 {
		return s[:100] + "…"
	}
	return s
}

func itoa(n int) string { return strconv.Itoa(n) }

// quoted writes a text as JSON.
func quoted(s string) string {
	b, _ := json.Marshal(s)
	return string(b)
}

// run is the body of a request for a workflow.
func run(workflow, input string) string {
	return `{"workflow":` + quoted(workflow) + `,"input":` + quoted(input) + `}`
}
