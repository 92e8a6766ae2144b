package turn_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingserve/lingserve/tape"
	"github.com/lingserve/lingserve/turn"
)

// lanes is a framework whose turns last as long as the tests want, in a bubble.
type lanes struct {
	transcript
	*turn.Framework
	t     *testing.T
	gates map[string]chan struct{}
}

// newLanes has a model that writes down "+content", waits until open(content), and writes down "-content". save_state takes a
// second and writes down "s:content".
func newLanes(t *testing.T, o turn.Options, plugins ...any) *lanes {
	l := &lanes{t: t, gates: map[string]chan struct{}{}, Framework: turn.New(o)}
	var mu sync.Mutex
	gate := func(content string) chan struct{} {
		mu.Lock()
		defer mu.Unlock()
		if l.gates[content] == nil {
			l.gates[content] = make(chan struct{})
		}
		return l.gates[content]
	}
	register(t, l.Framework, append([]any{struct {
		runner
		saver
	}{
		func(ctx context.Context, p turn.Prompt, _ string, s turn.State) (string, bool, error) {
			l.add("+%s", p.Text)
			select {
			case <-gate(p.Text):
			case <-ctx.Done():
				l.add("!%s", p.Text)
				return "", false, ctx.Err()
			}
			l.add("-%s", p.Text)
			return "answer to " + p.Text, true, nil
		},
		func(_ context.Context, o *turn.Outcome) error {
			time.Sleep(time.Second)
			l.add("s:%s", o.Envelope.Content)
			return nil
		},
	}}, plugins...)...)
	return l
}

// open lets the turn with this content end, and waits until all that follows from it has happened.
func (l *lanes) open(content string) {
	synctest.Wait()
	close(l.gates[content])
	l.settle()
}

// settle waits until save_states are over and everything waits for something else.
func (l *lanes) settle() {
	time.Sleep(2 * time.Second)
	synctest.Wait()
}

func (l *lanes) submit(session, content string, p turn.Policy) *turn.Ticket {
	l.t.Helper()
	k, err := l.try(l.t.Context(), session, content, p)
	if err != nil {
		l.t.Fatalf("%s: %v", content, err)
	}
	return k
}

func (l *lanes) try(ctx context.Context, session, content string, p turn.Policy) (*turn.Ticket, error) {
	k, err := l.Submit(ctx, &turn.Envelope{Channel: "c", ChatID: session, Content: content}, turn.WithPolicy(p), turn.WithID("t-"+content))
	synctest.Wait()
	return k, err
}

func (l *lanes) expect(want string) {
	l.t.Helper()
	synctest.Wait()
	equal(l.t, "what happened", l.take(), want)
}

// empty checks that nothing is left.
func (l *lanes) empty() {
	l.t.Helper()
	synctest.Wait()
	if lanes, waiting, running, ready := l.LanesLeft(); lanes+waiting+running+ready > 0 {
		l.t.Errorf("%d lanes, %d waiting, %d running, %d ready are left", lanes, waiting, running, ready)
	}
}

func (l *lanes) result(k *turn.Ticket) string {
	r, err := k.Wait(l.t.Context())
	output := ""
	if r != nil {
		output = r.Output
	}
	return fmt.Sprintf("%s,%v", output, err)
}

func status(k *turn.Ticket) string {
	s := k.Status()
	return fmt.Sprintf("%s %d %s", s.Phase, s.Position, s.Turn)
}

func TestTU_60AndTU_61AQueueKeepsTheOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLanes(t, turn.Options{})
		a := l.submit("1", "a", "")
		b := l.submit("1", "b", turn.Queue)
		c := l.submit("1", "c", "")
		other := l.submit("2", "x", "")
		l.expect("+a +x")
		equal(t, "statuses", []string{status(a), status(b), status(c), status(other)},
			[]string{"running 0 t-a", "queued 1 t-b", "queued 2 t-c", "running 0 t-x"})
		l.open("a")
		l.expect("-a s:a +b")
		equal(t, "statuses", []string{status(a), status(b), status(c)}, []string{"done 0 t-a", "running 0 t-b", "queued 1 t-c"})
		l.open("b")
		l.open("c")
		l.open("x")
		l.expect("-b s:b +c -c s:c -x s:x")
		for _, k := range []*turn.Ticket{a, b, c, other} {
			if !strings.HasPrefix(l.result(k), "answer to ") {
				t.Error(l.result(k))
			}
		}
		l.empty()
	})
}

