//go:build nightly && unix

package faults

import (
	"context"
	"encoding/json"
	"errors"
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

	"github.com/lingserve/lingserve/adapter/adaptertest"
	"github.com/lingserve/lingserve/internal/fakeproviders"
	"github.com/lingserve/lingserve/internal/program"
)

// server is the program in a process of its own, with the models that it asks, which are in this process.
type server struct {
	t       testing.TB
	process *program.Process
	url     string
	admin   string // address of the admin listener
	log     *program.Log
	data    string
	model   *fakeproviders.Server
	http    *http.Client

	breakModels func() // ends all answers of models that go on
}

// serving is what differs from server to server.
type serving struct {
	path   string   // of another program than that of users
	by     []string // a command that starts the program
	args   []string
	config string // a configuration file; MODELS is the address of the models
	data   string // "" is a new folder
	host   string // of the models; "" is 127.0.0.1
	script func(fakeproviders.Request) fakeproviders.Answer
}

// brief are settings that keep nothing that has ended for long, so that what is left shows soon.
var brief = []string{"--run-retention", "1s", "--run-ended-memory", "1MiB"}

const workflows = `
name: text
input: {type: object, required: [q], properties: {q: {type: string}}}
bots:
  writer: {prompt: "Answer.", message: "{{ input.q }}", root: answer, format: text}
---
name: json
input: {type: object, required: [q], properties: {q: {type: string}}}
bots:
  writer: {prompt: "Answer in JSON.", message: "{{ input.q }}", root: doc}
`

// serve starts a server, which the test ends.
func serve(t testing.TB, o serving) *server {
	t.Helper()
	if o.path == "" {
		path, err := binary.Path(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		o.path = path
	}
	if o.script == nil {
		o.script = answerOf
	}
	if o.host == "" {
		o.host = "127.0.0.1"
	}
	s := &server{t: t, data: o.data, model: &fakeproviders.Server{Script: o.script}}
	if s.data == "" {
		s.data = t.TempDir()
	}
	l, err := net.Listen("tcp", o.host+":0")
	if err != nil {
		t.Fatal(err)
	}
	models := &http.Server{Handler: s.model, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, 0)}
	models.SetKeepAlivesEnabled(false) // so that each open connection is in use
	var serving sync.WaitGroup
	serving.Go(func() { _ = models.Serve(l) })
	s.breakModels = func() { models.Close(); serving.Wait() }
	t.Cleanup(s.breakModels)

	dir := t.TempDir()
	config := filepath.Join(t.TempDir(), "lingserve.yaml")
	files := map[string]string{config: strings.ReplaceAll(o.config, "MODELS", "http://"+l.Addr().String())}
	for text := range strings.SplitSeq(workflows, "---") {
		_, name, _ := strings.Cut(text, "name: ")
		files[filepath.Join(dir, strings.Fields(name)[0]+".yaml")] = text
	}
	for file, text := range files {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s.process, err = program.Start(t.Context(), o.path, dir, &program.Options{
		By: o.by,
		Args: append([]string{
			"--admin-addr", "127.0.0.1:0", "--data", s.data, "--workflows", dir, "--workspace", dir, "--config", config, "--log-format", "json", "--model", "openai:m",
		}, o.args...),
		Env: []string{"OPENAI_API_KEY=" + adaptertest.Key, "OPENAI_BASE_URL=http://" + l.Addr().String() + "/v1", "LINGSERVE_MODELS_CALLERS=any"},
	})
	if err != nil {
		t.Fatal(err)
	}
	s.url, s.log = s.process.URL, s.process.Log
	t.Cleanup(func() {
		if s.process.Kill(); t.Failed() {
			t.Logf("the server's log: %s", clip(s.log.String()))
		}
	})
	m, err := s.log.Find(t.Context(), regexp.MustCompile(`"msg":"admin listener is open","addr":"([^"]+)"`))
	if err != nil {
		t.Fatal(err)
	}
	s.admin = m[1]
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	s.http = &http.Client{Transport: transport}
	return s
}

// stop ends the process as a system does, and fails the test if it made a mistake.
func (s *server) stop() {
	s.t.Helper()
	if err := s.process.Stop(); err != nil {
		s.t.Errorf("the server has ended with %v: %s", err, clip(s.log.String()))
	}
	log := s.log.String()
	for _, mistake := range []string{"panicked", "superfluous", "http: panic", "DATA RACE", "CANARY"} {
		if at := strings.Index(log, mistake); at >= 0 {
			s.t.Errorf("the server has made a mistake: %q", log[max(0, at-200):min(len(log), at+200)])
		}
	}
}

// alive fails the test if the process has ended.
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

// do sends a request and reads the answer.
func (s *server) do(method, path, body string, header ...string) *answer {
	s.t.Helper()
	resp, err := s.request(s.t.Context(), method, path, body, header...)
	if err != nil {
		s.t.Errorf("%s %s: %v", method, path, err)
		return &answer{broken: err}
	}
	defer resp.Body.Close()
	a := readAnswer(resp)
	if strings.Contains(string(a.body), "CANARY") {
		s.t.Errorf("%s %s: the key of a provider is in the answer: %v", method, path, a)
	}
	return a
}

// start starts a run and reads its answer.
func (s *server) start(model, input string, header ...string) *answer {
	s.t.Helper()
	return s.do("POST", "/v1/runs", runOf(model, input), header...)
}

// completed reports whether an answer is that of a completed run with the right document.
func completed(a *answer, model, input string) bool {
	return a.status == 200 && a.state == "completed" && a.doc == docOf(model, input)
}

// serves fails the test unless the server completes a run.
func (s *server) serves(input string) {
	s.t.Helper()
	if a := s.start("m", input, "Accept: application/json"); !completed(a, "m", input) {
		s.t.Errorf("a run: %v", a)
	}
}

// servesAgain waits until the server completes a run.
func (s *server) servesAgain() {
	s.t.Helper()
	eventually(s.t, "the server serves again", func() bool { s.alive(); return completed(s.start("m", "later"), "m", "later") })
}

// follow reads a run to its end over as many connections as it takes, as clients do that come back. cut may end a connection early.
func (s *server) follow(ctx context.Context, f *fold, media, path, body, key string, cut func(io.Reader) io.Reader) (connections int, err error) {
	for connections = 1; ; connections++ {
		header := []string{"Accept: " + media, "Idempotency-Key: " + key}
		if f.last != "" {
			header = append(header, "Last-Event-ID: "+f.last)
		}
		resp, err := s.request(ctx, "POST", path, body, header...)
		switch {
		case err != nil:
		case resp.StatusCode != 200:
			defer resp.Body.Close()
			return connections, fmt.Errorf("from %q: %v", f.last, readAnswer(resp))
		default:
			from := io.Reader(resp.Body)
			if cut != nil {
				from = cut(from)
			}
			f.read(media, from)
			resp.Body.Close()
		}
		if f.state != "" || ctx.Err() != nil || connections == 100 {
			return connections, errors.Join(err, ctx.Err())
		}
	}
}

// tcp opens a connection and sends a request over it.
func (s *server) tcp(request string) (*net.TCPConn, error) {
	c, err := net.Dial("tcp", s.process.Addr())
	if err != nil {
		return nil, err
	}
	if _, err := io.WriteString(c, request); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c.(*net.TCPConn), nil
}

// post returns the text of a request for a run.
func post(path, body, media string, header ...string) string {
	return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: localhost\r\nAccept: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n%s\r\n%s",
		path, media, len(body), strings.Join(append(header, ""), "\r\n"), body)
}

