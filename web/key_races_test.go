package web

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lingserve/lingserve/agent"
	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/web/once"
)

// stoppedKeys are keys whose calls a test can stop on their way.
type stoppedKeys struct {
	once.Keys
	found        atomic.Pointer[func(once.Claim)] // is called with each claim that is found
	forget, move atomic.Pointer[func()]           // are called before such a call
	claimed      atomic.Pointer[func()]           // is called after one
}

func runHook(f *atomic.Pointer[func()]) {
	if f := f.Load(); f != nil {
		(*f)()
	}
}

func (k *stoppedKeys) Find(ctx context.Context, owner, key string) (once.Claim, bool, error) {
	c, ok, err := k.Keys.Find(ctx, owner, key)
	if f := k.found.Load(); f != nil && ok {
		(*f)(c)
	}
	return c, ok, err
}

func (k *stoppedKeys) Claim(ctx context.Context, c once.Claim) (once.Claim, bool, error) {
	earlier, ok, err := k.Keys.Claim(ctx, c)
	runHook(&k.claimed)
	return earlier, ok, err
}

func (k *stoppedKeys) Forget(ctx context.Context, owner, key, run string) error {
	runHook(&k.forget)
	return k.Keys.Forget(ctx, owner, key, run)
}

func (k *stoppedKeys) Move(ctx context.Context, owner, key, from, to string) (bool, error) {
	runHook(&k.move)
	return k.Keys.Move(ctx, owner, key, from, to)
}

// stopKeys puts such keys in the place of a replica's, which is to be made.
func stopKeys(o *Options) *stoppedKeys {
	k := &stoppedKeys{Keys: o.Shared.Keys}
	o.Shared.Keys = k
	return k
}

// RU-61: a start is refused and frees its key while a copy of the request, at another replica, starts under its id. A third copy finds the run
// of the second.
func TestRU_61_AKeyThatIsFreedWhileACopyStartsLeadsToTheCopysRun(t *testing.T) {
	g := newGroup(t)
	var mine, its *stoppedKeys
	full := g.replica(func(o *Options) { o.MaxRuns, mine = 1, stopKeys(o) })
	b := g.replica(func(o *Options) { its = stopKeys(o) })
	var running *stepped
	refused, looked := make(chan struct{}), make(chan struct{})
	var once1, once2, once3 sync.Once
	claimed := func() { once3.Do(func() { _, running = full.startAsync() }) } // which takes the room
	mine.claimed.Store(&claimed)
	forget := func() {
		once1.Do(func() { close(refused) })
		<-looked
	}
	mine.forget.Store(&forget)
	const body = `{"workflow":"steps"}`
	first := make(chan *http.Response, 1)
	go func() {
		first <- full.do("POST", "/v1/runs", body, "Idempotency-Key: k", "Prefer: respond-async")
	}()
	<-refused
	found := func(once.Claim) { once2.Do(func() { close(looked) }) }
	its.found.Store(&found)
	second := b.do("POST", "/v1/runs", body, "Idempotency-Key: k", "Prefer: respond-async")
	if r := <-first; r.StatusCode != 503 {
		t.Fatalf("the first is answered %d: %s", r.StatusCode, text(t, r))
	}
	if second.StatusCode != 202 {
		t.Fatalf("the second is answered %d: %s", second.StatusCode, text(t, second))
	}
	st := <-b.steps.came
	for _, x := range []*replica{b, full} {
		third := x.do("POST", "/v1/runs", body, "Idempotency-Key: k", "Prefer: respond-async")
		if id := third.Header.Get("X-Run-Id"); id != second.Header.Get("X-Run-Id") || third.Header.Get("Idempotency-Replayed") != "true" {
			t.Errorf("the third is %d %q, expected the run %q", third.StatusCode, id, second.Header.Get("X-Run-Id"))
		}
	}
	st.finish()
	running.finish()
}

// RU-53: while a key of a steered message is written, other messages are steered to the same run.
func TestRU_53_SteeringDoesNotWaitForTheKeyOfAnotherMessage(t *testing.T) {
	g := newGroup(t)
	var keys *stoppedKeys
	p := g.open()
	a := newAgentBench(t, func(o *Options, ao *agent.Options) {
		g.agentOptions(p)(o, ao)
		keys = stopKeys(o)
	})
	a.serve()
	first := a.say("wait", "", "Prefer: respond-async").Header.Get("X-Run-Id")
	<-a.talk.waits
	writing, goOn := make(chan struct{}), make(chan struct{})
	var once1 sync.Once
	move := func() {
		once1.Do(func() { close(writing) })
		<-goOn
	}
	keys.move.Store(&move)
	slow := make(chan *http.Response, 1)
	go func() { slow <- a.say("one", steered, "Prefer: respond-async", "Idempotency-Key: k") }()
	<-writing
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	resp, err := a.try(ctx, "POST", "/v1/runs", `{"agent":"assistant","session":"s","input":"two"`+steered+`}`, "Prefer: respond-async", "Content-Type: application/json")
	close(goOn)
	if err != nil {
		t.Errorf("the second message waits: %v", err)
	} else if resp.Body.Close(); resp.Header.Get("X-Run-Id") != first {
		t.Errorf("%d: it was given to %q, expected %q", resp.StatusCode, resp.Header.Get("X-Run-Id"), first)
	}
	if r := <-slow; r.Header.Get("X-Run-Id") != first {
		t.Errorf("%d: it was given to %q, expected %q", r.StatusCode, r.Header.Get("X-Run-Id"), first)
	}
	close(a.talk.goOn)
}

// slowRecorder records the sessions of a kernel, and stops at one of them.
type slowRecorder struct {
	channel.Recorder
	lane     string
	at, goOn chan struct{}
}

func (r *slowRecorder) Record(_ context.Context, row channel.Row) error {
	if row.SessionKey == r.lane {
		close(r.at)
		<-r.goOn
	}
	return nil
}

func (r *slowRecorder) LastRoute(context.Context, channel.Row) error { return nil }

// RU-53: on one server, a start with a key waits for no start with another key.
func TestRU_53_AStartDoesNotWaitForAStartWithAnotherKey(t *testing.T) {
	slow := &slowRecorder{lane: laneOf("slow"), at: make(chan struct{}), goOn: make(chan struct{})}
	a, _, _ := watchedBench(t, channel.Place{}, func(o *Options, _ *agent.Options) { o.Kernel.Recorder = slow })
	body := func(session string) string {
		return `{"agent":"assistant","session":"` + session + `","input":"hello"}`
	}
	first := make(chan *http.Response, 1)
	go func() {
		first <- a.do("POST", "/v1/runs", body("slow"), "Prefer: respond-async", "Idempotency-Key: one")
	}()
	<-slow.at
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	resp, err := a.try(ctx, "POST", "/v1/runs", body("other"), "Prefer: respond-async", "Idempotency-Key: two")
	close(slow.goOn)
	if err != nil {
		t.Errorf("the second start waits: %v", err)
	} else if resp.Body.Close(); resp.StatusCode != 202 {
		t.Error(resp.StatusCode)
	}
	if r := <-first; r.StatusCode != 202 {
		t.Errorf("%d: %s", r.StatusCode, text(t, r))
	}
}
