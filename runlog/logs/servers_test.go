package logs_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/internal/longtest"
	"github.com/lingserve/lingserve/internal/postgrestest"
	"github.com/lingserve/lingserve/runlog"
	"github.com/lingserve/lingserve/runlog/logs"
	"github.com/lingserve/lingserve/tube"
)

// CL-10, CL-14: what was sent while the database was away is stored in order, once, and read elsewhere.
func TestWhatWasSentWhileTheDatabaseWasAwayIsStoredInOrderOnce(t *testing.T) {
	t.Parallel()
	s := postgrestest.Run(t)
	place := &inDatabase{s.URL(), newSchema()}
	a, _, _ := start(t, place, nil)
	b, _, _ := start(t, place, nil)
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
	if err := s.Kill(); err != nil {
		t.Fatal(err)
	}
	for k := range tokens {
		for _, tb := range tubes {
			token(t, tb, fmt.Sprint(k, " "))
		}
	}
	for a.Stats().Behind != runs {
		time.Sleep(2 * time.Millisecond)
	}
	for _, tb := range tubes {
		if tb.Len() != 1 {
			t.Errorf("%d events are shown, and are not stored", tb.Len())
		}
	}
	if err := s.Restart(); err != nil {
		t.Fatal(err)
	}
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
}

// CL-10: the database is killed, again and again, while runs go on and are read elsewhere.
func TestAKilledDatabaseLosesNothing(t *testing.T) {
	t.Parallel()
	s := postgrestest.Run(t)
	place := &inDatabase{s.URL(), newSchema()}
	a, _, _ := start(t, place, nil)
	b, _, _ := start(t, place, nil)
	const runs = 10
	var begun, wg sync.WaitGroup
	stop := make(chan struct{})
	for i := range runs {
		begun.Add(1)
		wg.Go(func() { steady(t, a, b, fmt.Sprint("r", i), i%2 == 0, begun.Done, stop) })
	}
	begun.Wait()
	for range longtest.Times(2, 6) {
		if err := errors.Join(s.Kill(), s.Restart()); err != nil {
			t.Error(err)
		}
		flush(t, a)
	}
	close(stop)
	wg.Wait()
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
	s := &inDatabase{postgrestest.Shared(t).URL(), newSchema()}
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
