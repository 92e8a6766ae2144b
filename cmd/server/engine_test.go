package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lingserve/lingserve/cluster/clustertest"
	"github.com/lingserve/lingserve/internal/config"
)

// asked is an answer of a server.
type asked struct {
	status int
	header http.Header
	body   string
}

func askOnce(t *testing.T, method, url, body string, header ...string) asked {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for _, line := range header {
		name, value, _ := strings.Cut(line, ": ")
		req.Header.Set(name, value)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return asked{res.StatusCode, res.Header, string(text)}
}

// eventually asks until the answer is good.
func eventually(t *testing.T, url string, good func(asked) bool) asked {
	t.Helper()
	for end := time.Now().Add(patient); ; time.Sleep(20 * time.Millisecond) {
		got := askOnce(t, "GET", url, "")
		if good(got) {
			return got
		}
		if time.Now().After(end) {
			t.Fatalf("%s still answers %d: %s", url, got.status, got.body)
		}
	}
}

// CL-01: an embedded server needs nothing but a folder. What was said is there after a restart, and commands see it.
func TestAnEmbeddedEngine(t *testing.T) {
	dir := t.TempDir()
	args := []string{"--engine", "nats", "--nats", "embedded", "--nats-name", "one"}
	for round := range 2 {
		p := startServerIn(t, dir, args...)
		if got := askOnce(t, "GET", p.base+"/readyz", ""); got.status != 200 || !strings.Contains(got.body, `"ready"`) {
			t.Errorf("/readyz: %d %s", got.status, got.body)
		}
		if round == 0 {
			if got := askOnce(t, "POST", p.base+"/v1/runs?format=json", `{"agent":"assistant","session":"s-42","input":"hello"}`); got.status != 200 {
				t.Fatalf("a run: %d %s", got.status, got.body)
			}
		}
		if got := askOnce(t, "GET", p.base+"/v1/sessions", ""); !strings.Contains(got.body, `"s-42"`) {
			t.Errorf("round %d: the sessions are %s", round, got.body)
		}
		// A second server of these settings would destroy what is in the folder.
		var stderr bytes.Buffer
		if round == 0 {
			if code := tapeIn(t, dir, &stderr, append([]string{"list"}, args...)...); code != exitFailed || !strings.Contains(stderr.String(), "another process") || !strings.Contains(stderr.String(), "nats.listen") {
				t.Errorf("tape list beside it: %d %s", code, stderr.String())
			}
		}
		p.signal(syscall.SIGTERM)
		if code := p.wait(); code != exitOK {
			t.Errorf("it has ended with %d", code)
		}
	}
	var out bytes.Buffer
	if code := tapeIn(t, dir, &out, append([]string{"list"}, args...)...); code != exitOK || !strings.Contains(out.String(), "s-42") {
		t.Errorf("tape list: %d %s", code, out.String())
	}
	if _, err := os.Stat(filepath.Join(dir, "data", "tapes")); !os.IsNotExist(err) {
		t.Errorf("there is a folder of tapes: %v", err)
	}
}

// tapeIn is "lingserve tape" in a folder.
func tapeIn(t *testing.T, dir string, out io.Writer, args ...string) int {
	t.Helper()
	t.Chdir(dir)
	return tapeCommand(args, strings.NewReader(""), out, out)
}

// CL-10, CL-01: replicas share what is said; while the servers are away none is ready and nothing new begins, and when they are back all goes on.
func TestReplicasOfOneEngine(t *testing.T) {
	s := clustertest.One(t)
	workspace := t.TempDir()
	start := func() *process {
		return startServer(t, "--engine", "nats", "--nats", s.URL(), "--workspace", workspace, "--admin-addr", "127.0.0.1:0", "--nats-prefix", "two")
	}
	a, b := start(), start()
	admin := a.waitFor(`admin listener is open.*addr=(127\.0\.0\.1:\d+)`)
	if got := askOnce(t, "POST", a.base+"/v1/runs?format=json", `{"agent":"assistant","session":"s-1","input":"hello"}`); got.status != 200 {
		t.Fatalf("a run: %d %s", got.status, got.body)
	}
	// CL-05, CL-09: the run that one has begun is found at the other, by its id and by its key.
	const keyed = `{"workflow":"chat","input":"hello"}`
	first := askOnce(t, "POST", a.base+"/v1/runs?format=json", keyed, "Idempotency-Key: k-1")
	again := askOnce(t, "POST", b.base+"/v1/runs?format=json", keyed, "Idempotency-Key: k-1")
	id := first.header.Get("X-Run-Id")
	if first.status != 200 || again.status != 200 || id == "" || again.header.Get("X-Run-Id") != id || again.header.Get("Idempotency-Replayed") != "true" || again.body != first.body {
		t.Errorf("once more at the other: %d %v %s\nat first: %d %s", again.status, again.header, again.body, first.status, first.body)
	}
	if got := askOnce(t, "GET", b.base+"/v1/runs/"+id, ""); got.status != 200 {
		t.Errorf("the run at the other: %d %s", got.status, got.body)
	}
	if got := askOnce(t, "GET", b.base+"/v1/sessions", ""); !strings.Contains(got.body, `"s-1"`) {
		t.Errorf("the other replica has the sessions %s", got.body)
	}
	var ticket struct{ Ticket string }
	got := askOnce(t, "POST", a.base+"/v1/tickets", `{"path":"/v1/sessions"}`)
	if err := json.Unmarshal([]byte(got.body), &ticket); err != nil || ticket.Ticket == "" {
		t.Errorf("a ticket: %d %s", got.status, got.body)
	}
	if got := eventually(t, "http://"+admin[1]+"/metrics", func(got asked) bool { return strings.Contains(got.body, "lingserve_engine_replicas 2") }); !strings.Contains(got.body, "lingserve_engine_up 1") {
		t.Error("the metrics say it is away")
	}

	s.Kill(0)
	for _, p := range []*process{a, b} {
		got := eventually(t, p.base+"/readyz", func(got asked) bool { return got.status == 503 })
		if !strings.Contains(got.body, `"engine":"away"`) || got.header.Get("Retry-After") == "" {
			t.Errorf("/readyz: %v %s", got.header, got.body)
		}
		if got := askOnce(t, "GET", p.base+"/healthz", ""); got.status != 200 {
			t.Errorf("/healthz: %d", got.status)
		}
		if got := askOnce(t, "POST", p.base+"/v1/runs?format=json", `{"workflow":"chat","input":"hello"}`); got.status != 503 || !strings.Contains(got.body, `"overloaded"`) {
			t.Errorf("a new run: %d %s", got.status, got.body)
		}
	}
	eventually(t, "http://"+admin[1]+"/metrics", func(got asked) bool { return strings.Contains(got.body, "lingserve_engine_up 0") })
	s.Restart(0)
	for _, p := range []*process{a, b} {
		eventually(t, p.base+"/readyz", func(got asked) bool { return got.status == 200 })
		if got := askOnce(t, "POST", p.base+"/v1/runs?format=json", `{"agent":"assistant","session":"s-2","input":"hello"}`); got.status != 200 {
			t.Errorf("a run when they are back: %d %s", got.status, got.body)
		}
	}
}

// CL-01: servers that cannot be reached, or do not let a replica in, stop the start with a sentence that says so.
func TestTheEngineCannotBeReached(t *testing.T) {
	s := clustertest.One(t)
	log := slog.New(slog.DiscardHandler)
	open := func(within time.Duration, environ ...string) error {
		t.Helper()
		c, err := config.Load(nil, append(environ, "LINGSERVE_CONFIG=", "LINGSERVE_ENGINE=nats"))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), within)
		defer cancel()
		e, err := openEngine(ctx, c, log)
		e.close(log)
		return err
	}
	if err := open(patient, "LINGSERVE_NATS_SERVERS="+s.URL()); err != nil {
		t.Error(err)
	}
	s.Kill(0)
	err := open(3*time.Second, "LINGSERVE_NATS_SERVERS="+s.URL()) // for which it is waited
	if err == nil || !strings.Contains(err.Error(), "nats.servers (environment LINGSERVE_NATS_SERVERS): cannot connect to any server: "+s.URL()) || !strings.Contains(err.Error(), "check that the servers run") {
		t.Errorf("away: %v", err)
	}
	if err := open(patient); err == nil || !strings.Contains(err.Error(), "LINGSERVE_ENGINE: engine: engine nats needs nats.servers") {
		t.Errorf("no servers: %v", err)
	}
}

