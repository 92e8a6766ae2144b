package adapter

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingserve/lingserve/internal/backoff"
	"github.com/lingserve/lingserve/internal/trail"
)

// counting is a model whose answers take a time, and that knows how many of them go on.
type counting struct {
	takes    time.Duration
	now, top atomic.Int64
	asked    atomic.Int64
	err      error
}

func (c *counting) Stream(ctx context.Context, _ Request) iter.Seq2[Chunk, error] {
	return func(yield func(Chunk, error) bool) {
		c.asked.Add(1)
		n := c.now.Add(1)
		defer c.now.Add(-1)
		for top := c.top.Load(); n > top && !c.top.CompareAndSwap(top, n); top = c.top.Load() {
		}
		if err := backoff.Sleep(ctx, c.takes); err != nil {
			yield(Chunk{}, err)
			return
		}
		if c.err != nil {
			yield(Chunk{}, c.err)
			return
		}
		if yield(text("x"), nil) {
			yield(Chunk{Finish: FinishStop}, nil)
		}
	}
}

// bounded is a registry with the providers a and b, each of which has one model m.
func bounded(s Slots, a, b Model) *Registry {
	r := &Registry{Slots: s, Retries: Retries{Attempts: 3}}
	r.Register("a", provider{"m": a, "n": a})
	r.Register("b", provider{"m": b})
	return r
}

func ask(t *testing.T, ctx context.Context, r *Registry, name string) (string, error) {
	t.Helper()
	m, err := r.Model(name)
	if err != nil {
		t.Error(err)
		return "", err
	}
	return collect(m.Stream(ctx, Request{}))
}

func wantFull(t *testing.T, err error, says string) {
	t.Helper()
	e, ok := errors.AsType[*Error](err)
	if !ok || e.Code != CodeOverloaded || !e.Retryable || e.RetryAfter <= 0 || !strings.Contains(e.Message, says) {
		t.Errorf("%v (%+v), want one that says %q", err, e, says)
	}
}

func TestRequestsBeyondTheSlotsWaitAndAreServedInTheirOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &counting{takes: time.Second}
		r := bounded(Slots{Max: 2}, m, m)
		var mu sync.Mutex
		var order []int
		var wg sync.WaitGroup
		start := time.Now()
		for i := range 7 {
			wg.Go(func() {
				if got, err := ask(t, t.Context(), r, "a:m"); got != "x" || err != nil {
					t.Errorf("%q, %v", got, err)
				}
				mu.Lock()
				order = append(order, i)
				mu.Unlock()
			})
			synctest.Wait() // so that they come one after the other
		}
		if l := r.Load(); len(l) != 2 || l[0] != (Load{Provider: "a", Max: 2, Taken: 2, Waiting: 5}) || l[1] != (Load{Provider: "b", Max: 2}) {
			t.Errorf("%+v", l)
		}
		wg.Wait()
		if m.top.Load() != 2 || time.Since(start) != 4*time.Second {
			t.Errorf("%d at once, in %v", m.top.Load(), time.Since(start))
		}
		for i, n := range order { // two at a time, which end together
			if n/2 != i/2 {
				t.Errorf("the order was %v", order)
				break
			}
		}
		if l := r.Load(); l[0] != (Load{Provider: "a", Max: 2}) {
			t.Errorf("left: %+v", l)
		}
	})
}

// DO-08: a caller with many requests that wait keeps another one waiting for a single request.
func TestDO_08CallersTakeTurnsWhereRequestsWaitForASlot(t *testing.T) {
	for name, of := range map[string]func(i int, other bool) trail.Trail{
		"callers": func(i int, other bool) trail.Trail {
			if other {
				return trail.Trail{Run: "a-run", Caller: "one"}
			}
			return trail.Trail{Run: fmt.Sprint(i), Session: fmt.Sprint("s", i), Caller: "many"}
		},
		"sessions without callers": func(i int, other bool) trail.Trail {
			if other {
				return trail.Trail{Run: "a-run", Session: "one"}
			}
			return trail.Trail{Run: fmt.Sprint(i), Session: "many"}
		},
		"runs without sessions": func(i int, other bool) trail.Trail {
			if other {
				return trail.Trail{Run: "one"}
			}
			return trail.Trail{Run: "many"}
		},
	} {
		inBubble(t, name, func(t *testing.T) {
			m := &counting{takes: time.Second}
			r := bounded(Slots{Max: 1, Wait: time.Hour}, m, m)
			var mu sync.Mutex
			var order []string
			var wg sync.WaitGroup
			start := func(i int, other bool) {
				wg.Go(func() {
					if got, err := ask(t, trail.With(t.Context(), of(i, other)), r, "a:m"); got != "x" || err != nil {
						t.Errorf("%q, %v", got, err)
					}
					mu.Lock()
					defer mu.Unlock()
					if other {
						order = append(order, fmt.Sprint("one-", i))
					} else {
						order = append(order, fmt.Sprint("many-", i))
					}
				})
				synctest.Wait()
			}
			for i := range 100 {
				start(i, false)
			}
			start(0, true)
			start(1, true)
			wg.Wait()
			if want := []string{"many-0", "many-1", "one-0", "many-2", "one-1", "many-3", "many-4"}; len(order) != 102 || !slices.Equal(order[:len(want)], want) {
				t.Errorf("they were served as %v", order)
			}
		})
	}
}

func TestTheWaitForASlotIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &counting{takes: time.Hour}
		r := bounded(Slots{Max: 1, Queue: 2, Wait: 10 * time.Second}, m, m)
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		defer wg.Wait()
		defer cancel()
		wg.Go(func() { _, _ = ask(t, ctx, r, "a:m") })
		synctest.Wait()
		for range 2 {
			wg.Go(func() {
				start := time.Now()
				_, err := ask(t, t.Context(), r, "a:m")
				wantFull(t, err, "this server reached its limit of 1 active requests to a; none ended within 10s")
				if took := time.Since(start); took != 10*time.Second {
					t.Errorf("after %v", took)
				}
			})
		}
		synctest.Wait()
		start := time.Now()
		_, err := ask(t, t.Context(), r, "a:m") // no place in the queue
		wantFull(t, err, "reached its limit of")
		if time.Since(start) != 0 {
			t.Errorf("one too many has waited %v", time.Since(start))
		}
		time.Sleep(11 * time.Second)
		if l := r.Load()[0]; l.Refused != 3 || l.Waiting != 0 || l.Taken != 1 || m.asked.Load() != 1 {
			t.Errorf("%+v, %d asked", l, m.asked.Load())
		}
	})
}

func TestWhoIsCanceledWhileWaitingLeavesAtOnceAndTakesNoSlotWithHim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &counting{takes: time.Minute}
		r := bounded(Slots{Max: 1, Wait: time.Hour}, m, m)
		var wg sync.WaitGroup
		wg.Go(func() { _, _ = ask(t, t.Context(), r, "a:m") })
		synctest.Wait()
		ctx, cancel := context.WithCancelCause(t.Context())
		reason := errors.New("not wanted any more")
		wg.Go(func() {
			start := time.Now()
			if _, err := ask(t, ctx, r, "a:m"); err != reason || time.Since(start) != time.Second {
				t.Errorf("%v after %v", err, time.Since(start))
			}
		})
		synctest.Wait()
		wg.Go(func() { // behind it
			if got, err := ask(t, t.Context(), r, "a:m"); got != "x" || err != nil {
				t.Errorf("%q, %v", got, err)
			}
		})
		time.Sleep(time.Second)
		cancel(reason)
		wg.Wait()
		if l := r.Load()[0]; l.Taken != 0 || l.Waiting != 0 || l.Refused != 0 {
			t.Errorf("%+v", l)
		}
	})
}

// A slot that is handed over in the moment of a cancelation, or of the end of the wait, is not lost.
func TestNoSlotIsLostHoweverCancelationsFall(t *testing.T) {
	m := &counting{}
	r := bounded(Slots{Max: 3, Queue: 20, Wait: time.Millisecond}, m, m)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for n := range 300 {
				ctx, cancel := context.WithCancel(t.Context())
				if (i+n)%3 == 0 {
					go cancel()
				}
				_, err := ask(t, ctx, r, "a:m")
				cancel()
				if e, ok := errors.AsType[*Error](err); err != nil && err != context.Canceled && (!ok || e.Code != CodeOverloaded) {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if l := r.Load()[0]; l.Taken != 0 || l.Waiting != 0 || m.top.Load() > 3 {
		t.Errorf("%+v, %d at once", l, m.top.Load())
	}
}

func TestASlowStreamHoldsItsSlotToItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &counting{}
		r := bounded(Slots{Max: 1, Wait: time.Second}, m, m)
		model, err := r.Model("a:m")
		if err != nil {
			t.Fatal(err)
		}
		for range model.Stream(t.Context(), Request{}) {
			// Its reader takes its time.
			_, err := ask(t, t.Context(), r, "a:m")
			wantFull(t, err, "within 1s")
			break // and leaves
		}
		if got, err := ask(t, t.Context(), r, "a:m"); got != "x" || err != nil {
			t.Errorf("%q, %v: the slot was not given back", got, err)
		}
	})
}

func TestASlotIsGivenBackWhenTheReaderPanics(t *testing.T) {
	m := &counting{}
	r := bounded(Slots{Max: 1, Queue: -1}, m, m)
	model, _ := r.Model("a:m")
	func() {
		defer func() { _ = recover() }()
		for range model.Stream(t.Context(), Request{}) {
			panic("reader")
		}
	}()
	if got, err := ask(t, t.Context(), r, "a:m"); got != "x" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

func TestWhoWaitsForAnotherAttemptHoldsNoSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bad := newFake([]step{{err: &Error{Code: CodeUnavailable, Retryable: true, RetryAfter: 10 * time.Second, Message: "no"}}}, []step{{chunk: text("late")}})
		good := &counting{}
		r := &Registry{Slots: Slots{Max: 1, Queue: -1}, Retries: Retries{Attempts: 2}}
		r.Register("a", provider{"bad": bad, "good": good})
		done := make(chan string, 1)
		go func() { got, _ := ask(t, t.Context(), r, "a:bad"); done <- got }()
		synctest.Wait()
		if got, err := ask(t, t.Context(), r, "a:good"); got != "x" || err != nil {
			t.Errorf("%q, %v", got, err)
		}
		if got := <-done; got != "late" {
			t.Errorf("the second attempt got %q", got)
		}
	})
}

