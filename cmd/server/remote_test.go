package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// fakeServer serves one run whose events are known, and breaks its answers off.
type fakeServer struct {
	t      *testing.T
	events []string    // members after the id
	cut    func() int  // how many bytes the next answer has before it breaks; negative: it does not
	refuse func() bool // the next attach is answered with 503

	mu      sync.Mutex
	starts  int
	keys    map[string]bool
	body    map[string]any
	cancels int
}

func (f *fakeServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	from := 0
	switch {
	case r.Method == http.MethodGet && r.URL.Path == "/v1/workflows/article":
		io.WriteString(w, `{"name":"article","input":{"type":"object","properties":{"question":{"type":"string"},"sections":{"type":"integer"}}}}`)
		return
	case r.Method == http.MethodPost && r.URL.Path == "/v1/runs":
		f.starts++
		f.keys[r.Header.Get("Idempotency-Key")] = true
		if err := json.NewDecoder(r.Body).Decode(&f.body); err != nil {
			f.t.Error(err)
		}
	case r.Method == http.MethodGet && r.URL.Path == "/v1/runs/r1/events":
		if f.refuse() {
			http.Error(w, "busy", http.StatusServiceUnavailable)
			return
		}
		if id := r.Header.Get("Last-Event-ID"); id != "" {
			n, err := strconv.Atoi(strings.TrimPrefix(id, "r1:"))
			if err != nil {
				f.t.Errorf("Last-Event-ID is %q", id)
			}
			from = n + 1
		}
	case r.Method == http.MethodPost && r.URL.Path == "/v1/runs/r1/cancel":
		f.cancels++
		w.WriteHeader(http.StatusAccepted)
		return
	case r.Method == http.MethodGet && r.URL.Path == "/v1/runs/r1":
		io.WriteString(w, `{"run":"r1","status":"completed","result":{"a":1},"usage":{},"errors":[]}`+"\n")
		return
	default:
		http.NotFound(w, r)
		return
	}
	var b bytes.Buffer
	for n, e := range f.events[from:] {
		fmt.Fprintf(&b, "{\"id\":\"r1:%d\",%s}\n", from+n, e)
		if n%3 == 0 {
			b.WriteString("\n") // a sign of life
		}
	}
	w.Header().Set("X-Run-Id", "r1")
	w.Header().Set("Content-Type", "application/x-ndjson")
	cut := f.cut()
	if cut < 0 || cut > b.Len() {
		w.Write(b.Bytes())
		return
	}
	w.Write(b.Bytes()[:cut])
	http.NewResponseController(w).Flush()
	panic(http.ErrAbortHandler)
}

func newFake(t *testing.T, events ...string) (*fakeServer, string) {
	f := &fakeServer{t: t, events: events, keys: map[string]bool{}, cut: func() int { return -1 }, refuse: func() bool { return false }}
	s := httptest.NewServer(f)
	t.Cleanup(s.Close)
	return f, s.URL
}

// cli runs a command line in this process, in an empty folder and without the settings of the machine.
func cli(t *testing.T, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	t.Chdir(t.TempDir())
	for _, kv := range os.Environ() {
		if name, _, _ := strings.Cut(kv, "="); isSetting(name) {
			t.Setenv(name, "")
		}
	}
	var out, errs bytes.Buffer
	status = command(args, strings.NewReader(""), &out, &errs)
	return status, out.String(), errs.String()
}

var articleEvents = []string{
	`"event":"started","data":{"run":"r1","workflow":"article"}`,
	`"uri":"title","delta":"The "`,
	`"uri":"title","delta":"sky \"up\""`,
	`"uri":"title","done":true`,
	`"uri":"n","delta":1.10`,
	`"uri":"text","delta":"It is blue."`,
	`"event":"usage","data":{"bot":"b"}`,
	`"event":"finished","data":{"status":"completed"}`,
}

func asLines(events []string) string {
	var b strings.Builder
	for n, e := range events {
		fmt.Fprintf(&b, "{\"id\":\"r1:%d\",%s}\n", n, e)
	}
	return b.String()
}

