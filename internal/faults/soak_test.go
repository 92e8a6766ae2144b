//go:build nightly

package faults

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"reflect"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/internal/fakeproviders"
	"github.com/lingserve/lingserve/web"
)

// soakRuns is how many runs there are without -soak.
const soakRuns = 120

// What the model does with a run. All but the first few cost the run its success.
const (
	well = iota
	slow
	limitedFirst
	brokenFirst
	cutOff
	cutAtOnce
	reports
	rubbish
	stalls
	kinds
)

// plan is one run of the soak: all of it comes from its number, so that the model and the client know the same.
type plan struct {
	n    int
	by   *provider
	kind int
	text string // the model's document
	cuts []int  // where its text is cut
	at   int    // where it fails
}

func newPlan(n int) plan {
	r := rand.New(rand.NewPCG(uint64(n), 7))
	p := plan{n: n, by: providers[n%len(providers)], kind: r.IntN(kinds)}
	if r.IntN(3) > 0 {
		p.kind = r.IntN(brokenFirst + 1)
	}
	if p.kind == stalls && *soakTime == 0 {
		p.kind = reports // a stall takes as long as the longest pause of a busy machine; it has a test of its own
	}
	text, _ := json.Marshal(value(r, 4))
	p.text = `{"n":` + strconv.Itoa(n) + `,"list":[` + string(text) + `]}`
	for i := 0; i < len(p.text); {
		for i = min(len(p.text), i+1+r.IntN(40)); i < len(p.text) && !utf8.RuneStart(p.text[i]); i++ {
		}
		p.cuts = append(p.cuts, i)
	}
	p.at = r.IntN(len(p.cuts))
	return p
}

// value is a random value of a document.
func value(r *rand.Rand, depth int) any {
	switch kind := r.IntN(8); {
	case depth > 0 && kind < 3:
		m := map[string]any{}
		for i := range 1 + r.IntN(6) {
			m[fmt.Sprintf("key/%d é", i)] = value(r, depth-1)
		}
		return m
	case depth > 0 && kind < 5:
		var list []any
		for range r.IntN(8) {
			list = append(list, value(r, depth-1))
		}
		return list
	case kind < 7:
		return strings.Repeat("Why is the \"sky\" blue?\n½ ☀ 🌈 ", r.IntN(12))
	default:
		return r.Float64() * 1e6
	}
}

// answer is what the model does when it is asked for the attempt-th time.
func (p plan) answer(attempt int) fakeproviders.Answer {
	switch {
	case p.kind == limitedFirst && attempt == 1:
		return echo(429, http.Header{"Retry-After-Ms": {"5"}})
	case p.kind == brokenFirst && attempt < 3:
		return []fakeproviders.Answer{echo(503, nil), raw(cut)}[attempt-1]
	case p.kind == cutAtOnce:
		return raw(cut)
	}
	steps := []fakeproviders.Raw{bytes_(p.by.Open)}
	from := 0
	for i, to := range p.cuts {
		if i == p.at {
			switch p.kind {
			case cutOff:
				return raw(append(steps, bytes_(p.by.Text(p.text[from:to])), cut)...)
			case reports:
				return raw(append(steps, bytes_(p.by.Error))...)
			case rubbish:
				return raw(append(steps, bytes_(p.by.broken()))...)
			case stalls:
				return raw(append(steps, hang)...)
			}
		}
		step := bytes_(p.by.Text(p.text[from:to]))
		if p.kind == slow && i%8 == 0 {
			step.Wait = time.Millisecond
		}
		steps = append(steps, step)
		from = to
	}
	return raw(append(steps, bytes_(p.by.end()))...)
}