func TestTU_61TheQueueIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLanes(t, turn.Options{})
		l.submit("1", "a", "")
		for i := range 16 {
			l.submit("1", fmt.Sprint("q", i), "")
		}
		if _, err := l.try(t.Context(), "1", "z", ""); err != turn.ErrQueueFull {
			t.Errorf("the 17th: %v", err)
		}
		if _, err := l.try(t.Context(), "1", "z", turn.Steer); err != nil {
			t.Errorf("the inbox is not the queue: %v", err)
		}
		if _, err := l.try(t.Context(), "1", "now", turn.Interrupt); err != nil {
			t.Errorf("an interruption does not queue behind the others: %v", err)
		}
		l.submit("2", "x", "")
		cancelAll(l)
	})
}

// cancelAll drains at once.
func cancelAll(l *lanes) {
	ctx, cancel := context.WithCancel(l.t.Context())
	cancel()
	l.Drain(ctx)
	l.empty()
}

func TestTU_61InAllNoMoreThanSoManyWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLanes(t, turn.Options{QueueTotal: 40, Concurrency: 2})
		var accepted []*turn.Ticket
		for i := range 60 {
			k, err := l.try(t.Context(), fmt.Sprint(i), fmt.Sprint("m", i), turn.Policy([]string{"queue", "reject", "steer", "interrupt"}[i%4]))
			if wait := i - 2; wait < 40 && err != nil || wait >= 40 && err != turn.ErrQueueFull {
				t.Errorf("submission %d: %v", i, err)
			}
			if k != nil {
				accepted = append(accepted, k)
			}
		}
		equal(t, "accepted", len(accepted), 42)
		if _, err := l.try(t.Context(), "0", "z", turn.Interrupt); err != turn.ErrQueueFull {
			t.Errorf("got %v", err)
		}
		cancelAll(l)
		for i, k := range accepted {
			want := turn.ErrDraining
			if _, err := k.Wait(t.Context()); err != want {
				t.Errorf("%d: %v", i, err)
			}
		}
	})
}

func TestTU_61RejectIsRefusedAtOnceWhereTheLaneIsBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLanes(t, turn.Options{})
		l.submit("1", "a", turn.Reject)
		if _, err := l.try(t.Context(), "1", "b", turn.Reject); err != turn.ErrBusy {
			t.Errorf("got %v", err)
		}
		l.submit("2", "x", turn.Reject)
		l.expect("+a +x")
		l.open("a")
		l.submit("1", "c", turn.Reject)
		l.open("x")
		l.open("c")
		l.expect("-a s:a +c -x s:x -c s:c")
		l.empty()
	})
}

func TestTU_61AnInterruptionEndsTheRunningTurnAndComesNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []error
		l := newLanes(t, turn.Options{}, observer(func(_ context.Context, _ turn.Stage, err error, _ *turn.Envelope) { told = append(told, err) }))
		a := l.submit("1", "a", "")
		b := l.submit("1", "b", "")
		c := l.submit("1", "c", turn.Interrupt)
		equal(t, "status", status(c)+", "+status(b), "queued 1 t-c, queued 2 t-b")
		l.expect("+a !a") // its save_state is waited for
		l.settle()
		l.expect("s:a +c")
		equal(t, "the interrupted", l.result(a), ","+turn.ErrInterrupted.Error())
		l.open("c")
		l.open("b")
		l.expect("-c s:c +b -b s:b")
		equal(t, "told", told, []error(nil))
		l.empty()
	})
}

func TestTU_61SteeringGoesToTheRunningTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var taken []string
		steps := make(chan struct{})
		f := turn.New(turn.Options{})
		register(t, f, runner(func(ctx context.Context, p turn.Prompt, _ string, s turn.State) (string, bool, error) {
			inbox := s["_runtime_steering"].(turn.Inbox)
			if inbox != turn.FromContext(ctx).Inbox() {
				t.Error("two inboxes")
			}
			text := p.Text
			for range 2 {
				<-steps
				for _, e := range inbox.Take() {
					taken = append(taken, e.Content)
					text += "+" + e.Content
				}
			}
			return text, true, nil
		}))
		submit := func(content string) *turn.Ticket {
			k, err := f.Submit(t.Context(), &turn.Envelope{Content: content}, turn.WithPolicy(turn.Steer), turn.WithID("t-"+content))
			if err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			return k
		}
		a := submit("a")
		b, c := submit("b"), submit("c")
		equal(t, "statuses", []string{status(a), status(b), status(c)}, []string{"running 0 t-a", "steered 0 t-a", "steered 0 t-a"})
		steps <- struct{}{}
		d := submit("d")
		steps <- struct{}{}
		for _, k := range []*turn.Ticket{a, b, c, d} {
			if r, err := k.Wait(t.Context()); err != nil || r.Output != "a+b+c+d" || r.TurnID != "t-a" {
				t.Errorf("got %+v, %v", r, err)
			}
		}
		equal(t, "taken", taken, []string{"b", "c", "d"})
		equal(t, "status", status(b), "done 0 t-a")
		equal(t, "host", b.Host().Content, "a")
		if a.Host() != nil {
			t.Error("a message with a turn of its own is given to another")
		}
	})
}

func TestTU_61AFullInboxQueues(t *testing.T) {
	for name, content := range map[string]func(i int) string{
		"32 messages":    func(i int) string { return fmt.Sprint("m", i) },
		"256 KiB in all": func(i int) string { return strings.Repeat("x", 8<<10-len(fmt.Sprint(i))) + fmt.Sprint(i) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLanes(t, turn.Options{})
				l.submit("1", "a", "")
				for i := range 32 {
					if k := l.submit("1", content(i), turn.Steer); k.Status().Phase != turn.Steered {
						t.Errorf("the %dth: %+v", i+1, k.Status())
					}
				}
				if k := l.submit("1", "one more", turn.Steer); k.Status().Phase != turn.Queued {
					t.Errorf("the 33rd: %+v", k.Status())
				}
				cancelAll(l)
			})
		})
	}
}

func TestTU_62EveryPolicyRunsAtOnceInAnIdleLane(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, p := range []turn.Policy{"", turn.Queue, turn.Reject, turn.Interrupt, turn.Steer} {
			l := newLanes(t, turn.Options{})
			k := l.submit("1", "a", p)
			equal(t, "status", k.Status().Phase, turn.Running)
			l.open("a")
			equal(t, "result", l.result(k), "answer to a,<nil>")
			l.empty()
		}
		l := newLanes(t, turn.Options{})
		if _, err := l.try(t.Context(), "1", "a", "sometimes"); l.Code(err) != "invalid_request" {
			t.Errorf("got %v", err)
		}
		l.empty()
	})
}

func TestTU_63WhatIsLeftInTheInboxFollowsBeforeThoseThatWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLanes(t, turn.Options{})
		l.submit("1", "a", "")
		l.submit("1", "q", "")
		b := l.submit("1", "b", turn.Steer)
		c := l.submit("1", "c", turn.Steer)
		equal(t, "statuses", []string{status(b), status(c)}, []string{"steered 0 t-a", "steered 0 t-a"})
		equal(t, "host", b.Host().Content, "a")
		l.open("a")
		equal(t, "statuses", []string{status(b), status(c)}, []string{"running 0 t-b", "queued 1 t-c"})
		if b.Host() != nil || c.Host() != nil {
			t.Error("a message with a turn of its own is still given to another")
		}
		l.open("b")
		l.open("c")
		l.open("q")
		l.expect("+a -a s:a +b -b s:b +c -c s:c +q -q s:q")
		equal(t, "results", l.result(b)+l.result(c), "answer to b,<nil>answer to c,<nil>")
		l.empty()
	})
}

func TestTU_63TheInboxIsClosedWhenTheModelIsDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLanes(t, turn.Options{})
		l.submit("1", "a", "")
		before := l.submit("1", "before", turn.Steer)
		close(l.gates["a"])
		synctest.Wait() // in save_state
		equal(t, "status", status(before), "steered 0 t-a")
		equal(t, "status", status(l.submit("1", "behind", turn.Steer)), "queued 1 t-behind")
		l.settle()
		l.open("before")
		l.open("behind")
		l.expect("+a -a s:a +before -before s:before +behind -behind s:behind")
		l.empty()
	})
}

