//go:build nightly

package faults

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"go.uber.org/goleak"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/flow"
	"github.com/lingserve/lingserve/internal/fakeproviders"
	"github.com/lingserve/lingserve/web"
)

// canary is the key that the model's server is asked with. It must never be seen anywhere else (SE-06).
const canary = "sk-CANARY-0123456789abcdef"

// workflows are those that the tests run; their inputs have one property, so that a plain string will do.
var workflows = fstest.MapFS{
	"text.yaml": {Data: []byte(`
name: text
input: {type: object, required: [q], additionalProperties: false, properties: {q: {type: string, minLength: 1}, n: {type: integer, minimum: 1}}}
bots:
  writer: {prompt: "Answer.", message: "{{ input.q }}", root: answer, format: text}
`)},
	"json.yaml": {Data: []byte(`
name: json
input: {type: object, required: [q], properties: {q: {type: string}}}
bots:
  writer: {prompt: "Answer in JSON.", message: "{{ input.q }}", root: doc}
`)},
	"typed.yaml": {Data: []byte(`
name: typed
input: {type: object, required: [q], properties: {q: {type: string}}}
bots:
  writer:
    prompt: "Answer in JSON."
    message: "{{ input.q }}"
    root: doc
    schema: {type: object, properties: {n: {type: integer}}}
`)},
	"chain.yaml": {Data: []byte(`
name: chain
input: {type: object, required: [q], properties: {q: {type: string}}}
bots:
  writer: {prompt: "Answer.", message: "{{ input.q }}", root: answer, format: text, model: ["openai:a", "coze:b", "ollama:c"]}
`)},
	"again.yaml": {Data: []byte(`
name: again
input: {type: object, required: [q], properties: {q: {type: string}}}
bots:
  writer:
    prompt: "Answer in JSON."
    message: "{{ input.q }}"
    root: doc
    schema: {type: object, required: [n], properties: {n: {type: integer}}}
    on_invalid: retry
`)},
	"page.yaml": {Data: []byte(`
name: page
input: {type: object, required: [q], properties: {q: {type: string}}}
bots:
  writer: {prompt: "Answer.", message: "{{ input.q }}", root: page, format: html}
`)},
	"pair.yaml": {Data: []byte(`
name: pair
input: {type: object, required: [q], properties: {q: {type: string}}}
bots:
  left: {prompt: "Answer.", message: "left {{ input.q }}", root: left, format: text}
  right: {prompt: "Answer.", message: "right {{ input.q }}", root: right, format: text}
`)},
}

// setup is what differs from test to test.
type setup struct {
	script  func(fakeproviders.Request) fakeproviders.Answer
	handler func(model http.Handler) http.Handler // goes around the model's server
	baseURL string                                // scheme and host, instead of those of the model's server
	by      *provider                             // whose model is the default; openAI where nothing is said
	server  func(*http.Server)                    // of the model's server
	web     func(*web.Options)
	limits  adapter.Timeouts
	retries adapter.Retries
	event   int // MaxEvent
	more    []flow.Workflow
	address string                          // that the product listens on
	in      func(func())                    // where it does so
	listen  func(net.Listener) net.Listener // goes around its listener
}

// product is everything that a user has, and the model's server behind it.
type product struct {
	t     testing.TB
	model *fakeproviders.Server
	web   *web.Server
	url   string
	http  *http.Client
	log   *text
	seen  *text // all that clients have been answered

	providers    []io.Closer
	modelAddr    string
	modelServer  *http.Server
	webServer    *http.Server
	fromProduct  connections // at the model's server
	fromClients  connections // at the product
	limits       adapter.Timeouts
	serving      sync.WaitGroup
	clients      sync.WaitGroup // that read in goroutines of their own
	leaks        goleak.Option
	closeOnce    sync.Once
	clientsClose func()
}

