package web

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingserve/lingserve/run"
	"github.com/lingserve/lingserve/web/wire"
)

func TestAnIdleStreamIsKeptOpenByAComment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, nil).servePipes()
		defer b.down()
		resp, st := b.start("?format=sse")
		lines := b.do("GET", resp.Header.Get("Location")+"/events?format=jsonl&keepalive=1", "")
		quiet := b.do("GET", resp.Header.Get("Location")+"/events?format=jsonl", "")
		// DP-04: a client learns how long silence may take.
		for name, resp := range map[string]*http.Response{"10": resp, "10, lines": lines, "": quiet} {
			want, _, _ := strings.Cut(name, ",")
			if got := resp.Header.Get("X-Keepalive"); got != want {
				t.Errorf("X-Keepalive: %q, expected %q", got, want)
			}
		}
		began := time.Now()
		go func() {
			time.Sleep(25 * time.Second)
			st.send("a", "b")
			time.Sleep(12 * time.Second)
			st.finish()
		}()
		count := func(resp *http.Response, into chan<- int) { into <- strings.Count(text(t, resp), "\n") }
		withEmpty, without := make(chan int, 1), make(chan int, 1)
		go count(lines, withEmpty)
		go count(quiet, without)
		body := text(t, resp)
		if took := time.Since(began); took != 37*time.Second {
			t.Errorf("took %v", took)
		}
		_, body, _ = strings.Cut(body, "\n")
		var shape []string
		for part := range strings.SplitSeq(body, "\n") {
			name, _, _ := strings.Cut(part, ": ")
			shape = append(shape, name)
		}
		// Comments stand between events, one line each, with no blank line behind them.
		if got := strings.Join(shape, ","); got != "id,event,data,,:,:,id,data,,:,id,event,data,," {
			t.Error(got)
		}
		if got := <-withEmpty; got != 3+3 {
			t.Errorf("%d lines", got)
		}
		if got := <-without; got != 3 {
			t.Errorf("%d lines", got)
		}
	})
}

// FT-19, TB-06
func TestAClientThatStopsReadingIsDroppedAndNobodyElseNotices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, nil).servePipes()
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
		// The stuck one's handler ends with its write's time.
		b.s.wire.Wait(nil)
		if took := time.Since(began); took < 25*time.Second || took > 30*time.Second {
			t.Errorf("dropped after %v", took)
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

// FT-22
func TestALongStreamIsNotCutByTimeoutsOfTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, func(o *Options) { o.KeepAlive = time.Hour; o.RunTimeout = 24 * time.Hour }).servePipes()
		defer b.down()
		resp, st := b.start("?format=sse")
		go func() {
			for range 20 {
				time.Sleep(20 * time.Minute)
				st.send("a", "x")
			}
			st.finish()
		}()
		if f := fold(t, resp); f.json() != `{"a":"`+strings.Repeat("x", 20)+`"}` {
			t.Error(f.json())
		}
		// The connection is used again, hours after its last deadline.
		time.Sleep(time.Minute)
		var again bool
		ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) { again = i.Reused }})
		nothing, err := b.try(ctx, "GET", "/nothing", "")
		if err != nil || !again {
			t.Fatalf("reused: %v, %v", again, err)
		}
		if p := readProblem(t, nothing); p.Status != 404 {
			t.Errorf("%+v", p)
		}
		if resp := b.do("GET", "/healthz", ""); resp.StatusCode != 200 {
			t.Errorf("%d", resp.StatusCode)
		}
	})
}

