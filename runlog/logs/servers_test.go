package logs_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/internal/postgrestest"
	"github.com/lingserve/lingserve/runlog"
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
