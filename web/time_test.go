package web

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingserve/lingserve/access"
	"github.com/lingserve/lingserve/agent"
	"github.com/lingserve/lingserve/run"
	"github.com/lingserve/lingserve/turn"
	"github.com/lingserve/lingserve/web/wire"
)

// DP-04: a client learns how long silence may take. Package frame knows what is written then.
func TestAnIdleStreamIsKeptOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, nil).servePipes()
		defer b.down()
		resp, st := b.start("?format=sse")
		path := resp.Header.Get("Location") + "/events?format=jsonl"
		bodies := map[string]chan string{}
		for keepAlive, resp := range map[string]*http.Response{"10": resp, "10, lines": b.do("GET", path+"&keepalive=1", ""), "": b.do("GET", path, "")} {
			if want, _, _ := strings.Cut(keepAlive, ","); resp.Header.Get("X-Keepalive") != want {
				t.Errorf("X-Keepalive: %q, expected %q", resp.Header.Get("X-Keepalive"), want)
			}
			body := make(chan string, 1)
			bodies[keepAlive] = body
			go func() { body <- text(t, resp) }()
		}
		time.Sleep(25 * time.Second)
		st.finish()
		for keepAlive, want := range map[string]int{"10": 2, "10, lines": 2, "": 0} {
			body, idle := <-bodies[keepAlive], 0
			for line := range strings.Lines(body) {
				if line == ":\n" || line == "\n" && keepAlive != "10" {
					idle++
				}
			}
			if idle != want {
				t.Errorf("%s: %q", keepAlive, body)
			}
		}
	})
}

// FT-19, TB-06
func TestAClientThatStopsReadingIsDroppedAndNobodyElseNotices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := new(tally)
		b := newBench(t, func(opts *Options) { opts.Observer = o }).servePipes()
		defer b.down()
		stuck, st := b.start("?format=sse&on_disconnect=continue")
		stuckReader := bufio.NewReaderSize(stuck.Body, 16)
		if _, err := stuckReader.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
		good := b.do("GET", stuck.Header.Get("Location")+"/events", "")
		received := make(chan *folded)
		go func() { received <- fold(t, good) }()
		began := time.Now()
		for i := range 2000 {
			st.send("a", strings.Repeat("x", 100))
			if i%100 == 0 {
				st.set(fmt.Sprint("n/", i), "1")
			}
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("the run waited %v for a client", took)
		}
		st.finish()
		f := <-received
		if took := time.Since(began); took != 0 || f.terminal == "" {
			t.Errorf("the other client waited %v: %s", took, f.terminal)
		}
		// The stuck one's handler ends with its write's time, and then its line is logged.
		b.s.wire.Wait(nil)
		synctest.Wait()
		if took := time.Since(began); took < 25*time.Second || took > 30*time.Second {
			t.Errorf("dropped after %v", took)
		}
		if log := b.log.String(); o.count("sse slow") != 1 || !strings.Contains(log, "broken=true end=slow") {
			t.Errorf("%q in %s", o.all("sse "), log)
		}
		_, err := io.ReadAll(stuckReader)
		if err == nil {
			t.Error("the stream of the stuck client ended cleanly")
		}
		// It comes back with its id and misses nothing.
		f = fold(t, b.do("GET", "/v1/runs?format=sse", "", "Last-Event-ID: "+stuck.Header.Get("X-Run-Id")+":0"))
		if len(f.json()) < 200_000 || f.terminal == "" {
			t.Errorf("%d bytes", len(f.json()))
		}
	})
}

func TestARunEndsWhenItsTimeIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, func(o *Options) { o.RunTimeout = time.Minute }).servePipes()
		defer b.down()
		began := time.Now()
		resp, st := b.start("?format=sse")
		f := fold(t, resp)
		if took := time.Since(began); took != time.Minute || f.terminal != `canceled{"reason":"the run took longer than 1m0s"}` {
			t.Errorf("after %v: %s", took, f.terminal)
		}
		<-st.ctx.Done()
	})
}

// TU-51
func TestATurnThatTakesTooLongSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAgentBench(t, func(o *Options, _ *agent.Options) {
			o.Turns = turn.New(turn.Options{Workspace: o.Workspace, Timeout: time.Minute})
		})
		a.servePipes()
		if d := readDocument(t, a.say("wait", "")); d.Status != run.StatusCanceled || d.Reason != "the turn took longer than 1m0s" {
			t.Errorf("%+v", d)
		}
	})
}

// FT-21: a run may end before the request that has started it follows it.
func TestDrainingWaitsForRequestsThatDoNotFollowTheirRunYet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, nil).servePipes()
		defer b.down()
		ctx, end := context.WithCancel(t.Context())
		defer end()
		r := httptest.NewRequestWithContext(access.With(ctx, access.Local), http.MethodPost, "/v1/runs", nil)
		r = new(recorder).request(r)
		if _, _, p := b.s.wire.Start(httptest.NewRecorder(), r, &run.Request{Subject: run.Subject{Workflow: "steps"}}); p != nil {
			t.Fatal(p)
		}
		(<-b.steps.came).finish()
		drained := make(chan error, 1)
		go func() { drained <- b.s.Drain(t.Context()) }()
		synctest.Wait()
		select {
		case err := <-drained:
			t.Fatalf("drained before the request could follow its run: %v", err)
		default:
		}
		end()
		if err := <-drained; err != nil {
			t.Error(err)
		}
	})
}