func TestTU_63AnInterruptionComesBeforeWhatIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLanes(t, turn.Options{})
		l.submit("1", "a", "")
		l.submit("1", "q", "")
		l.submit("1", "left", turn.Steer)
		l.submit("1", "now", turn.Interrupt)
		l.settle()
		l.open("now")
		l.open("left")
		l.open("q")
		l.expect("+a !a s:a +now -now s:now +left -left s:left +q -q s:q")
		l.empty()
	})
}

func TestTU_64WaitEndsWithItsOwnContextAndTheTurnGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLanes(t, turn.Options{})
		k := l.submit("1", "a", "")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errTest)
		defer cancel()
		if r, err := k.Wait(ctx); r != nil || err != errTest {
			t.Errorf("got %v, %v", r, err)
		}
		l.open("a")
		if r, err := k.Wait(ctx); err != nil || r.Output != "answer to a" {
			t.Errorf("a turn that is over is told in any case: %v, %v", r, err)
		}
		l.empty()
	})
}

func TestTU_65CommandsAreNeverSteered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLanes(t, turn.Options{})
		l.submit("1", "a", "")
		for content, phase := range map[string]turn.Phase{
			",model": turn.Queued, "，model demo:echo": turn.Queued, ",tape.info": turn.Queued,
			", he said": turn.Steered, "model": turn.Steered, ",": turn.Steered, ",天气": turn.Steered, ",1": turn.Steered,
		} {
			equal(t, content, l.submit("1", content, turn.Steer).Status().Phase, phase)
		}
		k, _ := l.Submit(t.Context(), &turn.Envelope{Channel: "c", ChatID: "1", Content: "model", Kind: turn.KindCommand}, turn.WithPolicy(turn.Steer))
		equal(t, "of kind command", k.Status().Phase, turn.Queued)
		k, _ = l.Submit(t.Context(), &turn.Envelope{Channel: "c", ChatID: "1", Content: ",model", Sender: turn.Sender{NoCommands: true}}, turn.WithPolicy(turn.Steer))
		equal(t, "of a sender without commands", k.Status().Phase, turn.Steered)
		cancelAll(l)
	})
}

func TestTU_65SomeCommandsAreAnsweredBesideTheLane(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f *turn.Framework
		var sent []string
		asides := asider(func(_ context.Context, e *turn.Envelope, session string) ([]*turn.Envelope, bool, error) {
			switch name, _ := turn.CommandName(e.Content); name {
			case "help", "approve", "deny":
				return []*turn.Envelope{e.Reply("answer to " + name)}, true, nil
			case "stop":
				return []*turn.Envelope{e.Reply(fmt.Sprint("stopped ", f.Stop(session, nil)))}, true, nil
			case "broken":
				return nil, false, errTest
			}
			return nil, false, nil
		})
		l := newLanes(t, turn.Options{}, asides, dispatcher(func(_ context.Context, e *turn.Envelope) (bool, error) {
			sent = append(sent, e.Content)
			return true, nil
		}))
		f = l.Framework
		a := l.submit("1", "a", "")
		q := l.submit("1", "q", "")
		s := l.submit("1", "s", turn.Steer)
		for _, name := range []string{"help", "approve", "deny"} {
			k := l.submit("1", ","+name+" x", turn.Reject)
			equal(t, "status", status(k), "done 0 t-,"+name+" x")
			r, err := k.Wait(t.Context())
			if err != nil || len(r.Outbound) != 1 || !r.Deliveries[0] {
				t.Errorf("got %+v, %v", r, err)
			}
		}
		equal(t, "sent", sent, []string{"answer to help", "answer to approve", "answer to deny"})
		broken := l.submit("1", ",broken", "")
		if _, err := broken.Wait(t.Context()); !errors.Is(err, errTest) {
			t.Errorf("got %v", err)
		}
		equal(t, "other commands go to the lane", l.submit("1", ",model", "").Status().Phase, turn.Queued)
		l.expect("+a")

		k := l.submit("1", ",stop", "")
		r, _ := k.Wait(t.Context())
		equal(t, "stop", r.Outbound[0].Content, "stopped 4")
		l.settle()
		l.expect("!a s:a")
		for _, k := range []*turn.Ticket{a, q, s} {
			if _, err := k.Wait(t.Context()); err != turn.ErrStopped {
				t.Errorf("got %v", err)
			}
		}
		equal(t, "stop of an idle one", l.Stop("c:1", nil), 0)
		l.empty()

		if err := l.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		equal(t, "help while draining", status(l.submit("1", ",help", "")), "done 0 t-,help")
	})
}

