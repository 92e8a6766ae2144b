package web

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/web/wire"
)

// tally notes what an observer is told, each thing with how often.
type tally struct {
	mu   sync.Mutex
	seen map[string]int
}

func (o *tally) note(format string, args ...any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.seen == nil {
		o.seen = map[string]int{}
	}
	o.seen[fmt.Sprintf(format, args...)]++
}

func (o *tally) count(what string) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.seen[what]
}

// all is what was noted that begins with one of these.
func (o *tally) all(begins ...string) []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	var list []string
	for what, n := range o.seen {
		if slices.ContainsFunc(begins, func(b string) bool { return strings.HasPrefix(what, b) }) {
			list = append(list, fmt.Sprintf("%s ×%d", what, n))
		}
	}
	slices.Sort(list)
	return list
}

func (o *tally) Run(workflow, agent string) RunObserver {
	o.note("run %s%s", workflow, agent)
	return tallyRun{o, workflow + agent}
}

func (o *tally) Stream(kind string) wire.StreamObserver {
	o.note("stream %s", kind)
	return tallyStream{o, kind}
}
func (o *tally) Resumed(outcome string) { o.note("resumed %s", outcome) }
func (o *tally) Requested(e Exchange) {
	o.note("%s %s %d%s", e.Method, e.Route, e.Status, map[bool]string{true: " broken"}[e.Broken])
	if e.Reason != "" {
		o.note("refused %s", e.Reason)
	}
}

type tallyRun struct {
	*tally
	name string
}

func (o tallyRun) First()                  { o.note("first of %s", o.name) }
func (o tallyRun) End(status, code string) { o.note("%s %s %s", o.name, status, code) }

type tallyStream struct {
	*tally
	kind string
}

func (o tallyStream) Wrote(events, bytes int) {
	for range events {
		o.note("event %s", o.kind)
	}
	if bytes <= 0 {
		o.note("a write of nothing")
	}
}

func (o tallyStream) End(end string, snapshots int) {
	o.note("%s %s", o.kind, end)
	if snapshots > 0 {
		o.note("%s snapshot", o.kind)
	}
}

func TestTheObserverIsToldOfRunsStreamsAndRequests(t *testing.T) {
	o := new(tally)
	b := newBench(t, func(opts *Options) { opts.Observer = o }).serve()
	// A run that two clients follow, and one comes back to.
	resp, st := b.start("", "Accept: text/event-stream")
	id := resp.Header.Get("X-Run-Id")
	lines := b.do("GET", "/v1/runs/"+id+"/events", "", "Accept: application/x-ndjson")
	st.send("a", "one")
	st.send("a", "two")
	st.finish()
	f := fold(t, resp)
	text(t, lines)
	text(t, b.do("GET", "/v1/runs/"+id+"/events", "", "Accept: text/event-stream", "Last-Event-ID: "+id+":1"))
	text(t, b.do("GET", "/v1/runs/"+id+"/events", "", "Accept: text/event-stream", "Last-Event-ID: "+f.last))
	text(t, b.do("GET", "/v1/runs/"+id+"/events", "", "Accept: text/event-stream", "Last-Event-ID: "+id+":999"))
	lost := strings.Repeat("a", 26)
	text(t, b.do("GET", "/v1/runs/"+lost+"/events", "", "Accept: text/event-stream", "Last-Event-ID: "+lost+":3"))
	// One that fails, whose document is waited for.
	done := make(chan struct{})
	go func() {
		defer close(done)
		st := <-b.steps.came
		st.fail(errors.New("CANARY"))
		st.finish()
	}()
	text(t, b.do("POST", "/v1/runs", `{"workflow":"steps"}`, "Accept: application/json"))
	<-done
	// What leads nowhere.
	text(t, b.do("GET", "/CANARY", ""))
	text(t, b.do("BREW", "/v1/runs", ""))
	want := []string{
		"GET /v1/runs/{run}/events 200 ×3", "GET /v1/runs/{run}/events 204 ×1", "GET /v1/runs/{run}/events 400 ×1", "GET other 404 ×1",
		"POST /v1/runs 200 ×1", "POST /v1/runs 500 ×1",
		"event jsonl ×4", "event sse ×6", "first of steps ×1", "json complete ×1", "jsonl complete ×1", "other other 405 ×1",
		"resumed complete ×1", "resumed followed ×1", "resumed gone ×1", "resumed invalid ×1", "run steps ×2", "sse complete ×2",
		"steps completed  ×1", "steps failed internal ×1", "stream json ×1", "stream jsonl ×1", "stream sse ×2",
	}
	// Clients have the end of an answer a moment before the observer is told of it.
	defer func() {
		if t.Failed() {
			t.Logf("(-want +got):\n%s", cmp.Diff(want, o.all("")))
		}
	}()
	eventually(t, "all of it is told", func() bool { return slices.Equal(want, o.all("")) })
}

