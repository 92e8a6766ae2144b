package nats_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	client "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"pgregory.net/rapid"

	"github.com/lingserve/lingserve/cluster"
	"github.com/lingserve/lingserve/cluster/clustertest"
	"github.com/lingserve/lingserve/runlog"
	"github.com/lingserve/lingserve/runlog/nats"
	"github.com/lingserve/lingserve/tube"
)

// shows waits until readers of a tube see n events.
func shows(t testing.TB, tb *tube.Tube, n int) {
	t.Helper()
	r := tb.NewReader(tb.Len())
	defer r.Leave()
	for end := time.After(longWait); tb.Len() < uint64(n); {
		select {
		case <-r.More():
			for range r.Waiting() {
			}
		case <-end:
			t.Fatalf("%d events of %d are shown", tb.Len(), n)
		}
	}
}

// messages counts those of a run, and those with pages.
func messages(t testing.TB, c *cluster.Cluster, run string) (own, pages uint64) {
	t.Helper()
	for name, count := range map[string]func(subject string, n uint64){
		"RUNS": func(subject string, n uint64) {
			if subject == c.Subject("runs", run) {
				own += n
			}
		},
		"PAGES": func(subject string, n uint64) {
			if subject != c.Subject("pages", cluster.BarrierToken) {
				pages += n
			}
		},
	} {
		stream, err := c.JetStream().Stream(t.Context(), c.Name(name))
		if err != nil {
			t.Fatal(err)
		}
		info, err := stream.Info(t.Context(), jetstream.WithSubjectFilter(">"))
		if err != nil {
			t.Fatal(err)
		}
		for subject, n := range info.State.Subjects {
			count(subject, n)
		}
	}
	return own, pages
}

// pagedRun begins a run whose last tokens, as they are shown, are only in pages.
func pagedRun(t testing.TB, l *nats.Log, c *cluster.Cluster, id string, trouble func(error)) (*tube.Tube, runlog.Entry) {
	t.Helper()
	nats.Always(l)
	tb := heldTube(id, 0)
	e := l.Keep(runlog.Run{ID: id, Opening: []byte("opening"), Tube: tb, Trouble: trouble})
	for i := range 5 {
		token(t, tb, fmt.Sprint(i, " "))
		shows(t, tb, i+1)
	}
	for own, _ := messages(t, c, id); ; { // until the last is not in a message of its own
		n := int(tb.Len())
		token(t, tb, "last ")
		shows(t, tb, n+1)
		now, pages := messages(t, c, id)
		if now == own && pages > 0 {
			return tb, e
		}
		own = now
	}
}

// adopted takes a run over from who may have a message of it on its way still, on a machine that may be busy.
func adopted(l *nats.Log, id, from string) (left *runlog.Left, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), longWait)
	defer cancel()
	for {
		left, err = l.Adopt(ctx, id, from)
		if again := errors.Is(err, runlog.ErrFenced) || errors.Is(err, runlog.ErrAway); !again || ctx.Err() != nil {
			return left, err
		}
	}
}

// untroubled is for a run that stays its replica's. That it is not stored for a while may be, on a busy machine.
func untroubled(t testing.TB, run string) func(error) {
	return func(err error) {
		if !errors.Is(err, runlog.ErrAway) {
			t.Errorf("%s: %v", run, err)
		}
	}
}

// fenced waits until a run is told that it is another replica's.
func fenced(t testing.TB, trouble <-chan error) {
	t.Helper()
	for {
		switch err := <-trouble; {
		case errors.Is(err, runlog.ErrFenced):
			return
		case !errors.Is(err, runlog.ErrAway):
			t.Errorf("told %v", err)
			return
		}
	}
}

func lines(tb *tube.Tube) (all []string) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for e, err := range tb.AllEvents(ctx, 0) {
		if err == nil {
			all = append(all, fmt.Sprintf("%d %s", e.N, e.AppendJSON(nil)))
		}
	}
	return all
}

