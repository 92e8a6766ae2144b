package web

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/access"
	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/run"
)

// RU-04
func TestAResumeNeverStartsARun(t *testing.T) {
	b := newBench(t, nil).serve()
	id, st := b.startAsync()
	st.send("a", "b")
	st.finish()
	<-b.runOf(id).Done()
	last := "Last-Event-ID: " + id + ":1"
	for _, try := range []struct {
		method, path, body string
		header             []string
	}{
		{"GET", "/v1/runs?workflow=steps&last_event_id=" + id + ":1&format=sse", "", nil},
		{"GET", "/v1/runs?workflow=steps&lastEventId=" + id + ".1&format=sse", "", nil}, // as Mercure has it
		{"GET", "/v1/runs?workflow=steps", "", []string{asEvents, last}},                // of an EventSource
		{"POST", "/v1/runs", `{"workflow":"steps"}`, []string{asEvents, last}},
		{"POST", "/v1/runs?format=sse", "", []string{last, "Idempotency-Key: k"}},
		{"GET", "/v1/runs/" + id + "/events?after=1", "", nil},
		{"GET", "/v1/runs/" + id + "/events?after=0&last_event_id=" + id + ":0", "", []string{last}}, // the newer of header and query
	} {
		resp := b.do(try.method, try.path, try.body, try.header...)
		f := fold(t, resp)
		if resp.StatusCode != 200 || resp.Header.Get("X-Run-Id") != id || f.applied != 1 || f.terminal != `finished{"status":"completed"}` {
			t.Errorf("%+v: %d %+v", try, resp.StatusCode, f)
		}
	}
	if d := readDocument(t, b.do("POST", "/v1/runs", "", last)); string(d.Result) != `{"a":"b"}` {
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
	for _, tt := range []struct {
		path, header string
		want         run.Field // the beginning of its detail
	}{
		{"/v1/runs?format=sse", id + ":7", run.Field{Header: "Last-Event-ID", Detail: "names event " + id + ":7, but the run has had 1 event"}},
		{"/v1/runs?format=sse", "rubbish", run.Field{Header: "Last-Event-ID", Detail: `"rubbish" is not an event id`}},
		{"/v1/runs?format=sse&last_event_id=" + id + ":x", "", run.Field{Parameter: "last_event_id", Detail: id + ":x\" is not an event id"}},
		{"/v1/runs?format=sse&last_event_id=a%00b:1", "", run.Field{Parameter: "last_event_id"}},
		{"/v1/runs/" + id + "/events", other + ":0", run.Field{Header: "Last-Event-ID"}},
		{"/v1/runs/" + id + "/events?after=99", "", run.Field{Parameter: "after"}},
	} {
		var header []string
		if tt.header != "" {
			header = []string{"Last-Event-ID: " + tt.header}
		}
		p := readProblem(t, b.do("GET", tt.path, "", header...))
		if p.Status != 400 || p.Errors[0].Header != tt.want.Header || p.Errors[0].Parameter != tt.want.Parameter || !strings.Contains(p.Detail, tt.want.Detail) {
			t.Errorf("%s %s: %+v", tt.path, tt.header, p)
		}
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
			resp = b.do("GET", path, "", "Accept: text/event-stream", "Last-Event-ID: "+list[1].LastEventID)
			if resp.StatusCode != 204 {
				t.Errorf("%d", resp.StatusCode)
			}
		})
	}
	lines := strings.Split(text(t, b.do("POST", "/v1/runs?format=jsonl", "", "Last-Event-ID: "+lost+":5")), "\n")
	if len(lines) != 3 || !strings.HasPrefix(lines[0], `{"event":"error","data":{`) {
		t.Errorf("%q", lines)
	}
	if p := readProblem(t, b.do("GET", "/v1/runs?format=json&last_event_id="+lost+":5", "")); p.Status != 404 {
		t.Errorf("%+v", p)
	}
}