func TestAnEndedRunIsKeptForItsTimeAndThenGone(t *testing.T) {
	for name, data := range map[string]bool{"in memory": false, "on disk": true} {
		t.Run(name, func(t *testing.T) {
			folder := ""
			if data {
				folder = t.TempDir()
			}
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, func(o *Options) { o.Data = folder; o.KeepAlive = time.Hour }).servePipes()
				defer b.down()
				id, st := b.startAsync()
				st.send("a", "b")
				st.finish()
				keyed, st := b.startAsync("Idempotency-Key: k")
				st.send("a", "c")
				st.finish()
				synctest.Wait()
				state := func(id string) (status int) {
					resp := b.do("GET", "/v1/runs/"+id, "")
					defer resp.Body.Close()
					return resp.StatusCode
				}
				for _, at := range []time.Duration{0, time.Minute, 4*time.Minute + 50*time.Second} {
					time.Sleep(at - time.Since(b.s.began))
					if got := state(id); got != 200 {
						t.Fatalf("after %v: %d", time.Since(b.s.began), got)
					}
					if data && at > 0 {
						// It was read back for that, and leaves memory again.
						time.Sleep(run.KeepInMemory + run.SweepEvery + 1)
						if n := len(b.s.runs.Inspect().InMemory()); n != 0 {
							t.Errorf("%d runs in memory", n)
						}
					}
				}
				time.Sleep(5*time.Minute + 30*time.Second - time.Since(b.s.began))
				if p := readProblem(t, b.do("GET", "/v1/runs/"+id, "")); p.Status != 410 || p.Code != wire.CodeGone || p.Run != id {
					t.Errorf("%+v", p)
				}
				if p := readProblem(t, b.do("GET", "/v1/runs/"+id+"/events", "")); p.Status != 410 {
					t.Errorf("%+v", p)
				}
				if p := readProblem(t, b.do("POST", "/v1/runs/"+id+"/cancel", "")); p.Status != 410 {
					t.Errorf("%+v", p)
				}
				if f := fold(t, b.do("GET", "/v1/runs?format=sse", "", "Last-Event-ID: "+id+":1")); strings.Join(f.names, " ") != "error finished" {
					t.Errorf("%+v", f)
				}
				// FT-28: a key's run is kept as long as the key.
				time.Sleep(23 * time.Hour)
				d := readDocument(t, b.do("POST", "/v1/runs", `{"workflow":"steps"}`, "Idempotency-Key: k"))
				if d.Run != keyed || string(d.Result) != `{"a":"c"}` {
					t.Errorf("%+v", d)
				}
				time.Sleep(2 * time.Hour)
				resp := b.do("POST", "/v1/runs", `{"workflow":"steps"}`, "Idempotency-Key: k", "Prefer: respond-async")
				if again := resp.Header.Get("X-Run-Id"); resp.StatusCode != 202 || again == keyed {
					t.Errorf("%d %s", resp.StatusCode, again)
				}
				resp.Body.Close()
				(<-b.steps.came).finish()
				if data {
					time.Sleep(25 * time.Hour)
					if files, err := b.s.runs.Inspect().Files(); err != nil || files > 1 {
						t.Errorf("%d files are left, %v", files, err)
					}
				}
			})
		})
	}
}

// Without a data folder, too, a client that was cut off near the end finds the run, however large it is.
func TestTheLastRunToEndIsKeptHoweverLargeItIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, func(o *Options) { o.MemoryOfEnded = 1000 }).servePipes()
		defer b.down()
		first, st := b.startAsync()
		st.send("a", strings.Repeat("x", 100_000))
		st.finish()
		synctest.Wait()
		if resp := b.do("GET", "/v1/runs/"+first, ""); resp.StatusCode != 200 || len(text(t, resp)) < 100_000 {
			t.Errorf("%d", resp.StatusCode)
		}
		second, st := b.startAsync()
		st.finish()
		synctest.Wait()
		for id, want := range map[string]int{first: 410, second: 200} {
			resp := b.do("GET", "/v1/runs/"+id, "")
			text(t, resp)
			if resp.StatusCode != want {
				t.Errorf("after the second: %d, want %d", resp.StatusCode, want)
			}
		}
	})
}

func TestEndedRunsTakeNoMoreMemoryThanTheyMay(t *testing.T) {
	for name, data := range map[string]bool{"and are gone": false, "and are on disk": true} {
		t.Run(name, func(t *testing.T) {
			folder := ""
			if data {
				folder = t.TempDir()
			}
			synctest.Test(t, func(t *testing.T) {
				const most = 1 << 20
				b := newBench(t, func(o *Options) { o.Data = folder; o.MemoryOfEnded = most }).servePipes()
				defer b.down()
				var ids []string
				for range 30 {
					id, st := b.startAsync()
					st.send("a", strings.Repeat("x", 100_000))
					st.finish()
					ids = append(ids, id)
					synctest.Wait()
					if n := b.s.runs.Load().MemoryBytes; n > most {
						t.Errorf("%d bytes", n)
					}
				}
				// The system gets back what has become free, once.
				if !b.s.runs.Inspect().Sweep(time.Now()) || b.s.runs.Inspect().Sweep(time.Now()) {
					t.Error("memory is not given back, or again and again")
				}
				for i, id := range ids {
					resp := b.do("GET", "/v1/runs/"+id, "")
					body := text(t, resp)
					want := 200
					if !data && i < 20 {
						want = 410
					}
					if resp.StatusCode != want || want == 200 && len(body) < 100_000 {
						if data || i < 20 || i > 25 { // about the bound
							t.Errorf("run %d: %d, %d bytes", i, resp.StatusCode, len(body))
						}
					}
				}
				if sum, counted := b.s.runs.Inspect().Kept(); sum != counted || sum > most {
					t.Errorf("%d bytes are kept, %d are counted", sum, counted)
				}
			})
		})
	}
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

// SE-14
func TestABodyThatComesTooSlowlyIsNotWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, nil).servePipes()
		defer b.down()
		r, w := io.Pipe()
		req, err := http.NewRequestWithContext(t.Context(), "POST", b.url+"/v1/runs", r)
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			for range 100 {
				if _, err := w.Write([]byte(" ")); err != nil {
					return
				}
				time.Sleep(time.Second)
			}
			w.Close()
		}()
		began := time.Now()
		resp, err := b.http.Do(req)
		if err == nil {
			if resp.StatusCode != 400 {
				t.Errorf("%d", resp.StatusCode)
			}
			resp.Body.Close()
		}
		if took := time.Since(began); took > bodyTimeout+time.Second {
			t.Errorf("took %v", took)
		}
		r.CloseWithError(io.ErrClosedPipe)
		time.Sleep(2 * time.Minute)
	})
}

