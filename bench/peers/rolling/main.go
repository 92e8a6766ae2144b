//go:build unix

// Command rolling restarts the replicas behind a load balancer, one after the other and again, while clients that are published by
// others read runs. No client may see an error or a false end, and what each has read must be right.
//
// It needs Node 20, what npm install puts beside it, PostgreSQL and haproxy.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/lingserve/lingserve/internal/fakeproviders"
	"github.com/lingserve/lingserve/internal/fleet"
	"github.com/lingserve/lingserve/internal/postgrestest"
	"github.com/lingserve/lingserve/internal/program"
)

func main() {
	var o options
	var binary program.Binary
	flag.StringVar(&binary.Given, "program", "", "the server's program; where none is named it is built")
	flag.StringVar(&o.folder, "dir", "bench/peers/rolling", "the folder of the clients")
	flag.IntVar(&o.rounds, "rounds", 2, "how often each replica is restarted")
	flag.IntVar(&o.each, "each", 4, "how many readers of each client there are at once")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	path, err := binary.Path(ctx)
	if err == nil {
		o.program = path
		err = run(ctx, o)
	}
	err = errors.Join(err, binary.Close())
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "rolling:", err)
		os.Exit(1)
	}
}

type options struct {
	program, folder string
	rounds, each    int
}

// clients are those of readers.mjs.
var clients = []string{"eventsource", "ai5", "ai6", "ai7", "openai6", "openai7", "agui", "json"}

// ends are how they call an end that is a success.
var ends = []string{"completed", "ready", "stop", "finished"}

// seen is what a client has made of its run.
type seen struct{ Client, Input, Text, End, Error string }

// textOf is what the model says to an input.
func textOf(input string) string {
	words := make([]string, 40)
	for i := range words {
		words[i] = input + "/" + strconv.Itoa(i)
	}
	return strings.Join(words, " ")
}

func answer(r fakeproviders.Request) fakeproviders.Answer {
	return fakeproviders.Answer{Tokens: strings.SplitAfter(textOf(r.Messages[len(r.Messages)-1].Content), " "), Pace: 30}
}