func TestAChainGoesOnWhereAProviderIsFull(t *testing.T) {
	for name, tt := range map[string]struct {
		chain string
		took  time.Duration
		by    string
	}{
		"to another provider, at once":                  {"a:m,b:m", 0, "b"},
		"not to another model of the same":              {"a:m,a:n", time.Minute, "a"},
		"past the same provider to another":             {"a:m,a:n,b:m", 0, "b"},
		"the last waits, since there is no other":       {"b:missing?,a:m", time.Minute, "a"},
		"one alone waits":                               {"a:m", time.Minute, "a"},
		"and back to the first only by another request": {"b:m,a:m", 0, "b"},
	} {
		inBubble(t, name, func(t *testing.T) {
			busy := &counting{takes: time.Minute}
			free := &counting{}
			down := &counting{err: &Error{Code: CodeAuth, Message: "no key"}}
			r := &Registry{Slots: Slots{Max: 1, Wait: time.Hour}}
			r.Register("a", provider{"m": busy, "n": busy})
			r.Register("b", provider{"m": free, "missing?": down})
			var wg sync.WaitGroup
			defer wg.Wait()
			wg.Go(func() { _, _ = ask(t, t.Context(), r, "a:m") })
			synctest.Wait()
			busy.takes = 0
			start := time.Now()
			got, err := ask(t, t.Context(), r, tt.chain)
			if got != "x" || err != nil || time.Since(start) != tt.took || (free.asked.Load() == 1) != (tt.by == "b") {
				t.Errorf("%q, %v after %v, %d asked of b", got, err, time.Since(start), free.asked.Load())
			}
		})
	}
}

func TestAChainWhoseModelsAreAllFullSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &counting{takes: time.Hour}
		r := bounded(Slots{Max: 1, Wait: 5 * time.Second}, m, m)
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		defer wg.Wait()
		defer cancel()
		wg.Go(func() { _, _ = ask(t, ctx, r, "a:m") })
		wg.Go(func() { _, _ = ask(t, ctx, r, "b:m") })
		synctest.Wait()
		_, err := ask(t, t.Context(), r, "a:m,b:m")
		wantFull(t, err, "none of the 2 models answered: a:m: this server reached its limit of 1 active requests to a")
	})
}

func TestProvidersDoNotShareTheirSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &counting{takes: time.Second}
		r := bounded(Slots{Max: 1}, m, m)
		start := time.Now()
		var wg sync.WaitGroup
		for _, name := range []string{"a:m", "b:m"} {
			wg.Go(func() { _, _ = ask(t, t.Context(), r, name) })
		}
		wg.Wait()
		if time.Since(start) != time.Second {
			t.Errorf("they took %v", time.Since(start))
		}
		var names []string
		for _, l := range r.Load() {
			names = append(names, l.Provider)
		}
		if !slices.Equal(names, []string{"a", "b"}) {
			t.Error(names)
		}
	})
}

func TestWithoutALimitThereAreNoSlots(t *testing.T) {
	m := &counting{}
	r := bounded(Slots{Queue: 1, Wait: 1}, m, m)
	if got, err := ask(t, t.Context(), r, "a:m"); got != "x" || err != nil || r.Load() != nil {
		t.Errorf("%q, %v, %v", got, err, r.Load())
	}
}

func TestTakingAFreeSlotAllocatesNothing(t *testing.T) {
	s := &slots{Slots: Slots{Max: 1}}
	ctx := t.Context()
	if n := testing.AllocsPerRun(100, func() {
		if s.acquire(ctx) != nil {
			t.Error("full")
		}
		s.give()
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkSlots(b *testing.B) {
	for _, waiting := range []int{0, 1000} {
		b.Run(fmt.Sprint(waiting, " waiting"), func(b *testing.B) {
			s := &slots{Slots: Slots{Max: 1, Queue: waiting, Wait: time.Hour}}
			ctx, cancel := context.WithCancel(b.Context())
			var wg sync.WaitGroup
			defer wg.Wait()
			defer cancel()
			if waiting > 0 {
				_ = s.acquire(ctx)
				for range waiting {
					wg.Go(func() { _ = s.acquire(ctx) })
				}
				for s.load() < waiting {
					time.Sleep(time.Millisecond)
				}
			}
			b.ReportAllocs()
			for b.Loop() {
				if s.acquire(ctx) == nil {
					s.give()
				}
			}
		})
	}
}

func (s *slots) load() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.waiting.Len()
}
