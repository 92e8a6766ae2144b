package nats_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	client "github.com/nats-io/nats.go"

	"github.com/lingserve/lingserve/cluster"
	"github.com/lingserve/lingserve/cluster/clustertest"
	"github.com/lingserve/lingserve/internal/longtest"
	"github.com/lingserve/lingserve/runlog"
	"github.com/lingserve/lingserve/runlog/nats"
	"github.com/lingserve/lingserve/runlog/runlogtest"
	"github.com/lingserve/lingserve/tube"
)

const longWait = time.Minute // for servers that elect, on a machine that is busy

func heldTube(id string, maxBytes int) *tube.Tube {
	o := runlogtest.Tube()
	o.Held, o.MaxBytes = true, maxBytes
	return tube.New(id, o)
}

func token(t testing.TB, tb *tube.Tube, text string) {
	t.Helper()
	if _, err := tb.Send(tube.Event{URI: []byte("a/text"), Value: []byte(text)}); err != nil {
		t.Fatal(err)
	}
}

func flush(t testing.TB, l *nats.Log) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), longWait)
	defer cancel()
	if err := l.Flush(ctx); err != nil {
		t.Fatalf("flush: %v", err)
	}
}

// all reads a tube to its end.
func all(t testing.TB, tb *tube.Tube) []string {
	ctx, cancel := context.WithTimeout(t.Context(), longWait)
	defer cancel()
	var lines []string
	for e, err := range tb.AllEvents(ctx, 0) {
		if err != nil {
			t.Errorf("behind %d events: %v", len(lines), err)
			return lines
		}
		lines = append(lines, fmt.Sprintf("%d %s", e.N, e.AppendJSON(nil)))
	}
	return lines
}

// followed reads a run on a replica, from now on, and returns what waits for its end.
func followed(t testing.TB, l *nats.Log, id string) (wait func() []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), longWait)
	defer cancel()
	tail, err := l.Follow(ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan []string, 1)
	go func() { done <- all(t, tail.Tube()); tail.Leave() }()
	return func() []string { return <-done }
}

// places are where what is lost, or away, loses nothing.
var places = map[string]func(testing.TB) *clustertest.Servers{
	"one node": clustertest.One, "three nodes": clustertest.Three,
	"one node with pages": clustertest.One, "three nodes with pages": clustertest.Three,
}

func withPages(place string, logs ...*nats.Log) {
	if strings.HasSuffix(place, "with pages") {
		for _, l := range logs {
			nats.Always(l)
		}
	}
}

func TestCL_10_WhatWasSentWhileTheServersWereAwayIsStoredInOrderOnce(t *testing.T) {
	t.Parallel()
	for name, start := range places {
		t.Run(name, func(t *testing.T) {
			if strings.HasPrefix(name, "three") {
				longtest.Only(t, name)
			}
			t.Parallel()
			s := start(t)
			a, _ := open(t, s, "away")
			withPages(name, a)
			b, _ := open(t, s, "away")
			const runs, tokens = 20, 200
			var tubes []*tube.Tube
			var tails []func() []string
			for i := range runs {
				tb := heldTube(fmt.Sprint("r", i), 0)
				e := a.Keep(runlog.Run{ID: tb.Run(), Opening: []byte("x"), Tube: tb})
				token(t, tb, "first")
				tubes = append(tubes, tb)
				defer e.Drop()
			}
			flush(t, a)
			for _, tb := range tubes {
				tails = append(tails, followed(t, b, tb.Run()))
			}
			for i := range s.Len() {
				s.Kill(i)
			}
			for k := range tokens {
				for _, tb := range tubes {
					token(t, tb, fmt.Sprint(k, " "))
				}
			}
			for a.Stats().Behind < runs {
				if t.Context().Err() != nil {
					return
				}
				time.Sleep(time.Millisecond) // for a retry of each
			}
			for _, tb := range tubes {
				if tb.Len() != 1 {
					t.Errorf("%d events are shown, and nobody has stored them", tb.Len())
				}
			}
			for i := range s.Len() {
				s.Restart(i)
			}
			s.WaitReady()
			flush(t, a)
			for i, tb := range tubes {
				_ = tb.Close("completed")
				want := all(t, tb)
				if len(want) != tokens+2 {
					t.Fatalf("%d events", len(want))
				}
				if d := cmp.Diff(want, tails[i]()); d != "" {
					t.Fatalf("on the other replica: %s", d)
				}
			}
		})
	}
}

