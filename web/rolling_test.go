package web

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lingserve/lingserve/internal/postgrestest"
	"github.com/lingserve/lingserve/tube"
	"github.com/lingserve/lingserve/web/wire"
	"github.com/lingserve/lingserve/web/wire/agui/aguitest"
)

// roll are replicas of which one after the other is replaced, with those who can be asked now.
type roll struct {
	mu   sync.Mutex
	here []*replica
	next int
}

// any is a replica that can be asked, each time another one, as a load balancer picks them.
func (l *roll) any() *replica {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.next++
	return l.here[l.next%len(l.here)]
}

// replace takes a replica out and returns it.
func (l *roll) replace(i int, by *replica) *replica {
	l.mu.Lock()
	defer l.mu.Unlock()
	old := l.here[i]
	l.here[i] = by
	return old
}

// CL-11: three replicas are replaced one after the other while clients start runs and read them: no reader sees an error or an end that is
// none, and every document is right.
func TestARollingRestartIsSeenByNobody(t *testing.T) {
	const clients, words = 12, 40
	g := newGroup(t)
	// A run says numbers, a few milliseconds apart, and ends: all of them within the time that a replica gives them.
	counting := func(ctx context.Context, yield func(string) bool) error {
		for i := range words {
			select {
			case <-time.After(3 * time.Millisecond):
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			if !yield(fmt.Sprint(i, " ")) {
				return nil
			}
		}
		return nil
	}
	var want strings.Builder
	for i := range words {
		fmt.Fprint(&want, i, " ")
	}
	edit := func(o *Options) { anew(o, scriptedBy(counting)) }
	l := &roll{here: []*replica{g.replica(edit), g.replica(edit), g.replica(edit)}}
	over := make(chan struct{})
	var runs, broken atomic.Int64
	var wg sync.WaitGroup
	for i := range clients {
		wg.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-over:
					return
				default:
				}
				body := fmt.Sprintf(`{"workflow":"anew","input":{"q":"%d %d"}}`, i, n)
				key := fmt.Sprintf("Idempotency-Key: %d-%d", i, n)
				c := &reader{t: t}
				for c.run == "" { // one that goes takes nothing new, and another one does
					resp, err := l.any().try(t.Context(), "POST", "/v1/runs", body, key, "Prefer: respond-async")
					if err != nil {
						continue
					}
					if resp.StatusCode == 202 {
						c.run = resp.Header.Get("X-Run-Id")
					} else if resp.StatusCode != 503 {
						t.Errorf("%d: %s", resp.StatusCode, text(t, resp))
						return
					}
					resp.Body.Close()
				}
				runs.Add(1)
				for !c.ended() {
					if done, off := c.until(l.any().bench, c.ended); !done && !off {
						t.Errorf("the stream of %s has ended cleanly, without an end of its run", c.run)
						return
					} else if off {
						broken.Add(1)
					}
				}
				if c.json() != `{"answer":"`+want.String()+`"}` || c.terminal != `finished{"status":"completed"}` {
					t.Errorf("%s: %s %s", c.run, c.json(), c.terminal)
					return
				}
			}
		})
	}
	for i := range 3 {
		seen := runs.Load() // what runs, runs on
		eventually(t, "more runs have begun", func() bool { return runs.Load() >= seen+clients })
		old := l.replace(i, g.replica(edit))
		grace, cancel := context.WithTimeout(t.Context(), map[bool]time.Duration{true: 50 * time.Millisecond, false: 5 * time.Second}[i == 1])
		if err := old.s.Drain(grace); err != nil {
			t.Error(err)
		}
		cancel()
		old.down()
		old.close()
		if err := old.sharedPlace.Close(); err != nil {
			t.Error(err)
		}
	}
	seen := runs.Load()
	eventually(t, "more runs have begun", func() bool { return runs.Load() >= seen+clients || t.Failed() })
	close(over)
	wg.Wait()
	t.Logf("%d runs; streams were broken off %d times", runs.Load(), broken.Load())
	if runs.Load() < clients {
		t.Errorf("%d runs", runs.Load())
	}
}