// CL-01: with the engine local nothing of NATS runs, and nothing of it is held.
func TestTheLocalEnginePaysNothing(t *testing.T) {
	c, err := config.Load(nil, []string{"LINGSERVE_CONFIG=", "LINGSERVE_ADDR=127.0.0.1:0", "LINGSERVE_DATA=" + t.TempDir(), "LINGSERVE_WORKSPACE=" + t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	await(t, "nothing of NATS runs for tests before this one", func() bool { return len(runningOfNATS()) == 0 })
	rate := runtime.MemProfileRate
	runtime.MemProfileRate = 1 // each allocation from now on is seen
	defer func() { runtime.MemProfileRate = rate }()
	before := heldByNATS(t)
	signals, ended := make(chan os.Signal, 1), make(chan error, 1)
	said := &logged{}
	go func() { ended <- serve(c, signals, said) }()
	for end := time.Now().Add(patient); !strings.Contains(said.String(), "listens on"); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("it does not listen: %s", said)
		}
	}
	for _, stack := range runningOfNATS() {
		t.Errorf("a goroutine runs:\n%s", stack)
	}
	for what, bytes := range heldByNATS(t) {
		// What was there before is of the packages' own variables and of other tests of this process. And the package of the embedded server
		// looks once a second what time the process has used, from its init on: a file of /proc and a timer.
		if bytes > before[what] && !strings.HasSuffix(what, "server/pse.periodic") {
			t.Errorf("%d bytes more are held by %s", bytes-before[what], what)
		}
	}
	signals <- syscall.SIGTERM
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// runningOfNATS are the stacks of goroutines that run for NATS. Those of a connection that was closed end a moment later.
func runningOfNATS() (running []string) {
	stacks := make([]byte, 8<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	for stack := range strings.SplitSeq(string(stacks), "\n\n") {
		if strings.Contains(stack, "nats-io") || strings.Contains(stack, "lingserve/cluster.") {
			running = append(running, stack)
		}
	}
	return running
}

// heldByNATS is the memory that functions of NATS have got and that is held.
func heldByNATS(t *testing.T) map[string]int64 {
	t.Helper()
	runtime.GC()
	runtime.GC() // the profile has what the last but one collection left
	records := make([]runtime.MemProfileRecord, 1<<20)
	n, ok := runtime.MemProfile(records, false)
	if !ok {
		t.Fatal("the profile does not fit")
	}
	held := map[string]int64{}
	for _, r := range records[:n] {
		frames := runtime.CallersFrames(r.Stack())
		for more := true; more; {
			var f runtime.Frame
			f, more = frames.Next()
			if strings.Contains(f.Function, "nats-io") {
				held[f.Function] += r.InUseBytes()
				break
			}
		}
	}
	return held
}

// A server that waits for the others can be told to end.
func TestASignalEndsTheStartWithAnEngine(t *testing.T) {
	signals := make(chan os.Signal, 2)
	ctx, stop := untilSignal(signals)
	signals <- syscall.SIGHUP // of which there is nothing to reload yet
	signals <- syscall.SIGTERM
	<-ctx.Done()
	stop()
	if cause := context.Cause(ctx); cause != errAtStart {
		t.Errorf("the cause is %v", cause)
	}
	ctx, stop = untilSignal(signals)
	stop()
	signals <- syscall.SIGTERM // for the server that has started
	if ctx.Err() != nil || len(signals) != 1 {
		t.Errorf("%v, %d signals are left", ctx.Err(), len(signals))
	}
}

// DA-06: the log names the servers that are reached without TLS, and the engine starts all the same.
func TestDA_06_TheLogNamesServersWithoutTLS(t *testing.T) {
	for servers, want := range map[string]string{
		"nats://192.0.2.1:4222,tls://192.0.2.2:4222,nats://127.0.0.1:4222": "nats://192.0.2.1:4222",
		"tls://192.0.2.2:4222": "",
	} {
		c, err := config.Load(nil, []string{"LINGSERVE_CONFIG=", "LINGSERVE_ENGINE=nats", "LINGSERVE_NATS_SERVERS=" + servers})
		if err != nil {
			t.Fatal(err)
		}
		said := &logged{}
		ctx, cancel := context.WithCancel(t.Context())
		cancel() // so that the servers, which are documentation's addresses, are not waited for
		if e, err := openEngine(ctx, c, slog.New(slog.NewTextHandler(said, nil))); err == nil {
			e.close(slog.New(slog.DiscardHandler))
			t.Error("servers that do not exist have answered")
		}
		for line := range strings.Lines(said.String()) {
			if strings.Contains(line, "has no TLS") {
				if want == "" || !strings.Contains(line, "level=WARN") || !strings.Contains(line, "servers="+want+"\n") {
					t.Errorf("%s: %s", servers, line)
				}
				want = ""
			}
		}
		if want != "" {
			t.Errorf("%s: the log does not name %s:\n%s", servers, want, said.String())
		}
	}
}