func TestTU_66SlotsAreGivenInTheOrderInWhichLanesBeganToWantThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLanes(t, turn.Options{Concurrency: 2})
		for _, s := range []string{"a1", "b1", "a2", "c1", "a3", "d1", "c2", "b2"} {
			l.submit(s[:1], s, "")
		}
		l.expect("+a1 +b1")
		l.open("a1") // a wants one again, behind c and d
		l.expect("-a1 s:a1 +c1")
		l.open("c1") // c behind a
		l.expect("-c1 s:c1 +d1")
		l.open("b1") // b behind c
		l.expect("-b1 s:b1 +a2")
		l.open("a2")
		l.expect("-a2 s:a2 +c2")
		l.open("d1")
		l.expect("-d1 s:d1 +b2")
		l.open("c2")
		l.expect("-c2 s:c2 +a3")
		l.open("a3")
		l.open("b2")
		l.expect("-a3 s:a3 -b2 s:b2")
		l.empty()
	})
}

func TestTU_67DrainRefusesFinishesAndCancels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []error
		l := newLanes(t, turn.Options{Concurrency: 2}, observer(func(_ context.Context, _ turn.Stage, err error, _ *turn.Envelope) { told = append(told, err) }))
		a := l.submit("1", "a", "")
		b := l.submit("2", "b", "")
		queued := l.submit("1", "q", "")
		slotless := l.submit("3", "x", "")
		steered := l.submit("2", "s", turn.Steer)
		var drained error
		begin := time.Now()
		var took time.Duration
		done := make(chan struct{})
		go func() {
			defer close(done)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			drained = l.Drain(ctx)
			took = time.Since(begin)
		}()
		synctest.Wait()
		for _, k := range []*turn.Ticket{queued, slotless} {
			equal(t, "those that wait", l.result(k), ","+turn.ErrDraining.Error())
		}
		if _, err := l.try(t.Context(), "9", "new", ""); err != turn.ErrDraining {
			t.Errorf("got %v", err)
		}
		if err := l.Alone(t.Context(), "9", turn.Queue, func(context.Context) error { return nil }); err != turn.ErrDraining {
			t.Errorf("got %v", err)
		}
		l.open("a")
		l.expect("+a +b -a s:a")
		equal(t, "one that ends in time", l.result(a), "answer to a,<nil>")
		<-done
		l.expect("!b s:b")
		equal(t, "time", took, time.Minute+time.Second)
		if !errors.Is(drained, context.DeadlineExceeded) || !strings.Contains(drained.Error(), "1 turn") {
			t.Errorf("got %v", drained)
		}
		equal(t, "one that does not", l.result(b), ","+turn.ErrDraining.Error())
		equal(t, "what was steered into it", l.result(steered), ","+turn.ErrDraining.Error())
		equal(t, "told", told, []error{turn.ErrDraining})
		l.empty()
		if err := l.Drain(t.Context()); err != nil {
			t.Errorf("a second drain: %v", err)
		}
	})
}

// leases is a store with leases only.
type leases struct {
	tape.Store
	mu    sync.Mutex
	held  map[string]*oneLease
	freed chan struct{}
	fails error
}

type oneLease struct {
	of   *leases
	name string
	lost chan struct{}
}