func TestASnapshotBringsAPageThatWasLoadedAnewOntoTheScreen(t *testing.T) {
	b := newBench(t, nil).serve()
	id, st := b.startAsync()
	for i := range 50 {
		st.send("a", fmt.Sprint(i, " "))
	}
	const query = "/v1/runs?workflow=steps&format=sse&snapshot=1&last_event_id="
	next, stop := liveEvents(t, b.do("GET", query+id+":20", ""))
	defer stop()
	var f folded
	for f.last == "" || !strings.HasSuffix(f.last, ":50") {
		f.take(t, next())
	}
	if f.applied > 4 || !strings.Contains(f.json(), "48 49 ") {
		t.Errorf("%d events: %s", f.applied, f.json())
	}
	st.finish()
	for f.terminal == "" {
		f.take(t, next())
	}
	// The run has ended and the page has seen all, but it was loaded anew: its id is in the query.
	if again := fold(t, b.do("GET", query+f.last, "")); again.json() != f.json() || again.terminal == "" {
		t.Errorf("%s %s", again.json(), again.terminal)
	}
	// The browser itself connects again after that, with a header.
	if resp := b.do("GET", query+f.last, "", "Last-Event-ID: "+f.last); resp.StatusCode != 204 {
		t.Errorf("%d", resp.StatusCode)
	}
}

// PROTOCOL "EventSource": a client that is cut off wherever that is has the same document as one that is not.
func TestAStreamThatIsCutAHundredTimesFoldsToTheSameDocument(t *testing.T) {
	for name, tt := range map[string]struct {
		maxLog       int
		method, path string
		body         string
	}{
		"GET":                              {0, "GET", "/v1/runs?workflow=chat&format=sse&input=Why%3F", ""},
		"POST":                             {0, "POST", "/v1/runs", `{"workflow":"chat","input":"Why?","format":"sse"}`},
		"with a log that loses its events": {4 << 10, "GET", "/v1/runs?workflow=chat&format=sse&input=Why%3F", ""},
	} {
		t.Run(name, func(t *testing.T) {
			whole, pieces := story(100)
			b := newBench(t, func(o *Options) { o.MaxLog = tt.maxLog })
			b.model.say = func(_ context.Context, _ string, _ adapter.Request, yield func(string) bool) error {
				for i, p := range pieces {
					if i%50 == 0 {
						time.Sleep(time.Millisecond) // some are cut off while there is no more
					}
					if !yield(p) {
						break
					}
				}
				return nil
			}
			b.serve()
			random := rand.New(rand.NewPCG(1, 2))
			var f folded
			for connections := 0; f.terminal == ""; connections++ {
				header := []string{"Idempotency-Key: once"} // for cuts before the first event has come
				if f.last != "" {
					header = append(header, "Last-Event-ID: "+f.last)
				}
				resp := b.do(tt.method, tt.path, tt.body, header...)
				if resp.StatusCode != 200 {
					t.Fatalf("%d: %s", resp.StatusCode, text(t, resp))
				}
				body := &io.LimitedReader{R: resp.Body, N: 1 << 30}
				if connections < 100 {
					body.N = 1 + random.Int64N(2000)
				}
				list, broken := events(body)
				resp.Body.Close()
				for _, e := range list {
					f.take(t, e)
				}
				f.pending = nil // what came without its last event is asked for again
				if !broken && body.N > 0 && f.terminal == "" {
					t.Fatal("a clean end of a run that goes on")
				}
			}
			if diff := cmp.Diff(`{"article":`+whole+`}`, f.json()); diff != "" || f.terminal != `finished{"status":"completed"}` {
				t.Errorf("%s\n%s", diff, f.terminal)
			}
			if n := b.model.calls.Load(); n != 1 {
				t.Errorf("the model was called %d times", n)
			}
			if resp := b.do(tt.method, tt.path, tt.body, "Last-Event-ID: "+f.last); resp.StatusCode != 204 {
				t.Errorf("after the end: %d", resp.StatusCode)
			}
		})
	}
}