// FT-21
func TestDrainingLetsRunsEndAndBreaksOffThoseThatDoNot(t *testing.T) {
	folder := t.TempDir()
	var id, last string
	var before string
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, func(o *Options) { o.Data = folder; o.KeepAlive = time.Hour }).servePipes()
		defer b.down()
		ends, st1 := b.start("?format=sse")
		stays, st2 := b.start("?format=sse")
		waits := make(chan error, 1)
		go func() {
			resp, err := b.try(t.Context(), "GET", stays.Header.Get("Location")+"/events?format=json", "")
			if err == nil {
				resp.Body.Close()
			}
			waits <- err
		}()
		id = stays.Header.Get("X-Run-Id")
		st1.send("a", "b")
		st2.send("a", "b")
		next, stop := liveEvents(t, stays)
		defer stop()
		var f folded
		for f.applied < 2 {
			f.take(t, next())
		}
		last, before = f.last, f.json()

		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		began := time.Now()
		drained := make(chan error, 1)
		go func() { drained <- b.s.Drain(ctx) }()
		synctest.Wait()
		ready := b.do("GET", "/readyz", "")
		if body := text(t, ready); ready.StatusCode != 503 || !strings.Contains(body, "draining") {
			t.Errorf("%d %s", ready.StatusCode, body)
		}
		if resp := b.do("GET", "/healthz", ""); resp.StatusCode != 200 {
			t.Errorf("%d", resp.StatusCode)
		}
		refused := b.do("POST", "/v1/runs", `{"workflow":"steps"}`)
		if p := readProblem(t, refused); p.Status != 503 || p.Code != wire.CodeDraining || refused.Header.Get("Retry-After") == "" {
			t.Errorf("%+v", p)
		}
		// An EventSource would give up for good on a 503.
		if resp, err := b.try(t.Context(), "GET", "/v1/runs?workflow=steps", "", "Accept: text/event-stream"); err == nil {
			t.Errorf("%d", resp.StatusCode)
		}
		// Who reads may go on reading, and others may still come.
		late := b.do("GET", "/v1/runs?format=sse", "", "Last-Event-ID: "+last)
		if late.StatusCode != 200 {
			t.Errorf("%d", late.StatusCode)
		}
		late.Body.Close()
		st1.finish()
		if f := fold(t, ends); f.terminal != `finished{"status":"completed"}` {
			t.Error(f.terminal)
		}
		if err := <-drained; err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took != 10*time.Second {
			t.Errorf("drained after %v", took)
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
	})
	// The next server knows how it ended.
	b := newBench(t, func(o *Options) { o.Data = folder }).serve()
	f := fold(t, b.do("GET", "/v1/runs?format=sse", "", "Last-Event-ID: "+last))
	if f.terminal != `finished{"status":"interrupted"}` {
		t.Error(f.terminal)
	}
	if d := readDocument(t, b.do("GET", "/v1/runs/"+id, "")); d.Status != run.StatusInterrupted || string(d.Result) != before {
		t.Errorf("%+v", d)
	}
}

func TestDrainingAnIdleServerTakesNoTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, nil).servePipes()
		defer b.down()
		began := time.Now()
		if err := b.s.Drain(t.Context()); err != nil {
			t.Error(err)
		}
		if err := b.s.Drain(t.Context()); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("took %v", took)
		}
	})
}

// FT-21
func TestAStreamThatWasStuckWhenTheServerWentSeesNoEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, func(o *Options) { o.KeepAlive = time.Hour }).servePipes()
		defer b.down()
		first, st := b.start("?format=sse")
		streams := []*http.Response{first}
		for range 9 {
			streams = append(streams, b.do("GET", first.Header.Get("Location")+"/events", ""))
		}
		st.send("a", strings.Repeat("x", 20_000)) // more than what a client takes unread
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := b.s.Drain(ctx); err != nil {
			t.Error(err)
		}
		for _, resp := range streams {
			rest, err := io.ReadAll(resp.Body)
			if err == nil || strings.Contains(string(rest), "finished") {
				t.Errorf("%v after %q", err, rest[max(0, len(rest)-200):])
			}
		}
	})
}
