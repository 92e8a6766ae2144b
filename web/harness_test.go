package web

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tmaxmax/go-sse"

	"github.com/lingserve/lingserve/access"
	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/bot"
	webchannel "github.com/lingserve/lingserve/channel/web"
	"github.com/lingserve/lingserve/flow"
	"github.com/lingserve/lingserve/internal/logtest"
	"github.com/lingserve/lingserve/internal/wording"
	"github.com/lingserve/lingserve/jsonuri"
	"github.com/lingserve/lingserve/ling"
	"github.com/lingserve/lingserve/run"
	"github.com/lingserve/lingserve/store"
	"github.com/lingserve/lingserve/store/db"
	"github.com/lingserve/lingserve/tube"
	"github.com/lingserve/lingserve/web/wire"
)

// scripted is a model that says what a test wants, and a provider of itself.
type scripted struct {
	calls    atomic.Int64
	canceled atomic.Int64
	// say yields the pieces of an answer; an error ends it. It is called once per request.
	say    func(ctx context.Context, name string, req adapter.Request, yield func(string) bool) error
	finish func() string // why an answer ended; nil is adapter.FinishStop
	// names are those that are listed; the name "missing" cannot be had.
	names []string
}

func (s *scripted) Names() []string { return s.names }

func (s *scripted) Model(name string) (adapter.Model, error) {
	if name == "missing" {
		return nil, errors.New("there is no such model; known are story and facts")
	}
	return &scriptedModel{s, name}, nil
}

type scriptedModel struct {
	*scripted
	name string
}

func (m *scriptedModel) Stream(ctx context.Context, req adapter.Request) iter.Seq2[adapter.Chunk, error] {
	return func(yield func(adapter.Chunk, error) bool) {
		m.calls.Add(1)
		defer func() {
			if ctx.Err() != nil {
				m.canceled.Add(1)
			}
		}()
		model := "test:" + m.name
		stopped := false
		err := m.say(ctx, m.name, req, func(text string) bool {
			ok := yield(adapter.Chunk{Text: text, Model: model}, nil)
			model = ""
			stopped = !ok
			return ok
		})
		switch {
		case stopped:
		case err != nil:
			yield(adapter.Chunk{}, err)
		default:
			if yield(adapter.Chunk{Usage: &adapter.Usage{PromptTokens: 4, CompletionTokens: 6, TotalTokens: 10}}, nil) {
				finish := adapter.FinishStop
				if m.finish != nil {
					finish = m.finish()
				}
				yield(adapter.Chunk{Finish: finish}, nil)
			}
		}
	}
}

// story is a document of some size, in pieces as a model sends them.
func story(sections int) (text string, pieces []string) {
	type section struct {
		Title string `json:"title"`
		Body  string `json:"body"`
		N     int    `json:"n"`
	}
	var doc struct {
		Title    string    `json:"title"`
		Sections []section `json:"sections"`
	}
	doc.Title = `Why "the sky" is blue: ½ ☀ 🌈`
	for i := range sections {
		doc.Sections = append(doc.Sections, section{"Section\n" + strconv.Itoa(i), strings.Repeat("Light is scattered by air. é\\ ", 4), i})
	}
	whole, _ := json.Marshal(doc)
	text = string(whole)
	for i := 0; i < len(text); i += 7 {
		pieces = append(pieces, text[i:min(i+7, len(text))])
	}
	return text, pieces
}

// question is the schema of an input with one string.
var question = json.RawMessage(`{"type":"object","required":["question"],"additionalProperties":false,
	"properties":{"question":{"type":"string","minLength":1,"maxLength":100},"level":{"type":"integer","minimum":1}}}`)

// chatWorkflow asks one bot, which writes below the root "article".
func chatWorkflow() flow.Workflow {
	return flow.Func("chat", "Answers a question.", question, func(ctx context.Context, m *ling.Manager, input map[string]any) error {
		b, err := m.CreateBot("writer", "article", nil)
		if err != nil {
			return err
		}
		return b.Chat(textMessage(input["question"].(string)))
	})
}

// stepper is a workflow whose runs do what a test tells them to.
type stepper struct {
	mu   sync.Mutex
	runs []*stepped
	came chan *stepped
}

// stepped is one run of a stepper.
type stepped struct {
	m     *ling.Manager
	ctx   context.Context
	input map[string]any
	do    chan func(context.Context) error // run by the run; closing it ends the run
}

func newStepper() *stepper { return &stepper{came: make(chan *stepped, 10_000)} }

