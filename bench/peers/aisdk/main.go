// Command aisdk lets the AI SDK's chats of versions 5, 6 and 7 talk to the server as it is built from this tree, and says what they have
// understood that they should not have, or have not.
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
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/bench/peers/node"
	"github.com/lingserve/lingserve/bench/peers/product"
	"github.com/lingserve/lingserve/internal/upstream"
	"github.com/lingserve/lingserve/jsonuri"
)

func main() {
	dir := flag.String("dir", "bench/peers/aisdk", "the folder of the clients")
	only := flag.String("only", "", "only checks whose line has this in it")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	failed, err := run(ctx, *dir, *only)
	if err != nil {
		fmt.Fprintln(os.Stderr, "aisdk:", err)
		os.Exit(1)
	}
	if failed > 0 {
		fmt.Fprintf(os.Stderr, "aisdk: %d of the checks failed\n", failed)
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

func run(ctx context.Context, dir, only string) (failed int, err error) {
	if _, err := os.Stat(filepath.Join(dir, "node_modules")); err != nil {
		return 0, fmt.Errorf("the clients are not installed: run npm install --prefix %s", dir)
	}
	temp, err := os.MkdirTemp("", "aisdk")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(temp)
	s, err := newStage(ctx, temp)
	if err != nil {
		return 0, err
	}
	defer s.close()
	for version := 5; version <= 7; version++ {
		client := fmt.Sprint("ai", version)
		for _, c := range checks {
			if c.since > version || !strings.Contains(client+"  "+c.name, only) {
				continue
			}
			wrong, err := s.play(ctx, dir, client, version, c)
			if err != nil {
				return failed, fmt.Errorf("%s: %s: %w", client, c.name, err)
			}
			failed += report(client, c.name, wrong)
		}
	}
	return failed, nil
}

// report prints the line of a check, and what is wrong below it.
func report(client, name string, wrong []string) (failed int) {
	if len(wrong) == 0 {
		fmt.Printf("ok    %s  %s\n", client, name)
		return 0
	}
	fmt.Printf("FAIL  %s  %s\n", client, name)
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

	mu    sync.Mutex
	asked []upstream.Request
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
	if s.program, err = product.Build(ctx, temp); err == nil {
		s.product, err = product.Start(ctx, s.program, temp, s.config)
	}
	if err != nil {
		s.close()
	}
	return s, err
}

func (s *stage) close() {
	if s.product != nil {
		_ = s.product.Stop()
	}
	_ = s.http.Close()
	s.served.Wait()
}

// nasty is text that a parser may stumble over.
const nasty = "He said \"blue\" \\ & <b>green</b>\n\tdata: x\r\n\r\ndata: [DONE]\n\né ☀ 🌈 空\u2028\u0001 \\u0041 {\"type\":\"error\"}"

// long is a text that takes some time.
var long = strings.Repeat("Light is scattered by air. ", 40)

// flood is more than the log of a run holds.
var flood = strings.Repeat("Light is scattered by air. ", 4000)

// answer is what the model says, by the last thing that it is told.
func (s *stage) answer(r upstream.Request) upstream.Answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, r)
	last := r.Messages[len(r.Messages)-1]
	call := func(calls ...upstream.ToolCall) upstream.Answer {
		return upstream.Answer{Reasoning: "A tool helps.", Text: "Let me see.", ToolCalls: calls}
	}
	if last.Role == "tool" {
		return upstream.Answer{Text: "That is what came of it."}
	}
	switch last.Content {
	case "nasty":
		return upstream.Answer{Text: nasty, Pace: 400}
	case "think":
		return upstream.Answer{Reasoning: "Light is scattered.", Text: "Because of the air."}
	case "megabyte":
		return upstream.Answer{Tokens: []string{strings.Repeat("é\n", 1<<18), "."}}
	case "tool":
		return call(upstream.ToolCall{ID: "call_1", Name: "tape_info", Arguments: "{}"})
	case "tools":
		return call(upstream.ToolCall{ID: "call_1", Name: "tape_info", Arguments: "{}"}, upstream.ToolCall{ID: "call_2", Name: "nonsense", Arguments: `{"a":1}`})
	case "ask":
		return call(upstream.ToolCall{ID: "call_1", Name: "tape_anchors", Arguments: "{}"}, upstream.ToolCall{ID: "call_2", Name: "tape_info", Arguments: "{}"})
	case "ask twice":
		return call(upstream.ToolCall{ID: "call_1", Name: "tape_anchors", Arguments: "{}"}, upstream.ToolCall{ID: "call_2", Name: "tape_anchors", Arguments: "{}"})
	case "slow":
		return upstream.Answer{Text: long, Pace: 400}
	case "endless":
		return upstream.Answer{Text: strings.Repeat("blue ", 100_000), Pace: 200}
	case "flood": // the log of it is cut
		return upstream.Answer{Text: flood, Pace: 20_000}
	case "refuse":
		return upstream.Answer{Status: http.StatusUnauthorized}
	case "break":
		frame := `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"The"},"logprobs":null,"finish_reason":null}]}` + "\n\n"
		return upstream.Answer{Raw: []upstream.Raw{{Bytes: frame}, {Wait: 50 * time.Millisecond, Cut: true}}}
	}
	return upstream.Answer{Text: fmt.Sprintf("%d: %s", len(r.Messages), last.Content), Pace: 200}
}

