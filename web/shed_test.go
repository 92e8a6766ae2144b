package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/access"
	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/agent"
	"github.com/lingserve/lingserve/internal/wording"
	"github.com/lingserve/lingserve/run"
	"github.com/lingserve/lingserve/tape"
	"github.com/lingserve/lingserve/tape/logs"
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
	p.look(slog.New(slog.DiscardHandler))
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
	next, stop := liveEvents(t, stream)
	defer stop()
	next() // started
	id, keyed := b.startAsync("Idempotency-Key: k")

	press(&b.s.shed.memory, true)
	for name, ask := range map[string]func() *http.Response{
		"POST": func() *http.Response { return b.do("POST", "/v1/runs", `{"workflow":"steps"}`) },
		"GET":  func() *http.Response { return b.do("GET", "/v1/runs?workflow=steps", "") },
		"a key that is new": func() *http.Response {
			return b.do("POST", "/v1/runs", `{"workflow":"steps"}`, "Idempotency-Key: another")
		},
		"asynchronously": func() *http.Response {
			return b.do("POST", "/v1/runs", `{"workflow":"steps"}`, "Prefer: respond-async")
		},
	} {
		t.Run(name, func(t *testing.T) { turnedAway(t, ask(), 503, wire.CodeOverloaded, "close to its memory limit") })
	}
	if n := b.steps.started(); n != 2 {
		t.Errorf("%d runs were started", n)
	}
	// What is there is there for everybody who comes back to it.
	st.send("a", "b")
	if e := next(); !strings.Contains(e.Data, `"b"`) {
		t.Errorf("%+v", e)
	}
	for name, resp := range map[string]*http.Response{
		"its state":        b.do("GET", "/v1/runs/"+id, ""),
		"the same request": b.do("POST", "/v1/runs", `{"workflow":"steps"}`, "Idempotency-Key: k", "Prefer: respond-async"),
		"its events":       b.do("GET", "/v1/runs/"+id+"/events?format=sse", ""),
		"where it was":     b.do("POST", "/v1/runs", "", "Last-Event-ID: "+id+":0", "Accept: text/event-stream"),
		"by its query":     b.do("GET", "/v1/runs?format=sse&last_event_id="+id+":0", ""),
		"its end":          b.do("POST", "/v1/runs/"+id+"/cancel", ""),
	} {
		if resp.StatusCode >= 300 || resp.Header.Get("X-Run-Id") != id {
			t.Errorf("%s: %d %v", name, resp.StatusCode, resp.Header)
		}
	}
	var h health
	ready := b.do("GET", "/readyz", "")
	if err := json.Unmarshal([]byte(text(t, ready)), &h); err != nil || ready.StatusCode != 200 || h.Status != "ready" || !cmp.Equal(h.Overloaded, []string{"memory"}) {
		t.Errorf("%d %+v %v", ready.StatusCode, h, err)
	}

	press(&b.s.shed.memory, false)
	if h := b.s.overloaded(); h != nil {
		t.Error(h)
	}
	_, last := b.startAsync()
	last.finish()
	keyed.finish()
	st.finish()
}

// Each door says it in its own words.
func TestARefusalIsInTheWordsOfThoseWhoAreRefused(t *testing.T) {
	a := newAgentBench(t, nil)
	a.serve()
	press(&a.s.shed.memory, true)
	for path, tt := range map[string]struct{ body, media, says string }{
		"/v1/runs":             {`{"agent":"assistant","input":"hi"}`, "application/problem+json", `"code":"overloaded"`},
		"/v1/chat/completions": {`{"model":"assistant","messages":[{"role":"user","content":"hi"}]}`, "application/json", `"type":"server_error"`},
		"/v1/ui/assistant":     {`{"id":"c","messages":[{"id":"1","role":"user","parts":[{"type":"text","text":"hi"}]}]}`, "text/plain; charset=utf-8", "close to its memory limit"},
		"/v1/agui/assistant":   {`{"threadId":"t","runId":"r","messages":[{"id":"1","role":"user","content":"hi"}],"tools":[],"context":[],"state":{},"forwardedProps":{}}`, "application/json", `"code":"overloaded"`},
	} {
		t.Run(path, func(t *testing.T) {
			resp := a.do("POST", path, tt.body)
			if said := text(t, resp); resp.StatusCode != 503 || resp.Header.Get("Content-Type") != tt.media || !strings.Contains(said, tt.says) || resp.Header.Get("Retry-After") == "" {
				t.Errorf("%d %v %s", resp.StatusCode, resp.Header, said)
			}
		})
	}
	if n := len(a.talk.requests()); n != 0 {
		t.Errorf("%d requests to the model", n)
	}
}