func (s *stepper) workflow(name string) flow.Workflow {
	return flow.Func(name, "", nil, func(ctx context.Context, m *ling.Manager, input map[string]any) error {
		st := &stepped{m: m, ctx: ctx, input: input, do: make(chan func(context.Context) error)}
		s.mu.Lock()
		s.runs = append(s.runs, st)
		s.mu.Unlock()
		s.came <- st
		for {
			select {
			case f, ok := <-st.do:
				if !ok {
					return nil
				}
				if f == nil {
					continue
				}
				if err := f(ctx); err != nil {
					return err
				}
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
	})
}

// started counts the runs.
func (s *stepper) started() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.runs)
}

// send lets the run append text to the string at a uri.
func (st *stepped) send(uri, text string) {
	st.do <- func(context.Context) error {
		_, err := st.m.Tube().Send(tube.Event{Kind: tube.Append, URI: []byte(uri), Value: []byte(text)})
		return err
	}
	st.do <- nil // it has been done
}

// set lets the run set the value at a uri.
func (st *stepped) set(uri, value string) {
	st.do <- func(context.Context) error {
		_, err := st.m.Tube().Send(tube.Event{Kind: tube.Set, URI: []byte(uri), Value: []byte(value)})
		return err
	}
	st.do <- nil
}

func (st *stepped) finish() { close(st.do) }

func (st *stepped) fail(err error) { st.do <- func(context.Context) error { return err } }

// bench is a server with a stepper ("steps") and a chat ("chat") on it.
type bench struct {
	t     testing.TB
	s     *Server
	steps *stepper
	model *scripted
	url   string
	http  *http.Client
	log   *logBuffer
	srv   *http.Server
	db    *db.DB // of a server with a data folder

	listener net.Listener

	down func()
}

// logBuffer keeps what was logged.
type logBuffer = logtest.Buffer

// newBench makes the server without connecting it to anything.
func newBench(t testing.TB, edit func(*Options)) *bench {
	t.Helper()
	_, pieces := story(3)
	b := &bench{t: t, steps: newStepper(), log: &logBuffer{}, model: &scripted{names: []string{"story", "facts"}}}
	b.model.say = func(ctx context.Context, _ string, _ adapter.Request, yield func(string) bool) error {
		for _, p := range pieces {
			if !yield(p) {
				break
			}
		}
		return nil
	}
	models := &adapter.Registry{Default: "test:story", Retries: adapter.Retries{Attempts: 1}}
	models.Register("test", b.model)
	workflows := new(flow.Registry)
	workflows.Register(b.steps.workflow("steps"))
	workflows.Register(chatWorkflow())
	log := slog.New(slog.NewTextHandler(b.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	o := Options{Options: run.Options{Workflows: workflows, Models: models, Log: log}, Version: "1.2.3"}
	if edit != nil {
		edit(&o)
	}
	if o.Data != "" && o.Runs == nil {
		d, err := db.Open(t.Context(), "sqlite:"+filepath.Join(o.Data, "lingserve.db"), nil)
		if err != nil {
			t.Fatal(err)
		}
		b.db, o.Runs = d, d.Runs()
		t.Cleanup(func() { _ = d.Close() })
	}
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	b.s = s
	return b
}

// serve puts the server behind a real socket of this machine.
func (b *bench) serve() *bench {
	b.t.Helper()
	l, err := b.s.Listen(b.t.Context(), "127.0.0.1:0")
	if err != nil {
		b.t.Fatal(err)
	}
	b.url = "http://" + l.Addr().String()
	transport := &http.Transport{MaxIdleConnsPerHost: 100}
	b.http = &http.Client{Transport: transport}
	b.serveOn(l, transport.CloseIdleConnections)
	return b
}

// servePipes puts the server behind connections in memory, for bubbles of fake time.
func (b *bench) servePipes() *bench {
	l := newPipeListener()
	b.url = "http://test.invalid"
	transport := &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return l.dial(ctx) },
	}
	b.http = &http.Client{Transport: transport}
	b.serveOn(l, transport.CloseIdleConnections)
	return b
}

func (b *bench) serveOn(l net.Listener, closeIdle func()) {
	b.srv, b.listener = b.s.HTTPServer(), l
	served := make(chan struct{})
	go func() {
		defer close(served)
		if err := b.srv.Serve(l); err != http.ErrServerClosed {
			b.t.Errorf("serve: %v", err)
		}
	}()
	var once sync.Once
	b.down = func() {
		once.Do(func() {
			if err := b.s.Close(); err != nil {
				b.t.Error(err)
			}
			closeIdle()
			b.srv.Close()
			<-served
			if b.db != nil {
				_ = b.db.Close()
			}
		})
	}
	b.t.Cleanup(b.down)
}