// CL-10: of a run that says more than can wait to be stored, nothing is dropped in silence: it ends, and says why.
func TestARunOfWhichTooMuchWaitsToBeStoredEnds(t *testing.T) {
	g := newGroupOn(t, postgrestest.Run(t))
	a := g.replica(func(o *Options) { o.MaxLog = 64 << 10 })
	id, st := a.startAsync()
	st.send("a", "0")
	c := &reader{t: t, run: id}
	c.must(a.bench, c.says("0"))
	if err := g.database.Shutdown(); err != nil {
		t.Fatal(err)
	}
	more := strings.Repeat("x", 1<<10)
	st.do <- func(ctx context.Context) error {
		for range 1000 {
			if _, err := st.m.Tube().Send(tube.Event{Kind: tube.Append, URI: []byte("a"), Value: []byte(more)}); err != nil {
				break
			}
		}
		<-ctx.Done()
		return context.Cause(ctx)
	}
	<-st.ctx.Done()
	if err := g.database.Restart(); err != nil {
		t.Fatal(err)
	}
	c.must(a.bench, c.ended)
	if !strings.HasPrefix(c.terminal, "canceled") || !strings.Contains(c.terminal, "unreachable for too long") {
		t.Errorf("%s %q", c.terminal, c.names)
	}
	d := readDocument(t, a.do("GET", "/v1/runs/"+id+"/events?format=json", ""))
	if len(d.Errors) != 1 || d.Errors[0].Code != wire.CodeOverloaded {
		t.Errorf("%+v", d.Errors)
	}
	if n := len(c.json()); n < 60<<10 || n > 200<<10 {
		t.Errorf("%d bytes are there", n)
	}
}

// Doors of other protocols, and the chats of a page, are served on any replica, too.
func TestTheOtherDoorsServeAnyRun(t *testing.T) {
	g := newGroup(t)
	a, _ := g.agents()
	b, _ := g.agents()
	// What goes on in a chat on one replica is told by the other one (CL-05).
	a.say("wait", "", "Prefer: respond-async")
	<-a.talk.waits
	if chat := readText(t, b.bench, "GET", "/v1/ui/assistant/s", ""); !strings.Contains(chat, `"wait"`) {
		t.Errorf("the chat does not have what was said: %s", chat)
	}
	resp := b.do("GET", "/v1/ui/assistant/s/stream", "")
	if resp.StatusCode != 200 {
		t.Fatalf("%d", resp.StatusCode)
	}
	close(a.talk.goOn)
	if said := text(t, resp); !strings.Contains(said, "…") || !strings.Contains(said, "finish") {
		t.Error(said)
	}
	// An AG-UI client repeats a run with its key, and finds it elsewhere.
	again := func(b *agentBench) *http.Response {
		resp := b.do("POST", "/v1/agui/assistant", says("t", "hello").json(), asEvents, "Idempotency-Key: g")
		b.readAGUI(&aguitest.Client{}, resp)
		return resp
	}
	if begun, found := again(a), again(b); begun.Header.Get("X-Run-Id") != found.Header.Get("X-Run-Id") || found.Header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("%v, %v", begun.Header, found.Header)
	}
	// A model's answer with a key is one for all who bring it.
	body := `{"model":"assistant","messages":[{"role":"user","content":"hello"}]}`
	first := readText(t, a.bench, "POST", "/v1/chat/completions", body, "Idempotency-Key: c")
	second := readText(t, b.bench, "POST", "/v1/chat/completions", body, "Idempotency-Key: c")
	if len(b.talk.requests()) != 0 || !strings.Contains(first, "hello") || first != second {
		t.Errorf("%s\n%s", first, second)
	}
}

func readText(t testing.TB, b *bench, method, path, body string, header ...string) string {
	t.Helper()
	resp := b.do(method, path, body, header...)
	if resp.StatusCode != 200 {
		t.Fatalf("%s %s: %d %s", method, path, resp.StatusCode, text(t, resp))
	}
	return text(t, resp)
}