// unreadBody fails the test where it is read.
type unreadBody struct{ t *testing.T }

func (b unreadBody) Read([]byte) (int, error) {
	b.t.Error("the body was read")
	return 0, io.EOF
}
func (unreadBody) Close() error { return nil }

func TestWhatIsRefusedAnywayIsRefusedBeforeItsBodyIsRead(t *testing.T) {
	for name, edit := range map[string]func(*bench){
		"for memory": func(b *bench) { press(&b.s.shed.memory, true) },
		"for runs":   func(b *bench) { b.s.o.MaxRuns, b.s.runs.Inspect().Options().MaxRuns = -1, -1 },
	} {
		for _, path := range []string{"/v1/runs", "/v1/chat/completions", "/v1/ui/steps/object"} {
			t.Run(name+path, func(t *testing.T) {
				b := newBench(t, nil)
				defer b.s.Close()
				edit(b)
				for length, closes := range map[int64]bool{100: false, 1 << 19: true, -1: true} {
					r := httptest.NewRequest("POST", path, unreadBody{t})
					r.ContentLength = length
					w := httptest.NewRecorder()
					b.s.Handler().ServeHTTP(w, r)
					if w.Code != 503 || w.Header().Get("Retry-After") == "" || (w.Header().Get("Connection") == "close") != closes {
						t.Errorf("%d bytes: %d %v", length, w.Code, w.Header())
					}
				}
			})
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
		p.look(slog.New(slog.NewTextHandler(&log, nil)))
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
		p.look(slog.New(slog.DiscardHandler))
	}
	if made != 1 || p.over.Load() {
		t.Errorf("%d collections, over: %v", made, p.over.Load())
	}
}

func TestTheServerLooksAtItsMemoryByItself(t *testing.T) {
	b := newBench(t, func(o *Options) { o.Limits.Memory = 1 << 40 }).serve()
	if p := b.s.runs.Full(); p != nil {
		t.Errorf("with a terabyte: %+v", p)
	}
	b.down()
	b = newBench(t, func(o *Options) { o.Limits.Memory = 1000 }).serve()
	eventually(t, "there is too little", func() bool { return b.s.shed.memory.over.Load() })
	turnedAway(t, b.do("POST", "/v1/runs", `{"workflow":"steps"}`), 503, wire.CodeOverloaded, "memory")
}

func TestTheServerLooksAgainAndAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var used atomic.Int64
		sh := newShed(Limits{}.withDefaults(1), slog.New(slog.DiscardHandler), "")
		if sh.watches() {
			t.Error("there is nothing to look at")
		}
		sh.disk = pressure{high: 1, low: 0, read: used.Load}
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { sh.watch(ctx) })
		for _, n := range []int64{1, -1, 1} {
			used.Store(n)
			time.Sleep(lookEvery)
			synctest.Wait()
			if sh.disk.over.Load() != (n > 0) {
				t.Errorf("at %d: %v", n, sh.disk.over.Load())
			}
		}
		cancel()
		wg.Wait()
	})
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
	// What needs no stream does.
	if resp := b.do("GET", "/v1/runs/"+id, "", "X-Forwarded-For: 203.0.113.3"); resp.StatusCode != 200 {
		t.Errorf("%d", resp.StatusCode)
	}
	// Whoever leaves makes room, and the others have noticed nothing.
	one.Body.Close()
	eventually(t, "there is room", func() bool {
		resp := follow("203.0.113.1")
		if resp.StatusCode == 200 {
			return true
		}
		resp.Body.Close()
		return false
	})
	st.send("a", "b")
	st.finish()
	if f := fold(t, two); f.json() != `{"a":"b"}` || f.terminal == "" {
		t.Errorf("%s %s", f.json(), f.terminal)
	}
	eventually(t, "nothing is counted any more", func() bool {
		b.s.shed.mu.Lock()
		defer b.s.shed.mu.Unlock()
		return b.s.shed.streams == 0 && len(b.s.shed.of) == 0
	})
}

