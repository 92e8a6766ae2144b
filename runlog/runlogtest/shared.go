package runlogtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/lingserve/lingserve/runlog"
	"github.com/lingserve/lingserve/tube"
)

// TestShared is for logs that are shared, beside [Test]. Several of the replicas that open opens are open at a time, and take over
// nothing by themselves: Left is empty.
func TestShared(t *testing.T, open func(testing.TB) func(testing.TB) *Replica) {
	for _, c := range []struct {
		name string
		test func(*testing.T, func(testing.TB) *Replica)
	}{
		{"CL-05: a run is found and followed on any replica", anyReplica},
		{"CL-05: readers join at any time", joining},
		{"CL-05: a run of another replica is followed past its end", pastItsEnd},
		{"what is dropped is not followed", goneTail},
		{"CL-07: one replica takes a run over", oneAdopts},
		{"CL-07: readers go on when a run is taken over", readersGoOn},
		{"CL-07: readers go on when a run is run once more", readersAgain},
		{"CL-06: a replica that comes back is fenced", fenced},
		{"what has ended is not taken over", endedStays},
		{"CL-11: what is left behind has no end", leftBehind},
		{"who runs what", running},
		{"two replicas with one run", twice},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, open(t)) })
	}
}

func (r *Replica) shared(t testing.TB) runlog.Shared {
	t.Helper()
	s, ok := r.Log.(runlog.Shared)
	if !ok {
		t.Fatalf("%T is not shared", r.Log)
	}
	return s
}

func anyReplica(t *testing.T, open func(testing.TB) *Replica) {
	a, b := open(t), open(t)
	if _, err := b.shared(t).Find(t.Context(), "r"); !errors.Is(err, runlog.ErrUnknown) {
		t.Errorf("found before there is one: %v", err)
	}
	if _, err := b.shared(t).Follow(t.Context(), "r"); !errors.Is(err, runlog.ErrUnknown) {
		t.Errorf("followed before there is one: %v", err)
	}
	tb, e := a.keep("r")
	say(t, tb, "a", "one")
	a.flush(t)
	f, err := b.shared(t).Find(t.Context(), "r")
	if err != nil {
		t.Fatal(err)
	}
	same(t, "found", runlog.Found{ID: "r", Opening: []byte("opening of r"), Replica: a.Name}, f)
	early := follow(t, b.shared(t), "r")
	defer early.Leave()
	same(t, "what was there", []string{`0 {"uri":"a","delta":"one"}`}, events(early.Tube()))
	say(t, tb, "a", "two")
	await(t, early.Tube(), 2)
	_ = tb.Close("completed")
	await(t, early.Tube(), 3)
	closed(t, early.Tube().Ended(), "the end")
	e.End([]byte("head"))
	a.flush(t)
	same(t, "events", events(tb), events(early.Tube()))
	f, err = b.shared(t).Find(t.Context(), "r")
	if err != nil {
		t.Fatal(err)
	}
	same(t, "found", runlog.Found{ID: "r", Opening: []byte("opening of r"), Replica: a.Name, Ended: true, Head: []byte("head")}, f)
}

func joining(t *testing.T, open func(testing.TB) *Replica) {
	const tokens, readers = 1500, 12
	a, b := open(t), open(t)
	tb, e := a.keep("joined")
	say(t, tb, "a", "0 ")
	a.flush(t)
	var wg sync.WaitGroup
	var got [readers][]string
	start := make(chan int, readers)
	for range readers {
		wg.Go(func() {
			i := <-start
			tail := follow(t, b.shared(t), "joined")
			defer tail.Leave()
			if tail.Tube() == tb {
				t.Error("the same tube")
			}
			for e, err := range tail.Tube().AllEvents(t.Context(), 0) {
				if err != nil {
					t.Errorf("reader %d: %v", i, err)
					return
				}
				got[i] = append(got[i], line(e))
			}
		})
	}
	for i := range tokens {
		say(t, tb, "a", fmt.Sprint(i+1, " "))
		if i%(tokens/readers) == 0 {
			start <- i / (tokens / readers)
			await(t, tb, uint64(i+1)) // as it goes
		}
	}
	close(start)
	_ = tb.Close("completed")
	e.End(nil)
	wg.Wait()
	a.flush(t) // others may see it before it is acknowledged
	want := events(tb)
	if len(want) != tokens+2 {
		t.Fatalf("%d events", len(want))
	}
	for i := range got {
		same(t, fmt.Sprint("reader ", i), want, got[i])
	}
}