// Everything at once, for as long as -soak says: many runs of all kinds, with models of all providers that fail in all ways, alone
// and at the end of chains, and clients that are cut off anywhere, come back, cancel, leave for good or do not read. At the end
// every run that has completed has given the model's document, and nothing is left: no goroutine, no connection, no file, no
// memory.
func TestSoak(t *testing.T) {
	filesBefore := openFiles(t)
	var s *soak
	var ended int64 // memory, at the end
	func() {
		s = &soak{until: time.Now().Add(*soakTime)}
		s.p = start(t, setup{
			script: func(r fakeproviders.Request) fakeproviders.Answer {
				if r.Model == "down" {
					return echo(401, nil)
				}
				n, _ := strconv.Atoi(strings.TrimPrefix(asked(r), "run "))
				attempts, _ := s.attempts.LoadOrStore(n, new(atomic.Int64))
				return newPlan(n).answer(int(attempts.(*atomic.Int64).Add(1)))
			},
			limits: adapter.Timeouts{FirstToken: patience / 2, Idle: patience / 2},
			web: func(o *web.Options) {
				o.Data = t.TempDir()
				o.KeepAlive = 5 * time.Millisecond
				o.WriteTimeout = 2 * time.Second
				o.MaxLog = 4 << 10 // clients that come back fall out of it
				o.Retention = time.Minute
				o.KeyRetention = time.Minute
				o.MemoryOfEnded = 1 << 20
			},
		})
		defer s.p.close()
		var workers sync.WaitGroup
		for range 12 {
			workers.Go(func() {
				for {
					n := int(s.next.Add(1))
					if *soakTime == 0 && n > soakRuns || *soakTime > 0 && time.Now().After(s.until) {
						return
					}
					s.client(t, newPlan(n))
					s.attempts.Delete(n)
					s.goroutines.Store(max(s.goroutines.Load(), int64(runtime.NumGoroutine()))) // about
					if n == soakRuns/3 {
						s.warm.Store(s.memory()) // from here on it must not grow
					}
					if t.Failed() {
						return
					}
				}
			})
		}
		workers.Wait()
		s.p.idle()
		if t.Failed() {
			for line := range strings.Lines(s.p.log.String()) {
				if strings.Contains(line, "level=ERROR") || strings.Contains(line, "level=WARN") {
					t.Log(clip(line))
				}
			}
		}
		inUse()
		ended = s.memory()
		if before, after := s.warm.Load(), ended; after-before > 24<<20 {
			t.Errorf("memory has grown from %d to %d KiB", before>>10, after>>10)
		} else {
			t.Logf("memory: %d KiB after a third of the first %d runs, %d KiB after all", before>>10, soakRuns, after>>10)
		}
	}()
	eventually(t, "all files are closed", func() bool { return openFiles(t) <= filesBefore })
	t.Logf("%d goroutines at most, %d chats canceled at Coze", s.goroutines.Load(), s.p.model.Cancels())
	t.Logf("%d runs: %d completed, %d failed, %d canceled; %d connections cut", s.next.Load(), s.completed.Load(), s.failed.Load(), s.canceled.Load(), s.cut.Load())
	if s.p.model.Cancels() == 0 || s.completed.Load() == 0 || s.failed.Load() == 0 || s.canceled.Load() == 0 || s.cut.Load() == 0 {
		t.Error("some kind did not happen")
	}
	saw(t, "all at once", fmt.Sprintf("%d runs at %d models that fail in %d ways, alone and at the end of chains; clients that are cut off, come back, cancel, leave or do not read", s.next.Load()-12, len(providers), kinds),
		"%d completed with the right document, %d failed and %d were canceled as they should; %d connections cut; %d goroutines at most, none left; memory in use %d KiB after %d runs, %d KiB at the end",
		s.completed.Load(), s.failed.Load(), s.canceled.Load(), s.cut.Load(), s.goroutines.Load(), s.warm.Load()>>10, soakRuns/3, ended>>10)
}

// openFiles counts the files that this process has open.
func openFiles(t *testing.T) int {
	// The runtime's own are opened with the first connection.
	if l, err := net.Listen("tcp", "127.0.0.1:0"); err == nil {
		l.Close()
	}
	list, err := os.ReadDir("/dev/fd")
	if err != nil {
		t.Skip(err)
	}
	return len(list)
}

type soak struct {
	p        *product
	until    time.Time
	next     atomic.Int64
	attempts sync.Map // at a run's model
	warm     atomic.Int64

	completed, failed, canceled, cut atomic.Int64
	goroutines                       atomic.Int64 // at most
}

// memory is what is in use, but for what the test itself keeps of answers and log.
func (s *soak) memory() int64 {
	return int64(inUse()) - int64(s.p.seen.held()+s.p.log.held())
}