func TestCL_10_ARunWhoseBufferIsFullIsToldAndItsEndIsStored(t *testing.T) {
	t.Parallel()
	s := clustertest.One(t)
	a, _ := open(t, s, "full")
	tb := heldTube("full", 16<<10)
	e := a.Keep(runlog.Run{ID: "full", Opening: []byte("x"), Tube: tb})
	token(t, tb, "first")
	flush(t, a)
	s.Kill(0)
	sent := 1
	for full := false; !full; {
		select {
		case <-tb.Full():
			full = true
		default:
			token(t, tb, strings.Repeat("x", 100))
			if sent++; sent > 1000 {
				t.Fatal("it is never full")
			}
		}
	}
	_ = tb.Cancel("nothing can be stored")
	e.End([]byte("head"))
	s.Restart(0)
	flush(t, a)
	b, _ := open(t, s, "full")
	if f, err := b.Find(t.Context(), "full"); err != nil || !f.Ended || string(f.Head) != "head" {
		t.Errorf("%+v, %v", f, err)
	}
	tail, err := b.Follow(t.Context(), "full")
	if err != nil {
		t.Fatal(err)
	}
	defer tail.Leave()
	if n := tail.Tube().Len(); n != uint64(sent)+1 {
		t.Errorf("%d events of %d", n, sent+1)
	}
}

// CL-10: runs are told once that they are not stored, after a while, and again the next time.
func TestCL_10_ARunIsToldThatItIsNotStored(t *testing.T) {
	t.Parallel()
	s := clustertest.One(t)
	a, _ := open(t, s, "told")
	tb := heldTube("told", 0)
	trouble := make(chan error, 10)
	defer a.Keep(runlog.Run{ID: "told", Tube: tb, Trouble: func(err error) { trouble <- err }}).Drop()
	token(t, tb, "first")
	flush(t, a)
	for len(trouble) > 0 { // a busy machine may be slow before, too
		<-trouble
	}
	s.Kill(0)
	token(t, tb, "second")
	if err := <-trouble; !errors.Is(err, runlog.ErrAway) {
		t.Errorf("told %v", err)
	}
	s.Restart(0)
	flush(t, a)
	if len(trouble) > 0 || a.Stats().Behind > 0 {
		t.Error("told twice, or still behind")
	}
}

// CL-10: a message that went to servers which were not quite there is not waited for when they are.
func TestCL_10_WhatWasLostWhileTheServersCameBackIsStoredAtOnce(t *testing.T) {
	t.Parallel()
	s := clustertest.One(t)
	a, c := open(t, s, "back")
	var losing atomic.Bool
	lost := make(chan struct{}, 100)
	nats.Lose(a, 2*longWait, func(*client.Msg) bool {
		if losing.Load() {
			lost <- struct{}{}
			return true
		}
		return false
	})
	tb := heldTube("back", 0)
	defer a.Keep(runlog.Run{ID: "back", Tube: tb}).Drop()
	token(t, tb, "first")
	flush(t, a)
	s.Kill(0)
	clustertest.Eventually(t, "the connection to be lost", func() bool { return !c.Conn().IsConnected() })
	token(t, tb, "second")
	clustertest.Eventually(t, "an attempt to fail", func() bool { return a.Stats().Behind == 1 })
	losing.Store(true)
	s.Restart(0)
	<-lost
	losing.Store(false)
	nats.Back(a)
	flush(t, a)
}

