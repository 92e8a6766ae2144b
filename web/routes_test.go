package web

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/web/wire"
)

func TestPathsAndMethodsThatAreNotThereAreProblemsToo(t *testing.T) {
	b := newBench(t, nil).serve()
	for _, path := range []string{"/v2", "/v1/runs/", "/v1", "/v1/runs/x/y", "/..%2f..%2fetc/passwd", "/favicon.ico"} {
		if p := readProblem(t, b.do("GET", path, "")); p.Status != 404 || p.Code != wire.CodeNotFound {
			t.Errorf("%s: %+v", path, p)
		}
	}
	for _, tt := range []struct{ method, path, allow string }{
		{"DELETE", "/v1/runs", "GET, POST, OPTIONS"},
		{"PUT", "/v1/runs/x", "GET, HEAD, OPTIONS"},
		{"GET", "/v1/runs/x/cancel", "POST, OPTIONS"},
		{"POST", "/v1/workflows", "GET, HEAD, OPTIONS"},
		{"PATCH", "/", "GET, HEAD, OPTIONS"},
	} {
		resp := b.do(tt.method, tt.path, "")
		if got := resp.Header.Get("Allow"); got != tt.allow {
			t.Errorf("%s %s: Allow: %s", tt.method, tt.path, got)
		}
		if p := readProblem(t, resp); p.Status != 405 {
			t.Errorf("%+v", p)
		}
		resp = b.do("OPTIONS", tt.path, "")
		if got := resp.Header.Get("Allow"); resp.StatusCode != 204 || got != tt.allow {
			t.Errorf("OPTIONS %s: %d, Allow: %s", tt.path, resp.StatusCode, got)
		}
	}
	// A HEAD would start a run that nobody reads.
	if resp := b.do("HEAD", "/v1/runs?workflow=steps", ""); resp.StatusCode != 405 || b.steps.started() != 0 {
		t.Errorf("%d", resp.StatusCode)
	}
}

// DP-12: OpenAI's clients read {"error": {…}}, and print "404 status code (no body)" for any other text.
func TestWhatOpenAIsClientsAskForInVainIsAnErrorOfTheirs(t *testing.T) {
	b := newBench(t, nil).serve()
	for _, tt := range []struct {
		method, path string
		status       int
		says         string
	}{
		{"POST", "/v1/embeddings", 404, "unknown path /v1/embeddings; of OpenAI's API, this server supports /v1/chat/completions and /v1/models"},
		{"POST", "/v1/responses", 404, "unknown path /v1/responses;"},
		{"POST", "/v1/audio/transcriptions", 404, "unknown path /v1/audio/transcriptions;"},
		{"GET", "/v1/chat/completions/x", 404, "unknown path /v1/chat/completions/x;"},
		{"GET", "/v1/chat/completions", 405, "the method GET is not for /v1/chat/completions; expected POST or OPTIONS"},
		{"DELETE", "/v1/models/x", 405, "the method DELETE is not for /v1/models/x; expected GET, HEAD or OPTIONS"},
		{"GET", "/v1/files", 405, "the method GET is not for /v1/files; expected POST or OPTIONS"},
	} {
		resp := b.do(tt.method, tt.path, "")
		var e struct {
			Error struct{ Message, Type, Code string }
		}
		if body := text(t, resp); json.Unmarshal([]byte(body), &e) != nil || resp.StatusCode != tt.status || resp.Header.Get("Content-Type") != "application/json" ||
			!strings.HasPrefix(e.Error.Message, tt.says) || e.Error.Type != "invalid_request_error" || e.Error.Code == "" {
			t.Errorf("%s %s: %d %s", tt.method, tt.path, resp.StatusCode, body)
		}
	}
	// All that only this server has keeps its problem documents.
	own := map[string]bool{"chat": true, "models": true}
	for _, name := range resources {
		own[name] = true
	}
	for _, route := range b.s.Routes() {
		if below, ok := strings.CutPrefix(route.Pattern, "/v1/"); ok {
			if first, _, _ := strings.Cut(below, "/"); !own[first] {
				t.Errorf("%s is in nobody's list", route.Pattern)
			}
		}
	}
}