func pastItsEnd(t *testing.T, open func(testing.TB) *Replica) {
	a, b := open(t), open(t)
	tb, e := a.keep("over")
	say(t, tb, "a", "one")
	_ = tb.Close("completed")
	e.End([]byte("head"))
	a.flush(t)
	a.close(t)
	for range 2 {
		tail := follow(t, b.shared(t), "over")
		closed(t, tail.Tube().Ended(), "the end")
		if string(tail.Head()) != "head" || tail.Tube().Len() != 2 {
			t.Errorf("head %q, %d events", tail.Head(), tail.Tube().Len())
		}
		tail.Leave()
		tail.Leave() // counts once
	}
}

func goneTail(t *testing.T, open func(testing.TB) *Replica) {
	a, b := open(t), open(t)
	tb, e := a.keep("gone")
	say(t, tb, "a", "one")
	a.flush(t)
	tail := follow(t, b.shared(t), "gone")
	defer tail.Leave()
	e.Drop()
	closed(t, tail.Gone(), "the run to be gone")
}

func leftBehind(t *testing.T, open func(testing.TB) *Replica) {
	a, b := open(t), open(t)
	tb, e := a.keep("r")
	say(t, tb, "a", "one")
	a.flush(t)
	reader := follow(t, b.shared(t), "r")
	defer reader.Leave()
	l, ok := e.(runlog.Leaver)
	if !ok {
		t.Fatalf("%T cannot be left", e)
	}
	l.Leave()
	say(t, tb, "a", "two")
	_ = tb.Close("interrupted")
	e.End([]byte("head"))
	a.flush(t)
	f, err := b.shared(t).Find(t.Context(), "r")
	if err != nil {
		t.Fatal(err)
	}
	same(t, "found", runlog.Found{ID: "r", Opening: []byte("opening of r"), Replica: a.Name}, f)
	left := adopt(t, b, "r", a.Name)
	same(t, "what is there", []string{`0 {"uri":"a","delta":"one"}`}, events(left.Tube))
	same(t, "what its readers have", []string{`0 {"uri":"a","delta":"one"}`}, events(reader.Tube()))
	b.shared(t).Keep(runlog.Run{ID: "r", Opening: left.Opening, Tube: left.Tube})
	say(t, left.Tube, "a", "three")
	await(t, reader.Tube(), 2)
}

// adopt adopts a run that a replica has left. It is refused while a message of that one is still on its way, which may be one that says
// once more what is stored, and where a busy machine does not answer in time.
func adopt(t testing.TB, by *Replica, id, from string) *runlog.Left {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	for {
		l, err := by.shared(t).Adopt(ctx, id, from)
		if err == nil {
			return l
		}
		if !errors.Is(err, runlog.ErrFenced) && !errors.Is(err, runlog.ErrAway) || ctx.Err() != nil {
			t.Fatalf("adopt %s: %v", id, err)
		}
	}
}

// told waits until a run is told that it is another replica's. That it is not stored for a while, it may be told before.
func told(t testing.TB, trouble <-chan error) {
	t.Helper()
	for {
		switch err := <-trouble; {
		case errors.Is(err, runlog.ErrFenced):
			return
		case !errors.Is(err, runlog.ErrAway):
			t.Errorf("it is told %v", err)
			return
		}
	}
}

