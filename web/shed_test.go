package web

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/access"
	"github.com/lingserve/lingserve/agent"
	"github.com/lingserve/lingserve/run"
	"github.com/lingserve/lingserve/tape"
	"github.com/lingserve/lingserve/tape/tapetest"
	"github.com/lingserve/lingserve/web/wire"
)

// press makes a pressure say that there is too much, or not.
func press(p *pressure, over bool) {
	p.high, p.low = 100, 50
	p.read = func() int64 {
		if over {
			return 100
		}
		return 0
	}
	p.check(slog.New(slog.DiscardHandler))
}

// turnedAway checks that an answer is a refusal for a limit, in the shape of our own problems.
func turnedAway(t *testing.T, resp *http.Response, status int, code, says string) {
	t.Helper()
	p := readProblem(t, resp)
	after, err := strconv.Atoi(resp.Header.Get("Retry-After"))
	if p.Status != status || p.Code != code || !strings.Contains(p.Detail, says) || status != 413 && (err != nil || after < 1) {
		t.Errorf("%+v, Retry-After %q", p, resp.Header.Get("Retry-After"))
	}
}

// FT-31
func TestCloseToTheMemoryLimitNoRunsBeginAndThoseThatGoOnAreNotTouched(t *testing.T) {
	b := newBench(t, nil).serve()
	stream, st := b.start("?format=sse")
	id, keyed := b.startAsync("Idempotency-Key: k")
	const body = `{"workflow":"steps"}`

	press(&b.s.shed.memory, true)
	turnedAway(t, b.do("GET", "/v1/runs?workflow=steps", ""), 503, wire.CodeOverloaded, "close to its memory limit")
	for _, header := range []string{"X-None: x", "Idempotency-Key: another", "Prefer: respond-async"} {
		turnedAway(t, b.do("POST", "/v1/runs", body, header), 503, wire.CodeOverloaded, "close to its memory limit")
	}
	if n := b.steps.started(); n != 2 {
		t.Errorf("%d runs were started", n)
	}
	// What is there is there for everybody who comes back to it.
	for name, resp := range map[string]*http.Response{
		"its state":        b.do("GET", "/v1/runs/"+id, ""),
		"the same request": b.do("POST", "/v1/runs", body, "Idempotency-Key: k", "Prefer: respond-async"),
		"its events":       b.do("GET", "/v1/runs/"+id+"/events?format=sse", ""),
		"where it was":     b.do("POST", "/v1/runs", "", "Last-Event-ID: "+id+":0", asEvents),
		"by its query":     b.do("GET", "/v1/runs?format=sse&last_event_id="+id+":0", ""),
		"its end":          b.do("POST", "/v1/runs/"+id+"/cancel", ""),
	} {
		if resp.StatusCode >= 300 || resp.Header.Get("X-Run-Id") != id {
			t.Errorf("%s: %d %v", name, resp.StatusCode, resp.Header)
		}
	}
	if h := get[health](b, "/readyz"); h.Status != "ready" || !cmp.Equal(h.Overloaded, []string{"memory"}) {
		t.Errorf("%+v", h)
	}
	st.send("a", "b")
	st.finish()
	if f := fold(t, stream); f.json() != `{"a":"b"}` || f.terminal == "" {
		t.Errorf("%s %s", f.json(), f.terminal)
	}

	press(&b.s.shed.memory, false)
	if h := b.s.overloaded(); h != nil {
		t.Error(h)
	}
	_, last := b.startAsync()
	last.finish()
	keyed.finish()
}

// Each wire says it in its own words.
func TestARefusalIsInTheWordsOfThoseWhoAreRefused(t *testing.T) {
	b := newBench(t, nil).serve()
	press(&b.s.shed.memory, true)
	for name, want := range map[string][2]string{
		"native": {"application/problem+json", `"code":"overloaded"`}, "AG-UI": {"application/json", `"code":"overloaded"`},
		"AI SDK": {"text/plain; charset=utf-8", "close to its memory limit"}, "AI SDK, text": {"text/plain; charset=utf-8", "close to its memory limit"},
		"OpenAI": {"application/json", `"type":"server_error"`},
	} {
		resp := b.do("POST", wireRequests[name].path, wireRequests[name].body)
		if said := text(t, resp); resp.StatusCode != 503 || resp.Header.Get("Content-Type") != want[0] || !strings.Contains(said, want[1]) || resp.Header.Get("Retry-After") == "" {
			t.Errorf("%s: %d %v %s", name, resp.StatusCode, resp.Header, said)
		}
	}
}

func TestThePressureEndsOnlyWellBelowWhereItBegan(t *testing.T) {
	var log logBuffer
	var used int64
	p := pressure{name: "memory", high: 85, low: 75, read: func() int64 { return used }}
	for i, step := range []struct {
		used int64
		over bool
	}{{84, false}, {85, true}, {80, true}, {75, true}, {74, false}, {84, false}, {90, true}, {0, false}} {
		used = step.used
		p.check(slog.New(slog.NewTextHandler(&log, nil)))
		if p.over.Load() != step.over {
			t.Errorf("step %d, at %d: %v", i, step.used, p.over.Load())
		}
	}
	if n := strings.Count(log.String(), "level=WARN"); n != 2 || strings.Count(log.String(), "\n") != 4 {
		t.Errorf("%d warnings in\n%s", n, log.String())
	}
}