func TestAPageOfAnotherSiteCannotStartOrCancelARun(t *testing.T) {
	b := newBench(t, nil).serve()
	id, st := b.startAsync()
	defer st.finish()
	for name, header := range map[string]string{"by its fetch": "Sec-Fetch-Site: cross-site", "from a sibling": "Sec-Fetch-Site: same-site", "by its origin": "Origin: https://evil.test", "from nowhere": "Origin: null"} {
		t.Run(name, func(t *testing.T) {
			for _, try := range [][2]string{
				{"POST", "/v1/runs"},
				{"GET", "/v1/runs?workflow=steps"},
				{"POST", "/v1/runs/" + id + "/cancel"},
				{"GET", "/v1/runs/" + id + "/events?on_disconnect=cancel"},
				{"GET", "/v1/agui/steps/t?on%5Fdisconnect=cancel"},
				{"GET", "/v1/ui/steps/t/stream"},
			} {
				resp := b.do(try[0], try[1], `{"workflow":"steps"}`, header)
				if resp.StatusCode != 403 { // what it is may have no end
					t.Errorf("%s: %d", try, resp.StatusCode)
				} else if body, err := io.ReadAll(resp.Body); err != nil || !strings.Contains(string(body), "pages of other sites may not send this request") {
					t.Errorf("%s: %s %v", try, body, err)
				}
			}
		})
	}
	if b.steps.started() != 1 {
		t.Error("started")
	}
	// Its own page, and clients that are no browsers, may.
	for _, header := range []string{"Sec-Fetch-Site: same-origin", "Origin: " + b.url, "X-Other: x"} {
		resp := b.do("GET", "/v1/runs?workflow=steps&format=json", "", header, "Accept: text/event-stream", "Prefer: respond-async")
		if resp.StatusCode != 202 {
			t.Errorf("%s: %d", header, resp.StatusCode)
			continue
		}
		(<-b.steps.came).finish()
	}
}

// FT-34
func TestAPanicInAHandlerIsAnAnswerWithAnIDThatIsInTheLog(t *testing.T) {
	b := newBench(t, nil)
	defer b.s.Close()
	h := b.s.outermost(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/late" {
			w.WriteHeader(200)
			io.WriteString(w, "half")
		}
		panic("secret-of-the-program")
	}))
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", "/early", nil))
	var p wire.Problem
	if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil || w.Code != 500 || p.Code != wire.CodeInternal || p.ID == "" {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	if strings.Contains(w.Body.String(), "secret") || strings.Contains(w.Body.String(), "goroutine") {
		t.Errorf("says too much: %s", w.Body)
	}
	if log := b.log.String(); !strings.Contains(log, p.ID) || !strings.Contains(log, "secret-of-the-program") || !strings.Contains(log, "routes_test.go") {
		t.Errorf("the log does not tell: %s", log)
	}
	// An answer that has begun is broken off.
	defer func() {
		if cause := recover(); cause != http.ErrAbortHandler {
			t.Errorf("%v", cause)
		}
	}()
	h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/late", nil))
	t.Error("ended cleanly")
}

func TestTheLogTellsOfRunsAndNothingOfWhatIsSaid(t *testing.T) {
	b := newBench(t, nil).serve()
	for _, resp := range []*http.Response{
		b.do("POST", "/v1/runs", `{"workflow":"chat","input":"CANARY-body"}`, "Idempotency-Key: CANARY-key", "Authorization: Bearer CANARY-token"),
		b.do("GET", "/v1/runs?workflow=chat&input=CANARY-query&key=CANARY-key2", ""),
		b.do("POST", "/v1/runs", `{"workflow":"chat","input":{"CANARY-member":1}}`),
	} {
		text(t, resp)
	}
	eventually(t, "the log has all", func() bool {
		return strings.Count(b.log.String(), "msg=request") == 3 && strings.Count(b.log.String(), `msg="run ended"`) == 2
	})
	log := b.log.String()
	if strings.Contains(log, "CANARY") {
		t.Error(log)
	}
	for _, want := range []string{`msg="run ended"`, "workflow=chat", "status=completed", "method=POST", "path=/v1/runs", "status=400"} {
		if !strings.Contains(log, want) {
			t.Errorf("no %s in\n%s", want, log)
		}
	}
}

func TestTheWholeWayFromAModelToADocument(t *testing.T) {
	whole, pieces := story(3)
	b := newBench(t, nil)
	var asked adapter.Request
	b.model.say = func(_ context.Context, name string, req adapter.Request, yield func(string) bool) error {
		asked = req
		for _, p := range pieces {
			yield(p)
		}
		return nil
	}
	b.serve()
	resp := b.do("POST", "/v1/runs", `{"workflow":"chat","input":{"question":"Why?"},"model":"test:facts","done":true,
		"options":{"temperature":0.5,"max_tokens":7,"top_p":0.25,"stop":"x","seed":3}}`, "Accept: text/event-stream")
	var f folded
	var done []string
	list, _ := events(resp.Body)
	var started, usage string
	for _, e := range list {
		f.take(t, e)
		if strings.HasSuffix(e.Data, `"done":true}`) {
			done = append(done, e.Data)
		}
		switch e.Type {
		case "started":
			started = e.Data
		case "usage":
			usage = e.Data
		}
	}
	if want := `{"article":` + whole + `}`; f.json() != want {
		t.Error(cmp.Diff(want, f.json()))
	}
	if len(done) < 10 || !strings.Contains(started, `"model":"test:facts"`) || !strings.Contains(usage, `"model":"test:facts"`) || !strings.Contains(usage, `"total_tokens":10`) {
		t.Errorf("%d done, %s, %s", len(done), started, usage)
	}
	if *asked.Temperature != 0.5 || *asked.MaxTokens != 7 || *asked.TopP != 0.25 || *asked.Seed != 3 || asked.Stop[0] != "x" || asked.Messages[len(asked.Messages)-1].Content != "Why?" {
		t.Errorf("%+v", asked)
	}
	d := readDocument(t, b.do("GET", resp.Header.Get("Location"), ""))
	if d.Usage["writer"].TotalTokens != 10 || `{"article":`+whole+`}` != string(d.Result) {
		t.Errorf("%+v", d)
	}
}

