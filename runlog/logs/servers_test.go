package logs_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	client "github.com/nats-io/nats.go"

	"github.com/lingserve/lingserve/cluster/clustertest"
	"github.com/lingserve/lingserve/internal/longtest"
	"github.com/lingserve/lingserve/runlog"
	"github.com/lingserve/lingserve/runlog/logs"
	"github.com/lingserve/lingserve/store"
	"github.com/lingserve/lingserve/tube"
)

// serving are servers that can be ended, and come back.
type serving struct {
	place
	end, restart func()
}

func servings(t testing.TB) map[string]func() serving {
	nats := func(start func(testing.TB) *clustertest.Servers) func() serving {
		return func() serving {
			s := start(t)
			return serving{&onNATS{s, clustertest.Prefix()}, func() {
				for i := range s.Len() {
					s.Kill(i)
				}
			}, func() {
				for i := range s.Len() {
					s.Restart(i)
				}
				s.WaitReady()
			}}
		}
	}
	return map[string]func() serving{
		"one node": nats(clustertest.One), "three nodes": nats(clustertest.Three),
		"PostgreSQL": func() serving {
			s := startPostgres(t)
			return serving{&inDatabase{s.URL(), newSchema()}, func() {
				if err := s.Kill(); err != nil {
					t.Error(err)
				}
			}, func() {
				if err := s.Restart(); err != nil {
					t.Error(err)
				}
			}}
		},
	}
}

// CL-10, CL-14: what was sent while the servers were away is stored in order, once, and read elsewhere.
func TestWhatWasSentWhileTheServersWereAwayIsStoredInOrderOnce(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"one node", "three nodes", "PostgreSQL"} {
		t.Run(name, func(t *testing.T) {
			if name == "three nodes" {
				longtest.Only(t, name)
			}
			t.Parallel()
			s := servings(t)[name]()
			a, _, _ := start(t, s, nil)
			b, _, _ := start(t, s, nil)
			const runs, tokens = 20, 200
			var tubes []*tube.Tube
			var tails []func() []string
			for i := range runs {
				tb := heldTube(fmt.Sprint("r", i), 0)
				defer a.Keep(runlog.Run{ID: tb.Run(), Opening: []byte("x"), Tube: tb, Trouble: untroubled(t, tb.Run())}).Drop()
				token(t, tb, "first")
				tubes = append(tubes, tb)
			}
			flush(t, a)
			for _, tb := range tubes {
				tails = append(tails, followed(t, b, tb.Run()))
			}
			s.end()
			for k := range tokens {
				for _, tb := range tubes {
					token(t, tb, fmt.Sprint(k, " "))
				}
			}
			clustertest.Eventually(t, "all runs to wait", func() bool { return a.Stats().Behind == runs })
			for _, tb := range tubes {
				if tb.Len() != 1 {
					t.Errorf("%d events are shown, and are not stored", tb.Len())
				}
			}
			s.restart()
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

// CL-10: servers that are lost, again and again, while runs go on and are read elsewhere.
func TestLostServersLoseNothing(t *testing.T) {
	t.Parallel()
	for name, rounds := range map[string]int{"the leader of three nodes": longtest.Times(1, 6), "PostgreSQL": longtest.Times(2, 6)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var s place
			var lose func()
			durable := func(place) {}
			if strings.HasPrefix(name, "the leader") {
				servers := clustertest.Three(t)
				on := &onNATS{servers, clustertest.Prefix()}
				s, lose = on, func() {
					stream := on.prefix + []string{"_LOG_runs", "_LOG_pages"}[rounds%2]
					leader := servers.Leader(stream)
					servers.Kill(leader)
					servers.Leader(stream)
					servers.Restart(leader)
					servers.WaitReady()
				}
			} else {
				database := servings(t)["PostgreSQL"]()
				s, lose = database, func() { database.end(); database.restart() }
				durable = syncRuns(t)
			}
			a, _, _ := start(t, s, nil)
			b, _, _ := start(t, s, nil)
			const runs = 10
			var begun, wg sync.WaitGroup
			stop := make(chan struct{})
			for i := range runs {
				begun.Add(1)
				wg.Go(func() { steady(t, a, b, fmt.Sprint("r", i), i%2 == 0, begun.Done, stop) })
			}
			begun.Wait()
			durable(s) // so that no reader finds that there is no such run
			for range rounds {
				lose()
				flush(t, a)
			}
			close(stop)
			wg.Wait()
		})
	}
}

// syncRuns makes durable what is stored of runs.
func syncRuns(t *testing.T) func(place) {
	return func(s place) {
		o, end := s.open(t)
		runs, err := o.Logs.Log(t.Context(), store.LogOptions{Space: "runs", Keep: time.Hour})
		if err == nil {
			err = runs.Sync(t.Context())
		}
		if err := errors.Join(err, end()); err != nil {
			t.Error(err)
		}
	}
}

// steady is a run that sends until stop, followed elsewhere from its beginning, or from its end on.
func steady(t *testing.T, a, b *logs.Log, id string, early bool, begun func(), stop <-chan struct{}) {
	tb := heldTube(id, 0)
	e := a.Keep(runlog.Run{ID: id, Opening: []byte("x"), Tube: tb, Trouble: untroubled(t, id)})
	says(t, tb, "first")
	wait := func() []string { return followed(t, b, id)() }
	if early {
		wait = followed(t, b, id)
	}
	begun()
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
		t.Errorf("%s: %d events of %d", id, len(want), n+1)
	}
	if d := cmp.Diff(want, wait()); d != "" {
		t.Errorf("%s on the other replica: %s", id, d)
	}
}

// A replica that opens while others write does not change what they have.
func TestAReplicaMayOpenAtAnyTime(t *testing.T) {
	t.Parallel()
	s := &onNATS{clustertest.One(t), clustertest.Prefix()}
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			l, _, _ := start(t, s, nil)
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

// CL-05, ST-10: a server that led once, and does not know that it does so no more, says that there is no such run.
func TestARunIsNotUnknownBecauseAFormerLeaderSaysSo(t *testing.T) {
	t.Parallel()
	s := clustertest.One(t)
	p := &onNATS{s, clustertest.Prefix()}
	a, _, _ := start(t, p, nil)
	b, _, _ := start(t, p, nil)
	tb := heldTube("there", 0)
	e := a.Keep(runlog.Run{ID: "there", Opening: []byte("x"), Tube: tb})
	says(t, tb, "first")
	var asked atomic.Int64
	s.Divert("$JS.API.STREAM.MSG.GET."+p.prefix+"_LOG_runs", func(m *client.Msg) *client.Msg {
		asked.Add(1)
		return clustertest.NoMessage(m)
	})
	if f, err := b.Find(t.Context(), "there"); err != nil || f.Ended || string(f.Opening) != "x" {
		t.Errorf("found %+v, %v", f, err)
	}
	wait := followed(t, b, "there")
	if _, err := b.Find(t.Context(), "not there"); !errors.Is(err, runlog.ErrUnknown) {
		t.Errorf("what is not there: %v", err)
	}
	token(t, tb, "last")
	_ = tb.Close("completed")
	e.End([]byte("head"))
	if lines := wait(); len(lines) != 3 {
		t.Errorf("read %q", lines)
	}
	if asked.Load() == 0 {
		t.Error("the server was not asked")
	}
}