func TestARunOnAServerSurvivesBrokenConnections(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 7))
		f, url := newFake(t, articleEvents...)
		f.cut = func() int { return r.IntN(700) }
		f.refuse = func() bool { return r.IntN(8) == 0 }
		status, stdout, stderr := cli(t, "run", "article", "--input", "question=Why?", "--format", "jsonl", "--server", url)
		if status != exitOK || stderr != "" {
			t.Fatalf("seed %d: status %d, stderr %q", seed, status, stderr)
		}
		if diff := cmp.Diff(asLines(articleEvents), stdout); diff != "" {
			t.Fatalf("seed %d: %s", seed, diff)
		}
		if len(f.keys) != 1 || f.keys[""] {
			t.Errorf("seed %d: %d starts with the keys %v, want one key", seed, f.starts, f.keys)
		}
	}
}

func TestARunOnAServerIsAskedForAsSaid(t *testing.T) {
	f, url := newFake(t, articleEvents...)
	status, stdout, stderr := cli(t, "run", "article", "--input", "question=Why?", "--input", "sections=3", "--model", "openai:x",
		"--param", "tone=playful", "--option", "temperature=0.5", "--option", "stop=END", "--strict", "--format", "text", "--server", strings.TrimPrefix(url, "http://")+"/")
	if status != exitOK || stderr != "" {
		t.Fatalf("status %d, stderr %q", status, stderr)
	}
	want := map[string]any{
		"workflow": "article", "input": map[string]any{"question": "Why?", "sections": 3.0}, "model": "openai:x",
		"params": map[string]any{"tone": "playful"}, "options": map[string]any{"temperature": 0.5, "stop": []any{"END"}}, "done": true, "strict": true,
	}
	if diff := cmp.Diff(want, f.body); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff("# The sky \"up\"\n\nN: 1.10\n\nIt is blue.\n", stdout); diff != "" {
		t.Error(diff)
	}
}

func TestTheFormatsOfARunOnAServer(t *testing.T) {
	for format, want := range map[string]string{
		"json": `{"run":"r1","status":"completed","result":{"a":1},"usage":{},"errors":[]}` + "\n",
		"sse":  "id: r1:0\nevent: started\ndata: {\"run\":\"r1\",\"workflow\":\"article\"}\n\nid: r1:1\ndata: {\"uri\":\"title\",\"delta\":\"The \"}\n\n",
	} {
		_, url := newFake(t, articleEvents...)
		status, stdout, stderr := cli(t, "run", "article", "--format", format, "--server", url)
		if status != exitOK || stderr != "" || !strings.HasPrefix(stdout, want) {
			t.Errorf("%s: status %d, stderr %q, stdout %s", format, status, stderr, stdout)
		}
	}
}

func TestHowARunOnAServerEndsIsTheExitStatus(t *testing.T) {
	for _, tc := range []struct {
		name   string
		events []string
		stderr string
	}{
		{
			"failed",
			[]string{
				`"event":"error","data":{"code":"upstream_timeout","message":"no token came","bot":"outline","fatal":true}`,
				`"event":"finished","data":{"status":"failed"}`,
			},
			"lingserve: the run failed: outline: no token came (upstream_timeout)\n",
		},
		{"canceled by somebody else", []string{`"event":"canceled","data":{"reason":"asked for"}`}, "lingserve: the run was canceled: asked for\n"},
		{"rubbish", []string{`"what":1`}, "lingserve: the server sent an invalid event: expected a delta or an event; check that the address is that of a Lingserve server\n"},
		{
			"gone",
			[]string{`"event":"error","data":{"code":"gone","message":"the run is not known","fatal":true}`, `"event":"finished","data":{"status":"failed"}`},
			"lingserve: the run failed: the run is not known (gone)\n",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, url := newFake(t, tc.events...)
			status, _, stderr := cli(t, "run", "article", "--server", url)
			if status != exitFailed || stderr != tc.stderr {
				t.Errorf("status %d, stderr %q, want %q", status, stderr, tc.stderr)
			}
		})
	}
}