func oneAdopts(t *testing.T, open func(testing.TB) *Replica) {
	dead := open(t)
	tb, _ := dead.keep("wanted")
	say(t, tb, "a", "one")
	dead.flush(t)
	dead.Crash()
	var replicas []*Replica
	for range 4 {
		replicas = append(replicas, open(t))
	}
	var got atomic.Int32
	for got.Load() == 0 && !t.Failed() { // all are refused while a message of the dead one is still on its way
		var wg sync.WaitGroup
		for _, r := range replicas {
			wg.Go(func() {
				switch l, err := r.shared(t).Adopt(t.Context(), "wanted", dead.Name); {
				case err == nil:
					got.Add(1)
					if l.Tube.Len() != 1 || string(l.Opening) != "opening of wanted" {
						t.Errorf("left: %+v", l)
					}
				case !errors.Is(err, runlog.ErrFenced) && !errors.Is(err, runlog.ErrAway):
					t.Error(err)
				}
			})
		}
		wg.Wait()
	}
	if got.Load() != 1 {
		t.Errorf("%d replicas have taken it over", got.Load())
	}
}

func readersGoOn(t *testing.T, open func(testing.TB) *Replica) {
	dead, heir, other := open(t), open(t), open(t)
	tb, _ := dead.keep("cut off")
	for i := range 5 {
		say(t, tb, "a", fmt.Sprint(i))
	}
	dead.flush(t)
	tails := []runlog.Tail{follow(t, heir.shared(t), "cut off"), follow(t, other.shared(t), "cut off")}
	dead.Crash()
	l := adopt(t, heir, "cut off", dead.Name)
	e := heir.Keep(runlog.Run{ID: l.ID, Opening: l.Opening, Tube: l.Tube})
	name(t, l.Tube, "error", `{"code":"internal"}`)
	_ = l.Tube.Close("interrupted")
	e.End([]byte("cut off"))
	for _, tail := range tails {
		closed(t, tail.Tube().Ended(), "the end")
		same(t, "events", append(events(tb), `5 {"event":"error","data":{"code":"internal"}}`, `6 {"event":"finished","data":{"status":"interrupted"}}`), events(tail.Tube()))
		tail.Leave()
	}
	heir.flush(t)
	if f, err := other.shared(t).Find(t.Context(), "cut off"); err != nil || f.Replica != heir.Name || !f.Ended {
		t.Errorf("%+v, %v", f, err)
	}
}

func readersAgain(t *testing.T, open func(testing.TB) *Replica) {
	dead, heir, other := open(t), open(t), open(t)
	tb, _ := dead.keep("again")
	say(t, tb, "old", "text")
	say(t, tb, "$beside", "text")
	dead.flush(t)
	tail := follow(t, other.shared(t), "again")
	defer tail.Leave()
	r := tail.Tube().NewReader(0)
	for range r.Waiting() {
	}
	dead.Crash()
	l := adopt(t, heir, "again", dead.Name)
	anew := heir.tube(1 << 32)("again")
	e := heir.Keep(runlog.Run{ID: l.ID, Opening: []byte("once more"), Tube: anew})
	say(t, anew, "new", "text")
	_ = anew.Close("completed")
	e.End(nil)
	closed(t, tail.Tube().Ended(), "the end")
	var got []string
	for e := range r.Waiting() {
		got = append(got, line(e))
	}
	if last := got[len(got)-1]; last != `4294967297 {"event":"finished","data":{"status":"completed"}}` || len(got) < 2 || strings.Contains(fmt.Sprint(got), "old") ||
		!strings.Contains(fmt.Sprint(got), `"text"`) {
		t.Errorf("what a reader gets that has seen the first: %q", got)
	}
	if string(tail.Opening()) != "once more" {
		t.Errorf("opening %q", tail.Opening())
	}
	late := follow(t, heir.shared(t), "again")
	defer late.Leave()
	if document(late.Tube()) != `{"new":"text"}` || late.Tube().Len() != 1<<32+2 {
		t.Errorf("%d events: %s", late.Tube().Len(), document(late.Tube()))
	}
}

