package web

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lingserve/lingserve/control"
	"github.com/lingserve/lingserve/run"
	"github.com/lingserve/lingserve/web/once"
	"github.com/lingserve/lingserve/web/wire"
)

// lossy is a control whose answers are what a test makes of them.
type lossy struct {
	control.Control
	mu sync.Mutex
	of func(r control.Request, ask func() ([]byte, error)) ([]byte, error) // nil leaves them as they are
}

func (l *lossy) Ask(ctx context.Context, replica string, r control.Request) ([]byte, error) {
	l.mu.Lock()
	of := l.of
	l.mu.Unlock()
	ask := func() ([]byte, error) { return l.Control.Ask(ctx, replica, r) }
	if of == nil {
		return ask()
	}
	return of(r, ask)
}

func (l *lossy) make(of func(r control.Request, ask func() ([]byte, error)) ([]byte, error)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.of = of
}

// first has the answers to the first requests of a command lost.
func (l *lossy) first(count int, command string, err error) {
	var mu sync.Mutex
	l.make(func(r control.Request, ask func() ([]byte, error)) ([]byte, error) {
		answer, failed := ask()
		mu.Lock()
		defer mu.Unlock()
		if r.Command == command && count > 0 {
			count--
			return nil, err
		}
		return answer, failed
	})
}

// CL-08: a message whose answer is lost is asked for again, and taken once.
func TestAMessageWhoseAnswerIsLostIsTakenOnce(t *testing.T) {
	g := newGroup(t)
	a, _ := g.agents()
	b, place := g.agents()
	for i, err := range []error{control.ErrLost, control.ErrSilent, context.DeadlineExceeded} {
		first := a.say("wait", "", "Prefer: respond-async").Header.Get("X-Run-Id")
		<-a.talk.waits
		place.lossy.first(2, run.CommandStart, err)
		more := fmt.Sprint("more ", i)
		for range 2 {
			if d := readDocument(t, b.say(more, `,"on_busy":"steer"`, "Prefer: respond-async", fmt.Sprint("Idempotency-Key: ", i))); d.Run != first {
				t.Errorf("%v: it was given to %s, expected %s", err, d.Run, first)
			}
		}
		place.lossy.first(1, run.CommandCancel, err)
		if r := b.do("POST", "/v1/runs/"+first+"/cancel", ""); r.StatusCode != 202 {
			t.Errorf("%v: canceled: %d %s", err, r.StatusCode, text(t, r))
		}
		if d := readDocument(t, b.do("GET", "/v1/runs/"+first+"/events?format=json", "")); d.Status != run.StatusCanceled {
			t.Errorf("%v: %+v", err, d)
		}
		// It came too late for that run, and has one of its own.
		eventually(t, "the message is answered", func() bool { return strings.Contains(a.tapeOf("s"), ": "+more) })
		if said := a.tapeOf("s"); strings.Count(said, `"`+more+`"`) != 1 {
			t.Errorf("%v: %s", err, said)
		}
	}
	if n := len(b.talk.requests()); n != 0 {
		t.Errorf("%d turns were begun elsewhere", n)
	}
}

// CL-07, CL-08: a replica dies that has taken a message, before it could say so: what its tape has is not said again. The tape is read at
// another replica as it was.
func TestAMessageThatADeadReplicaHasTakenIsNotTakenAgain(t *testing.T) {
	g := newGroup(t)
	a, dying := g.agents()
	b, place := g.agents()
	resp := a.say("use danger", "", asEvents)
	host := resp.Header.Get("X-Run-Id")
	question, _, stop := a.question(resp)
	defer stop()
	place.lossy.make(func(r control.Request, ask func() ([]byte, error)) ([]byte, error) {
		answer, err := ask()
		if r.Command != run.CommandStart {
			return answer, err
		}
		if r := a.do("POST", "/v1/runs/"+host+"/approvals/"+question, `{"decision":"approve"}`); r.StatusCode != 204 {
			t.Errorf("%d: %s", r.StatusCode, text(t, r))
		}
		eventually(t, "it is on the tape", func() bool { return strings.Contains(a.tapeOf("s"), `"wait"`) })
		dying.Kill()
		place.lossy.make(nil)
		return nil, control.ErrLost
	})
	for range 2 {
		if d := readDocument(t, b.say("wait", `,"on_busy":"steer"`, "Prefer: respond-async", "Idempotency-Key: k")); d.Run != host {
			t.Errorf("it was taken by %s, expected %s", d.Run, host)
		}
	}
	if said := b.tapeOf("s"); strings.Count(said, `"wait"`) != 1 || !strings.Contains(said, "use danger") {
		t.Error(said)
	}
	if n := len(b.talk.requests()); n != 0 {
		t.Errorf("%d turns were begun elsewhere", n)
	}
}

