// Command compat shows that clients of other servers read Lingserve: the official client of OpenAI, in two versions, asks for chat
// completions and checks what it gets.
//
// It needs Node 20 and what npm install puts beside it; the README of the folder above says more.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"iter"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/demo"
	"github.com/lingserve/lingserve/agent"
	"github.com/lingserve/lingserve/flow"
	"github.com/lingserve/lingserve/tape"
	"github.com/lingserve/lingserve/tape/tapetest"
	"github.com/lingserve/lingserve/tool"
	"github.com/lingserve/lingserve/turn"
	"github.com/lingserve/lingserve/web"
)

func main() {
	dir := flag.String("dir", "bench/peers/compat", "the folder of the clients")
	workflows := flag.String("workflows", "workflows", "the folder of the workflows, among them encyclopedia")
	only := flag.String("only", "", "only checks whose name has this in it")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *dir, *workflows, *only); err != nil {
		fmt.Fprintln(os.Stderr, "compat:", err)
		os.Exit(1)
	}
}

// run serves, and lets each version of the client do its checks.
func run(ctx context.Context, dir, workflows, only string) error {
	if _, err := os.Stat(filepath.Join(dir, "node_modules")); err != nil {
		return fmt.Errorf("the clients are not installed: run npm install --prefix %s", dir)
	}
	s, err := newStage(ctx, workflows)
	if err != nil {
		return err
	}
	defer s.close()
	failed := 0
	for _, version := range []string{"openai6", "openai7"} {
		node := exec.CommandContext(ctx, "node", filepath.Join(dir, "openai.mjs"), version, s.url, only)
		node.Stdout, node.Stderr = os.Stdout, os.Stderr
		if err := node.Run(); err != nil {
			if _, ended := errors.AsType[*exec.ExitError](err); !ended {
				return err
			}
			failed++
		}
	}
	if failed > 0 {
		return errors.New("checks failed")
	}
	return nil
}

// stage is a Lingserve on a socket, with a model that does what it is told.
type stage struct {
	url    string
	server *web.Server
	turns  *turn.Framework
	store  *tapetest.Memory
	http   *http.Server
	served sync.WaitGroup
}

func newStage(ctx context.Context, workflows string) (*stage, error) {
	registry, err := flow.Open(workflows)
	if err != nil {
		return nil, err
	}
	s := &stage{store: tapetest.NewMemory(nil)}
	models := &adapter.Registry{Default: "demo:demo", Retries: adapter.Retries{Attempts: 1}}
	models.Register("demo", demo.New(nil))
	script := new(script)
	models.Register("script", script)
	tools, err := tool.NewSet(tool.Must(tool.New("weather", "Says how the weather is.", func(context.Context, struct{}) (string, error) {
		return "clear", nil
	})))
	if err != nil {
		return nil, err
	}
	log := slog.New(slog.DiscardHandler)
	a, err := agent.New(agent.Options{Name: "assistant", Models: models, Model: "script:any", Tools: tools, Store: s.store, Log: log})
	if err != nil {
		return nil, err
	}
	workspace, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	s.turns = turn.New(turn.Options{Workspace: workspace, Log: log})
	if err := s.turns.Register(agent.Name, a); err != nil {
		return nil, err
	}
	o := web.Options{KeepAlive: 200 * time.Millisecond}
	o.Workflows, o.Models, o.Log, o.Tapes, o.Workspace, o.Turns, o.Agents = registry, models, log, s.store, workspace, s.turns, sole{a}
	s.server, err = web.New(o)
	if err != nil {
		return nil, err
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s.url = "http://" + l.Addr().String()
	mux := http.NewServeMux()
	mux.Handle("/", s.server.Handler())
	mux.HandleFunc("/begun", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, script.begun.Load()) })
	mux.HandleFunc("/left", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, script.left.Load()) })
	s.http = &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	s.served.Go(func() { _ = s.http.Serve(l) }) // until it is closed
	return s, nil
}

func (s *stage) close() {
	_ = s.server.Close() // it has kept nothing
	_ = s.http.Close()
	s.served.Wait()
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	_ = s.turns.Drain(ended)
	_ = s.store.Close()
}

// sole is the server's only agent.
type sole struct{ *agent.Agent }

func (sole) Names() []string { return []string{"assistant"} }

func (sole) Workflow(string) string { return "" }

func (s sole) Remembered(ctx context.Context, _ string, t *tape.Tape) ([]string, error) {
	return s.Agent.Remembered(ctx, t)
}

// script is a model that does what the last message says, and answers with that where it says nothing else.
type script struct {
	busy  atomic.Int64 // how often it was asked while it had too much to do
	begun atomic.Int64 // answers without an end
	left  atomic.Int64 // those that somebody did not want any more
}

func (s *script) Names() []string                     { return []string{"any"} }
func (s *script) Model(string) (adapter.Model, error) { return s, nil }

func (s *script) Stream(ctx context.Context, req adapter.Request) iter.Seq2[adapter.Chunk, error] {
	return func(yield func(adapter.Chunk, error) bool) {
		last := req.Messages[len(req.Messages)-1]
		said := func(text string) bool { return yield(adapter.Chunk{Text: text}, nil) }
		end := func(reason string) {
			usage := &adapter.Usage{PromptTokens: 4, CompletionTokens: 6, TotalTokens: 10}
			yield(adapter.Chunk{Usage: usage, Finish: reason}, nil)
		}
		switch {
		case last.Content == "think":
			_ = yield(adapter.Chunk{Reasoning: "Hm, "}, nil) && yield(adapter.Chunk{Reasoning: "well."}, nil) && said("Yes.")
			end(adapter.FinishStop)
		case last.Content == "look" && last.Role == adapter.User:
			_ = said("I look.") && yield(adapter.Chunk{ToolCall: &adapter.ToolCall{ID: "c1", Name: "weather", Arguments: "{}"}}, nil)
			end(adapter.FinishToolCalls)
		case last.Content == "refuse":
			yield(adapter.Chunk{}, &adapter.Error{Code: adapter.CodeAuth, Message: "the model's server refused the key"})
		case last.Content == "busy" && s.busy.Add(1)%2 == 1:
			yield(adapter.Chunk{}, &adapter.Error{Code: adapter.CodeRateLimited, Message: "the model's server has too much to do", Retryable: true})
		case last.Content == "break":
			_ = said("half an ") && yield(adapter.Chunk{}, &adapter.Error{Code: adapter.CodeUnavailable, Message: "the model's server broke off", Retryable: true})
		case last.Content == "cut":
			said("as far as it")
			end(adapter.FinishLength)
		case last.Content == "slow":
			select {
			case <-time.After(700 * time.Millisecond): // comments go out meanwhile
			case <-ctx.Done():
				return
			}
			said("at last")
			end(adapter.FinishStop)
		case last.Content == "endless":
			s.begun.Add(1)
			defer s.left.Add(1) // whether the context or the reader says so
			for said("blue ") {
				select {
				case <-time.After(time.Millisecond):
				case <-ctx.Done():
					yield(adapter.Chunk{}, context.Cause(ctx))
					return
				}
			}
		default:
			users := 0
			for _, m := range req.Messages {
				if m.Role == adapter.User {
					users++
				}
			}
			for _, piece := range strings.SplitAfter(fmt.Sprintf("%s %s", strings.Repeat("·", users), last.Content), " ") {
				if !said(piece) {
					return
				}
			}
			end(adapter.FinishStop)
		}
	}
}