// FT-21
func TestDrainingLetsRunsEndAndBreaksOffThoseThatDoNot(t *testing.T) {
	folder := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, func(o *Options) { o.Data = folder; o.KeepAlive = time.Hour }).servePipes()
		ends, st1 := b.start("?format=sse")
		stays, st2 := b.start("?format=sse")
		id := stays.Header.Get("X-Run-Id")
		waits := make(chan error, 1)
		go func() {
			resp, err := b.try(t.Context(), "GET", "/v1/runs/"+id+"/events?format=json", "")
			if err == nil {
				resp.Body.Close()
			}
			waits <- err
		}()
		st1.send("a", "b")
		st2.send("a", "b")

		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		began := time.Now()
		drained := make(chan error, 1)
		go func() { drained <- b.s.Drain(ctx) }()
		synctest.Wait()
		for path, want := range map[string]int{"/readyz": 503, "/healthz": 200} {
			if resp := b.do("GET", path, ""); resp.StatusCode != want {
				t.Errorf("%s: %d", path, resp.StatusCode)
			}
		}
		refused := b.do("POST", "/v1/runs", `{"workflow":"steps"}`)
		if p := readProblem(t, refused); p.Status != 503 || p.Code != wire.CodeDraining || refused.Header.Get("Retry-After") == "" {
			t.Errorf("%+v", p)
		}
		// An EventSource would give up for good on a 503.
		if resp, err := b.try(t.Context(), "GET", "/v1/runs?workflow=steps", "", asEvents); err == nil {
			t.Errorf("%d", resp.StatusCode)
		}
		// Others may still come to what runs.
		late := b.do("GET", "/v1/runs?format=sse", "", "Last-Event-ID: "+id+":1")
		if late.Body.Close(); late.StatusCode != 200 {
			t.Errorf("%d", late.StatusCode)
		}
		st1.finish()
		if f := fold(t, ends); f.terminal != `finished{"status":"completed"}` {
			t.Error(f.terminal)
		}
		// A second more is for clients who still take what was sent before.
		if err := <-drained; err != nil || time.Since(began) < 10*time.Second || time.Since(began) > 11*time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		// Broken off: no clean end, and no event that looks like one.
		rest, err := io.ReadAll(stays.Body)
		if err == nil || strings.Contains(string(rest), "finished") || strings.Contains(string(rest), "canceled") {
			t.Errorf("%v after %q", err, rest)
		}
		if err := <-waits; err == nil {
			t.Error("who waited for the document got an answer")
		}
		<-st2.ctx.Done()
		b.down()
		// The next server knows how it ended.
		b = newBench(t, func(o *Options) { o.Data = folder }).servePipes()
		defer b.down()
		f := fold(t, b.do("GET", "/v1/runs?format=sse", "", "Last-Event-ID: "+id+":1"))
		d := readDocument(t, b.do("GET", "/v1/runs/"+id, ""))
		if f.terminal != `finished{"status":"interrupted"}` || d.Status != run.StatusInterrupted || string(d.Result) != `{"a":"b"}` {
			t.Errorf("%s %+v", f.terminal, d)
		}
	})
}

// FT-22: there a deadline of HTTP/2 would end a stream even when nothing is written.
func TestALongStreamIsNotCutByTimeoutsOfTheServer(t *testing.T) {
	for name, http2 := range map[string]bool{"HTTP/1.1": false, "HTTP/2.0": true} {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t, func(o *Options) { o.KeepAlive, o.RunTimeout = time.Hour, 24*time.Hour }).servePipes()
			defer b.down()
			protocols := new(http.Protocols)
			protocols.SetHTTP1(!http2)
			protocols.SetUnencryptedHTTP2(http2)
			b.http.Transport.(*http.Transport).Protocols = protocols
			resp, st := b.start("?format=sse")
			if resp.Proto != name {
				t.Fatal(resp.Proto)
			}
			waits := make(chan document, 1)
			go func() { waits <- readDocument(t, b.do("GET", resp.Header.Get("Location")+"/events?format=json", "")) }()
			go func() {
				for range 3 { // each pause is longer than any timeout of the server
					time.Sleep(5 * time.Minute)
					st.send("a", "x")
				}
				st.finish()
			}()
			want := `{"a":"` + strings.Repeat("x", 3) + `"}`
			if f, d := fold(t, resp), <-waits; f.json() != want || string(d.Result) != want {
				t.Errorf("%s: %s %s", name, f.json(), d.Result)
			}
			// The connection is used again, long after its last deadline.
			time.Sleep(time.Minute)
			if resp := b.do("GET", "/healthz", ""); resp.StatusCode != 200 {
				t.Errorf("%s: %d", name, resp.StatusCode)
			}
		})
	}
}
