// Command peers shows that the stand-ins of internal/fakeproviders are like the real thing: the official clients of OpenAI, Ollama and
// Coze read them, and understand what was scripted.
//
// It needs Node 20 and what npm install puts beside it; README.md says more.
package main

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
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/demo"
	"github.com/lingserve/lingserve/bench/peers/node"
	"github.com/lingserve/lingserve/flow"
	"github.com/lingserve/lingserve/internal/fakeproviders"
	"github.com/lingserve/lingserve/web"
)

func main() {
	dir := flag.String("dir", "bench/peers", "the folder of the clients")
	only := flag.String("only", "", "only checks whose line has this in it")
	verbose := flag.Bool("v", false, "show what the clients said")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	failed, err := run(ctx, *dir, *only, *verbose)
	if err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
	if failed > 0 {
		fmt.Fprintf(os.Stderr, "peers: %d of the checks failed\n", failed)
		os.Exit(1)
	}
}

// check is one conversation between a client and the stand-in.
type check struct {
	name     string
	do       string                 // what the client does, see its script
	request  map[string]any         // members of its request beside the message
	answers  []fakeproviders.Answer // to its requests; the last one is repeated
	want     seen
	requests int  // that the server gets, default 1; -1 is any number of them
	canceled bool // the server sees the client go away
	loud     bool // the client complains, and should
	// asked looks at the last request.
	asked func(fakeproviders.Request) error
}

// seen is what a client has understood.
type seen struct {
	Text      string   `json:"text"`
	Heard     string   `json:"heard"` // from events of the client's own
	Reasoning string   `json:"reasoning"`
	Calls     []call   `json:"calls"`
	Results   []string `json:"results"`   // of calls that the provider made
	Wanted    []call   `json:"wanted"`    // calls whose outputs are asked for
	Questions []string `json:"questions"` // that are suggested
	Events    []string `json:"events"`
	Usage     *usage   `json:"usage"`
	Finish    string   `json:"finish"`
	List      []string `json:"list"`
	Error     *thrown  `json:"error"`
}

