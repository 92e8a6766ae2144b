package web

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/tmaxmax/go-sse"

	"github.com/lingserve/lingserve/access"
	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/internal/longtest"
	"github.com/lingserve/lingserve/run"
	"github.com/lingserve/lingserve/web/wire"
)

// cutConn is a connection that breaks after so many bytes were read.
type cutConn struct {
	net.Conn
	left int
}

func (c *cutConn) Read(p []byte) (int, error) {
	if c.left <= 0 {
		c.Close()
		return 0, io.ErrUnexpectedEOF
	}
	n, err := c.Conn.Read(p[:min(len(p), c.left)])
	c.left -= n
	return n, err
}

// cutting returns a client each of whose connections breaks after as many bytes as cut says. It may connect still for a request that was given up,
// while there is another one.
func cutting(cut func() int) *http.Client {
	var mu sync.Mutex
	return &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			c, err := new(net.Dialer).DialContext(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			mu.Lock()
			defer mu.Unlock()
			return &cutConn{c, cut()}, nil
		},
	}}
}

// PROTOCOL "EventSource"
func TestAStreamThatIsCutAHundredTimesFoldsToTheSameDocument(t *testing.T) {
	for name, tt := range map[string]struct {
		maxLog int
		post   bool
		most   int // bytes of a connection
	}{
		"GET":                              {0, false, 1500},
		"POST":                             {0, true, 1500},
		"with a log that loses its events": {4 << 10, false, 20_000},
	} {
		t.Run(name, func(t *testing.T) {
			whole, pieces := story(100)
			more := make(chan struct{})
			b := newBench(t, func(o *Options) { o.MaxLog = tt.maxLog })
			b.model.say = func(ctx context.Context, _ string, _ adapter.Request, yield func(string) bool) error {
				for _, p := range pieces {
					select {
					case <-more:
					case <-ctx.Done():
						return ctx.Err()
					}
					if !yield(p) {
						break
					}
				}
				return nil
			}
			b.serve()
			const cuts = 100
			random := rand.New(rand.NewPCG(1, 2))
			var f folded
			connections, sent := 0, 0
			var last atomic.Bool // the connection is not cut
			client := cutting(func() int {
				if last.Load() {
					return 1 << 30
				}
				return 300 + random.IntN(tt.most) // the headers alone are some 400 bytes
			})
			defer client.CloseIdleConnections()
			feed := func(n int) {
				for range min(n, len(pieces)-sent) {
					more <- struct{}{}
					sent++
				}
			}
			for f.terminal == "" {
				if connections++; connections > cuts+10 {
					t.Fatal("no end")
				}
				last.Store(connections > cuts)
				ctx, cut := context.WithCancel(t.Context())
				method, url, body := "GET", b.url+"/v1/runs?workflow=chat&format=sse&input=Why%3F&key=once", ""
				if tt.post {
					method, url, body = "POST", b.url+"/v1/runs", `{"workflow":"chat","input":"Why?","format":"sse"}`
				}
				req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
				if err != nil {
					t.Fatal(err)
				}
				// The key is for the cuts before the first event has come.
				if tt.post {
					req.Header.Set("Idempotency-Key", "once")
				}
				if f.last != "" {
					req.Header.Set("Last-Event-ID", f.last)
				}
				resp, err := client.Do(req)
				// The model goes on with each connection, so that the cuts fall on all of the document; and sometimes
				// while there is none.
				var feeding sync.WaitGroup
				feeding.Go(func() {
					if connections > cuts {
						feed(len(pieces))
						return
					}
					feed(len(pieces)/cuts/2 + 1)
					cut() // where the bytes have not done so before
				})
				if err == nil {
					if resp.StatusCode != 200 {
						t.Fatalf("%d: %s", resp.StatusCode, text(t, resp))
					}
					list, broken := events(resp.Body)
					resp.Body.Close()
					for _, e := range list {
						f.take(t, e)
					}
					f.pending = nil // what came without its last event is asked for again
					if !broken && f.terminal == "" {
						t.Fatal("a clean end of a run that goes on")
					}
				}
				feeding.Wait()
				cut()
				if tt.maxLog > 0 && connections%10 == 0 {
					feed(30)
				}
			}
			if connections < cuts {
				t.Errorf("only %d connections", connections)
			}
			if want := `{"article":` + whole + `}`; f.json() != want {
				t.Errorf("after %d connections:\n%s", connections, cmp.Diff(want, f.json()))
			}
			if f.terminal != `finished{"status":"completed"}` {
				t.Error(f.terminal)
			}
			if n := b.model.calls.Load(); n != 1 {
				t.Errorf("the model was called %d times", n)
			}
			resp := b.do("GET", "/v1/runs?workflow=chat&format=sse&input=Why%3F", "", "Last-Event-ID: "+f.last)
			if resp.StatusCode != 204 {
				t.Errorf("after the end: %d", resp.StatusCode)
			}
		})
	}
}