// FT-19
func TestAStreamThatEndsEarlyIsToldWithWhy(t *testing.T) {
	t.Run("the client disconnected", func(t *testing.T) {
		o := new(tally)
		b := newBench(t, func(opts *Options) { opts.Observer = o }).serve()
		resp, st := b.start("", "Accept: text/event-stream")
		resp.Body.Close()
		eventually(t, "it is told", func() bool { return o.count("sse left") == 1 && o.count("POST /v1/runs 200 broken") == 1 })
		st.finish()
	})
	t.Run("the client fell out of the log", func(t *testing.T) {
		o := new(tally)
		b := newBench(t, func(opts *Options) { opts.Observer, opts.MaxLog = o, 4<<10 }).serve()
		id, st := b.startAsync()
		for range 100 {
			st.send("a", strings.Repeat("x", 1000))
		}
		st.finish()
		text(t, b.do("GET", "/v1/runs/"+id+"/events", "", "Accept: text/event-stream"))
		eventually(t, "it is told", func() bool { return o.count("sse complete") == 1 })
		eventually(t, "it is told of the snapshot", func() bool { return o.count("sse snapshot") == 1 })
	})
}

// lineOf is the line of the log for the request that ended last.
func (b *bench) lineOf(what string) string {
	b.t.Helper()
	var line string
	eventually(b.t, "the log has a line with "+what, func() bool {
		for l := range strings.Lines(b.log.String()) {
			if strings.Contains(l, "msg=request") && strings.Contains(l, what) {
				line = l
			}
		}
		return line != ""
	})
	return line
}

// SE-06
func TestTheAccessLogSaysWhoAskedForWhatAndWhatCameOfIt(t *testing.T) {
	k := newKeyring(t, "front-end:user")
	auth := k.bearer["front-end"]
	b := newBench(t, func(o *Options) { o.Access.Door, o.AccessLog = k.door, AccessLogAll }).serve()
	agent := "User-Agent: front-end/1.2 (CANARY-machine; someone@example.com)"

	resp := b.do("POST", "/v1/runs?include=reserved", `{"workflow":"chat","input":{"question":"CANARY-said"}}`, auth, agent, "Accept: application/json", "Idempotency-Key: CANARY-key")
	text(t, resp)
	line := b.lineOf("POST")
	for _, want := range []string{
		"method=POST", " path=/v1/runs ", "status=200", "took=", "first_byte=", "client=127.0.0.1", "program=front-end/1.2",
		"principal=front-end", "by=key", "key_id=", "run=" + resp.Header.Get("X-Run-Id"),
	} {
		if !strings.Contains(line, want) {
			t.Errorf("no %q in %s", want, line)
		}
	}
	// A refused one says why, and has the key's id only where there is one.
	text(t, b.do("GET", "/v1/workflows?ticket=CANARY-ticket", "", "Authorization: Bearer lsk_CANARY-not-a-key"))
	if line := b.lineOf("/v1/workflows"); !strings.Contains(line, "status=401") || !strings.Contains(line, "reason=key_") || strings.Contains(line, "principal") {
		t.Error(line)
	}
	for path, want := range map[string]string{
		"/v1/runs/" + strings.Repeat("b", 26): " path=/v1/runs/{run} ",
		"/v1/sessions/CANARY-name":            " path=/v1/sessions/{id} ",
		"/v1/sessions/CANARY-name/more":       " path=/v1/sessions/… ",
		"/v1/agui/helper/CANARY-name":         " path=/v1/agui/{agent}/{thread} ",
		"/v1/ui/helper/CANARY-name/stream":    " path=/v1/ui/{agent}/{chat}/stream ",
		"/v1/workflows/chat":                  " path=/v1/workflows/{name} ",
		"/v1/models/test:story":               " path=/v1/models/* ",
		"/" + strings.Repeat("é", 200):        "…",
		"/a%0Amsg=request%20status=200":       `path="/a\nmsg=request status=200"`, // one line
		"/healthz":                            " path=/healthz ",
	} {
		text(t, b.do("GET", path, "", auth, "User-Agent: probe"))
		if line := b.lineOf(strings.Trim(want, " ")); !strings.Contains(line, want) || len(line) > 600 {
			t.Errorf("%s: no %q in %s", path, want, line)
		}
	}
	if log := b.log.String(); strings.Contains(log, "CANARY") || strings.Contains(log, strings.TrimPrefix(auth, "Authorization: Bearer ")) || strings.Contains(log, "someone@") {
		t.Error(log)
	}
}