// requests are those since the last call.
func (s *stage) requests() []upstream.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	asked := s.asked
	s.asked = nil
	return asked
}

// seen is what a client has understood.
type seen struct {
	Status   string    `json:"status"`
	Statuses []string  `json:"statuses"`
	Failed   string    `json:"failed"` // what the chat's error says
	Code     int       `json:"code"`
	Messages []message `json:"messages"`
	Data     []part    `json:"data"`  // given to onData
	Calls    int       `json:"calls"` // of onToolCall
	Finish   struct {
		IsAbort, IsDisconnect, IsError bool
		FinishReason                   string
	} `json:"finish"`
	Requests []string `json:"requests"`
	Answers  []string `json:"answers"`
	Got      struct {
		ID       string          `json:"id"`
		Messages json.RawMessage `json:"messages"`
	} `json:"got"`

	Object struct {
		Status            int
		Run, Text, Broken string
		Value             json.RawMessage
		Pieces            int
	} `json:"object"`

	Error *struct {
		Type, Message string
	} `json:"error"` // of the script
	Complaints []string `json:"complaints"`
}

// message is a UIMessage of the client.
type message struct {
	ID       string `json:"id"`
	Role     string `json:"role"`
	Parts    []part `json:"parts"`
	Metadata struct {
		Run, Session, Agent, Workflow, Status string
		Usage                                 map[string]struct {
			Total int `json:"total_tokens"`
		}
	} `json:"metadata"`
}

type part struct {
	Type      string          `json:"type"`
	Text      string          `json:"text"`
	State     string          `json:"state"`
	ID        string          `json:"id"`
	Data      json.RawMessage `json:"data"`
	Transient bool            `json:"transient"`
	ToolName  string          `json:"toolName"`
	Input     json.RawMessage `json:"input"`
	Output    json.RawMessage `json:"output"`
	ErrorText string          `json:"errorText"`
	Provider  struct {
		Lingserve struct{ URI string } `json:"lingserve"`
	} `json:"providerMetadata"`
}

// text is what the text parts say.
func (m message) text(kind string) string {
	var b strings.Builder
	for _, p := range m.Parts {
		if p.Type == kind {
			b.WriteString(p.Text)
		}
	}
	return b.String()
}

// answer is the last message, the assistant's.
func (s *seen) answer() message {
	if n := len(s.Messages); n > 0 && s.Messages[n-1].Role == "assistant" {
		return s.Messages[n-1]
	}
	return message{}
}

// tools are the tool parts of the answer, as one reads them.
func (s *seen) tools() (list []string) {
	for _, p := range s.answer().Parts {
		if p.Type == "dynamic-tool" {
			list = append(list, strings.TrimSpace(fmt.Sprint(p.ToolName, " ", p.State, " ", p.ErrorText)))
		}
	}
	return list
}

// document is what the answer's parts fold to, as the guide says.
func (s *seen) document() (string, error) {
	var doc jsonuri.Document
	for _, p := range s.answer().Parts {
		switch p.Type {
		case "text":
			quoted, _ := json.Marshal(p.Text)
			if err := doc.Append([]byte(p.Provider.Lingserve.URI), quoted[1:len(quoted)-1]); err != nil {
				return "", err
			}
		case "data-ling":
			if err := doc.Set([]byte(p.ID), p.Data); err != nil {
				return "", err
			}
		}
	}
	return string(doc.AppendJSON(nil)), nil
}