func crash(t testing.TB, l *nats.Log, c *cluster.Cluster) {
	t.Helper()
	nats.Crash(l)
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

// CL-04, CL-07: what was shown is stored, in whatever message; who takes the run over has it, and so has who takes it over from them.
func TestCL_07_WhatIsOnlyInPagesIsTakenOver(t *testing.T) {
	t.Parallel()
	s := clustertest.One(t)
	a, ca := open(t, s, "pages")
	b, cb := open(t, s, "pages")
	last, cl := open(t, s, "pages")
	defer crash(t, last, cl)
	var want [][]string
	for i := range 3 {
		tb, _ := pagedRun(t, a, ca, fmt.Sprint("r", i), nil)
		want = append(want, lines(tb))
	}
	crash(t, a, ca)
	for i, w := range want {
		left, err := adopted(b, fmt.Sprint("r", i), ca.Replica())
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(w, lines(left.Tube)); d != "" {
			t.Fatalf("taken over: %s", d)
		}
	}
	crash(t, b, cb)
	for i, w := range want {
		left, err := adopted(last, fmt.Sprint("r", i), cb.Replica())
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(w, lines(left.Tube)); d != "" {
			t.Fatalf("taken over once more: %s", d)
		}
		last.Keep(runlog.Run{ID: left.ID, Opening: left.Opening, Tube: left.Tube}).End(nil)
		_ = left.Tube.Close("interrupted")
	}
	flush(t, last)
	for i, w := range want {
		tail, err := last.Follow(t.Context(), fmt.Sprint("r", i))
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(w, lines(tail.Tube())[:len(w)]); d != "" {
			t.Fatalf("followed: %s", d)
		}
		tail.Leave()
	}
}

// CL-06: pages of who was taken for dead are refused; the run that was taken over is fenced, and the others go on.
func TestCL_06_PagesOfWhoWasTakenForDeadAreRefused(t *testing.T) {
	t.Parallel()
	s := clustertest.One(t)
	a, ca := open(t, s, "sealed")
	b, cb := open(t, s, "sealed")
	defer crash(t, a, ca)
	defer crash(t, b, cb)
	trouble := make(chan error, 10)
	lost, _ := pagedRun(t, a, ca, "lost", func(err error) { trouble <- err })
	kept, e := pagedRun(t, a, ca, "kept", untroubled(t, "kept"))
	had := int(lost.Len())
	left, err := adopted(b, "lost", ca.Replica())
	if err != nil {
		t.Fatal(err)
	}
	if left.Tube.Len() != uint64(had) {
		t.Errorf("%d events of %d", left.Tube.Len(), had)
	}
	token(t, lost, "not stored ")
	fenced(t, trouble)
	if lost.Len() != uint64(had) {
		t.Error("something is shown that is not stored")
	}
	n := int(kept.Len())
	for i := range 20 {
		token(t, kept, fmt.Sprint(i, " "))
		shows(t, kept, n+i+1)
	}
	_ = kept.Close("completed")
	e.End(nil)
	flush(t, a)
	if d := cmp.Diff(all(t, kept), followed(t, b, "kept")()); d != "" {
		t.Error(d)
	}
	tail, err := a.Follow(t.Context(), "lost")
	if err != nil {
		t.Fatal(err)
	}
	defer tail.Leave()
	if tail.Tube().Len() != uint64(had) {
		t.Errorf("%d events of %d", tail.Tube().Len(), had)
	}
}

// CL-05: who begins to read in the middle has all that was shown elsewhere, whether the owner answers or not, and is not behind then:
// the run is not in pages any more.
func TestCL_05_AFollowerBeginsInTheMiddleOfPages(t *testing.T) {
	t.Parallel()
	s := clustertest.One(t)
	a, ca := open(t, s, "middle")
	b, cb := open(t, s, "middle")
	defer crash(t, b, cb)
	tb, _ := pagedRun(t, a, ca, "r", nil)
	tail, err := b.Follow(t.Context(), "r")
	if err != nil {
		t.Fatal(err)
	}
	defer tail.Leave()
	if d := cmp.Diff(lines(tb), lines(tail.Tube())); d != "" {
		t.Fatal(d)
	}
	_, before := messages(t, ca, "r")
	for range 10 {
		n := int(tb.Len()) + 1
		token(t, tb, "live ")
		shows(t, tb, n)
		shows(t, tail.Tube(), n)
	}
	if _, after := messages(t, ca, "r"); after > before { // fewer where some were removed
		t.Errorf("%d pages of a run that is followed", after-before)
	}
	// One that nobody follows, and whose owner is gone.
	other, _ := pagedRun(t, a, ca, "other", nil)
	crash(t, a, ca)
	gone, err := b.Follow(t.Context(), "other")
	if err != nil {
		t.Fatal(err)
	}
	defer gone.Leave()
	if d := cmp.Diff(lines(other), lines(gone.Tube())); d != "" {
		t.Fatal(d)
	}
}

// CL-05: an owner that does not answer, since it stands still or the answer is lost, has its pages read.
func TestCL_05_AFollowerOfWhoDoesNotAnswerReadsPages(t *testing.T) {
	t.Parallel()
	s := clustertest.One(t)
	a, ca := open(t, s, "silent")
	b, cb := open(t, s, "silent")
	defer crash(t, a, ca)
	defer crash(t, b, cb)
	tb, e := pagedRun(t, a, ca, "r", nil)
	nats.Lose(b, time.Second, func(m *client.Msg) bool { return strings.HasPrefix(m.Subject, "_INBOX.") })
	tail, err := b.Follow(t.Context(), "r")
	if err != nil {
		t.Fatal(err)
	}
	defer tail.Leave()
	if tail.Tube().Len() < tb.Len() {
		t.Fatalf("%d events of %d", tail.Tube().Len(), tb.Len())
	}
	for range 10 {
		token(t, tb, "more ")
	}
	_ = tb.Close("completed")
	e.End(nil)
	if d := cmp.Diff(all(t, tb), all(t, tail.Tube())); d != "" {
		t.Fatal(d)
	}
}

// A run that waits for long does not have all pages read that were written meanwhile.
func TestCL_07_OnlyTheLastPagesAreRead(t *testing.T) {
	for name, hoard := range map[string]bool{"all are stored": true, "what nobody needs is removed": false} {
		t.Run(name, func(t *testing.T) { onlyTheLastPagesAreRead(t, hoard) })
	}
}

func onlyTheLastPagesAreRead(t *testing.T, hoard bool) {
	t.Parallel()
	s := clustertest.One(t)
	a, ca := open(t, s, "floor")
	b, cb := open(t, s, "floor")
	defer crash(t, b, cb)
	idle := heldTube("idle", 0)
	a.Keep(runlog.Run{ID: "idle", Opening: []byte("x"), Tube: idle})
	token(t, idle, "waits ")
	shows(t, idle, 1)
	busy, _ := pagedRun(t, a, ca, "busy", nil)
	if hoard {
		nats.Hoard(a)
	}
	for range 100 {
		n := int(busy.Len()) + 1
		token(t, busy, strings.Repeat("x", 1000))
		shows(t, busy, n)
	}
	clustertest.Eventually(t, "all to be in messages of the run's own", func() bool { return nats.InPages(a) == 0 })
	for range 3 {
		n := int(busy.Len()) + 1
		token(t, busy, "end ")
		shows(t, busy, n)
	}
	_, pages := messages(t, ca, "busy")
	want := lines(busy)
	crash(t, a, ca)
	left, err := adopted(b, "idle", ca.Replica())
	if err != nil || left.Tube.Len() != 1 {
		t.Fatalf("%+v, %v", left, err)
	}
	if n := nats.SealedPages(b); n > 10 || hoard && pages < 50 || !hoard && pages > 10 {
		t.Errorf("%d pages of %d that are stored are read", n, pages)
	}
	left, err = adopted(b, "busy", ca.Replica())
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, lines(left.Tube)); d != "" {
		t.Error(d)
	}
}