// pipeListener accepts connections in memory.
type pipeListener struct {
	conns chan net.Conn
	once  sync.Once
	done  chan struct{}
}

func newPipeListener() *pipeListener {
	return &pipeListener{conns: make(chan net.Conn), done: make(chan struct{})}
}

func (l *pipeListener) dial(ctx context.Context) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case l.conns <- server:
		return client, nil
	case <-l.done:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error   { l.once.Do(func() { close(l.done) }); return nil }
func (l *pipeListener) Addr() net.Addr { return &net.TCPAddr{} }

// do sends a request; header lines are "Name: value".
func (b *bench) do(method, path, body string, header ...string) *http.Response {
	b.t.Helper()
	resp, err := b.try(b.t.Context(), method, path, body, header...)
	if err != nil {
		b.t.Fatalf("%s %s: %v", method, path, err)
	}
	b.t.Cleanup(func() { resp.Body.Close() })
	return resp
}

func (b *bench) try(ctx context.Context, method, path, body string, header ...string) (*http.Response, error) {
	var r io.Reader
	if body != "" {
		r = strings.NewReader(body)
	}
	req, err := http.NewRequestWithContext(ctx, method, b.url+path, r)
	if err != nil {
		return nil, err
	}
	for _, line := range header {
		name, value, _ := strings.Cut(line, ": ")
		req.Header.Set(name, value)
	}
	return b.http.Do(req)
}

// start starts a run of the stepper and returns its stream and the run's other side.
func (b *bench) start(query string, header ...string) (*http.Response, *stepped) {
	b.t.Helper()
	resp := b.do("POST", "/v1/runs"+query, `{"workflow":"steps"}`, header...)
	if resp.StatusCode >= 300 {
		b.t.Fatalf("%d: %s", resp.StatusCode, text(b.t, resp))
	}
	return resp, <-b.steps.came
}

// startAsync starts a run of the stepper that nobody waits for.
func (b *bench) startAsync(header ...string) (id string, st *stepped) {
	b.t.Helper()
	resp, st := b.start("", append(header, "Prefer: respond-async")...)
	resp.Body.Close()
	return resp.Header.Get("X-Run-Id"), st
}

// text reads a body to its end.
func text(t testing.TB, resp *http.Response) string {
	t.Helper()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("read body: %v (after %q)", err, wording.Clip(string(body)))
	}
	resp.Body.Close()
	return string(body)
}

// document reads an aggregated document.
type document struct {
	Run, Session, Status string
	Reason               string
	Result               json.RawMessage
	Reserved             json.RawMessage
	Usage                map[string]adapter.Usage
	Models               map[string][]string
	Repairs              map[string]map[string]int
	Errors               []ling.ErrorData
}

func readDocument(t testing.TB, resp *http.Response) (d document) {
	t.Helper()
	body := text(t, resp)
	if resp.StatusCode >= 300 || resp.Header.Get("Content-Type") != "application/json" {
		t.Fatalf("%d %s: %s", resp.StatusCode, resp.Header.Get("Content-Type"), body)
	}
	if err := json.Unmarshal([]byte(body), &d); err != nil {
		t.Fatalf("%v in %s", err, body)
	}
	return d
}

func readProblem(t testing.TB, resp *http.Response) (p wire.Problem) {
	t.Helper()
	body := text(t, resp)
	if resp.Header.Get("Content-Type") != "application/problem+json" {
		t.Fatalf("%d %s: %s", resp.StatusCode, resp.Header.Get("Content-Type"), body)
	}
	if err := json.Unmarshal([]byte(body), &p); err != nil {
		t.Fatal(err)
	}
	if p.Status != resp.StatusCode || p.Title == "" || p.Type == "" || p.Detail == "" || p.Code == "" {
		t.Errorf("not a whole problem: %s", body)
	}
	return p
}

// events reads a stream of Server-Sent Events to its end; broken says that it was broken off. As in a browser, an event
// whose last line has not come does not count.
func events(r io.Reader) (list []sse.Event, broken bool) {
	body, err := io.ReadAll(r)
	complete := bytes.LastIndex(body, []byte("\n\n"))
	if complete < 0 {
		return nil, err != nil
	}
	for e, err := range sse.Read(bytes.NewReader(body[:complete+2]), &sse.ReadConfig{MaxEventSize: 64 << 20}) {
		if err != nil {
			panic(err)
		}
		list = append(list, e)
	}
	return list, err != nil
}