// client starts a run and does something with it until it is over.
func (s *soak) client(t *testing.T, plan plan) {
	r := rand.New(rand.NewPCG(uint64(plan.n), 8))
	model := plan.by.model("m")
	if plan.n%3 == 0 { // at the end of a chain
		model = providers[r.IntN(len(providers))].model("down") + "," + model
	}
	body := fmt.Sprintf(`{"workflow":"json","input":"run %d","model":%q}`, plan.n, model)
	key := fmt.Sprintf("Idempotency-Key: %d", plan.n)
	var state, doc, id string
	mayCancel := false
	switch r.IntN(10) {
	case 0: // for the document, twice at once
		second := make(chan *answer, 1)
		go func() { second <- s.p.ask("application/json", body, key) }()
		a := s.p.ask("application/json", body, key)
		b := <-second
		if a.run != b.run || a.state != b.state || a.doc != b.doc {
			t.Errorf("run %d: %v and %v", plan.n, a, b)
		}
		state, doc, id = a.state, a.doc, a.run
		if a.problem != nil {
			state, doc = "failed", "{}"
		}
	case 1: // canceled by another
		mayCancel = true
		started := s.p.do("POST", "/v1/runs", body, key, "Prefer: respond-async")
		time.Sleep(time.Duration(r.IntN(5)) * time.Millisecond)
		s.p.do("POST", "/v1/runs/"+started.run+"/cancel", "")
		a := s.p.do("GET", "/v1/runs/"+started.run+"/events", "", "Accept: "+streams[r.IntN(2)])
		state, doc, id = a.state, a.doc, a.run
	case 2: // by leaving
		mayCancel = true
		resp, err := s.p.request(t.Context(), "POST", "/v1/runs?format=sse&on_disconnect=cancel", body, key)
		if err != nil {
			t.Error(err)
			return
		}
		io.CopyN(io.Discard, resp.Body, r.Int64N(2000))
		resp.Body.Close()
		s.cut.Add(1)
		id = resp.Header.Get("X-Run-Id")
		eventually(t, "the run that was left has ended", func() bool {
			a := s.p.do("GET", "/v1/runs/"+id, "")
			state, doc = a.state, a.doc
			return state != "running"
		})
	case 3: // by not reading
		c := s.p.dial("/v1/runs", streams[r.IntN(2)], body, key)
		defer c.Close()
		fallthrough
	default: // with cuts
		f := s.follow(t, r, body, key)
		f.check(t)
		state, doc, id = f.state, f.json(), f.run
	}

	// However it was asked for, the server says the same of it now.
	if a := s.p.do("GET", "/v1/runs/"+id, ""); a.state != state || a.doc != doc {
		t.Errorf("run %d: %s %s, and then %v", plan.n, state, clip(doc), a)
	}
	switch {
	case state == "canceled" && mayCancel:
		s.canceled.Add(1)
	case state == "completed" && plan.kind <= brokenFirst:
		s.completed.Add(1)
		var got struct{ Doc any }
		var want any
		decode(doc, &got)
		decode(plan.text, &want)
		if !reflect.DeepEqual(got.Doc, want) {
			t.Errorf("run %d: %s is not %s", plan.n, clip(doc), clip(plan.text))
		}
	case state == "failed" && plan.kind > brokenFirst:
		s.failed.Add(1)
	default:
		t.Errorf("run %d of kind %d is %q: %s", plan.n, plan.kind, state, clip(doc))
	}
}

// follow reads a run over as many connections as it takes.
func (s *soak) follow(t *testing.T, r *rand.Rand, body, key string) *fold {
	var f fold
	framing := streams[r.IntN(2)]
	for cuts := r.IntN(6); f.state == ""; cuts-- {
		header := []string{key, "Accept: " + framing}
		if f.last != "" {
			header = append(header, "Last-Event-ID: "+f.last)
		}
		ctx, leave := context.WithCancel(t.Context())
		resp, err := s.p.request(ctx, "POST", "/v1/runs", body, header...)
		if err != nil {
			leave()
			t.Error(err)
			return &f
		}
		var from io.Reader = resp.Body
		if cuts > 0 {
			from = io.LimitReader(resp.Body, 1+r.Int64N(3000))
			s.cut.Add(1)
		}
		if resp.StatusCode != 200 {
			t.Errorf("resumed from %q: %v", f.last, s.p.read(resp))
			leave()
			return &f
		}
		for events := newEventReader(framing, from); ; {
			e, err := events.next()
			if err != nil {
				break
			}
			f.take(e)
		}
		f.cut()
		leave()
		resp.Body.Close()
		if cuts <= 0 && f.state == "" {
			t.Errorf("a clean end of a run that goes on, after %q", f.last)
			return &f
		}
	}
	return &f
}