// FT-30
func TestTwoWindowsOnOneRunSeeTheSame(t *testing.T) {
	b := newBench(t, nil).serve()
	first, st := b.start("?format=sse")
	id := first.Header.Get("X-Run-Id")
	st.send("a", "one ")
	second := b.do("GET", "/v1/runs", "", "Last-Event-ID: "+id+":0", "Accept: text/event-stream")
	third := b.do("GET", "/v1/runs/"+id+"/events", "")
	for i := range 200 {
		st.send("a", fmt.Sprint(i, " "))
		if i%20 == 0 {
			st.set(fmt.Sprint("n/", i), "1")
		}
	}
	st.finish()
	var lists [][]sse.Event
	for _, resp := range []*http.Response{first, second, third} {
		list, broken := events(resp.Body)
		if broken {
			t.Error("broken")
		}
		lists = append(lists, list)
	}
	if diff := cmp.Diff(lists[0], lists[2]); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(lists[0][1:], lists[1]); diff != "" {
		t.Error(diff)
	}
}

// RU-04
func TestAResumeNeverStartsARun(t *testing.T) {
	b := newBench(t, nil).serve()
	id, st := b.startAsync()
	st.send("a", "b")
	st.finish()
	<-b.runOf(id).Done()
	for name, try := range map[string]func() *http.Response{
		"GET": func() *http.Response {
			return b.do("GET", "/v1/runs?workflow=steps&last_event_id="+id+":1&format=sse", "")
		},
		"GET, as Mercure has": func() *http.Response {
			return b.do("GET", "/v1/runs?workflow=steps&lastEventId="+id+".1&format=sse", "")
		},
		"GET of an EventSource": func() *http.Response {
			return b.do("GET", "/v1/runs?workflow=steps", "", "Accept: text/event-stream", "Last-Event-ID: "+id+":1")
		},
		"POST": func() *http.Response {
			return b.do("POST", "/v1/runs", `{"workflow":"steps"}`, "Accept: text/event-stream", "Last-Event-ID: "+id+":1")
		},
		"POST without a body": func() *http.Response { return b.do("POST", "/v1/runs?format=sse", "", "Last-Event-ID: "+id+":1") },
		"POST with a key": func() *http.Response {
			return b.do("POST", "/v1/runs?format=sse", "", "Last-Event-ID: "+id+":1", "Idempotency-Key: k")
		},
		"the run's events": func() *http.Response { return b.do("GET", "/v1/runs/"+id+"/events?after=1", "") },
		"the newer of header and query": func() *http.Response {
			return b.do("GET", "/v1/runs/"+id+"/events?after=0&last_event_id="+id+":0", "", "Last-Event-ID: "+id+":1")
		},
	} {
		t.Run(name, func(t *testing.T) {
			resp := try()
			f := fold(t, resp)
			if resp.StatusCode != 200 || resp.Header.Get("X-Run-Id") != id || f.applied != 1 || f.terminal != `finished{"status":"completed"}` {
				t.Errorf("%d %+v", resp.StatusCode, f)
			}
		})
	}
	if d := readDocument(t, b.do("POST", "/v1/runs", "", "Last-Event-ID: "+id+":1")); string(d.Result) != `{"a":"b"}` {
		t.Errorf("as one document: %+v", d)
	}
	if n := b.steps.started(); n != 1 {
		t.Errorf("%d runs were started", n)
	}
}

// runOf finds a run.
func (b *bench) runOf(id string) *run.Run {
	b.t.Helper()
	r, err := b.s.runs.Find(b.t.Context(), access.Local, id)
	if err != nil {
		b.t.Fatal(err)
	}
	return r
}