// CL-06, CL-10: whatever answers and messages are lost, every event is stored once, and seen once.
func TestCL_06_LostAnswersLoseNothing(t *testing.T) {
	t.Parallel()
	for name, start := range places {
		t.Run(name, func(t *testing.T) {
			if strings.HasPrefix(name, "three") {
				longtest.Only(t, name)
			}
			t.Parallel()
			s := start(t)
			a, _ := open(t, s, "loses")
			b, _ := open(t, s, "loses")
			var mu sync.Mutex
			random := rand.New(rand.NewPCG(1, 2))
			lose := func(*client.Msg) bool {
				mu.Lock()
				defer mu.Unlock()
				return random.IntN(3) == 0
			}
			withPages(name, a)
			nats.Lose(a, 30*time.Millisecond, lose)
			nats.Lose(b, 30*time.Millisecond, lose)
			const runs, tokens = 6, 200
			var wg sync.WaitGroup
			for i := range runs {
				wg.Go(func() {
					tb := heldTube(fmt.Sprint("r", i), 0)
					e := a.Keep(runlog.Run{ID: tb.Run(), Opening: []byte("x"), Tube: tb, Trouble: func(err error) {
						if !errors.Is(err, runlog.ErrAway) {
							t.Errorf("run %d: %v", i, err)
						}
					}})
					token(t, tb, "first")
					r := tb.NewReader(0)
					<-r.More()
					wait := func() []string { return followed(t, b, tb.Run())() }
					if i%2 == 0 { // what is followed is not put into pages
						wait = followed(t, b, tb.Run())
					}
					for k := range tokens {
						token(t, tb, fmt.Sprint(k, " "))
						if k%30 == 0 {
							shows(t, tb, k+2) // it is stored, as it goes
						}
					}
					_ = tb.Close("completed")
					e.End([]byte("head"))
					want := all(t, tb)
					if len(want) != tokens+2 {
						t.Errorf("%d events", len(want))
					}
					if d := cmp.Diff(want, wait()); d != "" {
						t.Errorf("run %d on the other replica: %s", i, d)
					}
				})
			}
			wg.Wait()
		})
	}
}

// CL-10: a leader that is lost, again and again, while runs go on and are read elsewhere.
func TestCL_10_ALostLeaderLosesNothing(t *testing.T) {
	t.Parallel()
	s := clustertest.Three(t)
	a, c := open(t, s, "leader")
	nats.Always(a) // what is followed is not put into pages: half of them are
	b, _ := open(t, s, "leader")
	const runs = 10
	var wg sync.WaitGroup
	stop := make(chan struct{})
	for i := range runs {
		wg.Go(func() {
			tb := heldTube(fmt.Sprint("r", i), 0)
			e := a.Keep(runlog.Run{ID: tb.Run(), Opening: []byte("x"), Tube: tb, Trouble: func(err error) {
				if !errors.Is(err, runlog.ErrAway) {
					t.Errorf("run %d: %v", i, err)
				}
			}})
			token(t, tb, "first")
			r := tb.NewReader(0)
			<-r.More()
			wait := func() []string { return followed(t, b, tb.Run())() }
			if i%2 == 0 {
				wait = followed(t, b, tb.Run())
			}
			tick := time.NewTicker(5 * time.Millisecond)
			defer tick.Stop()
			n := 1
			for going := true; going; n++ {
				select {
				case <-stop:
					going = false
				case <-tick.C:
				}
				token(t, tb, fmt.Sprint(n, " "))
			}
			_ = tb.Close("completed")
			e.End([]byte("head"))
			want := all(t, tb)
			if len(want) != n+1 {
				t.Errorf("run %d: %d events of %d", i, len(want), n+1)
			}
			if d := cmp.Diff(want, wait()); d != "" {
				t.Errorf("run %d on the other replica: %s", i, d)
			}
		})
	}
	for range longtest.Times(2, 6) {
		leader := s.Leader(c.Name("RUNS"))
		s.Kill(leader)
		s.Leader(c.Name("RUNS"))
		s.Restart(leader)
		s.WaitReady()
	}
	close(stop)
	wg.Wait()
}

// A replica that opens while others write does not change what they have.
func TestAReplicaMayOpenAtAnyTime(t *testing.T) {
	t.Parallel()
	s := clustertest.One(t)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			c := s.Open(t, func(o *cluster.Options) { o.Prefix = "any" })
			l, err := nats.Open(t.Context(), c, nats.Options{Tube: runlogtest.Tube})
			if err != nil {
				t.Error(err)
				return
			}
			tb := heldTube(fmt.Sprint("r", i), 0)
			l.Keep(runlog.Run{ID: tb.Run(), Tube: tb})
			token(t, tb, "x")
			flush(t, l)
			if err := l.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

func TestWhatIsDroppedMeanwhileIsNotTakenOver(t *testing.T) {
	t.Parallel()
	s := clustertest.One(t)
	a, _ := open(t, s, "dropped")
	b, _ := open(t, s, "dropped")
	tb := heldTube("dropped", 0)
	e := a.Keep(runlog.Run{ID: "dropped", Tube: tb})
	token(t, tb, "x")
	flush(t, a)
	ctx, cancel := context.WithTimeout(t.Context(), longWait)
	defer cancel()
	if err := nats.ClaimDropped(ctx, b, "dropped", e.Drop); !errors.Is(err, runlog.ErrUnknown) {
		t.Errorf("got %v", err)
	}
}
