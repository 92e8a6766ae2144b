// Command agui lets the client of AG-UI talk to the server as it is built from this tree, and says what it has understood that it should
// not have, or has not.
//
// It needs Node 20 and what npm install puts beside it; README.md says more.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/bench/peers/node"
	"github.com/lingserve/lingserve/bench/peers/product"
	"github.com/lingserve/lingserve/internal/upstream"
)

func main() {
	dir := flag.String("dir", "bench/peers/agui", "the folder of the client")
	only := flag.String("only", "", "only checks whose line has this in it")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	failed, err := run(ctx, *dir, *only)
	if err != nil {
		fmt.Fprintln(os.Stderr, "agui:", err)
		os.Exit(1)
	}
	if failed > 0 {
		fmt.Fprintf(os.Stderr, "agui: %d of the checks failed\n", failed)
		os.Exit(1)
	}
}

// configuration of the server: an agent whose model is scripted, workflows whose models are the built-in ones. Its streams are full of
// signs of life, and a log that is too long for its memory is cut.
const configuration = `
model: demo:demo
demo: {pace: 400}
providers:
  openai: {key: sk-peer, base_url: "%s/v1", models: [gpt-script]}
agents:
  assistant: {model: "openai:gpt-script", ask_always: [tape.anchors]}
run: {max_log: 64KiB}
http: {keepalive: 5ms}
retries: {attempts: 1}
log: {level: debug}
grace: 300ms
`

// documents are workflows whose bots write what they are told to.
var documents = map[string]string{
	"document.yaml": `
name: document
model: openai:gpt-script
input: {type: object, required: [text], properties: {text: {type: string}}}
bots:
  writer: {message: "{{ input.text }}"}
`,
	"below.yaml": `
name: below
model: openai:gpt-script
input: {type: object, required: [left, right], properties: {left: {type: string}, right: {type: string}}}
bots:
  left: {message: "{{ input.left }}", root: a/b}
  right: {message: "{{ input.right }}", root: c}
  words: {message: "slow", root: words, format: text}
`,
}

func run(ctx context.Context, dir, only string) (failed int, err error) {
	if _, err := os.Stat(filepath.Join(dir, "node_modules")); err != nil {
		return 0, fmt.Errorf("the client is not installed: run npm install --prefix %s", dir)
	}
	temp, err := os.MkdirTemp("", "agui")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(temp)
	s, err := newStage(ctx, temp)
	if err != nil {
		return 0, err
	}
	defer s.close()
	for _, c := range checks {
		if !strings.Contains(c.name, only) {
			continue
		}
		wrong, err := s.play(ctx, dir, c)
		if err != nil {
			return failed, fmt.Errorf("%s: %w", c.name, err)
		}
		failed += report(c.name, wrong)
	}
	return failed, nil
}

// report prints the line of a check, and what is wrong below it.
func report(name string, wrong []string) (failed int) {
	if len(wrong) == 0 {
		fmt.Printf("ok    %s\n", name)
		return 0
	}
	fmt.Printf("FAIL  %s\n", name)
	for _, w := range wrong {
		fmt.Println("      " + strings.ReplaceAll(strings.TrimSpace(w), "\n", "\n      "))
	}
	return 1
}

// stage is the server, and the model's server that it asks.
type stage struct {
	upstream.Server
	http    *http.Server
	served  sync.WaitGroup
	temp    string
	program string
	config  string
	product *product.Server

	mu   sync.Mutex
	last upstream.Request
}

func newStage(ctx context.Context, temp string) (*stage, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &stage{temp: temp, config: fmt.Sprintf(configuration, "http://"+l.Addr().String())}
	s.Script = s.answer
	s.http = &http.Server{Handler: &s.Server, ReadHeaderTimeout: time.Minute}
	s.served.Go(func() { _ = s.http.Serve(l) }) // until it is closed
	workflows := filepath.Join(temp, "workflows")
	err = os.CopyFS(workflows, os.DirFS("workflows"))
	for name, text := range documents {
		err = errors.Join(err, os.WriteFile(filepath.Join(workflows, name), []byte(text), 0o600))
	}
	if err == nil {
		s.program, err = product.Build(ctx, temp)
	}
	if err == nil {
		s.product, err = s.start(ctx)
	}
	if err != nil {
		s.close()
	}
	return s, err
}

// start starts a server of its own.
func (s *stage) start(ctx context.Context, args ...string) (*product.Server, error) {
	return product.Start(ctx, s.program, s.temp, s.config, append([]string{"--workflows", filepath.Join(s.temp, "workflows")}, args...)...)
}

func (s *stage) close() {
	if s.product != nil {
		_ = s.product.Stop()
	}
	_ = s.http.Close()
	s.served.Wait()
}

// game is a check that is played: its client, and what was found wrong.
type game struct {
	*stage
	ctx    context.Context
	script *node.Script
	thread string
	wrong  []string
	loud   bool // the client complains on its console, and may
}

type job map[string]any

// check is one thing that is to be so.
type check struct {
	name string
	play func(g *game)
}