// FT-29
func TestAnIDThatCannotBeResumedFromIsRefusedWithTheReason(t *testing.T) {
	b := newBench(t, nil).serve()
	id, st := b.startAsync()
	other, st2 := b.startAsync()
	defer st.finish()
	defer st2.finish()
	for name, tt := range map[string]struct{ id, detail string }{
		"future":  {id + ":7", "names event " + id + ":7, but the run has had 1 event"},
		"rubbish": {"rubbish", `"rubbish" is not an event id`},
		"letters": {id + ":x", "expected a whole number in place of \"x\""},
	} {
		t.Run(name, func(t *testing.T) {
			p := readProblem(t, b.do("GET", "/v1/runs?workflow=steps&format=sse", "", "Last-Event-ID: "+tt.id))
			if p.Status != 400 || p.Errors[0].Header != "Last-Event-ID" || !strings.Contains(p.Detail, tt.detail) {
				t.Errorf("%+v", p)
			}
			p = readProblem(t, b.do("GET", "/v1/runs?workflow=steps&format=sse&last_event_id="+tt.id, ""))
			if p.Status != 400 || p.Errors[0].Parameter != "last_event_id" {
				t.Errorf("%+v", p)
			}
		})
	}
	p := readProblem(t, b.do("GET", "/v1/runs/"+id+"/events", "", "Last-Event-ID: "+other+":0"))
	if p.Status != 400 || !strings.Contains(p.Detail, "another run") {
		t.Errorf("%+v", p)
	}
	p = readProblem(t, b.do("GET", "/v1/runs?format=sse&last_event_id=a%00b:1", ""))
	if p.Status != 400 {
		t.Errorf("%+v", p)
	}
	p = readProblem(t, b.do("GET", "/v1/runs/"+id+"/events?after=99", ""))
	if p.Status != 400 || p.Errors[0].Parameter != "after" {
		t.Errorf("%+v", p)
	}
	if b.steps.started() != 2 {
		t.Error("a run was started")
	}
}

// FT-29, FT-32
func TestAResumeOfALostRunIsToldSoAndThenToStop(t *testing.T) {
	b := newBench(t, nil).serve()
	lost := run.NewID()
	for name, path := range map[string]string{"a start": "/v1/runs?workflow=steps", "an attach": "/v1/runs/" + lost + "/events"} {
		t.Run(name, func(t *testing.T) {
			resp := b.do("GET", path, "", "Accept: text/event-stream", "Last-Event-ID: "+lost+":5")
			if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "text/event-stream" || resp.Header.Get("X-Run-Id") != lost {
				t.Fatalf("%d %v", resp.StatusCode, resp.Header)
			}
			list, broken := events(resp.Body)
			if broken || len(list) != 2 || list[0].Type != "error" || !strings.Contains(list[0].Data, `"code":"gone"`) ||
				list[1].Type != "finished" || list[1].Data != `{"status":"interrupted"}` {
				t.Fatalf("%v %+v", broken, list)
			}
			// Cut off between the two: the other one comes.
			again, _ := events(b.do("GET", path, "", "Accept: text/event-stream", "Last-Event-ID: "+list[0].LastEventID).Body)
			if diff := cmp.Diff(list[1:], again); diff != "" {
				t.Error(diff)
			}
			resp = b.do("GET", path, "", "Accept: text/event-stream", "Last-Event-ID: "+list[1].LastEventID)
			if resp.StatusCode != 204 {
				t.Errorf("%d", resp.StatusCode)
			}
		})
	}
	lines := strings.Split(text(t, b.do("POST", "/v1/runs?format=jsonl", "", "Last-Event-ID: "+lost+":5")), "\n")
	if len(lines) != 3 || !strings.HasPrefix(lines[0], `{"id":"`+lost+`:9007199254740990","event":"error","data":{`) {
		t.Errorf("%q", lines)
	}
	if p := readProblem(t, b.do("GET", "/v1/runs?format=json&last_event_id="+lost+":5", "")); p.Status != 404 {
		t.Errorf("%+v", p)
	}
	for _, path := range []string{"/v1/runs/" + lost, "/v1/runs/" + lost + "/events", "/v1/runs/..%2f..%2fetc", "/v1/runs/%00"} {
		if p := readProblem(t, b.do("GET", path, "")); p.Status != 404 || p.Code != wire.CodeNotFound {
			t.Errorf("%s: %+v", path, p)
		}
	}
}