// readUntil reads until the words have come.
func readUntil(c net.Conn, words string) error {
	buf := make([]byte, 0, 1024)
	for {
		if len(buf) > 512 {
			buf = append(buf[:0], buf[len(buf)-256:]...)
		}
		n, err := c.Read(buf[len(buf):cap(buf)])
		if buf = buf[:len(buf)+n]; strings.Contains(string(buf), words) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%w before %q: %q", err, words, buf)
		}
	}
}

// runOf returns the body of a request for a run of the workflow "text".
func runOf(model, input string) string {
	return fmt.Sprintf(`{"workflow":"text","model":"openai:%s","input":%q}`, model, input)
}

// The name of a model says what it does:
//
//	m           answers at once
//	size-N      answers with N bytes
//	pace-N-M    answers with N tokens, M a second
//	idle        says one word, and then nothing until the request ends
var modelName = regexp.MustCompile(`^(?:m|idle|size-(\d+)|pace-(\d+)-(\d+))$`)

// answerOf is the script of these models.
func answerOf(r fakeproviders.Request) fakeproviders.Answer {
	text := textOf(r.Model, lastMessage(r))
	m := modelName.FindStringSubmatch(r.Model)
	switch {
	case m == nil:
		return fakeproviders.Answer{Status: http.StatusNotFound}
	case r.Model == "idle":
		w := adaptertest.OpenAI
		return fakeproviders.Answer{Raw: []fakeproviders.Raw{{Bytes: w.Open + w.Text(text)}, {Hang: true}}}
	case m[3] != "":
		pace, _ := strconv.ParseFloat(m[3], 64)
		return fakeproviders.Answer{Tokens: strings.SplitAfter(text, " "), Pace: pace}
	case m[1] != "": // in larger pieces than models send, so that its size is what counts
		var tokens []string
		for some := range slices.Chunk(strings.SplitAfter(text, ", "), 100) {
			tokens = append(tokens, strings.Join(some, ""))
		}
		return fakeproviders.Answer{Tokens: tokens}
	}
	return fakeproviders.Answer{Text: text}
}

