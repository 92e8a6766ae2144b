// Package play lets clients that are published for Node talk to the server as it is built from this tree, with a model that does what
// it is told. The programs in bench/peers whose clients are those of other servers have this in common.
package play

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/lingserve/lingserve/internal/fakeproviders"
	"github.com/lingserve/lingserve/internal/program"
)

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

// Program is one that lets clients play their checks.
type Program struct {
	Name      string            // of the folder below bench/peers that has the clients
	Workflows map[string]string // beside those of this tree, by the names of their files
	// Answer is what the model says to what only these clients say; false where it says the same as to all. nil is always false.
	Answer func(fakeproviders.Request) (fakeproviders.Answer, bool)
	// Run plays the checks whose line has only in it, and returns how many have failed.
	Run func(ctx context.Context, s *Stage, only string) (failed int, err error)
}

// Main runs the program by its flags, and ends the process.
func Main(p Program) {
	dir := flag.String("dir", "bench/peers/"+p.Name, "the folder of the clients")
	only := flag.String("only", "", "only checks whose line has this in it")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	failed, err := p.run(ctx, *dir, *only)
	stop()
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, p.Name+":", err)
	case failed > 0:
		fmt.Fprintf(os.Stderr, "%s: %d of the checks failed\n", p.Name, failed)
	default:
		os.Exit(0)
	}
	os.Exit(1)
}

func (p Program) run(ctx context.Context, dir, only string) (failed int, err error) {
	if _, err := os.Stat(filepath.Join(dir, "node_modules")); err != nil {
		return 0, fmt.Errorf("the clients are not installed: run npm install --prefix %s", dir)
	}
	temp, err := os.MkdirTemp("", p.Name)
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(temp)
	s := &Stage{Folder: dir, temp: temp, own: p.Answer}
	defer s.close()
	if err := s.open(ctx, p.Workflows); err != nil {
		return 0, err
	}
	return p.Run(ctx, s, only)
}

// Stage is the server, and the model's server that it asks.
type Stage struct {
	Folder string           // of the clients
	Server *program.Process // that clients talk to

	own      func(fakeproviders.Request) (fakeproviders.Answer, bool)
	upstream fakeproviders.Server
	http     *http.Server
	served   sync.WaitGroup
	temp     string
	binary   program.Binary
	config   string

	mu    sync.Mutex
	asked []fakeproviders.Request
}

func (s *Stage) open(ctx context.Context, workflows map[string]string) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	s.config = fmt.Sprintf(configuration, "http://"+l.Addr().String())
	s.upstream.Script = s.answer
	s.http = &http.Server{Handler: &s.upstream, ReadHeaderTimeout: time.Minute}
	s.served.Go(func() { _ = s.http.Serve(l) }) // until it is closed
	err = os.CopyFS(s.workflows(), os.DirFS("workflows"))
	for name, text := range workflows {
		err = errors.Join(err, os.WriteFile(filepath.Join(s.workflows(), name), []byte(text), 0o600))
	}
	if err != nil {
		return err
	}
	s.Server, err = s.Start(ctx)
	return err
}

func (s *Stage) workflows() string { return filepath.Join(s.temp, "workflows") }

func (s *Stage) close() {
	if s.Server != nil {
		_ = s.Server.Stop()
	}
	if s.http != nil {
		_ = s.http.Close()
	}
	s.served.Wait()
	_ = s.binary.Close()
}

// Start starts a server, in a folder of its own.
func (s *Stage) Start(ctx context.Context, args ...string) (*program.Process, error) {
	path, err := s.binary.Path(ctx)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(s.temp, "serve")
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(dir, "lingserve.yaml"), []byte(s.config), 0o600); err != nil {
		return nil, err
	}
	return program.Start(ctx, path, dir, &program.Options{Args: append([]string{"--workflows", s.workflows()}, args...)})
}

// Requests are those that the model got since the last call.
func (s *Stage) Requests() []fakeproviders.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	asked := s.asked
	s.asked = nil
	return asked
}

// Texts that the model says.
const (
	// Nasty is one that a parser may stumble over.
	Nasty = "He said \"blue\" \\ & <b>green</b>\n\tdata: x\r\n\r\ndata: [DONE]\n\né ☀ 🌈 空\u2028\u0001 \\u0041 {\"type\":\"error\"} {\"type\":\"RUN_ERROR\"}"

	sentence = "Light is scattered by air. "
)

var (
	// Long is one that takes some time.
	Long = strings.Repeat(sentence, 40)
	// Flood is more than the log of a run holds.
	Flood = strings.Repeat(sentence, 4000)
)

// answer is what the model says, by the last thing that it is told.
func (s *Stage) answer(r fakeproviders.Request) fakeproviders.Answer {
	s.mu.Lock()
	s.asked = append(s.asked, r)
	s.mu.Unlock()
	last := r.Messages[len(r.Messages)-1]
	call := func(calls ...fakeproviders.ToolCall) fakeproviders.Answer {
		return fakeproviders.Answer{Reasoning: "A tool helps.", Text: "Let me see.", ToolCalls: calls}
	}
	if last.Role == "tool" {
		return fakeproviders.Answer{Text: "That is what came of it."}
	}
	if s.own != nil {
		if a, ok := s.own(r); ok {
			return a
		}
	}
	// What was said twice, since the first has no answer, is one message of two paragraphs.
	switch last.Content[strings.LastIndex("\n\n"+last.Content, "\n\n"):] {
	case "nasty":
		return fakeproviders.Answer{Text: Nasty, Pace: 400}
	case "think":
		return fakeproviders.Answer{Reasoning: "Light is scattered.", Text: "Because of the air."}
	case "megabyte":
		return fakeproviders.Answer{Tokens: []string{strings.Repeat("é\n", 1<<18), "."}}
	case "tool":
		return call(fakeproviders.ToolCall{ID: "call_1", Name: "tape_info", Arguments: "{}"})
	case "tools":
		return call(fakeproviders.ToolCall{ID: "call_1", Name: "tape_info", Arguments: "{}"}, fakeproviders.ToolCall{ID: "call_2", Name: "nonsense", Arguments: `{"a":1}`})
	case "ask":
		return call(fakeproviders.ToolCall{ID: "call_1", Name: "tape_anchors", Arguments: "{}"})
	case "ask and look":
		return call(fakeproviders.ToolCall{ID: "call_1", Name: "tape_anchors", Arguments: "{}"}, fakeproviders.ToolCall{ID: "call_2", Name: "tape_info", Arguments: "{}"})
	case "ask twice":
		return call(fakeproviders.ToolCall{ID: "call_1", Name: "tape_anchors", Arguments: "{}"}, fakeproviders.ToolCall{ID: "call_2", Name: "tape_anchors", Arguments: "{}"})
	case "slow":
		return fakeproviders.Answer{Text: Long, Pace: 400}
	case "endless":
		return fakeproviders.Answer{Text: strings.Repeat("blue ", 100_000), Pace: 200}
	case "flood": // the log of it is cut
		return fakeproviders.Answer{Text: Flood, Pace: 20_000}
	case "refuse":
		return fakeproviders.Answer{Status: http.StatusUnauthorized}
	case "break":
		frame := `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"The"},"logprobs":null,"finish_reason":null}]}` + "\n\n"
		return fakeproviders.Answer{Raw: []fakeproviders.Raw{{Bytes: frame}, {Wait: 50 * time.Millisecond, Cut: true}}}
	}
	return fakeproviders.Answer{Text: fmt.Sprintf("%d: %s", len(r.Messages), last.Content), Pace: 200}
}