func TestASnapshotBringsAPageThatWasLoadedAnewOntoTheScreen(t *testing.T) {
	b := newBench(t, nil).serve()
	id, st := b.startAsync()
	for i := range 50 {
		st.send("a", fmt.Sprint(i, " "))
	}
	resp := b.do("GET", "/v1/runs?workflow=steps&format=sse&snapshot=1&last_event_id="+id+":20", "")
	next, stop := liveEvents(t, resp)
	defer stop()
	var f folded
	for f.last == "" || !strings.HasSuffix(f.last, ":50") {
		f.take(t, next())
	}
	if f.applied > 4 || !strings.Contains(f.json(), "48 49 ") {
		t.Errorf("%d events: %s", f.applied, f.json())
	}
	st.send("a", "end")
	st.finish()
	for f.terminal == "" {
		f.take(t, next())
	}
	if !strings.HasSuffix(f.json(), `49 end"}`) {
		t.Error(f.json())
	}
	whole := f.json()
	// The run has ended and the page has seen all, but it was loaded anew: its id is in the query.
	f = *fold(t, b.do("GET", "/v1/runs?workflow=steps&format=sse&snapshot=1&last_event_id="+f.last, ""))
	if f.json() != whole || f.terminal == "" {
		t.Errorf("%s %s", f.json(), f.terminal)
	}
	// The browser itself connects again after that, with a header.
	if resp := b.do("GET", "/v1/runs?workflow=steps&format=sse&snapshot=1&last_event_id="+f.last, "", "Last-Event-ID: "+f.last); resp.StatusCode != 204 {
		t.Errorf("%d", resp.StatusCode)
	}
	if f := fold(t, b.do("GET", "/v1/runs/"+id+"/events?snapshot=1", "")); f.json() != whole {
		t.Error(f.json())
	}
}

// FT-18
func TestAClientThatGoesAwayCancelsItsRunOnlyIfItSaidSo(t *testing.T) {
	for name, tt := range map[string]struct {
		path, body string
		cancels    bool
	}{
		"a stream that leaves it running": {"/v1/runs?format=sse", `{"workflow":"steps"}`, false},
		"a stream that does not":          {"/v1/runs?format=sse&on_disconnect=cancel", `{"workflow":"steps"}`, true},
		"JSON Lines that do not":          {"/v1/runs", `{"workflow":"steps","format":"jsonl","on_disconnect":"cancel"}`, true},
		"a document that is left":         {"/v1/runs", `{"workflow":"steps"}`, false},
		"a document that is not":          {"/v1/runs", `{"workflow":"steps","on_disconnect":"cancel"}`, true},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, nil).serve()
			ctx, leave := context.WithCancel(t.Context())
			answered := make(chan struct{})
			go func() {
				defer close(answered)
				if resp, err := b.try(ctx, "POST", tt.path, tt.body); err == nil {
					io.Copy(io.Discard, resp.Body)
					resp.Body.Close()
				}
			}()
			st := <-b.steps.came
			st.send("a", "b")
			leave()
			left := time.Now()
			<-answered
			if !tt.cancels {
				st.send("a", "c")
				st.finish()
				d := readDocument(t, b.do("GET", "/v1/runs/"+st.m.ID()+"/events?format=json", ""))
				if d.Status != run.StatusCompleted || string(d.Result) != `{"a":"bc"}` {
					t.Errorf("%+v", d)
				}
				return
			}
			select {
			case <-st.ctx.Done():
				longtest.Within(t, "until it was canceled", time.Since(left), 100*time.Millisecond)
			case <-time.After(time.Hour):
				t.Fatal("not canceled")
			}
			f := fold(t, b.do("GET", "/v1/runs/"+st.m.ID()+"/events", ""))
			if f.terminal != `canceled{"reason":"the client disconnected"}` {
				t.Error(f.terminal)
			}
		})
	}
	t.Run("with nobody to go away", func(t *testing.T) {
		b := newBench(t, nil).serve()
		p := readProblem(t, b.do("POST", "/v1/runs?on_disconnect=cancel", `{"workflow":"steps"}`, "Prefer: respond-async"))
		if p.Status != 400 || p.Errors[0].Parameter != "on_disconnect" {
			t.Errorf("%+v", p)
		}
	})
}