type call struct {
	ID        string `json:"id"`
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

type usage struct {
	Prompt     int `json:"prompt_tokens"`
	Completion int `json:"completion_tokens"`
	Total      int `json:"total_tokens"`
}

// thrown is an error of a client. A message that is wanted is part of the one there is.
type thrown struct {
	Type    string `json:"type"`
	Status  int    `json:"status"`
	Message string `json:"message"`
}

// said is what comes back from a client's script.
type said struct {
	seen
	Frames     []value  `json:"frames"`
	Complaints []string `json:"complaints"`
}

// run does all checks and prints a line for each. It returns how many have failed.
func run(ctx context.Context, dir, only string, verbose bool) (failed int, err error) {
	if _, err := os.Stat(filepath.Join(dir, "node_modules")); err != nil {
		return 0, fmt.Errorf("the clients are not installed: run npm install --prefix %s", dir)
	}
	s, err := newStage()
	if err != nil {
		return 0, err
	}
	defer s.close()
	var values []value
	for _, peer := range []struct {
		script string
		checks []check
	}{{"openai", openaiChecks()}, {"ollama", ollamaChecks()}, {"coze", cozeChecks()}} {
		checks := slices.DeleteFunc(peer.checks, func(c check) bool { return !strings.Contains(peer.script+"  "+c.name, only) })
		if len(checks) == 0 {
			continue
		}
		p, err := node.Start(ctx, filepath.Join(dir, peer.script+".mjs"), s.url)
		if err != nil {
			return failed, err
		}
		for _, c := range checks {
			wrong, got, err := s.check(ctx, p, c)
			if err != nil {
				p.Stop()
				return failed, fmt.Errorf("%s: %s: %w", peer.script, c.name, err)
			}
			for _, v := range got.Frames {
				v.From = peer.script + ": " + c.name
				values = append(values, v)
			}
			failed += report(peer.script, c.name, wrong)
			if verbose {
				fmt.Printf("%+v %v\n", got.seen, got.Complaints)
			}
		}
		if err := p.End(); err != nil {
			return failed, err
		}
	}
	wrong, err := checkTypes(ctx, dir, values)
	if err != nil {
		return failed, fmt.Errorf("types: %w", err)
	}
	return failed + report("types", fmt.Sprintf("%d objects are as the clients' types say", len(values)), wrong), nil
}

// report prints the line of a check, and what is wrong below it.
func report(peer, name string, wrong []string) (failed int) {
	if len(wrong) == 0 {
		fmt.Printf("ok    %-7s %s\n", peer, name)
		return 0
	}
	fmt.Printf("FAIL  %-7s %s\n", peer, name)
	for _, w := range wrong {
		fmt.Println("      " + strings.ReplaceAll(strings.TrimSpace(w), "\n", "\n      "))
	}
	return 1
}

// stage is the stand-in on a socket, and the check that it plays in. Beside it is a Lingserve, whose list of models the clients
// can read.
type stage struct {
	fakeproviders.Server
	url       string
	lingserve *web.Server
	http      *http.Server
	served    sync.WaitGroup

	mu       sync.Mutex
	now      check
	requests int
	last     fakeproviders.Request
}

func newStage() (*stage, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &stage{url: "http://" + l.Addr().String()}
	s.Models = listed
	s.Script = func(r fakeproviders.Request) fakeproviders.Answer {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.requests++
		s.last = r
		return s.now.answers[min(s.requests, len(s.now.answers))-1]
	}
	models := &adapter.Registry{Default: "demo:demo"}
	models.Register("demo", demo.New(nil))
	var o web.Options
	o.Workflows, o.Models = new(flow.Registry), models
	if s.lingserve, err = web.New(o); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	mux := http.NewServeMux()
	mux.Handle("/", &s.Server)
	mux.Handle("/lingserve/", http.StripPrefix("/lingserve", s.lingserve.Handler()))
	s.http = &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	s.served.Go(func() { _ = s.http.Serve(l) }) // until it is closed
	return s, nil
}

func (s *stage) close() {
	_ = s.http.Close()
	s.served.Wait()
	_ = s.lingserve.Close() // it has kept nothing
}

// listed are the models that the stand-in lists.
var listed = []string{"gpt-script", "script:8b"}

// check lets a client do its part, and says what is wrong.
func (s *stage) check(ctx context.Context, p *node.Script, c check) (wrong []string, got *said, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, node.Patience, errors.New("it did not end"))
	defer cancel()
	s.mu.Lock()
	s.now, s.requests, s.last = c, 0, fakeproviders.Request{}
	s.mu.Unlock()
	canceled := s.Canceled()
	got = new(said)
	if err := p.Ask(ctx, map[string]any{"do": c.do, "request": c.request}, got); err != nil {
		return nil, nil, err
	}
	want := c.want
	if want.Error != nil && got.Error != nil && strings.Contains(got.Error.Message, want.Error.Message) {
		e := *want.Error
		e.Message = got.Error.Message
		want.Error = &e
	}
	if diff := cmp.Diff(want, got.seen); diff != "" {
		wrong = append(wrong, "it should understand (-) and understood (+):\n"+diff)
	}
	if len(got.Complaints) > 0 != c.loud {
		wrong = append(wrong, fmt.Sprintf("it complains: %q", got.Complaints))
	}
	// The client may be ahead of the server.
	if s.Until(ctx, func() bool { return s.Open() == 0 }) != nil {
		wrong = append(wrong, "its connection stays open")
	}
	if left := s.Canceled() > canceled; left != c.canceled {
		wrong = append(wrong, fmt.Sprintf("whether it went away before the end: %v, want %v", left, c.canceled))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if want := max(c.requests, 1); s.requests != want && c.requests >= 0 {
		wrong = append(wrong, fmt.Sprintf("it asked %d times, want %d", s.requests, want))
	}
	if c.asked != nil {
		if err := c.asked(s.last); err != nil {
			wrong = append(wrong, "the stand-in misread the request: "+err.Error())
		}
	}
	return wrong, got, nil
}

// differs says how a request, as the stand-in has read it, is not as it should be.
func differs(want, got any) error {
	if diff := cmp.Diff(want, got); diff != "" {
		return errors.New("-want +got\n" + diff)
	}
	return nil
}