func TestWhichRequestsHaveALineIsASetting(t *testing.T) {
	for setting, want := range map[string]string{
		AccessLogOff: "", "": "POST /v1/runs, GET /v1/agents", AccessLogRuns: "POST /v1/runs, GET /v1/agents",
		AccessLogAll: "GET /healthz, GET /v1/workflows, POST /v1/runs, GET /v1/agents",
	} {
		k := newKeyring(t, "ann:user")
		b := newBench(t, func(o *Options) { o.Access.Door, o.AccessLog = k.door, setting })
		for _, r := range []struct{ method, path, body, key string }{
			{"GET", "/healthz", "", ""},
			{"GET", "/v1/workflows", "", k.bearer["ann"]},
			{"POST", "/v1/runs", askChat, k.bearer["ann"]},
			{"GET", "/v1/agents", "", "Authorization: Bearer wrong"}, // refused
		} {
			req := httptest.NewRequest(r.method, r.path, strings.NewReader(r.body))
			req.Header.Set("Authorization", strings.TrimPrefix(r.key, "Authorization: "))
			b.s.Handler().ServeHTTP(httptest.NewRecorder(), req)
		}
		if err := b.s.Close(); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, m := range regexp.MustCompile(`msg=request method=(\w+) path=(\S+)`).FindAllStringSubmatch(b.log.String(), -1) {
			got = append(got, m[1]+" "+m[2])
		}
		if strings.Join(got, ", ") != want {
			t.Errorf("the setting %q: lines for %q, expected %s", setting, got, want)
		}
	}
}

// SE-22: what is for those who run the server is nowhere at the door for callers.
func TestThePublicDoorHasNoMetricsAndNoProfiles(t *testing.T) {
	b := newBench(t, nil)
	defer b.s.Close()
	for _, path := range []string{"/metrics", "/debug", "/debug/pprof/heap", "/debug/vars", "//debug/pprof/", "/v1/metrics", "/v1/../debug/pprof/"} {
		for _, method := range methods {
			w := httptest.NewRecorder()
			req := httptest.NewRequest(method, "/", nil)
			req.URL.Path = path
			b.s.Handler().ServeHTTP(w, req)
			if w.Code != http.StatusNotFound || path == "/metrics" && method != http.MethodHead && !strings.Contains(w.Body.String(), "set admin.addr to open it") {
				t.Errorf("%s %s: %d %s", method, path, w.Code, w.Body)
			}
		}
	}
	// Modules may register net/http/pprof with the mux of every Go program: that is served where a server has no handler.
	if h := b.s.HTTPServer().Handler; h == nil || h == http.Handler(http.DefaultServeMux) {
		t.Errorf("the program's own mux is served: %T", h)
	}
}

// DS-03: strangers cannot fill the disk with lines of refused requests.
func TestAFloodOfRefusedRequestsHasFewLines(t *testing.T) {
	k := newKeyring(t, "ann:user")
	for name, request := range map[string][2]string{
		"without a key":   {"/v1/runs", "Accept: */*"},
		"unknown key":     {"/v1/sessions", "Authorization: Bearer lsk_nonsense"},
		"unknown run":     {"/v1/runs/nope", k.bearer["ann"]},
		"invalid request": {"/v1/runs?nope=1", k.bearer["ann"]},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, func(o *Options) { o.Access.Door = k.door }).serve()
			for range 500 {
				b.do("GET", request[0], "", request[1]).Body.Close()
			}
			b.down()
			if lines := strings.Count(b.log.String(), "msg=request "); lines < 3 || lines > 20 { // a slow machine takes some minutes
				t.Errorf("%d lines: %.2000s", lines, b.log)
			}
		})
	}
}