// CL-07: what pages have of a run that its replica has left is found, however long that goes on writing others.
func TestCL_07_ARunThatWasLeftIsTakenOverWithItsPages(t *testing.T) {
	t.Parallel()
	s := clustertest.One(t)
	a, ca := open(t, s, "left")
	b, cb := open(t, s, "left")
	defer crash(t, a, ca)
	defer crash(t, b, cb)
	other, _ := pagedRun(t, a, ca, "other", nil)
	r, e := pagedRun(t, a, ca, "r", nil)
	want := lines(r)
	e.(runlog.Leaver).Leave()
	flush(t, a)
	for range 2 {
		clustertest.Eventually(t, "all to be in messages of the run's own", func() bool { return nats.InPages(a) == 0 })
		for range 20 {
			n := int(other.Len()) + 1
			token(t, other, "more ")
			shows(t, other, n)
		}
	}
	left, err := adopted(b, "r", ca.Replica())
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, lines(left.Tube)); d != "" {
		t.Error(d)
	}
}

// CL-12: what many write at the same time goes out in few messages.
func TestCL_12_ManyRunsShareMessages(t *testing.T) {
	t.Parallel()
	s := clustertest.One(t)
	a, ca := open(t, s, "share")
	nats.Always(a)
	const runs, rounds = 60, 10
	var tubes []*tube.Tube
	for i := range runs {
		tb := heldTube(fmt.Sprint("r", i), 0)
		a.Keep(runlog.Run{ID: tb.Run(), Tube: tb})
		token(t, tb, "first")
		tubes = append(tubes, tb)
	}
	flush(t, a)
	for k := range rounds {
		for _, tb := range tubes {
			token(t, tb, "x")
		}
		for _, tb := range tubes {
			shows(t, tb, k+2)
		}
	}
	if _, pages := messages(t, ca, "r0"); pages == 0 || pages > runs*rounds/2 {
		t.Errorf("%d pages with %d tokens", pages, runs*rounds)
	}
	// Each is in a message of its own by and by, though nothing more is sent.
	clustertest.Eventually(t, "all to be in messages of the runs' own", func() bool { return nats.InPages(a) == 0 })
	crash(t, a, ca)
}