// play plays a check, with a client of its own.
func (s *stage) play(ctx context.Context, dir string, c check) (wrong []string, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, 4*node.Patience, errors.New("it did not end"))
	defer cancel()
	g := &game{stage: s, ctx: ctx, thread: strings.ReplaceAll(c.name, " ", "-")}
	if g.script, err = node.Start(ctx, filepath.Join(dir, "agent.mjs"), s.product.URL); err != nil {
		return nil, err
	}
	defer func() {
		if cause := recover(); cause != nil {
			g.script.Stop()
			broken, ok := cause.(error)
			if !ok {
				panic(cause)
			}
			err = broken
			return
		}
		err = g.script.End()
	}()
	c.play(g)
	return g.wrong, nil
}

// do lets the client do something and returns what it has then.
func (g *game) do(what string, more job) *seen {
	j := job{"do": what, "thread": g.thread}
	maps.Copy(j, more)
	got := new(seen)
	if err := g.script.Ask(g.ctx, j, got); err != nil {
		panic(err)
	}
	if got.Error != nil {
		g.fail("%s: the script throws %s: %s", what, got.Error.Type, got.Error.Message)
	}
	if len(got.Complaints) > 0 && !g.loud {
		g.fail("%s: the client complains: %q", what, got.Complaints)
	}
	return got
}

// say says something to what stands at a path, in the check's thread.
func (g *game) say(path, text string, more ...job) *seen {
	j := job{"text": text}
	for _, m := range more {
		maps.Copy(j, m)
	}
	g.do("open", job{"path": path})
	return g.do("run", j)
}

func (g *game) fail(format string, args ...any) {
	g.wrong = append(g.wrong, fmt.Sprintf(format, args...))
}

// is compares what is wanted with what there is.
func (g *game) is(what string, want, got any) {
	if diff := cmp.Diff(want, got); diff != "" {
		if len(diff) > 2000 {
			diff = diff[:2000] + "…"
		}
		g.fail("%s: want (-), got (+)\n%s", what, diff)
	}
}

// same compares JSON texts.
func (g *game) same(what, want, got string) {
	var a, b any
	if json.Unmarshal([]byte(want), &a) != nil || json.Unmarshal([]byte(got), &b) != nil {
		g.fail("%s: want %.200s, got %.200s", what, want, got)
		return
	}
	g.is(what, a, b)
}

// run is what the server says of a run.
func (g *game) run(id string) (status, result string) {
	_, text := g.get("GET", "/v1/runs/"+id, "")
	var d struct {
		Status string
		Result json.RawMessage
	}
	if err := json.Unmarshal([]byte(text), &d); err != nil {
		g.fail("the run %q: %s", id, text)
	}
	return d.Status, string(d.Result)
}

// get asks the server without the client.
func (g *game) get(method, path, body string) (status int, text string) {
	req, err := http.NewRequestWithContext(g.ctx, method, g.product.URL+path, strings.NewReader(body))
	if err != nil {
		panic(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		panic(err)
	}
	defer resp.Body.Close()
	all, err := io.ReadAll(resp.Body)
	if err != nil {
		panic(err)
	}
	return resp.StatusCode, string(all)
}

// seen is what a client has understood.
type seen struct {
	Run      string   `json:"run"`
	Answers  []int    `json:"answers"`
	Events   []string `json:"events"` // their types; of several in a row, one
	Notes    []note   `json:"notes"`
	Outcome  string   `json:"outcome"`
	Result   string   `json:"result"`
	State    string   `json:"state"`
	Failed   *failure `json:"failed"`   // what a RUN_ERROR says
	Rejected *failure `json:"rejected"` // what the run was rejected with
	Usage    []struct {
		Provider, Model           string
		InputTokens, OutputTokens int
	} `json:"usage"`
	Messages   []message `json:"messages"`
	Interrupts []struct {
		ID, Reason, Message, ToolCallID, ExpiresAt string
		ResponseSchema                             map[string]any
	} `json:"interrupts"`
	Parts []seen `json:"parts"`

	Error *struct {
		Type, Message string
	} `json:"error"` // of the script
	Complaints []string `json:"complaints"`
}

type note struct {
	Name  string          `json:"name"`
	Value json.RawMessage `json:"value"`
}

type failure struct {
	Message string `json:"message"`
	Code    string `json:"code"`
	Status  int    `json:"status"`
}

type message struct {
	ID         string `json:"id"`
	Role       string `json:"role"`
	Content    string `json:"content"`
	ToolCallID string `json:"toolCallId"`
	ToolCalls  []struct {
		ID       string `json:"id"`
		Function struct {
			Name      string `json:"name"`
			Arguments string `json:"arguments"`
		} `json:"function"`
	} `json:"toolCalls"`
}

// said are the messages as one reads them.
func (s *seen) said() (list []string) {
	for _, m := range s.Messages {
		var line strings.Builder
		line.WriteString(m.Role + ": " + m.Content)
		for _, c := range m.ToolCalls {
			line.WriteString(" " + c.Function.Name + c.Function.Arguments)
		}
		list = append(list, line.String())
	}
	return list
}