// Who cannot be told what became of a message is not told that nothing did.
func TestAMessageOfWhichNothingIsKnownIsNotSaidToBeRefused(t *testing.T) {
	g := newGroup(t)
	a, _ := g.agents()
	b, place := g.agents()
	patience := b.s.runs.Inspect().Times().Hand
	b.s.runs.Inspect().Times().Hand = 2 * time.Second // in which a message gets there, and its answers do not
	first := a.say("wait", "", "Prefer: respond-async").Header.Get("X-Run-Id")
	<-a.talk.waits
	place.lossy.first(1000, run.CommandStart, control.ErrSilent)
	if p := readProblem(t, b.say("more", `,"on_busy":"steer"`, "Prefer: respond-async")); p.Status != 500 || p.Code != wire.CodeInternal || p.ID == "" || p.Run != p.ID || !strings.Contains(p.Detail, "may or may not have accepted") {
		t.Errorf("%+v", p)
	}
	resp := b.say("again", `,"on_busy":"steer"`, "Prefer: respond-async", "Idempotency-Key: k")
	if after := resp.Header.Get("Retry-After"); after == "" {
		t.Error("it does not say when to come back")
	}
	if p := readProblem(t, resp); p.Status != 503 || !strings.Contains(p.Detail, "may or may not have accepted") {
		t.Errorf("%+v", p)
	}
	b.s.runs.Inspect().Times().Hand = patience // from here on it is answered, however late
	place.lossy.make(nil)
	place.absent.away.Store(true)
	if p := readProblem(t, b.say("third", `,"on_busy":"steer"`, "Prefer: respond-async")); p.Status != 500 || p.Run != first || !strings.Contains(p.Detail, "a run accepted the message") {
		t.Errorf("%+v", p)
	}
	place.absent.away.Store(false)
	if d := readDocument(t, b.say("again", `,"on_busy":"steer"`, "Prefer: respond-async", "Idempotency-Key: k")); d.Run != first {
		t.Errorf("it was given to %s, expected %s", d.Run, first)
	}
	close(a.talk.goOn)
	if d := readDocument(t, b.do("GET", "/v1/runs/"+first+"/events?format=json", "")); d.Status != run.StatusCompleted {
		t.Errorf("%+v", d)
	}
	if said := a.tapeOf("s"); strings.Count(said, `"more"`) != 1 || strings.Count(said, `"again"`) != 1 || strings.Count(said, `"third"`) != 1 {
		t.Error(said)
	}
}

// claims are the keys of a replica, of which a test says what becomes of a claim.
type claims struct {
	once.Keys
	then func(once.Claim) error
}

func (k *claims) Claim(ctx context.Context, c once.Claim) (once.Claim, bool, error) {
	earlier, ok, err := k.Keys.Claim(ctx, c)
	if err == nil && ok {
		err = k.then(c)
	}
	return earlier, ok && err == nil, err
}

// repeat asks until it is known what became of a request.
func (b *bench) repeat(body string, header ...string) document {
	b.t.Helper()
	for end := time.Now().Add(time.Hour); ; time.Sleep(20 * time.Millisecond) {
		resp := b.do("POST", "/v1/runs", body, header...)
		if resp.StatusCode != 503 || time.Now().After(end) {
			return readDocument(b.t, resp)
		}
		resp.Body.Close()
	}
}