// lastMessage returns the last message of a request, without those before it that had no answer, which are joined with it.
func lastMessage(r fakeproviders.Request) string {
	text := r.Messages[len(r.Messages)-1].Content
	return text[strings.LastIndex("\n\n"+text, "\n\n"):]
}

// textOf returns the text of a model's answer, which is another one for each input.
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

// docOf returns the document of a run.
func docOf(model, input string) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(map[string]string{"answer": textOf(model, input)}) // into memory
	return strings.TrimSpace(b.String())
}

// ask reads a path of the admin listener.
func (s *server) ask(path string) string {
	s.t.Helper()
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

// sum adds the numbers that an expression finds at a path of the admin listener.
func (s *server) sum(path string, number *regexp.Regexp) (sum int64) {
	s.t.Helper()
	for _, m := range number.FindAllStringSubmatch(s.ask(path), -1) {
		n, err := strconv.ParseFloat(m[1], 64)
		if err != nil {
			s.t.Fatal(err)
		}
		sum += int64(n)
	}
	return sum
}

var (
	goroutines = regexp.MustCompile(`goroutine profile: total (\d+)`)
	heapInUse  = regexp.MustCompile(`# (?:HeapInuse|Stack) = (\d+)`)
	slowEnds   = regexp.MustCompile(`(?m)^lingserve_streams_ended_total\{end="slow",[^}]*\} (\d+)$`)
)

// dropped returns how many streams ended because their client took nothing for the time that a write may take.
func (s *server) dropped() int64 { return s.sum("/metrics", slowEnds) }

// footing is what a process holds.
type footing struct {
	files      int
	goroutines int64
	heap       int64 // in use, with stacks, after the garbage is collected
	rss        int64
}

func (f footing) String() string {
	return fmt.Sprintf("%d goroutines, %d files, RSS %d MiB, heap %.1f MiB", f.goroutines, f.files, f.rss>>20, float64(f.heap)/(1<<20))
}

// footing measures the process from outside and by its admin listener.
func (s *server) footing() (f footing) {
	s.t.Helper()
	s.alive()
	s.ask("/debug/pprof/heap?gc=1") // the second collection empties pools
	f.heap = s.sum("/debug/pprof/heap?gc=1&debug=1", heapInUse)
	f.goroutines = s.sum("/debug/pprof/goroutine?debug=1", goroutines)
	http.DefaultClient.CloseIdleConnections()
	list, err := os.ReadDir("/proc/" + strconv.Itoa(s.process.Pid()) + "/fd")
	if err != nil {
		s.t.Skipf("this system does not show what another process holds: %v", err)
	}
	f.files, f.rss = len(list), s.status("VmRSS")
	return f
}

// status returns a line of /proc/PID/status in bytes.
func (s *server) status(name string) int64 {
	text, _ := os.ReadFile("/proc/" + strconv.Itoa(s.process.Pid()) + "/status")
	_, rest, _ := strings.Cut(string(text), "\n"+name+":")
	if fields := strings.Fields(rest); len(fields) > 0 {
		n, _ := strconv.ParseInt(fields[0], 10, 64)
		return n << 10
	}
	return 0
}

// cpu returns the processor time that the process has used.
func (s *server) cpu() time.Duration {
	text, _ := os.ReadFile("/proc/" + strconv.Itoa(s.process.Pid()) + "/stat")
	_, rest, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0
	}
	user, _ := strconv.Atoi(fields[11])
	system, _ := strconv.Atoi(fields[12])
	return time.Duration(user+system) * time.Second / 100 // Linux counts hundredths
}

// warm lets the server do a little of everything that it keeps something of, and measures it.
func (s *server) warm() footing {
	s.t.Helper()
	var clients sync.WaitGroup
	for i := range 20 {
		clients.Go(func() { s.serves("warm " + strconv.Itoa(i)) })
	}
	clients.Wait()
	s.http.CloseIdleConnections()
	eventually(s.t, "no model is asked", func() bool { return s.model.Open() == 0 })
	return s.footing()
}

// settle waits until the process holds no more than before. A client may leave so many bytes of memory.
func (s *server) settle(before footing, clients int, each int64) (f footing) {
	s.t.Helper()
	s.http.CloseIdleConnections()
	eventually(s.t, "the server holds no more than before", func() bool {
		f = s.footing()
		return f.files <= before.files+2 && f.goroutines <= before.goroutines+4 && f.heap <= before.heap+8<<20+int64(clients)*each
	})
	return f
}

// openFiles allows this process so many open files, and skips the test if that is not possible.
func openFiles(t *testing.T, want int) {
	if limit := raiseFiles(uint64(want)); limit < uint64(want) {
		t.Skipf("this takes %d files, and %d may be open", want, limit)
	}
}