// Whatever happens to the writers: what was shown stays, followers have what was sent, and each event once. CL-04, CL-05, CL-06, CL-07.
func TestCL_07_KilledWritersOfPages(t *testing.T) {
	t.Parallel()
	s := clustertest.One(t)
	number := 0
	rapid.Check(t, func(rt *rapid.T) {
		number++
		prefix := fmt.Sprint("kill", number)
		type run struct {
			id    string
			tube  *tube.Tube
			entry runlog.Entry
			tails []runlog.Tail
		}
		writer, cw := open(t, s, prefix)
		reader, cr := open(t, s, prefix)
		nats.Always(writer)
		var runs []*run
		for i := range rapid.IntRange(1, 5).Draw(rt, "runs") {
			r := &run{id: fmt.Sprint("r", i), tube: heldTube(fmt.Sprint("r", i), 0)}
			r.entry = writer.Keep(runlog.Run{ID: r.id, Opening: []byte("x"), Tube: r.tube})
			token(t, r.tube, "first ")
			shows(t, r.tube, 1)
			runs = append(runs, r)
		}
		for range rapid.IntRange(3, 25).Draw(rt, "steps") {
			r := rapid.SampledFrom(runs).Draw(rt, "run")
			switch rapid.IntRange(0, 11).Draw(rt, "what") {
			case 0: // killed while it writes, and everything is taken over
				for _, r := range runs {
					token(t, r.tube, "late ")
				}
				old, from := writer, cw
				writer, cw = open(t, s, prefix)
				nats.Always(writer)
				kill := rapid.Bool().Draw(rt, "killed")
				if kill {
					crash(t, old, from)
				}
				for _, r := range runs {
					left, err := adopted(writer, r.id, from.Replica())
					if err != nil {
						rt.Fatalf("adopt %s: %v", r.id, err)
					}
					shown, got := lines(r.tube), lines(left.Tube)
					if len(shown) > len(got) {
						rt.Fatalf("%d events were shown, %d are there", len(shown), len(got))
					}
					if d := cmp.Diff(shown, got[:len(shown)]); d != "" {
						rt.Fatal(d)
					}
					r.tube = left.Tube
					r.entry = writer.Keep(runlog.Run{ID: r.id, Opening: left.Opening, Tube: left.Tube})
				}
				if !kill { // one that was only taken for dead
					crash(t, old, from)
				}
			case 1:
				tail, err := reader.Follow(t.Context(), r.id)
				if err != nil {
					rt.Fatal(err)
				}
				r.tails = append(r.tails, tail)
			default:
				for range rapid.IntRange(1, 8).Draw(rt, "tokens") {
					token(t, r.tube, "x ")
				}
				if rapid.Bool().Draw(rt, "waits") {
					shows(t, r.tube, int(r.tube.Len()+r.tube.Unshown()))
				}
			}
		}
		for _, r := range runs {
			_ = r.tube.Close("completed")
			r.entry.End([]byte("head"))
		}
		flush(t, writer)
		for _, r := range runs {
			want := all(t, r.tube)
			tail, err := reader.Follow(t.Context(), r.id)
			if err != nil {
				rt.Fatal(err)
			}
			for i, tail := range append(r.tails, tail) {
				if d := cmp.Diff(want, all(t, tail.Tube())); d != "" {
					rt.Fatalf("%s, follower %d: %s", r.id, i, d)
				}
				tail.Leave()
			}
		}
		crash(t, writer, cw)
		crash(t, reader, cr)
	})
}