// CL-07, CL-09: a replica dies that has claimed a key, before anything of its run was stored. Whoever repeats the start, wherever, begins that
// run, where it can have done nothing yet: once.
func TestTheKeyOfARunThatADeadReplicaHasNotBegunBeginsItOnce(t *testing.T) {
	g := newGroup(t)
	old, now := scriptedBy(tells("old words")), scriptedBy(tells("new words"))
	claimed := make(chan string, 1)
	var a *replica
	a = g.replica(func(o *Options) {
		anew(o, old)
		shared := *o.Shared
		shared.Keys = &claims{shared.Keys, func(c once.Claim) error {
			claimed <- c.Run
			a.die()
			return nil
		}}
		o.Shared = &shared
	})
	others := []*replica{g.replica(func(o *Options) { anew(o, now) }), g.replica(func(o *Options) { anew(o, now) })}
	body, key := `{"workflow":"anew","input":{"q":"x"}}`, "Idempotency-Key: k"
	ctx, cancel := context.WithCancel(t.Context())
	left := make(chan struct{})
	go func() {
		defer close(left)
		if resp, err := a.try(ctx, "POST", "/v1/runs", body, key); err == nil {
			resp.Body.Close()
		}
	}()
	id := <-claimed
	cancel()
	<-left
	documents := make([]document, 6)
	var wg sync.WaitGroup
	for i := range documents {
		wg.Go(func() { documents[i] = others[i%2].repeat(body, key) })
	}
	wg.Wait()
	for _, d := range documents {
		if d.Run != id || d.Status != run.StatusCompleted || string(d.Result) != `{"answer":"new words"}` {
			t.Errorf("%s, expected %s: %s %s", d.Run, id, d.Status, d.Result)
		}
	}
	if old.calls.Load() != 0 || now.calls.Load() != 1 {
		t.Errorf("the models were asked %d and %d times", old.calls.Load(), now.calls.Load())
	}
}

// CL-07, CL-09: the same of a message, which is on its tape once.
func TestTheKeyOfAMessageThatADeadReplicaHasNotTakenHasItAnswered(t *testing.T) {
	g := newGroup(t)
	a, dying := g.agents()
	b, _ := g.agents()
	claimed := make(chan string, 1)
	dying.shared.Keys = &claims{dying.shared.Keys, func(c once.Claim) error {
		claimed <- c.Run
		dying.Kill()
		return nil
	}}
	body, key := `{"agent":"assistant","session":"s","input":"hello"}`, "Idempotency-Key: k"
	ctx, cancel := context.WithCancel(t.Context())
	left := make(chan struct{})
	go func() {
		defer close(left)
		if resp, err := a.try(ctx, "POST", "/v1/runs", body, key); err == nil {
			resp.Body.Close()
		}
	}()
	id := <-claimed
	cancel()
	<-left
	for range 2 {
		if d := b.repeat(body, key); d.Run != id || d.Status != run.StatusCompleted || !strings.Contains(string(d.Result), "hello") {
			t.Errorf("%s, expected %s: %s %s", d.Run, id, d.Status, d.Result)
		}
	}
	if said := b.tapeOf("s"); strings.Count(said, `"role":"user"`) != 1 || len(b.talk.requests()) != 1 || len(a.talk.requests()) != 0 {
		t.Errorf("%d and %d requests: %s", len(a.talk.requests()), len(b.talk.requests()), said)
	}
}

// CL-09: a replica that has claimed a key, and does not know that it has, is asked whether the run began: it did not, and begins now.
func TestTheKeyOfARunThatWasRefusedBeginsIt(t *testing.T) {
	g := newGroup(t)
	id := ""
	a := g.replica(func(o *Options) {
		shared := *o.Shared
		shared.Keys = &claims{shared.Keys, func(c once.Claim) error { id = c.Run; return once.ErrAway }}
		o.Shared = &shared
	})
	b := g.replica(nil)
	body, key := `{"workflow":"chat","input":{"question":"why?"}}`, "Idempotency-Key: k"
	if p := readProblem(t, a.do("POST", "/v1/runs", body, key)); p.Status != 503 {
		t.Errorf("%+v", p)
	}
	if d := b.repeat(body, key); d.Run != id || d.Status != run.StatusCompleted {
		t.Errorf("%s, expected %s: %s", d.Run, id, d.Status)
	}
	if d := a.repeat(body, key); d.Run != id {
		t.Errorf("%s, expected %s", d.Run, id)
	}
	if n := a.model.calls.Load() + b.model.calls.Load(); n != 1 {
		t.Errorf("the model was asked %d times", n)
	}
}
