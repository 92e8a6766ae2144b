//go:build nightly && unix

package faults

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/openai"
	"github.com/lingserve/lingserve/flow"
	"github.com/lingserve/lingserve/web"
)

// files makes room for so many open files, where that is allowed, and returns how many there may be.
func files(want uint64) uint64 {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0
	}
	if limit.Cur < want {
		more := syscall.Rlimit{Cur: want, Max: max(want, limit.Max)}
		if syscall.Setrlimit(syscall.RLIMIT_NOFILE, &more) == nil {
			limit = more
		}
	}
	return limit.Cur
}

// childEnv says to the test's binary that it is to be the server of TestTheServerOutlivesALackOfFiles.
const childEnv = "LINGSERVE_FAULTS_CHILD"

// spare is how many files that server may open more than it has.
const spare = 24

// FT-31: when the process may open no more files, clients have to wait; the streams that are there go on, and when others have
// left, those who wait are served.
func TestTheServerOutlivesALackOfFiles(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), childEnv+"=1")
	model, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	log := new(text)
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Process.Kill()
	address, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("the server did not start: %v: %s", err, log)
	}
	address = strings.TrimSpace(address)

	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: patience}
	resp, err := client.Post("http://"+address+"/v1/runs?format=sse", "application/json", strings.NewReader(run("text")))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	events := newEventReader("text/event-stream", resp.Body)
	expect := func(say, want string) {
		t.Helper()
		fmt.Fprintln(model, say)
		for {
			e, err := events.next()
			if err != nil {
				t.Fatalf("%v before %q: %s", err, want, log)
			}
			if e.delta == want || e.data == want {
				return
			}
		}
	}
	expect("one ", `"one "`)

	var others []net.Conn
	for range 3 * spare { // the system takes them, whether the server does or not
		c, err := net.DialTimeout("tcp", address, patience)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		others = append(others, c)
	}
	eventually(t, "no more files can be opened", func() bool { return strings.Contains(log.String(), "too many open files") })
	expect("two ", `"two "`)
	last := others[len(others)-1]
	for _, c := range others[:len(others)-1] {
		c.Close()
	}
	// The one that waits has its turn now.
	io.WriteString(last, "GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
	last.SetReadDeadline(time.Now().Add(patience))
	if said, err := io.ReadAll(last); err != nil || !strings.HasPrefix(string(said), "HTTP/1.1 200 OK") {
		t.Errorf("who waited for a file got %q, %v", said, err)
	}
	expect("three", `"three"`)
	expect(".", `{"status":"completed"}`)
	if resp, err := client.Get("http://" + address + "/healthz"); err != nil || resp.StatusCode != 200 {
		t.Errorf("afterwards: %v", err)
	} else {
		resp.Body.Close()
	}
	model.Close()
	if err := cmd.Wait(); err != nil {
		t.Errorf("the server ended with %v: %s", err, log)
	}
}

// child is that server. Its model says the lines of stdin, one piece each, up to a "."; it ends with its input.
func child() int {
	pieces := make(chan string)
	over := make(chan struct{})
	go func() {
		defer close(over)
		for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
			pieces <- lines.Text()
		}
	}()
	provider, err := openai.New(openai.Options{BaseURL: "http://model.invalid/v1", Transport: lineModel(pieces)})
	if err != nil {
		panic(err)
	}
	models := &adapter.Registry{Default: "openai:m"}
	models.Register("openai", provider)
	registry, err := flow.OpenFS("test", workflows)
	if err != nil {
		panic(err)
	}
	s, err := web.New(web.Options{
		Workflows: registry, Models: models,
		Log: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	if err != nil {
		panic(err)
	}
	l, err := s.Listen(context.Background(), "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	open, err := os.ReadDir("/dev/fd")
	if err != nil {
		panic(err)
	}
	limit := uint64(len(open) + spare)
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: limit, Max: limit}); err != nil {
		panic(err)
	}
	server := s.HTTPServer()
	var serving sync.WaitGroup
	serving.Go(func() { server.Serve(l) })
	fmt.Println(l.Addr())
	<-over
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	s.Drain(ctx)
	s.Close()
	server.Close()
	serving.Wait()
	return 0
}

// lineModel is a model's server that takes no files.
type lineModel <-chan string

func (m lineModel) RoundTrip(r *http.Request) (*http.Response, error) {
	body, w := io.Pipe()
	go func() {
		defer w.Close()
		for text := range m {
			if text == "." {
				io.WriteString(w, end)
				return
			}
			quoted, _ := json.Marshal(text)
			if _, err := io.WriteString(w, `data: {"choices":[{"delta":{"content":`+string(quoted)+`}}]}`+"\n\n"); err != nil {
				return
			}
		}
	}()
	return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: body, Request: r}, nil
}