// start makes a product that ends with the test, which fails if anything of it is left.
func start(t testing.TB, s setup) *product {
	t.Helper()
	p := &product{
		t: t, model: &fakeproviders.Server{Script: s.script}, log: new(text), seen: new(text), limits: s.limits,
		leaks: goleak.IgnoreCurrent(),
	}

	var handler http.Handler = p.model
	if s.handler != nil {
		handler = s.handler(p.model)
	}
	p.modelServer = &http.Server{Handler: handler, ConnState: p.fromProduct.state, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, 0)}
	if s.server != nil {
		s.server(p.modelServer)
	}
	ml, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p.modelAddr = ml.Addr().String()
	p.serving.Go(func() { p.modelServer.Serve(ml) })

	base := s.baseURL
	if base == "" {
		base = "http://" + p.modelAddr
	}
	if s.by == nil {
		s.by = openAI
	}
	if s.retries == (adapter.Retries{}) {
		s.retries.Base = time.Millisecond // three attempts, as by default, but soon
	}
	models := &adapter.Registry{Default: s.by.model("m"), Timeouts: s.limits, Retries: s.retries}
	p.providers = register(t, models, base, s.event, s.limits)

	registry, err := flow.OpenFS("test", workflows)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range s.more {
		registry.Register(w)
	}
	o := web.Options{
		Workflows: registry, Models: models,
		Log: slog.New(slog.NewTextHandler(p.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	if s.web != nil {
		s.web(&o)
	}
	if p.web, err = web.New(o); err != nil {
		t.Fatal(err)
	}
	if s.address == "" {
		s.address = "127.0.0.1:0"
	}
	if s.in == nil {
		s.in = func(f func()) { f() }
	}
	var l net.Listener
	s.in(func() { l, err = p.web.Listen(t.Context(), s.address) })
	if err != nil {
		t.Fatal(err)
	}
	p.url = "http://" + l.Addr().String()
	if s.listen != nil {
		l = s.listen(l)
	}
	p.webServer = p.web.HTTPServer()
	p.webServer.ConnState = p.fromClients.state
	p.serving.Go(func() {
		if err := p.webServer.Serve(l); err != http.ErrServerClosed {
			t.Errorf("serve: %v", err)
		}
	})
	transport := &http.Transport{MaxIdleConnsPerHost: 100}
	p.http = &http.Client{Transport: transport}
	p.clientsClose = transport.CloseIdleConnections
	t.Cleanup(p.close)
	return p
}

// close ends the product and looks at what it leaves.
func (p *product) close() {
	p.closeOnce.Do(func() {
		if err := p.web.Close(); err != nil {
			p.t.Error(err)
		}
		for _, c := range p.providers {
			if err := c.Close(); err != nil {
				p.t.Error(err)
			}
		}
		p.clients.Wait()
		p.clientsClose()
		p.webServer.Close()
		// When all runs have ended nothing may go on at the model's server, without our doing anything about it.
		p.eventually("the model's server is left in peace", func() bool { return p.model.Open() == 0 && p.fromProduct.busy() == 0 })
		adapter.Transport(adapter.TransportOptions{Connect: p.limits.Connect}).CloseIdleConnections()
		p.modelServer.Close()
		p.serving.Wait()
		var leaked error
		p.eventually("no goroutine is left", func() bool { // which looks again for a moment only
			leaked = goleak.Find(p.leaks)
			return leaked == nil
		})
		if leaked != nil {
			p.t.Error(leaked)
		}
		for where, text := range map[string]string{"an answer": p.seen.String(), "the log": p.log.String()} {
			if i := strings.Index(text, "CANARY"); i >= 0 {
				p.t.Errorf("the key is in %s: %q", where, around(text, i))
			}
		}
		if text := p.seen.String(); strings.Contains(text, p.modelAddr) {
			p.t.Errorf("the address of the model's server is in an answer: %q", around(text, strings.Index(text, p.modelAddr)))
		}
		for _, mistake := range []string{"panic in a handler", "superfluous", "http: panic"} {
			if text := p.log.String(); strings.Contains(text, mistake) {
				p.t.Errorf("the server has made a mistake: %q", around(text, strings.Index(text, mistake)))
			}
		}
	})
}

// idle waits until nothing of any run goes on: the model's server writes nothing, and has no connection in use.
func (p *product) idle() {
	p.t.Helper()
	p.eventually("the model's server has nothing more to do", func() bool { return p.model.Open() == 0 && p.fromProduct.busy() == 0 })
}

// eventually waits for what another goroutine does.
func (p *product) eventually(what string, is func() bool) {
	p.t.Helper()
	eventually(p.t, what, is)
}

func eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Errorf("never: %s", what)
			return
		}
	}
}

// connections counts those of a server.
type connections struct {
	mu     sync.Mutex
	states map[net.Conn]http.ConnState
}

func (c *connections) state(conn net.Conn, s http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.states == nil {
		c.states = map[net.Conn]http.ConnState{}
	}
	if s == http.StateClosed || s == http.StateHijacked {
		delete(c.states, conn)
	} else {
		c.states[conn] = s
	}
}

// busy counts the connections on which something is being answered, open all of them.
func (c *connections) busy() (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.states {
		if s == http.StateActive {
			n++
		}
	}
	return n
}

func (c *connections) open() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.states)
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

// held is how much memory the text takes.
func (l *text) held() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Cap()
}

func around(text string, at int) string { return text[max(0, at-100):min(len(text), at+100)] }

// request sends a request; header lines are "Name: value". The body of the answer is closed with the test at the latest.
func (p *product) request(ctx context.Context, method, path, body string, header ...string) (*http.Response, error) {
	var r io.Reader
	if body != "" {
		r = strings.NewReader(body)
	}
	req, err := http.NewRequestWithContext(ctx, method, p.url+path, r)
	if err != nil {
		return nil, err
	}
	for _, line := range header {
		name, value, _ := strings.Cut(line, ": ")
		req.Header.Set(name, value)
	}
	return p.http.Do(req)
}

// framings are what a run can be answered in.
var framings = []string{"text/event-stream", "application/x-ndjson", "application/json"}

// streams are those of events.
var streams = framings[:2]

// ask starts a run and reads its answer to the end.
func (p *product) ask(framing, body string, header ...string) *answer {
	p.t.Helper()
	return p.do("POST", "/v1/runs", body, append(header, "Accept: "+framing)...)
}

// do asks for anything and reads the answer to the end.
func (p *product) do(method, path, body string, header ...string) *answer {
	p.t.Helper()
	resp, err := p.request(p.t.Context(), method, path, body, header...)
	if err != nil {
		p.t.Fatalf("%s %s: %v", method, path, err)
	}
	return p.read(resp)
}

// read reads an answer to its end.
func (p *product) read(resp *http.Response) *answer {
	defer resp.Body.Close()
	a := readAnswer(resp)
	fmt.Fprintln(p.seen, resp.Header)
	p.seen.Write(a.body)
	return a
}

// ask is the body of a request for a workflow.
func run(workflow string) string { return `{"workflow":"` + workflow + `","input":"question"}` }