func fenced(t *testing.T, open func(testing.TB) *Replica) {
	paused, heir := open(t), open(t)
	tb := paused.tube(0)("fenced")
	trouble := make(chan error, 4)
	paused.Keep(runlog.Run{ID: "fenced", Opening: []byte("x"), Tube: tb, Trouble: func(err error) { trouble <- err }})
	say(t, tb, "a", "one")
	paused.flush(t)
	l := adopt(t, heir, "fenced", paused.Name)
	heir.Keep(runlog.Run{ID: "fenced", Opening: l.Opening, Tube: l.Tube})
	say(t, tb, "a", "not stored")
	told(t, trouble)
	say(t, l.Tube, "a", "two")
	heir.flush(t)
	paused.flush(t)
	if n := tb.Len(); n != 1 {
		t.Errorf("%d events are shown of what is not stored", n)
	}
	got, _ := paused.look(t, "fenced")
	same(t, "events", []string{`0 {"uri":"a","delta":"one"}`, `1 {"uri":"a","delta":"two"}`}, got.Events)
}

func endedStays(t *testing.T, open func(testing.TB) *Replica) {
	a, b := open(t), open(t)
	tb, e := a.keep("ended")
	_ = tb.Close("completed")
	e.End([]byte("head"))
	a.flush(t)
	if _, err := b.shared(t).Adopt(t.Context(), "ended", a.Name); !errors.Is(err, runlog.ErrEnded) {
		t.Errorf("one that has ended: %v", err)
	}
	if _, err := b.shared(t).Adopt(t.Context(), "none", a.Name); !errors.Is(err, runlog.ErrUnknown) {
		t.Errorf("one that is not there: %v", err)
	}
	tb, _ = a.keep("going")
	say(t, tb, "a", "x")
	a.flush(t)
	if _, err := b.shared(t).Adopt(t.Context(), "going", "somebody"); !errors.Is(err, runlog.ErrFenced) {
		t.Errorf("one that somebody else has: %v", err)
	}
}

func running(t *testing.T, open func(testing.TB) *Replica) {
	a, b := open(t), open(t)
	list := func(of string) (ids []string) {
		t.Helper()
		all, err := b.shared(t).Running(t.Context(), of)
		if err != nil {
			t.Fatal(err)
		}
		for _, g := range all {
			if of == "" || g.Replica == of {
				ids = append(ids, g.ID)
			} else {
				t.Errorf("%s is of %s, and %s was asked for", g.ID, g.Replica, of)
			}
		}
		slices.Sort(ids)
		return ids
	}
	same(t, "none", []string(nil), list(a.Name))
	var entries []runlog.Entry
	var tubes []*tube.Tube
	for i := range 3 {
		tb, e := a.keep(fmt.Sprint("r", i))
		say(t, tb, "a", "x")
		entries, tubes = append(entries, e), append(tubes, tb)
	}
	tb, _ := b.keep("of b")
	say(t, tb, "a", "x")
	a.flush(t)
	b.flush(t)
	same(t, "those of a", []string{"r0", "r1", "r2"}, list(a.Name))
	same(t, "all", []string{"of b", "r0", "r1", "r2"}, list(""))
	_ = tubes[1].Close("completed")
	entries[1].End(nil)
	entries[0].Drop()
	a.flush(t)
	a.Crash()
	for len(list(a.Name)) > 1 { // a word nobody waits for
		if t.Context().Err() != nil {
			return
		}
	}
	adopt(t, b, "r2", a.Name)
	for len(list(a.Name)) > 0 {
		if t.Context().Err() != nil {
			return
		}
	}
	same(t, "those of b", []string{"of b", "r2"}, list(b.Name))
}

func twice(t *testing.T, open func(testing.TB) *Replica) {
	a, b := open(t), open(t)
	tb, _ := a.keep("twice")
	say(t, tb, "a", "one")
	a.flush(t)
	other := b.tube(0)("twice")
	trouble := make(chan error, 4)
	b.Keep(runlog.Run{ID: "twice", Opening: []byte("x"), Tube: other, Trouble: func(err error) { trouble <- err }})
	told(t, trouble)
	got, _ := b.look(t, "twice")
	same(t, "opening", "opening of twice", got.Opening)
}