// FT-19, TB-06
func TestAClientOnARealSocketThatStopsReadingIsDropped(t *testing.T) {
	b := newBench(t, func(o *Options) { o.WriteTimeout = 300 * time.Millisecond; o.MaxLog = 64 << 20 }).serve()
	good, st := b.start("?format=sse")
	conn, err := net.Dial("tcp", strings.TrimPrefix(b.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.(*net.TCPConn).SetReadBuffer(4 << 10); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(conn, "GET /v1/runs/%s/events HTTP/1.1\r\nHost: x\r\n\r\n", st.m.ID())
	if _, err := bufio.NewReader(conn).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	const chunk, chunks = 10_000, 800 // 8 MB: what the kernels take is far less
	received := make(chan int64)
	go func() { // it has what was sent before there is more: so it has never taken too long, however slow the machine is
		defer close(received)
		for {
			n, err := io.CopyN(io.Discard, good.Body, chunk)
			if err == io.EOF {
				return
			}
			if err != nil {
				t.Error(err)
				return
			}
			received <- n
		}
	}()
	for i := range chunks {
		st.send("a", strings.Repeat("x", chunk))
		if n, ok := <-received; !ok {
			t.Fatalf("the other client got %d chunks and %d bytes", i, n)
		}
	}
	st.finish()
	for range received { // what stands around them
	}
	dropped := make(chan struct{})
	go func() { b.s.wire.Wait(nil); close(dropped) }()
	select {
	case <-dropped:
	case <-time.After(time.Hour):
		t.Error("the stuck client is still there")
	}
}

// FT-22
func TestStreamsOfHTTP2LiveOnWhenNothingIsWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, func(o *Options) { o.KeepAlive = time.Hour })
		b.servePipes()
		defer b.down()
		protocols := new(http.Protocols)
		protocols.SetUnencryptedHTTP2(true)
		transport := b.http.Transport.(*http.Transport)
		transport.Protocols = protocols
		resp, st := b.start("?format=sse")
		if resp.ProtoMajor != 2 {
			t.Fatal(resp.Proto)
		}
		waits := make(chan document, 1)
		go func() { waits <- readDocument(t, b.do("GET", resp.Header.Get("Location")+"/events?format=json", "")) }()
		next, stop := liveEvents(t, resp)
		defer stop()
		var f folded
		f.take(t, next())
		// There a deadline ends a stream even when nothing is written.
		time.Sleep(10 * time.Minute)
		st.send("a", "b")
		f.take(t, next())
		time.Sleep(10 * time.Minute)
		st.finish()
		f.take(t, next())
		if f.json() != `{"a":"b"}` || f.terminal == "" {
			t.Errorf("%s %s", f.json(), f.terminal)
		}
		if d := <-waits; string(d.Result) != `{"a":"b"}` {
			t.Errorf("%+v", d)
		}
	})
}

// FT-31
func TestAThousandStreamsAtOnceLeaveNothingBehind(t *testing.T) {
	const streams = 1000
	b := newBench(t, nil).serve()
	var wg sync.WaitGroup
	errs := make(chan error, streams)
	for range streams {
		wg.Go(func() {
			resp, err := b.try(t.Context(), "POST", "/v1/runs?format=sse", `{"workflow":"steps"}`)
			if err != nil {
				errs <- err
				return
			}
			defer resp.Body.Close()
			body, err := io.ReadAll(resp.Body)
			if err == nil && !bytes.Contains(body, []byte("event: finished")) {
				err = errors.New("no end")
			}
			errs <- err
		})
	}
	for range streams {
		(<-b.steps.came).finish()
	}
	wg.Wait()
	for range streams {
		if err := <-errs; err != nil {
			t.Fatal(err)
		}
	}
	b.quiet()
}

func TestAListenerThatIsInUseIsAnError(t *testing.T) {
	b := newBench(t, nil).serve()
	l, err := b.s.Listen(t.Context(), strings.TrimPrefix(b.url, "http://"))
	if err == nil {
		l.Close()
		t.Fatal("listened twice")
	}
	if !strings.Contains(err.Error(), "address already in use") {
		t.Error(err)
	}
}