// liveEvents yields the events of a stream as they come.
func liveEvents(t testing.TB, resp *http.Response) (next func() sse.Event, stop func()) {
	t.Helper()
	pull, stop := iter.Pull2(iter.Seq2[sse.Event, error](sse.Read(resp.Body, nil)))
	return func() sse.Event {
		t.Helper()
		e, err, ok := pull()
		if !ok || err != nil {
			t.Fatalf("the stream has ended: %v", err)
		}
		return e
	}, stop
}

// view is what a client makes of a run's events: the document, and the names of the others.
type folded struct {
	doc      jsonuri.Document
	names    []string
	last     string
	terminal string
	pending  []sse.Event // of a snapshot that has not come to its end
	applied  int
}

// splitEventID takes the id of an event apart: <run>:<n>.
func splitEventID(id string) (run string, n uint64, err error) {
	run, number, _ := strings.Cut(id, ":")
	n, err = strconv.ParseUint(number, 10, 64)
	return run, n, err
}

// take applies an event as PROTOCOL and package tube say: events without an id of their own wait for the next that has one.
func (f *folded) take(t testing.TB, e sse.Event) {
	t.Helper()
	f.pending = append(f.pending, e)
	// A browser keeps the last id across connections; go-sse begins each with none.
	if e.LastEventID == f.last || e.LastEventID == "" {
		return
	}
	if f.last != "" {
		before, n1, err1 := splitEventID(f.last)
		after, n2, err2 := splitEventID(e.LastEventID)
		if err1 != nil || err2 != nil || before != after || n2 <= n1 {
			t.Errorf("id %q after %q", e.LastEventID, f.last)
		}
	}
	f.last = e.LastEventID
	for _, e := range f.pending {
		f.apply(t, e)
	}
	f.pending = nil
}

func (f *folded) apply(t testing.TB, e sse.Event) {
	t.Helper()
	f.applied++
	if e.Type != "" {
		f.names = append(f.names, e.Type)
		if e.Type == "finished" || e.Type == "canceled" {
			f.terminal = e.Type + e.Data
		}
		return
	}
	var d struct {
		URI   string
		Delta json.RawMessage
		Done  bool
	}
	if err := json.Unmarshal([]byte(e.Data), &d); err != nil {
		t.Fatalf("%v in %q", err, e.Data)
	}
	var err error
	switch {
	case d.Done:
	case d.Delta[0] == '"':
		err = f.doc.Append([]byte(d.URI), d.Delta[1:len(d.Delta)-1])
	default:
		err = f.doc.Set([]byte(d.URI), d.Delta)
	}
	if err != nil {
		t.Fatalf("%v in %q", err, e.Data)
	}
}

func (f *folded) json() string { return string(f.doc.AppendJSON(nil)) }

// fold reads a whole stream.
func fold(t testing.TB, resp *http.Response) *folded {
	t.Helper()
	f, _ := named(t, resp)
	return f
}

// eventually waits for something that another goroutine does; only for what no event tells. The deadline of the tests is the bound.
func eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Hour); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("never: " + what)
		}
	}
}

func textMessage(s string) bot.Message { return bot.Message{Text: s} }

// laneOf is the lane of a session of the one user of a server.
func laneOf(session string) string { return webchannel.SessionKey("", session) }

// latest is the run that the one user of a server started last in a session.
func (b *bench) latest(session string) *run.Run {
	b.t.Helper()
	r, err := b.s.runs.Latest(b.t.Context(), access.Local, session)
	if r == nil || err != nil {
		b.t.Fatal("no run: ", err)
	}
	return r
}

// expireRun stores a run of somebody that has expired.
func (b *bench) expireRun(id, owner string) {
	b.t.Helper()
	ctx := b.t.Context()
	_, err := b.s.o.Runs.Start(ctx, store.Run{ID: id, Owner: owner, Replica: "r", Attempt: 1, State: store.RunRunning}, nil)
	if err == nil {
		err = b.s.o.Runs.End(ctx, store.RunEnd{ID: id, Replica: "r", Attempt: 1, State: run.StatusCompleted, Expires: time.Now().Add(-time.Second)})
	}
	if err != nil {
		b.t.Fatal(err)
	}
}

// putKey lets a key lead to a run.
func (b *bench) putKey(key string, req *run.Request, id string) {
	b.t.Helper()
	k := store.IdempotencyKey{Key: key, Hash: req.Hash(), Run: id, Expires: time.Now().Add(time.Hour)}
	if err := b.s.o.Runs.SetKey(b.t.Context(), k); err != nil {
		b.t.Fatal(err)
	}
}