// deltas is what the deltas fold to that onData got.
func (s *seen) deltas() (string, error) {
	var doc jsonuri.Document
	for _, p := range s.Data {
		if p.Type != "data-delta" {
			continue
		}
		var d struct {
			URI   string
			Delta json.RawMessage
		}
		err := json.Unmarshal(p.Data, &d)
		switch {
		case err != nil:
		case d.Delta[0] == '"':
			err = doc.Append([]byte(d.URI), d.Delta[1:len(d.Delta)-1])
		default:
			err = doc.Set([]byte(d.URI), d.Delta)
		}
		if err != nil {
			return "", err
		}
	}
	return string(doc.AppendJSON(nil)), nil
}

// game is a check that is played: its client, and what was found wrong.
type game struct {
	*stage
	ctx     context.Context
	script  *node.Script
	version int
	id      string // of the chat
	wrong   []string
	loud    bool // the client complains on its console, and may
}

type job map[string]any

// do lets the client do something and returns what it has then.
func (g *game) do(what string, more job) *seen {
	j := job{"do": what, "id": g.id}
	for name, value := range more {
		j[name] = value
	}
	got := new(seen)
	if err := g.script.Ask(g.ctx, j, got); err != nil {
		panic(err)
	}
	if got.Error != nil {
		g.fail("%s: the client throws %s: %s", what, got.Error.Type, got.Error.Message)
	}
	if len(got.Complaints) > 0 && !g.loud {
		g.fail("%s: the client complains: %q", what, got.Complaints)
	}
	return got
}

// open opens the chat at a path below /v1/ui.
func (g *game) open(path string, more ...job) {
	j := job{"path": "/v1/ui/" + path}
	for _, m := range more {
		for name, value := range m {
			j[name] = value
		}
	}
	g.do("open", j)
}

func (g *game) send(text string) *seen { return g.do("send", job{"text": text}) }

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

// sameJSON compares documents.
func (g *game) sameJSON(what, want, got string) {
	var a, b any
	if json.Unmarshal([]byte(want), &a) != nil || json.Unmarshal([]byte(got), &b) != nil {
		g.fail("%s: want %.200s, got %.200s", what, want, got)
		return
	}
	g.is(what, a, b)
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

// document is a run's, as everybody else gets it.
func (g *game) document(run string) (d struct {
	Status string
	Result json.RawMessage
},
) {
	_, text := g.get("GET", "/v1/runs/"+run, "")
	if err := json.Unmarshal([]byte(text), &d); err != nil {
		g.fail("the run's document: %.200s", text)
	}
	return d
}

// play plays a check in a process of its own.
func (s *stage) play(ctx context.Context, dir, client string, version int, c check) (wrong []string, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, 2*node.Patience, errors.New("it did not end"))
	defer cancel()
	script, err := node.Start(ctx, filepath.Join(dir, "chat.mjs"), client, s.product.URL)
	if err != nil {
		return nil, err
	}
	g := &game{stage: s, ctx: ctx, script: script, version: version, id: fmt.Sprintf("%s/%s", client, c.name), loud: c.loud}
	s.requests()
	defer func() {
		if p := recover(); p != nil {
			script.Stop()
			e, ok := p.(error)
			if !ok {
				panic(p)
			}
			wrong, err = append(g.wrong, e.Error()), nil
		}
	}()
	c.play(g)
	if err := script.End(); err != nil {
		g.fail("%v", err)
	}
	return g.wrong, nil
}

// check is something that a client does.
type check struct {
	name  string
	since int  // the first version that can
	loud  bool // it complains
	play  func(*game)
}

// complete says what is wrong with an answer that should be complete.
func (g *game) complete(s *seen, text string) {
	g.is("status", "ready", s.Status)
	g.is("error", "", s.Failed)
	g.is("finish reason", "stop", s.Finish.FinishReason)
	g.is("text", text, s.answer().text("text"))
	for _, p := range s.answer().Parts {
		if (p.Type == "text" || p.Type == "reasoning") && p.State != "done" {
			g.fail("a part is %s", p.State)
		}
	}
}

// one says what is wrong where there should be one question and one answer.
func (g *game) one(s *seen) {
	var roles []string
	for _, m := range s.Messages {
		roles = append(roles, m.Role)
	}
	g.is("messages", []string{"user", "assistant"}, roles)
}

// eventually waits for what the server does by itself.
func (g *game) eventually(what string, is func() bool) {
	for !is() {
		select {
		case <-g.ctx.Done():
			g.fail("never: %s", what)
			return
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// withKind are the data parts of a type.
func withKind(list []part, kind string) []part {
	return slices.DeleteFunc(slices.Clone(list), func(p part) bool { return p.Type != kind })
}