// SE-14: what is held of bodies that come slowly is bounded in all, and whoever has a small one is served.
func TestBodiesThatComeSlowlyTakeABoundedAmountOfMemory(t *testing.T) {
	const each, all = 64 << 10, 256 << 10
	b := newBench(t, func(o *Options) { o.MaxBody, o.Limits.Bodies = each, all }).serve()
	address := strings.TrimPrefix(b.url, "http://")
	const clients = 2 * all / each
	var answers sync.WaitGroup
	var refusals atomic.Int64
	var slow []net.Conn
	for range clients {
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		fmt.Fprintf(c, "POST /v1/runs HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n{\"input\":\"%s", each, strings.Repeat("x", each-100))
		slow = append(slow, c)
		answers.Go(func() {
			if head, _ := io.ReadAll(c); strings.HasPrefix(string(head), "HTTP/1.1 503 ") && strings.Contains(string(head), "Retry-After: ") {
				refusals.Add(1)
			}
		})
	}
	eventually(t, "those are turned away that there is no memory for", func() bool { return refusals.Load() >= clients/2 })
	if refusals.Load() == clients || b.s.shed.bodiesRead() > all {
		t.Errorf("%d were turned away, %d bytes are held", refusals.Load(), b.s.shed.bodiesRead())
	}
	eventually(t, "a small one is served", func() bool {
		resp := b.do("POST", "/v1/runs", `{"workflow":"chat","input":"hi"}`)
		defer resp.Body.Close()
		return resp.StatusCode == 200
	})
	for _, c := range slow {
		c.Close()
	}
	answers.Wait()
	eventually(t, "it is given back", func() bool { return b.s.shed.bodiesRead() == 0 })
}