func run(ctx context.Context, o options) (err error) {
	if _, err := os.Stat(filepath.Join(o.folder, "node_modules")); err != nil {
		return fmt.Errorf("the clients are not installed: run npm install --prefix %s", o.folder)
	}
	dir, err := os.MkdirTemp("", "rolling")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	models := &http.Server{Handler: &fakeproviders.Server{Script: answer}, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, 0)}
	var serving sync.WaitGroup
	serving.Go(func() { _ = models.Serve(l) }) // until it is closed
	defer func() { _ = models.Close(); serving.Wait() }()
	database, err := postgrestest.Start()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, database.Stop()) }()
	f, err := fleet.New(fleet.Options{
		Program: o.program, Dir: dir, Database: database.URL(), Replicas: 3,
		Args: []string{"--model", "openai:m", "--limit-requests", "0", "--limit-runs", "0"},
		Env:  []string{"OPENAI_API_KEY=sk-rolling", "OPENAI_BASE_URL=http://" + l.Addr().String() + "/v1"},
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := f.Start(ctx); err != nil {
		return err
	}
	b, err := f.Balance(ctx, dir, "")
	if err != nil {
		return err
	}
	defer b.Close()
	readers, err := start(ctx, filepath.Join(o.folder, "readers.mjs"), b.URL)
	if err != nil {
		return err
	}
	defer readers.stop()
	return play(ctx, o, f, readers)
}

// play lets all clients read, one run after the other, until the last replica is back, and says what they have seen.
func play(ctx context.Context, o options, f *fleet.Fleet, r *script) error {
	over := make(chan struct{})
	var restarted error
	go func() {
		defer close(over)
		restarted = restart(ctx, o, f)
	}()
	var mu sync.Mutex
	count, wrong := map[string]int{}, map[string]int{}
	var texts []string
	var all sync.WaitGroup
	for _, client := range clients {
		for i := range o.each {
			all.Go(func() {
				for n := 0; ; n++ {
					select {
					case <-over:
						return
					default:
					}
					s, err := r.read(ctx, client, fmt.Sprintf("%s.%d.%d", client, i, n))
					mu.Lock()
					count[client]++
					if err != nil {
						s.Error = err.Error()
					}
					if s.Error != "" || s.Text != textOf(s.Input) || !slices.Contains(ends, s.End) {
						wrong[client]++
						texts = append(texts, fmt.Sprintf("%s: %s %s, %d of %d characters", s.Input, s.End, s.Error, len(s.Text), len(textOf(s.Input))))
					}
					mu.Unlock()
					if err != nil {
						return
					}
				}
			})
		}
	}
	all.Wait()
	<-over
	fmt.Println("\n| client | runs | with an error, a false end or a wrong document |\n|---|---|---|")
	failed := 0
	for _, client := range clients {
		fmt.Printf("| %s | %d | %d |\n", client, count[client], wrong[client])
		failed += wrong[client]
	}
	const most = 20
	for _, text := range texts[:min(len(texts), most)] {
		fmt.Println("   ", text)
	}
	if failed > 0 {
		return errors.Join(restarted, fmt.Errorf("%d runs were read with an error, a false end or a wrong document", failed))
	}
	return restarted
}

// restart restarts the replicas, one after the other: the next when the one before serves.
func restart(ctx context.Context, o options, f *fleet.Fleet) error {
	settle := func() {
		select {
		case <-time.After(2 * time.Second): // the readers come to all replicas again
		case <-ctx.Done():
		}
	}
	for range o.rounds {
		for _, r := range f.Replicas {
			settle()
			began := time.Now()
			if err := r.Stop(); err != nil {
				return err
			}
			stopped := time.Since(began)
			if err := r.Start(ctx); err != nil {
				return err
			}
			fmt.Printf("%s ended within %v and served again after %v\n", r.Name, stopped.Round(time.Millisecond), time.Since(began).Round(time.Millisecond))
		}
	}
	settle()
	return nil
}

// script is readers.mjs, which does many jobs at once.
type script struct {
	cmd *exec.Cmd
	in  io.WriteCloser

	mu      sync.Mutex
	waiting map[string]chan seen // by input; nil when the script has ended
	ended   chan struct{}
}

func start(ctx context.Context, file, url string) (*script, error) {
	s := &script{cmd: exec.CommandContext(ctx, "node", "--no-deprecation", file, url), waiting: map[string]chan seen{}, ended: make(chan struct{})}
	s.cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"), "NO_COLOR=1"}
	s.cmd.Stderr = os.Stderr
	var out io.ReadCloser
	var err error
	if s.in, err = s.cmd.StdinPipe(); err == nil {
		if out, err = s.cmd.StdoutPipe(); err == nil {
			err = s.cmd.Start()
		}
	}
	if err != nil {
		return nil, err
	}
	go func() { // ends with the script
		defer close(s.ended)
		lines := bufio.NewScanner(out)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			var one seen
			if json.Unmarshal(lines.Bytes(), &one) != nil {
				continue
			}
			s.mu.Lock()
			answer := s.waiting[one.Input]
			delete(s.waiting, one.Input)
			s.mu.Unlock()
			if answer != nil {
				answer <- one
			}
		}
	}()
	return s, nil
}

// patience is how long a reader may take for what takes two seconds.
const patience = 45 * time.Second

// read lets a client read a run.
func (s *script) read(ctx context.Context, client, input string) (seen, error) {
	one := seen{Client: client, Input: input}
	line, err := json.Marshal(map[string]string{"client": client, "input": input})
	if err != nil {
		return one, err
	}
	answer := make(chan seen, 1)
	s.mu.Lock()
	s.waiting[input] = answer
	_, err = s.in.Write(append(line, '\n'))
	s.mu.Unlock()
	if err != nil {
		return one, err
	}
	select {
	case one = <-answer:
		return one, nil
	case <-s.ended:
		return one, errors.New("the script has ended")
	case <-ctx.Done():
		return one, context.Cause(ctx)
	case <-time.After(patience):
		return one, errors.New("no end")
	}
}

func (s *script) stop() {
	_ = s.in.Close()
	_ = s.cmd.Process.Kill() // which fails where it is gone
	<-s.ended
	_ = s.cmd.Wait() // it was killed
}
