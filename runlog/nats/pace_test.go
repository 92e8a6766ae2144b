package nats_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/lingserve/lingserve/cluster/clustertest"
	"github.com/lingserve/lingserve/runlog"
)

func TestCL_04_ARunIsAppendedToOnceIn20Milliseconds(t *testing.T) {
	t.Parallel()
	s := clustertest.One(t)
	l, c := open(t, s, "pace")
	tb := heldTube("pace", 0)
	defer l.Keep(runlog.Run{ID: "pace", Tube: tb}).Drop()
	begin := time.Now()
	tick := time.NewTicker(200 * time.Microsecond)
	defer tick.Stop()
	tokens := 0
	for ; time.Since(begin) < 500*time.Millisecond; tokens++ {
		<-tick.C
		token(t, tb, fmt.Sprint(tokens, " "))
	}
	flush(t, l)
	took := time.Since(begin)
	stream, err := c.JetStream().Stream(t.Context(), c.Name("RUNS"))
	if err != nil {
		t.Fatal(err)
	}
	info, err := stream.Info(t.Context(), jetstream.WithSubjectFilter(">"))
	if err != nil {
		t.Fatal(err)
	}
	appends := info.State.Subjects[c.Subject("runs", "pace")]
	if most := uint64(took/(20*time.Millisecond)) + 2; appends == 0 || appends > most {
		t.Errorf("%d appends for %d tokens in %v: at most %d", appends, tokens, took, most)
	}
	if info.Config.PersistMode != jetstream.AsyncPersistMode || info.Config.MaxAge != time.Hour {
		t.Errorf("%+v", info.Config)
	}
}

// CL-05: nobody has a consumer, and all readers of a run on a replica share one subscription.
func TestCL_05_ReadersShareOneSubscription(t *testing.T) {
	t.Parallel()
	s := clustertest.One(t)
	a, c := open(t, s, "share")
	b, cb := open(t, s, "share")
	tb := heldTube("shared", 0)
	e := a.Keep(runlog.Run{ID: "shared", Tube: tb})
	token(t, tb, "x")
	flush(t, a)
	before := cb.Conn().NumSubscriptions()
	var tails []runlog.Tail
	for range 50 {
		tail, err := b.Follow(t.Context(), "shared")
		if err != nil {
			t.Fatal(err)
		}
		if len(tails) > 0 && tail.Tube() != tails[0].Tube() {
			t.Fatal("another tube")
		}
		tails = append(tails, tail)
	}
	// What a replica asks for by the way has one, too, for a moment.
	clustertest.Eventually(t, "one subscription", func() bool { return cb.Conn().NumSubscriptions()-before == 1 })
	stream, err := c.JetStream().Stream(t.Context(), c.Name("RUNS"))
	if err != nil {
		t.Fatal(err)
	}
	if n := stream.CachedInfo().State.Consumers; n != 0 {
		t.Errorf("%d consumers", n)
	}
	// None is left when the run has ended, though it is still read.
	_ = tb.Close("completed")
	e.End(nil)
	flush(t, a)
	for end := time.Now().Add(longWait); cb.Conn().NumSubscriptions() > before; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d subscriptions after the end", cb.Conn().NumSubscriptions()-before)
		}
	}
	for _, tail := range tails {
		tail.Leave()
	}
}

// A run that nobody reads is followed for a little while, for those who come back, and then not any more.
func TestARunThatNobodyReadsIsNotFollowed(t *testing.T) {
	t.Parallel()
	s := clustertest.One(t)
	a, _ := open(t, s, "grace")
	b, cb := open(t, s, "grace")
	tb := heldTube("grace", 0)
	defer a.Keep(runlog.Run{ID: "grace", Tube: tb}).Drop()
	token(t, tb, "x")
	flush(t, a)
	before := cb.Conn().NumSubscriptions()
	first, err := b.Follow(t.Context(), "grace")
	if err != nil {
		t.Fatal(err)
	}
	var left time.Time
	for {
		left = time.Now()
		first.Leave()
		again, err := b.Follow(t.Context(), "grace")
		if err != nil {
			t.Fatal(err)
		}
		same := again.Tube() == first.Tube()
		if took := time.Since(left); !same && took < 4*time.Second { // else this reader was too late
			t.Fatalf("a reader that comes back after %v gets another tube", took)
		}
		if first = again; same {
			break
		}
	}
	left = time.Now()
	first.Leave()
	for end := time.Now().Add(longWait); cb.Conn().NumSubscriptions() > before; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it is followed for ever")
		}
	}
	if took := time.Since(left); took < time.Second {
		t.Errorf("it was followed for %v", took)
	}
	last, err := b.Follow(t.Context(), "grace")
	if err != nil || last.Tube() == first.Tube() || last.Tube().Len() != 1 {
		t.Fatalf("followed once more: %v", err)
	}
	last.Leave()
}