// SE-14
func TestWhatModelsAreToReadIsBounded(t *testing.T) {
	for name, tt := range map[string]struct {
		ask  run.Request
		want *run.Field
	}{
		"as much as may be":                 {run.Request{Input: json.RawMessage(`"12345678"`)}, nil},
		"one more":                          {run.Request{Input: json.RawMessage(`"123456789"`)}, &run.Field{Pointer: "/input", Detail: "expected at most 10 characters of content for models in total"}},
		"characters are counted, not bytes": {run.Request{Input: json.RawMessage(`"éééééééé"`)}, nil},
		"a property":                        {run.Request{Properties: map[string]string{"a/b": "12345678901"}}, &run.Field{Pointer: "/input/a~1b", Detail: "expected at most 10 characters of content for models in total"}},
		"all together":                      {run.Request{Instructions: "12345", History: []run.Said{{Role: "user", Text: "12345"}}, Input: json.RawMessage(`"x"`)}, &run.Field{Pointer: "/input", Detail: "expected at most 10 characters of content for models in total"}},
		"instructions":                      {run.Request{Instructions: "12345678901"}, &run.Field{Detail: "expected at most 10 characters of content for models in total"}},
		"what was said before":              {run.Request{History: []run.Said{{Role: "user", Text: "12345"}, {Role: "assistant", Text: "1234567"}}}, &run.Field{Detail: "expected at most 10 characters of content for models in total"}},
		"messages to a model": {
			run.Request{Completion: &run.Completion{Messages: []adapter.Message{{Content: "12345"}, {Parts: []adapter.Part{{Text: "123456"}}}}}},
			&run.Field{Pointer: "/messages/1/content", Detail: "expected at most 10 characters of content for models in total"},
		},
		"two images":   {run.Request{Files: make([]adapter.Part, 2)}, nil},
		"three images": {run.Request{Files: make([]adapter.Part, 3)}, &run.Field{Detail: "expected at most 2 images and files, found 3"}},
	} {
		t.Run(name, func(t *testing.T) {
			err := run.CheckSize(&tt.ask, 10, 2)
			if tt.want == nil {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if p, ok := errors.AsType[*run.Error](err); !ok || !errors.Is(err, run.ErrTooLarge) || !cmp.Equal(p.Fields, []run.Field{*tt.want}) {
				t.Errorf("%+v", p)
			}
		})
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
		sh.disk.look(sh.log)
		if sh.disk.over.Load() != over {
			t.Errorf("%d bytes are to be free: %v", free, sh.disk.over.Load())
		}
	}
	if sh := newShed(Limits{DiskFree: 1 << 61}.withDefaults(1), nil, ""); sh.watches() {
		t.Error("without a folder there is nothing to look at")
	}
	if sh := newShed(Limits{DiskFree: 1 << 61}.withDefaults(1), nil, "/nowhere/at/all"); !sh.watches() {
		t.Error("it is not looked at")
	} else if sh.disk.look(slog.New(slog.DiscardHandler)); sh.disk.over.Load() {
		t.Error("what is not known refuses somebody")
	}
}

func TestNoSessionsBeginBeyondTheMostAndThoseThatAreThereGoOn(t *testing.T) {
	a := newAgentBench(t, func(o *Options, ao *agent.Options) {
		bounded, err := tape.Bound(context.Background(), logs.NewMemory(0, nil), 1)
		if err != nil {
			t.Fatal(err)
		}
		o.Tapes, ao.Store = bounded, bounded
	})
	a.serve()
	if d := readDocument(t, a.say("hello", "")); d.Status != run.StatusCompleted {
		t.Fatalf("%+v", d)
	}
	for name, resp := range map[string]*http.Response{
		"a session":          a.do("POST", "/v1/runs", `{"agent":"assistant","session":"other","input":"hi"}`),
		"one without a name": a.do("POST", "/v1/runs", `{"agent":"assistant","input":"hi"}`),
		"a copy":             a.do("POST", "/v1/sessions/s/fork", `{"session":"copy"}`),
	} {
		t.Run(name, func(t *testing.T) { turnedAway(t, resp, 503, wire.CodeOverloaded, "reached its limit of sessions") })
	}
	if d := readDocument(t, a.say("again", "")); d.Status != run.StatusCompleted {
		t.Errorf("%+v", d)
	}
	if resp := a.do("DELETE", "/v1/sessions/s", ""); resp.StatusCode != 204 {
		t.Fatal(resp.StatusCode)
	}
	if d := readDocument(t, a.do("POST", "/v1/runs", `{"agent":"assistant","session":"other","input":"hi"}`)); d.Status != run.StatusCompleted {
		t.Errorf("%+v", d)
	}
}

// SE-14: whoever is answered before the body is there cannot keep the connection by never sending it.
func TestABodyThatNobodyReadsIsNotWaitedFor(t *testing.T) {
	for name, request := range map[string]string{
		"of another kind":    "POST /v1/runs HTTP/1.1\r\nContent-Type: text/plain\r\n",
		"where none belongs": "GET /v1/workflows HTTP/1.1\r\n",
		"to nowhere":         "POST /nowhere HTTP/1.1\r\n",
		"of what is refused": "POST /v1/runs HTTP/1.1\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, nil)
				if name == "of what is refused" {
					press(&b.s.shed.memory, true)
				}
				l := newPipeListener()
				b.http = &http.Client{Transport: &http.Transport{}}
				b.serveOn(l, func() {})
				defer b.down()
				c, err := l.dial(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				go io.WriteString(c, request+"Host: localhost\r\nContent-Length: 100\r\n\r\n{")
				began := time.Now()
				answer, err := io.ReadAll(c)
				if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 ") {
					t.Errorf("%q, %v", answer, err)
				}
				if took := time.Since(began); took > 3*time.Second {
					t.Errorf("the connection ended after %v", took)
				}
			})
		})
	}
}

// SE-15: whatever is in a number, it is neither a crash nor a wait.
func TestNumbersThatWouldFillTheMemoryAreOrdinaryMistakes(t *testing.T) {
	b := newBench(t, nil).serve()
	for _, n := range []string{"1e1000000000", "1e-1000000000", "-1e999999999", strings.Repeat("9", 500_000)} {
		if p := readProblem(t, b.do("POST", "/v1/runs", `{"workflow":"chat","input":{"question":"q","level":`+n+`}}`)); p.Status != 400 || len(p.Errors) != 1 || !strings.HasPrefix(p.Errors[0].Pointer, "/input") {
			t.Errorf("%s: %+v", wording.Clip(n), p)
		}
		if strings.Contains(n, "e-") {
			continue // which is 0
		}
		resp := b.do("POST", "/v1/runs", `{"workflow":"steps","options":{"temperature":`+n+`}}`, "Prefer: respond-async")
		if p := readProblem(t, resp); p.Status != 400 || len(p.Errors) != 1 || p.Errors[0].Pointer != "/options/temperature" {
			t.Errorf("%s: %+v", wording.Clip(n), p)
		}
	}
	if b.steps.started() != 0 {
		t.Error("something was started")
	}
}

// bodiesRead is how many bytes of bodies are being read.
func (sh *shed) bodiesRead() int64 {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	return sh.bodies
}
