//go:build nightly && unix

package faults

import (
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
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lingserve/lingserve/internal/fakeproviders"
	"github.com/lingserve/lingserve/internal/program"
)

// binary is the program, as users have it.
var binary program.Binary

func init() {
	flag.StringVar(&binary.Given, "program", "", "the server's program; where none is named it is built")
	atExit = append(atExit, func() { binary.Close() })
}

// server is the server's program in a process of its own, and the models that it asks, which are here.
type server struct {
	t       testing.TB
	process *program.Process
	url     string
	admin   string
	log     *program.Log
	data    string
	model   *fakeproviders.Server
	http    *http.Client
	onEvent func() // of what is followed

	breakModels func() // breaks all answers of models that go on
}

// unbounded lets the server's client have as many connections as it likes.
func (s *server) unbounded() { s.http.Transport.(*http.Transport).MaxIdleConnsPerHost = 0 }

// narrowClient is one whose sockets hold little.
func narrowClient() *http.Client {
	return &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := new(net.Dialer).DialContext(ctx, network, address)
		if err == nil {
			c.(*net.TCPConn).SetReadBuffer(64 << 10)
		}
		return c, err
	}}}
}

// serving is what differs from server to server.
type serving struct {
	args []string
	env  []string
	data string   // "" is a new folder
	by   []string // a command that starts the program
	// script answers instead of [answerOf].
	script func(fakeproviders.Request) fakeproviders.Answer
	config string // a configuration file's text
	path   string // another program than that of users
}