func TestGarbageIsCollectedWhileThereIsTooMuch(t *testing.T) {
	used, made := int64(90), 0
	p := pressure{high: 85, low: 75, read: func() int64 { return used }, collect: func() { made++; used = 10 }}
	for range collectEvery + 2 {
		p.check(slog.New(slog.DiscardHandler))
	}
	if made != 1 || p.over.Load() {
		t.Errorf("%d collections, over: %v", made, p.over.Load())
	}
}

func TestTheServerLooksAtItsMemoryByItself(t *testing.T) {
	b := newBench(t, func(o *Options) { o.Limits.Memory = 1 << 40 }).serve()
	if list := b.s.overloaded(); list != nil {
		t.Errorf("with a terabyte: %v", list)
	}
	b.down()
	b = newBench(t, func(o *Options) { o.Limits.Memory = 1000 }).serve()
	eventually(t, "there is too little", func() bool { return b.s.shed.memory.over.Load() })
	turnedAway(t, b.do("POST", "/v1/runs", `{"workflow":"steps"}`), 503, wire.CodeOverloaded, "memory")
}

func TestStreamsAreBoundedInAllAndForEachCaller(t *testing.T) {
	proxies, err := access.ParseProxies([]string{"127.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	b := newBench(t, func(o *Options) {
		o.Proxies = proxies
		o.Limits.Streams, o.Limits.StreamsPerCaller = 3, 2
	}).serve()
	id, st := b.startAsync()
	follow := func(from string) *http.Response {
		return b.do("GET", "/v1/runs/"+id+"/events?format=sse", "", "X-Forwarded-For: "+from)
	}
	one, two := follow("203.0.113.1"), follow("203.0.113.1")
	for _, resp := range []*http.Response{one, two} {
		if resp.StatusCode != 200 {
			t.Fatal(resp.StatusCode)
		}
	}
	turnedAway(t, follow("203.0.113.1"), 429, wire.CodeRateLimited, "you have 2 streams open, the limit of one caller")
	turnedAway(t, b.do("POST", "/v1/runs", `{"workflow":"steps"}`, "X-Forwarded-For: 203.0.113.1"), 429, wire.CodeRateLimited, "close some")
	if other := follow("203.0.113.2"); other.StatusCode != 200 {
		t.Fatalf("another caller: %d", other.StatusCode)
	}
	turnedAway(t, follow("203.0.113.3"), 503, wire.CodeOverloaded, "3 streams are open, the server's limit; retry later")
	if h := b.s.overloaded(); !cmp.Equal(h, []string{"streams"}) {
		t.Error(h)
	}
	// Whoever leaves makes room, and the others have noticed nothing.
	one.Body.Close()
	eventually(t, "there is room", func() bool { return follow("203.0.113.1").StatusCode == 200 })
	st.send("a", "b")
	st.finish()
	if f := fold(t, two); f.json() != `{"a":"b"}` || f.terminal == "" {
		t.Errorf("%s %s", f.json(), f.terminal)
	}
}

func TestARequestThatIsTooLargeIsToldWhere(t *testing.T) {
	b := newBench(t, func(o *Options) { o.Limits.Input = 20 }).serve()
	resp := b.do("POST", "/v1/runs", `{"workflow":"chat","input":"`+strings.Repeat("x", 30)+`"}`)
	turnedAway(t, resp, 413, wire.CodeTooLarge, "/input: expected at most 20 characters")
	resp = b.do("POST", "/v1/chat/completions", `{"model":"chat","messages":[{"role":"user","content":"`+strings.Repeat("x", 30)+`"}]}`)
	if said := text(t, resp); resp.StatusCode != 413 || !strings.Contains(said, `"param":"messages"`) || !strings.Contains(said, "at most 20 characters") {
		t.Errorf("%d %s", resp.StatusCode, said)
	}
}

// SE-14: what is too long before the body never gets to us.
func TestQueriesAndHeadersThatAreTooLongAreRefused(t *testing.T) {
	b := newBench(t, nil).serve()
	long := strings.Repeat("x", 2*maxHeaders)
	for name, resp := range map[string]*http.Response{
		"a query":  b.do("GET", "/v1/runs?workflow=chat&input="+long, ""),
		"a header": b.do("GET", "/v1/workflows", "", "X-Long: "+long),
	} {
		if resp.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
			t.Errorf("%s: %d", name, resp.StatusCode)
		}
	}
	if b.steps.started()+int(b.model.calls.Load()) != 0 {
		t.Error("something was started")
	}
}