func (s *leases) Lease(ctx context.Context, name string, wait bool) (tape.Lease, error) {
	for {
		s.mu.Lock()
		if s.fails != nil {
			s.mu.Unlock()
			return nil, s.fails
		}
		if s.held[name] == nil {
			k := &oneLease{s, name, make(chan struct{})}
			s.held[name] = k
			s.mu.Unlock()
			return k, nil
		}
		freed := s.freed
		s.mu.Unlock()
		select {
		case <-freed:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (k *oneLease) Lost() <-chan struct{} { return k.lost }

func (k *oneLease) Release() {
	k.of.mu.Lock()
	defer k.of.mu.Unlock()
	if k.of.held[k.name] == k {
		delete(k.of.held, k.name)
		close(k.of.freed)
		k.of.freed = make(chan struct{})
	}
}

func TestTU_68ALaneHoldsTheSessionsLeaseWhileATurnRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &leases{held: map[string]*oneLease{}, freed: make(chan struct{})}
		provides := storer(func(context.Context) (tape.Store, bool, error) { return store, true, nil })
		dir := t.TempDir()
		var told []error
		one := newLanes(t, turn.Options{Workspace: dir}, provides, observer(func(_ context.Context, _ turn.Stage, err error, _ *turn.Envelope) { told = append(told, err) }))
		two := newLanes(t, turn.Options{Workspace: dir}, provides)
		name := tape.Name(dir, "c:1")

		one.submit("1", "a", "")
		if store.held[name] == nil {
			t.Error("no lease is held")
		}
		b := two.submit("1", "b", "")
		x := two.submit("2", "x", "")
		two.expect("+x") // b waits for the other process
		one.open("a")
		one.expect("+a -a s:a")
		two.expect("+b")
		if k := one.submit("1", "c", ""); true {
			ctx, cancel := context.WithCancelCause(t.Context())
			d, _ := one.try(ctx, "3", "d", "")
			cancel(errTest)
			one.settle()
			equal(t, "canceled", one.result(d), ",broken")
			close(store.held[name].lost) // of two's turn
			two.settle()
			two.expect("!b s:b")
			equal(t, "lost", two.result(b), ","+turn.ErrLeaseLost.Error())
			one.open("c")
			equal(t, "next", one.result(k), "answer to c,<nil>")
		}
		two.open("x")
		equal(t, "x", two.result(x), "answer to x,<nil>")
		store.fails = errTest
		e := one.submit("1", "e", "")
		if _, err := e.Wait(t.Context()); err != errTest {
			t.Errorf("got %v", err)
		}
		equal(t, "told", told, []error{errTest})
		one.empty()
		two.empty()
		equal(t, "held", len(store.held), 0)
	})
}

func TestAWaitForALeaseEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &leases{held: map[string]*oneLease{}, freed: make(chan struct{})}
		l := newLanes(t, turn.Options{}, storer(func(context.Context) (tape.Store, bool, error) { return store, true, nil }))
		store.held[tape.Name(l.Workspace(), "c:1")] = &oneLease{}
		ctx, cancel := context.WithCancelCause(t.Context())
		k, _ := l.try(ctx, "1", "a", "")
		cancel(errTest)
		equal(t, "result", l.result(k), ",broken")
		l.expect("") // no hook has run
		l.empty()
	})
}

func TestAloneRunsWhereNoTurnRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLanes(t, turn.Options{})
		l.submit("1", "a", "")
		l.submit("1", "b", "")
		var err error
		go func() {
			err = l.Alone(t.Context(), "c:1", turn.Interrupt, func(context.Context) error {
				l.add("alone")
				k, err := l.Submit(t.Context(), &turn.Envelope{Channel: "c", ChatID: "1", Content: "s"}, turn.WithPolicy(turn.Steer))
				if err != nil || k.Status().Phase != turn.Queued {
					t.Error("a message was steered into what is no turn")
				}
				return errTest
			})
		}()
		l.settle()
		l.expect("+a !a s:a alone +b")
		if err != errTest {
			t.Errorf("got %v", err)
		}
		if err := l.Alone(t.Context(), "c:1", turn.Reject, nil); err != turn.ErrBusy {
			t.Errorf("got %v", err)
		}
		if err := l.Alone(t.Context(), "", turn.Queue, nil); l.Code(err) != "invalid_request" {
			t.Errorf("got %v", err)
		}
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errTest)
		defer cancel()
		if err := l.Alone(ctx, "c:1", turn.Steer, nil); err != errTest {
			t.Errorf("got %v", err)
		}
		l.open("b")
		l.open("s")
		if err := l.Alone(t.Context(), "c:1", "", func(context.Context) error { panic("x") }); err == nil {
			t.Error("a panic was no error")
		}
		l.empty()
	})
}

func TestEnvelopes(t *testing.T) {
	for text, want := range map[string]string{
		",help": "help", "，help me": "help", ",tape.info\n": "tape.info", ",a-b_1": "a-b_1", ",": "", ", x": "", "help": "",
		",1": "", ",a!": "", "": "", "," + strings.Repeat("x", 65): "",
	} {
		if got, ok := turn.CommandName(text); got != want || ok != (want != "") {
			t.Errorf("%q: got %q, %v", text, got, ok)
		}
	}
}