// serve starts a server, which is killed with the test at the latest.
func serve(t testing.TB, o serving) *server {
	t.Helper()
	path, err := o.path, error(nil)
	if path == "" {
		path, err = binary.Path(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	if o.script == nil {
		o.script = answerOf
	}
	s := &server{t: t, data: o.data, model: &fakeproviders.Server{Script: o.script}}
	if s.data == "" {
		s.data = t.TempDir()
	}
	dir := t.TempDir()
	for name, file := range workflows {
		if err := os.WriteFile(filepath.Join(dir, name), file.Data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	model := &http.Server{Handler: s.model, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, 0)}
	model.SetKeepAlivesEnabled(false) // so that no connection is kept for the next request: what is open is in use
	var models sync.WaitGroup
	models.Go(func() { model.Serve(l) })
	s.breakModels = func() { model.Close(); models.Wait() }
	t.Cleanup(s.breakModels)

	args := []string{"--admin-addr", "127.0.0.1:0", "--data", s.data, "--workflows", dir, "--workspace", dir, "--log-format", "json", "--model", "openai:m"}
	if o.config != "" {
		config := filepath.Join(t.TempDir(), "lingserve.yaml")
		if err := os.WriteFile(config, []byte(o.config), 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, "--config", config)
	}
	env := []string{"OPENAI_API_KEY=" + canary, "OPENAI_BASE_URL=http://" + l.Addr().String() + "/v1"}
	s.process, err = program.Start(t.Context(), path, dir, &program.Options{By: o.by, Args: append(args, o.args...), Env: append(env, o.env...)})
	if err != nil {
		t.Fatal(err)
	}
	s.url, s.log = s.process.URL, s.process.Log
	t.Cleanup(func() {
		if s.kill(); t.Failed() {
			t.Logf("the server's log: %s", clip(s.log.String()))
		}
	})
	m, err := s.log.Find(t.Context(), adminOpen)
	if err != nil {
		t.Fatal(err)
	}
	s.admin = m[1]
	transport := &http.Transport{MaxIdleConnsPerHost: 4, MaxIdleConns: 4}
	t.Cleanup(transport.CloseIdleConnections)
	s.http = &http.Client{Transport: transport}
	return s
}

// adminOpen says where those who run the server are listened to.
var adminOpen = regexp.MustCompile(`"msg":"admin listener is open","addr":"([^"]+)"`)

// kill ends the process as a machine would.
func (s *server) kill() { s.process.Kill() }

// stop ends the process as a system would, and says so where that is no success.
func (s *server) stop() {
	s.t.Helper()
	if err := s.process.Stop(); err != nil {
		s.t.Errorf("the server has ended with %v: %s", err, clip(s.log.String()))
	}
	for _, mistake := range []string{"panicked", "superfluous", "http: panic", "DATA RACE", "CANARY"} {
		if text := s.log.String(); strings.Contains(text, mistake) {
			s.t.Errorf("the server has made a mistake: %q", around(text, strings.Index(text, mistake)))
		}
	}
}

// alive fails the test where the process has ended.
func (s *server) alive() {
	s.t.Helper()
	if !s.process.Alive() {
		s.t.Fatalf("the server has ended: %v: %s", s.process.Wait(), clip(s.log.String()))
	}
}

// request sends a request; header lines are "Name: value".
func (s *server) request(ctx context.Context, method, path, body string, header ...string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, s.url+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for _, line := range header {
		name, value, _ := strings.Cut(line, ": ")
		req.Header.Set(name, value)
	}
	return s.http.Do(req)
}

// do asks for anything and reads the answer to the end.
func (s *server) do(method, path, body string, header ...string) (*answer, error) {
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	resp, err := s.request(ctx, method, path, body, header...)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	return readAnswer(resp), nil
}

// served asks for a run that must be right.
func (s *server) served(model, input string) {
	s.t.Helper()
	a, err := s.do("POST", "/v1/runs", runOf(model, input), "Accept: application/json")
	if err != nil {
		s.t.Error(err)
	} else if a.status != 200 || a.state != "completed" || a.doc != docOf(model, input) {
		s.t.Errorf("a run of %s: %v", model, a)
	}
}

// tcp opens a connection of its own and sends a request over it.
func (s *server) tcp(request string) (*net.TCPConn, error) { return s.tcpFrom("", request) }

// tcpFrom is tcp from another address of this machine.
func (s *server) tcpFrom(address, request string) (*net.TCPConn, error) {
	from := net.Dialer{Timeout: patience}
	if address != "" {
		from.LocalAddr = &net.TCPAddr{IP: net.ParseIP(address)}
	}
	c, err := from.Dial("tcp", s.process.Addr())
	if err != nil {
		return nil, err
	}
	if _, err := io.WriteString(c, request); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c.(*net.TCPConn), nil
}

// post is the text of a request for a run.
func post(body, framing string) string {
	return fmt.Sprintf("POST /v1/runs HTTP/1.1\r\nHost: localhost\r\nAccept: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", framing, len(body), body)
}

// runOf is the body of a request for a run of the workflow "text" with a model and an input.
func runOf(model, input string) string {
	return fmt.Sprintf(`{"workflow":"text","model":"openai:%s","input":%q}`, model, input)
}

// What models are called is what they do:
//
//	m           answer at once
//	size-N      an answer of so many bytes
//	pace-N-M    so many tokens, so many a second
//	idle        one word, and then nothing until somebody goes away
var modelName = regexp.MustCompile(`^(?:m|idle|size-(\d+)|pace-(\d+)-(\d+))$`)

// answerOf is what they do.
func answerOf(r fakeproviders.Request) fakeproviders.Answer {
	text := textOf(r.Model, asked(r))
	m := modelName.FindStringSubmatch(r.Model)
	switch {
	case m == nil:
		return fakeproviders.Answer{Status: http.StatusNotFound}
	case r.Model == "idle":
		return raw(bytes_(openAI.begin(text)), hang)
	case m[3] != "":
		pace, _ := strconv.ParseFloat(m[3], 64)
		return fakeproviders.Answer{Tokens: strings.SplitAfter(text, " "), Pace: pace}
	case m[1] != "": // in larger pieces than models have, so that its size is what counts
		return fakeproviders.Answer{Tokens: slices.Collect(func(yield func(string) bool) {
			const piece = 100 // of what repeats
			lines := strings.SplitAfter(text, ", ")
			for some := range slices.Chunk(lines, piece) {
				if !yield(strings.Join(some, "")) {
					return
				}
			}
		})}
	}
	return fakeproviders.Answer{Text: text}
}

// textOf is the text of a model's answer: another one for each input.
func textOf(model, input string) string {
	m := modelName.FindStringSubmatch(model)
	if m == nil || m[1] == "" && m[2] == "" {
		return "This is the answer to " + input
	}
	n, _ := strconv.Atoi(m[1] + m[2])
	if m[1] != "" {
		piece := input + " ½ ☀ 🌈, "
		return strings.Repeat(piece, n/len(piece)+1)
	}
	words := make([]string, n)
	for i := range words {
		words[i] = input + "/" + strconv.Itoa(i)
	}
	return strings.Join(words, " ")
}

// docOf is the document of a run.
func docOf(model, input string) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.Encode(map[string]string{"answer": textOf(model, input)})
	return strings.TrimSpace(b.String())
}

// follow reads a run to its end over as many connections as it takes, as a client does that comes back.
func (s *server) follow(ctx context.Context, model, input, key string) (*fold, int, error) {
	var f fold
	for connections := 1; ; connections++ {
		header := []string{"Accept: text/event-stream", "Idempotency-Key: " + key}
		if f.last != "" {
			header = append(header, "Last-Event-ID: "+f.last)
		}
		resp, err := s.request(ctx, "POST", "/v1/runs", runOf(model, input), header...)
		if err == nil && resp.StatusCode != 200 {
			a := readAnswer(resp)
			resp.Body.Close()
			return &f, connections, fmt.Errorf("%v", a)
		}
		if err == nil {
			for events := newEventReader("text/event-stream", resp.Body); ; {
				var e event
				if e, err = events.next(); err != nil {
					break
				}
				if f.take(e); s.onEvent != nil {
					s.onEvent()
				}
			}
			f.cut()
			resp.Body.Close()
		}
		if f.state != "" {
			return &f, connections, nil
		}
		if ctx.Err() != nil || connections == 100 {
			return &f, connections, errors.Join(err, ctx.Err())
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

// slowEnds are those of streams whose client took nothing for the time that a write may take.
var slowEnds = regexp.MustCompile(`(?m)^lingserve_streams_ended_total\{end="slow",[^}]*\} (\d+)$`)

// slow counts them.
func (s *server) slow() (n int) {
	s.t.Helper()
	resp, err := http.Get("http://" + s.admin + "/metrics")
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != 200 {
		s.t.Fatalf("its metrics: %s: %v", resp.Status, err)
	}
	for _, m := range slowEnds.FindAllStringSubmatch(string(text), -1) {
		one, _ := strconv.Atoi(m[1])
		n += one
	}
	return n
}

// footing is what a process holds.
type footing struct {
	files, goroutines int
	heap              int64 // in use with the stacks, after the garbage is collected
	rss               int64 // that the system has given it
	cpu               time.Duration
}

func (f footing) String() string {
	return fmt.Sprintf("%d goroutines, %d files, RSS %d MiB, heap %.1f MiB", f.goroutines, f.files, f.rss>>20, float64(f.heap)/(1<<20))
}

var (
	profileTotal = regexp.MustCompile(`goroutine profile: total (\d+)`)
	heapInUse    = regexp.MustCompile(`# (?:HeapInuse|Stack) = (\d+)`)
)

// footing measures the process. It is looked at from outside, where the system shows that; what it says itself comes from the
// listener for those who run it.
func (s *server) footing() (f footing) {
	s.t.Helper()
	s.alive()
	proc := "/proc/" + strconv.Itoa(s.process.Pid())
	ask := func(path string) string {
		resp, err := http.Get("http://" + s.admin + path)
		if err != nil {
			s.t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != 200 {
			s.t.Fatalf("%s: %s: %v", path, resp.Status, err)
		}
		return string(text)
	}
	ask("/debug/pprof/heap?gc=1") // what pools hold is given back by the second collection
	for _, m := range heapInUse.FindAllStringSubmatch(ask("/debug/pprof/heap?gc=1&debug=1"), -1) {
		n, _ := strconv.ParseInt(m[1], 10, 64)
		f.heap += n
	}
	if m := profileTotal.FindStringSubmatch(ask("/debug/pprof/goroutine?debug=1")); m != nil {
		f.goroutines, _ = strconv.Atoi(m[1])
	}
	http.DefaultClient.CloseIdleConnections()
	list, err := os.ReadDir(proc + "/fd")
	if err != nil {
		s.t.Skipf("nobody tells what a process holds: %v", err)
	}
	f.files = len(list)
	f.rss = s.status("VmRSS")
	f.cpu = s.cpu()
	return f
}

// status is a line of what the system says of the process, in bytes.
func (s *server) status(name string) int64 {
	text, _ := os.ReadFile("/proc/" + strconv.Itoa(s.process.Pid()) + "/status")
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			n, _ := strconv.ParseInt(strings.Fields(value)[0], 10, 64)
			return n << 10
		}
	}
	return 0
}

// cpu is the time that the process has used of processors.
func (s *server) cpu() time.Duration {
	text, _ := os.ReadFile("/proc/" + strconv.Itoa(s.process.Pid()) + "/stat")
	_, rest, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0
	}
	user, _ := strconv.Atoi(fields[11])
	system, _ := strconv.Atoi(fields[12])
	const tick = time.Second / 100 // what linux counts in, on all machines of Go
	return time.Duration(user+system) * tick
}

// settled waits until the process holds no more than before, and returns what it holds. A stream may leave so many bytes of memory.
func (s *server) settled(before footing, streams int, each int64) (f footing) {
	s.t.Helper()
	s.http.CloseIdleConnections()
	most := before.heap + 8<<20 + int64(streams)*each
	eventuallySlowly(s.t, "the server holds no more than before", func() bool {
		f = s.footing()
		return f.files <= before.files+2 && f.goroutines <= before.goroutines+4 && f.heap <= most
	})
	if *soakTime > 0 { // the system gets memory back when nothing has wanted it for some time
		time.Sleep(20 * time.Second)
		f = s.footing()
	}
	if s.t.Failed() {
		s.t.Logf("before: %v; afterwards: %v", before, f)
	}
	return f
}

// eventuallySlowly is eventually for what costs something to look at.
func eventuallySlowly(t testing.TB, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !is(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Errorf("never: %s", what)
			return
		}
	}
}

// limited is a command that starts a program with less of something, in the words of ulimit.
func limited(limit string) []string {
	return []string{"sh", "-c", "ulimit " + limit + ` && exec "$@"`, "sh"}
}