// FT-25: what is to be kept is not begun where there is no room for it; all else is.
func TestOnAFullDiskNothingBeginsThatIsToBeKept(t *testing.T) {
	a := newAgentBench(t, nil)
	a.serve()
	going := readDocument(t, a.say("hello", ""))
	press(&a.s.shed.disk, true)
	turnedAway(t, a.say("hello", ""), 503, wire.CodeOverloaded, "the server's disk is nearly full")
	turnedAway(t, a.do("POST", "/v1/runs", `{"workflow":"steps"}`, "Idempotency-Key: k"), 503, wire.CodeOverloaded, "disk")
	if resp := a.do("POST", "/v1/runs", `{"workflow":"steps"}`, "Prefer: respond-async"); resp.StatusCode != 202 {
		t.Errorf("a run that is not kept: %d", resp.StatusCode)
	} else {
		(<-a.steps.came).finish()
	}
	if d := readDocument(t, a.do("GET", "/v1/runs/"+going.Run, "")); d.Status != run.StatusCompleted {
		t.Errorf("%+v", d)
	}
	press(&a.s.shed.disk, false)
	if d := readDocument(t, a.say("hello", "")); d.Status != run.StatusCompleted {
		t.Errorf("when there is room again: %+v", d)
	}
}

func TestTheFreeRoomOfTheDataFolderIsLookedAt(t *testing.T) {
	if _, ok := freeOn(t.TempDir()); !ok {
		t.Skip("this system does not say")
	}
	for free, over := range map[int64]bool{1: false, 1 << 61: true} {
		sh := newShed(Limits{DiskFree: free}.withDefaults(1), slog.New(slog.DiscardHandler), t.TempDir())
		sh.disk.check(sh.log)
		if sh.disk.over.Load() != over {
			t.Errorf("%d bytes are to be free: %v", free, sh.disk.over.Load())
		}
	}
	sh := newShed(Limits{DiskFree: 1 << 61}.withDefaults(1), slog.New(slog.DiscardHandler), "/nowhere/at/all")
	if sh.disk.check(sh.log); sh.disk.over.Load() {
		t.Error("what is not known refuses somebody")
	}
}

func TestNoSessionsBeginBeyondTheMostAndThoseThatAreThereGoOn(t *testing.T) {
	a := newAgentBench(t, func(o *Options, ao *agent.Options) {
		bounded, err := tape.Bound(context.Background(), tapetest.NewMemory(nil), 1, 0)
		if err != nil {
			t.Fatal(err)
		}
		o.Tapes, ao.Store = bounded, bounded
	})
	a.serve()
	readDocument(t, a.say("hello", ""))
	for path, body := range map[string]string{"/v1/runs": `{"agent":"assistant","input":"hi"}`, "/v1/sessions/s/fork": `{"session":"copy"}`} {
		turnedAway(t, a.do("POST", path, body), 503, wire.CodeOverloaded, "reached its limit of sessions")
	}
	if d := readDocument(t, a.say("again", "")); d.Status != run.StatusCompleted {
		t.Errorf("%+v", d)
	}
}

// SE-14: what is held of bodies that come slowly is bounded in all, and whoever has a small one is served.
func TestBodiesThatComeSlowlyTakeABoundedAmountOfMemory(t *testing.T) {
	const each, all = 64 << 10, 256 << 10
	b := newBench(t, func(o *Options) { o.MaxBody, o.Limits.Bodies = each, all })
	defer b.s.Close()
	send := func(body io.Reader, length int64) *httptest.ResponseRecorder {
		r := httptest.NewRequestWithContext(t.Context(), "POST", "http://localhost/v1/runs", body)
		r.ContentLength, r.RemoteAddr = length, "127.0.0.1:1"
		r.Header.Set("Expect", "100-continue") // no byte of a refused body is read
		w := httptest.NewRecorder()
		b.s.Handler().ServeHTTP(w, r)
		return w
	}
	var slow sync.WaitGroup
	var ends []*io.PipeWriter
	refused := 0
	for range 2 * all / each {
		rest, end := io.Pipe()
		answered, held := make(chan *httptest.ResponseRecorder, 1), make(chan struct{})
		slow.Go(func() {
			answered <- send(io.MultiReader(strings.NewReader(strings.Repeat(" ", each-100)), rest), each)
			rest.Close()
		})
		slow.Go(func() {
			if _, err := end.Write([]byte(" ")); err == nil { // which is read when all before it has been
				close(held)
			}
		})
		select {
		case <-held:
			ends = append(ends, end)
		case w := <-answered:
			if refused++; w.Code != 503 || w.Header().Get("Retry-After") == "" {
				t.Errorf("%d %s", w.Code, w.Body)
			}
		}
	}
	if len(ends) == 0 || refused == 0 || len(ends)*each > all {
		t.Errorf("%d are held, %d were refused", len(ends), refused)
	}
	if w := send(strings.NewReader(askChat), int64(len(askChat))); w.Code != 200 {
		t.Errorf("a small one: %d %s", w.Code, w.Body)
	}
	for _, end := range ends {
		end.Close()
	}
	slow.Wait()
	if w := send(strings.NewReader(strings.Repeat(" ", each)), each); w.Code != 400 {
		t.Errorf("when the others are there: %d %s", w.Code, w.Body)
	}
}