func TestAServerThatRefusesIsQuoted(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusBadRequest)
		io.WriteString(w, `{"title":"Bad Request","detail":"the input does not fit","code":"invalid_request","errors":[{"pointer":"/input/question","detail":"this property is required"}]}`)
	}))
	defer s.Close()
	status, stdout, stderr := cli(t, "run", "article", "--server", s.URL)
	want := "lingserve: the input does not fit (invalid_request)\nlingserve: input.question: this property is required\n"
	if status != exitFailed || stdout != "" || stderr != want {
		t.Errorf("status %d, stdout %q, stderr %q", status, stdout, stderr)
	}
	s.Close()
	if status, _, stderr := cli(t, "run", "article", "--server", s.URL); status != exitFailed || !strings.Contains(stderr, "cannot connect to ") || strings.Count(stderr, "\n") != 1 {
		t.Errorf("status %d, stderr %q", status, stderr)
	}
	if status, _, stderr := cli(t, "run", "article", "--server", "ftp://x"); status != exitFailed || !strings.Contains(stderr, "expected an http or https address") {
		t.Errorf("status %d, stderr %q", status, stderr)
	}
}

// A snapshot is a group of events of which only the last has an id: half a group must not be passed on.
func TestHalfASnapshotIsNotPassedOn(t *testing.T) {
	var attached int
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Run-Id", "r1")
		switch {
		case r.Method == http.MethodGet && strings.HasPrefix(r.URL.Path, "/v1/workflows"):
			http.NotFound(w, r)
		case r.Method == http.MethodPost:
			io.WriteString(w, `{"id":"r1:0","event":"started","data":{}}`+"\n")
			http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		default:
			if attached++; attached == 1 {
				io.WriteString(w, `{"uri":"a","delta":null}`+"\n")
				http.NewResponseController(w).Flush()
				panic(http.ErrAbortHandler)
			}
			io.WriteString(w, `{"uri":"a","delta":null}`+"\n"+`{"id":"r1:9","uri":"","delta":{"a":"x"}}`+"\n"+`{"id":"r1:10","event":"finished","data":{"status":"completed"}}`+"\n")
		}
	}))
	defer s.Close()
	status, stdout, stderr := cli(t, "run", "article", "--format", "jsonl", "--server", s.URL)
	want := `{"id":"r1:0","event":"started","data":{}}
{"uri":"a","delta":null}
{"id":"r1:9","uri":"","delta":{"a":"x"}}
{"id":"r1:10","event":"finished","data":{"status":"completed"}}
`
	if status != exitOK || stderr != "" || stdout != want {
		t.Errorf("status %d, stderr %q, stdout %s", status, stderr, stdout)
	}
}

// Who says http to a server that speaks TLS, or https to one that does not, is told which to say, and that at once.
func TestTheOtherSchemeIsNamedWhereOneDoesNotFit(t *testing.T) {
	hello := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { t.Error("it was asked") })
	silent := func(s *httptest.Server) *httptest.Server {
		s.Config.ErrorLog = log.New(io.Discard, "", 0)
		return s
	}
	plain, encrypted := silent(httptest.NewUnstartedServer(hello)), silent(httptest.NewUnstartedServer(hello))
	plain.Start()
	defer plain.Close()
	encrypted.StartTLS()
	defer encrypted.Close()
	nginx := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, "<center>The plain HTTP request was sent to HTTPS port</center>", http.StatusBadRequest)
	}))
	defer nginx.Close()
	host := func(s *httptest.Server) string { return s.Listener.Addr().String() }
	for name, c := range map[string]struct{ server, want string }{
		"plain HTTP to a server with TLS":   {"http://" + host(encrypted), host(encrypted) + " uses TLS; use --server https://" + host(encrypted)},
		"no scheme to a server with TLS":    {host(encrypted), host(encrypted) + " uses TLS; use --server https://" + host(encrypted)},
		"plain HTTP to TLS of another kind": {nginx.URL, "uses TLS; use --server https://"},
		"TLS to a server without":           {"https://" + host(plain), host(plain) + " uses plain HTTP, without TLS; use --server http://" + host(plain)},
	} {
		t.Run(name, func(t *testing.T) {
			status, _, stderr := cli(t, "run", "article", "--server", c.server)
			if status != exitFailed || !strings.Contains(stderr, c.want) || strings.Contains(strings.NewReplacer(host(plain), "", host(encrypted), "", host(nginx), "").Replace(stderr), "400") {
				t.Errorf("status %d: %s", status, stderr)
			}
		})
	}
}
