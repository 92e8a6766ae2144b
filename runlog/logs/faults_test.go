package logs_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/lingserve/lingserve/cluster/replicas"
	"github.com/lingserve/lingserve/runlog"
	"github.com/lingserve/lingserve/runlog/logs"
	"github.com/lingserve/lingserve/runlog/runlogtest"
	"github.com/lingserve/lingserve/store"
	"github.com/lingserve/lingserve/tube"
)

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

func flush(t testing.TB, l *logs.Log) {
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

// lines are the events that readers of a tube see now.
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

// says sends a token and waits until it is shown.
func says(t testing.TB, tb *tube.Tube, text string) {
	t.Helper()
	n := int(tb.Len()) + 1
	token(t, tb, text)
	shows(t, tb, n)
}

// followed reads a run on a replica, from now on, and returns what waits for its end.
func followed(t testing.TB, l *logs.Log, id string) (wait func() []string) {
	t.Helper()
	tail := follow(t, l, id)
	done := make(chan []string, 1)
	go func() { done <- all(t, tail.Tube()); tail.Leave() }()
	return func() []string { return <-done }
}

func follow(t testing.TB, l *logs.Log, id string) runlog.Tail {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), longWait)
	defer cancel()
	tail, err := l.Follow(ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	return tail
}

// adopted takes a run over from who may have something of it on its way still.
func adopted(t testing.TB, l *logs.Log, id, from string) *runlog.Left {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), longWait)
	defer cancel()
	for {
		left, err := l.Adopt(ctx, id, from)
		if err == nil {
			return left
		}
		if again := errors.Is(err, runlog.ErrFenced) || errors.Is(err, runlog.ErrAway); !again || ctx.Err() != nil {
			t.Fatalf("adopt %s: %v", id, err)
		}
	}
}

// untroubled is for a run that stays its replica's. That it is not stored for a while may be.
func untroubled(t testing.TB, run string) func(error) {
	return func(err error) {
		if !errors.Is(err, runlog.ErrAway) {
			t.Errorf("%s: %v", run, err)
		}
	}
}

// pagedRun begins a run of which something that is shown is only in pages.
func pagedRun(t testing.TB, l *logs.Log, id string, trouble func(error)) (*tube.Tube, runlog.Entry) {
	t.Helper()
	tb := heldTube(id, 0)
	e := l.Keep(runlog.Run{ID: id, Opening: []byte("opening"), Tube: tb, Trouble: trouble})
	before := logs.InPages(l)
	says(t, tb, "first ")
	for logs.InPages(l) == before {
		says(t, tb, "more ")
	}
	return tb, e
}

// faulty is an engine of logs whose answers may be lost.
type faulty struct {
	store.LogEngine
	faults *faults
}

// faults are what happens to a store.
type faults struct {
	away   atomic.Bool
	append func(name string) (before, after error) // nil: nothing goes wrong
	mu     sync.Mutex
	stored map[string]int // batches, by space
}

func (f faulty) Log(ctx context.Context, o store.LogOptions) (store.Log, error) {
	l, err := f.LogEngine.Log(ctx, o)
	return &faultyLog{l, o.Space, f.faults}, err
}

type faultyLog struct {
	store.Log
	space  string
	faults *faults
}

func (l *faultyLog) Append(ctx context.Context, name string, b store.Batch) (store.Info, error) {
	f := l.faults
	if f.away.Load() {
		return store.Info{}, store.ErrAway
	}
	f.mu.Lock()
	fail := f.append
	if f.stored != nil {
		f.stored[l.space]++
	}
	f.mu.Unlock()
	if fail == nil {
		return l.Log.Append(ctx, name, b)
	}
	before, after := fail(name)
	if before != nil {
		return store.Info{}, before
	}
	info, err := l.Log.Append(ctx, name, b)
	if err == nil && after != nil {
		return store.Info{}, after
	}
	return info, err
}

// installation is replicas in memory, and what happens to them.
type installation struct {
	*memory
	faults faults
}

func install(t testing.TB) *installation {
	return &installation{memory: inMemory(t).(*memory)}
}

func (i *installation) start(t testing.TB) (*logs.Log, string, func()) {
	t.Helper()
	return start(t, i.memory, func(o *logs.Options) { o.Logs = faulty{o.Logs, &i.faults} })
}

// CL-06, CL-10: whatever answers and messages are lost, every event is stored once, and seen once.
func TestLostAnswersLoseNothing(t *testing.T) {
	t.Parallel()
	i := install(t)
	var mu sync.Mutex
	random := rand.New(rand.NewPCG(1, 2))
	draw := func(n int) bool {
		mu.Lock()
		defer mu.Unlock()
		return random.IntN(n) == 0
	}
	i.faults.append = func(string) (before, after error) {
		if draw(6) {
			before = []error{store.ErrAway, store.ErrUnsure}[random.IntN(2)]
		}
		if draw(6) {
			after = store.ErrUnsure
		}
		return before, after
	}
	i.bus.lose = func(_, _ string, m replicas.Message) bool { return draw(20) }
	a, _, _ := i.start(t)
	b, _, _ := i.start(t)
	const runs, tokens = 6, 100
	var wg sync.WaitGroup
	for n := range runs {
		wg.Go(func() {
			tb := heldTube(fmt.Sprint("r", n), 0)
			e := a.Keep(runlog.Run{ID: tb.Run(), Opening: []byte("x"), Tube: tb, Trouble: untroubled(t, tb.Run())})
			says(t, tb, "first")
			wait := func() []string { return followed(t, b, tb.Run())() }
			if n%2 == 0 {
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
				t.Errorf("run %d on the other replica: %s", n, d)
			}
		})
	}
	wg.Wait()
}

// CL-10: runs are told once that they are not stored, after a while, and again the next time. What was sent meanwhile is stored in order.
func TestARunIsToldThatItIsNotStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := install(t)
		a, _, crash := i.start(t)
		defer crash()
		var tubes []*tube.Tube
		trouble := make(chan error, 100)
		for n := range 3 {
			tb := heldTube(fmt.Sprint("r", n), 0)
			a.Keep(runlog.Run{ID: tb.Run(), Tube: tb, Trouble: func(err error) { trouble <- err }})
			says(t, tb, "first ")
			tubes = append(tubes, tb)
		}
		for range 2 {
			i.faults.away.Store(true)
			began := time.Now()
			had := tubes[0].Len()
			for k := range 10 {
				for _, tb := range tubes {
					token(t, tb, fmt.Sprint(k, " "))
				}
			}
			for range tubes {
				if err := <-trouble; !errors.Is(err, runlog.ErrAway) {
					t.Errorf("told %v", err)
				}
			}
			if took := time.Since(began); took < 5*time.Second || took > 7*time.Second {
				t.Errorf("told after %v", took)
			}
			time.Sleep(time.Minute)
			if s := a.Stats(); s.Runs != 3 || s.Behind != 3 || s.Oldest < time.Minute || tubes[0].Len() != had {
				t.Errorf("%+v, and %d events are shown that were %d", s, tubes[0].Len(), had)
			}
			i.faults.away.Store(false)
			flush(t, a)
			if s := a.Stats(); len(trouble) > 0 || s.Behind > 0 || tubes[0].Len() != had+10 {
				t.Errorf("told %d times more, %+v, %d events", len(trouble), s, tubes[0].Len())
			}
		}
	})
}

// CL-10: a run whose buffer is full is told so by its tube, and its end is stored when the store is back.
func TestARunWhoseBufferIsFullIsEndedAndItsEndIsStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := install(t)
		a, _, crash := i.start(t)
		defer crash()
		tb := heldTube("full", 16<<10)
		e := a.Keep(runlog.Run{ID: "full", Opening: []byte("x"), Tube: tb})
		says(t, tb, "first")
		i.faults.away.Store(true)
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
		i.faults.away.Store(false)
		flush(t, a)
		b, _, crash := i.start(t)
		defer crash()
		if f, err := b.Find(t.Context(), "full"); err != nil || !f.Ended || string(f.Head) != "head" {
			t.Errorf("%+v, %v", f, err)
		}
		tail := follow(t, b, "full")
		defer tail.Leave()
		if n := tail.Tube().Len(); n != uint64(sent)+1 {
			t.Errorf("%d events of %d", n, sent+1)
		}
	})
}

// CL-10: a run of which the store has lost what it has acknowledged is stored again. One that was adopted is given up.
func TestARunThatTheStoreHasLostIsStoredAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := install(t)
		a, name, crash := i.start(t)
		defer crash()
		b, _, crash := i.start(t)
		defer crash()
		runs, err := i.written.Log(t.Context(), store.LogOptions{Space: "runs", Keep: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		lose := func(id string) {
			if err := runs.Delete(t.Context(), id); err != nil {
				t.Fatal(err)
			}
		}
		tb := heldTube("lost", 0)
		e := a.Keep(runlog.Run{ID: "lost", Opening: []byte("x"), Tube: tb, Trouble: untroubled(t, "lost")})
		says(t, tb, "first")
		e.(runlog.Reopener).Reopen([]byte("another"))
		says(t, tb, "second")
		lose("lost")
		time.Sleep(10 * time.Second)
		says(t, tb, "third")
		time.Sleep(30 * time.Second) // until it has a batch of its own, and the store is believed
		if tail := follow(t, b, "lost"); tail.Tube().Len() != 3 || string(tail.Opening()) != "another" {
			t.Errorf("%d events, opening %q", tail.Tube().Len(), tail.Opening())
		}
		lose("lost")
		_ = tb.Close("completed")
		e.End([]byte("head"))
		flush(t, a)
		if d := cmp.Diff(all(t, tb), all(t, follow(t, b, "lost").Tube())); d != "" {
			t.Error(d)
		}
		pagedRun(t, a, "adopted", nil)
		left := adopted(t, b, "adopted", name)
		trouble := make(chan error, 10)
		b.Keep(runlog.Run{ID: "adopted", Opening: left.Opening, Tube: left.Tube, Trouble: func(err error) { trouble <- err }}).End(nil)
		lose("adopted")
		_ = left.Tube.Close("interrupted")
		for _, want := range []error{runlog.ErrAway, runlog.ErrLost} {
			if err := <-trouble; !errors.Is(err, want) {
				t.Errorf("told %v", err)
			}
		}
		flush(t, b)
	})
}

// CL-04, CL-07: what was shown is stored, wherever; who takes the run over has it, and so has who takes it over from them.
func TestWhatIsOnlyInPagesIsTakenOver(t *testing.T) {
	t.Parallel()
	i := install(t)
	a, nameA, crashA := i.start(t)
	b, nameB, crashB := i.start(t)
	last, _, _ := i.start(t)
	var want [][]string
	for n := range 3 {
		tb, _ := pagedRun(t, a, fmt.Sprint("r", n), nil)
		want = append(want, lines(tb))
	}
	crashA()
	for n, w := range want {
		if d := cmp.Diff(w, lines(adopted(t, b, fmt.Sprint("r", n), nameA).Tube)); d != "" {
			t.Fatalf("taken over: %s", d)
		}
	}
	crashB()
	for n, w := range want {
		left := adopted(t, last, fmt.Sprint("r", n), nameB)
		if d := cmp.Diff(w, lines(left.Tube)); d != "" {
			t.Fatalf("taken over once more: %s", d)
		}
		last.Keep(runlog.Run{ID: left.ID, Opening: left.Opening, Tube: left.Tube}).End(nil)
		_ = left.Tube.Close("interrupted")
	}
	flush(t, last)
	for n, w := range want {
		tail := follow(t, last, fmt.Sprint("r", n))
		if d := cmp.Diff(w, lines(tail.Tube())[:len(w)]); d != "" {
			t.Fatalf("followed: %s", d)
		}
		tail.Leave()
	}
}

// CL-06: pages of who was taken for dead are refused; the run that was taken over is fenced, and the others go on, in pages again.
func TestPagesOfWhoWasTakenForDeadAreRefused(t *testing.T) {
	t.Parallel()
	i := install(t)
	a, nameA, crashA := i.start(t)
	b, _, _ := i.start(t)
	trouble := make(chan error, 10)
	lost, _ := pagedRun(t, a, "lost", func(err error) { trouble <- err })
	kept, e := pagedRun(t, a, "kept", untroubled(t, "kept"))
	had := int(lost.Len())
	left := adopted(t, b, "lost", nameA)
	if left.Tube.Len() != uint64(had) {
		t.Errorf("%d events of %d", left.Tube.Len(), had)
	}
	token(t, lost, "not stored ")
	if err := <-trouble; !errors.Is(err, runlog.ErrFenced) {
		t.Errorf("told %v", err)
	}
	if lost.Len() != uint64(had) {
		t.Error("something is shown that is not stored")
	}
	for n := range 5 {
		says(t, kept, fmt.Sprint(n, " "))
	}
	if logs.InPages(a) != 1 {
		t.Error("nothing is in pages any more")
	}
	tail := follow(t, a, "lost")
	defer tail.Leave()
	if tail.Tube().Len() != uint64(had) {
		t.Errorf("%d events of %d", tail.Tube().Len(), had)
	}
	other, _ := pagedRun(t, a, "other", nil)
	want := lines(other)
	_ = kept.Close("completed")
	e.End(nil)
	flush(t, a)
	if d := cmp.Diff(all(t, kept), followed(t, b, "kept")()); d != "" {
		t.Error(d)
	}
	crashA()
	if d := cmp.Diff(want, lines(adopted(t, b, "other", nameA).Tube)); d != "" {
		t.Error(d)
	}
}

// CL-05: if the owner of a run stands still, or its messages are lost, what it has stored is read.
func TestAFollowerOfASilentOwnerReadsTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := install(t)
		a, nameA, crash := i.start(t)
		defer crash()
		b, _, crash := i.start(t)
		defer crash()
		tb, e := pagedRun(t, a, "r", nil)
		tail := follow(t, b, "r")
		defer tail.Leave()
		var cut atomic.Bool
		i.bus.mu.Lock()
		i.bus.lose = func(from, to string, _ replicas.Message) bool { return cut.Load() && (from == nameA || to == nameA) }
		i.bus.mu.Unlock()
		for range 3 {
			cut.Store(true)
			for range 10 {
				says(t, tb, "more ")
			}
			began := time.Now()
			shows(t, tail.Tube(), int(tb.Len()))
			if took := time.Since(began); took > 10*time.Second {
				t.Errorf("it has taken %v", took)
			}
			late := follow(t, b, "r") // does not wait for the owner
			if late.Tube().Len() != tb.Len() {
				t.Errorf("%d events of %d", late.Tube().Len(), tb.Len())
			}
			late.Leave()
			cut.Store(false)
			time.Sleep(10 * time.Second)
			says(t, tb, "at once ")
			began = time.Now()
			shows(t, tail.Tube(), int(tb.Len()))
			if took := time.Since(began); took > 50*time.Millisecond {
				t.Errorf("an owner that answers again is followed after %v", took)
			}
		}
		cut.Store(true)
		_ = tb.Close("completed")
		e.End([]byte("head"))
		if d := cmp.Diff(all(t, tb), all(t, tail.Tube())); d != "" {
			t.Fatal(d)
		}
		<-tail.Tube().Ended()
	})
}

// CL-07, RU-69: a replica whose caller stops waiting while nobody knows whether its claim is stored finds that out: else the run would be its
// own, and it would not know.
func TestAClaimInDoubtIsNotGivenUp(t *testing.T) {
	t.Parallel()
	i := install(t)
	a, name, crash := i.start(t)
	b, _, _ := i.start(t)
	pagedRun(t, a, "handed", nil)
	crash()
	ctx, cancel := context.WithCancel(t.Context())
	i.faults.mu.Lock()
	i.faults.append = func(log string) (before, after error) {
		if log != "handed" || ctx.Err() != nil {
			return nil, nil
		}
		cancel()
		return nil, store.ErrUnsure
	}
	i.faults.mu.Unlock()
	left, err := b.Adopt(ctx, "handed", name)
	if err != nil || left.Tube.Len() == 0 {
		t.Fatalf("%v, %v", left, err)
	}
	e := b.Keep(runlog.Run{ID: "handed", Opening: left.Opening, Tube: left.Tube, Trouble: untroubled(t, "handed")})
	_ = left.Tube.Close("interrupted")
	e.End(nil)
	flush(t, b)
}

// A run that is dropped while it is taken over is not there.
func TestWhatIsDroppedMeanwhileIsNotTakenOver(t *testing.T) {
	t.Parallel()
	i := install(t)
	a, name, _ := i.start(t)
	b, _, _ := i.start(t)
	_, e := pagedRun(t, a, "dropped", nil)
	i.faults.mu.Lock()
	i.faults.append = func(log string) (before, after error) {
		if log != "dropped" { // the seal: the run was read
			i.faults.mu.Lock()
			i.faults.append = nil
			i.faults.mu.Unlock()
			e.Drop()
			flush(t, a)
		}
		return nil, nil
	}
	i.faults.mu.Unlock()
	if _, err := b.Adopt(t.Context(), "dropped", name); !errors.Is(err, runlog.ErrUnknown) {
		t.Errorf("got %v", err)
	}
	flush(t, b)
	if list, err := b.Running(t.Context(), ""); err != nil || len(list) > 0 {
		t.Errorf("%v, %v", list, err)
	}
}

// CL-03: who comes late does not find what is older than it is kept.
func TestWhatIsOlderThanItIsKeptIsNotThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := install(t)
		shortLived := func() *logs.Log {
			l, _, crash := start(t, i.memory, func(o *logs.Options) { o.Keep = time.Minute })
			t.Cleanup(crash)
			return l
		}
		a, b := shortLived(), shortLived()
		over := heldTube("over", 0)
		e := a.Keep(runlog.Run{ID: "over", Opening: []byte("x"), Tube: over})
		token(t, over, "text")
		_ = over.Close("completed")
		e.End([]byte("head"))
		flush(t, a)
		if f, err := b.Find(t.Context(), "over"); err != nil || !f.Ended {
			t.Errorf("before it is old: %+v, %v", f, err)
		}
		for range 100 { // a store removes what is old when it likes to
			if _, err := b.Find(t.Context(), "over"); errors.Is(err, runlog.ErrUnknown) {
				break
			}
			time.Sleep(time.Minute)
			says(t, heldAndKept(a), "keeps the store busy")
		}
		if _, err := b.Follow(t.Context(), "over"); !errors.Is(err, runlog.ErrUnknown) {
			t.Errorf("it is followed though it is gone: %v", err)
		}
		if _, err := b.Adopt(t.Context(), "over", "somebody"); !errors.Is(err, runlog.ErrUnknown) {
			t.Errorf("it is taken over though it is gone: %v", err)
		}
	})
}

var keptNumber atomic.Int64

func heldAndKept(l *logs.Log) *tube.Tube {
	tb := heldTube(fmt.Sprint("kept", keptNumber.Add(1)), 0)
	l.Keep(runlog.Run{ID: tb.Run(), Tube: tb})
	return tb
}

// Whatever happens to the writers: what was shown stays, followers have what was sent, and each event once. CL-04, CL-05, CL-06, CL-07.
func TestKilledWriters(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) { killedWriters(t, rt) })
}

func killedWriters(t *testing.T, rt *rapid.T) {
	type run struct {
		id    string
		tube  *tube.Tube
		entry runlog.Entry
		tails []runlog.Tail
	}
	i := install(t)
	writer, name, crash := i.start(t)
	reader, _, crashReader := i.start(t)
	logs.Hurry(writer, 100)
	var runs []*run
	for n := range rapid.IntRange(1, 5).Draw(rt, "runs") {
		r := &run{id: fmt.Sprint("r", n), tube: heldTube(fmt.Sprint("r", n), 0)}
		r.entry = writer.Keep(runlog.Run{ID: r.id, Opening: []byte("x"), Tube: r.tube})
		says(t, r.tube, "first ")
		runs = append(runs, r)
	}
	for range rapid.IntRange(3, 25).Draw(rt, "steps") {
		r := rapid.SampledFrom(runs).Draw(rt, "run")
		switch rapid.IntRange(0, 11).Draw(rt, "what") {
		case 0: // killed while it writes, and everything is taken over
			for _, r := range runs {
				token(t, r.tube, "late ")
			}
			from, crashOld := name, crash
			writer, name, crash = i.start(t)
			logs.Hurry(writer, 100)
			kill := rapid.Bool().Draw(rt, "killed")
			if kill {
				crashOld()
			}
			for _, r := range runs {
				left := adopted(t, writer, r.id, from)
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
				crashOld()
			}
		case 1:
			r.tails = append(r.tails, follow(t, reader, r.id))
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
		for n, tail := range append(r.tails, follow(t, reader, r.id)) {
			if d := cmp.Diff(want, all(t, tail.Tube())); d != "" {
				rt.Fatalf("%s, follower %d: %s", r.id, n, d)
			}
			tail.Leave()
		}
	}
	crash()
	crashReader()
}

// CL-05: the owner has given up a message to a replica, and with it the session, when that replica begins to follow one more run.
func TestASessionThatIsOverIsNotGoneOnWith(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := install(t)
		a, _, crash := i.start(t)
		defer crash()
		b, _, crash := i.start(t)
		defer crash()
		tb, _ := pagedRun(t, a, "r", nil)
		_, _ = pagedRun(t, a, "other", nil)
		tail := follow(t, b, "r")
		defer tail.Leave()
		const push = 'p'
		var lost atomic.Bool
		i.bus.mu.Lock()
		i.bus.lose = func(_, _ string, m replicas.Message) bool { return m.Body[0] == push && !lost.Swap(true) }
		i.bus.mu.Unlock()
		says(t, tb, "the message that is lost ")
		time.Sleep(2001 * time.Millisecond) // how long its answer is waited for
		other := follow(t, b, "other")
		defer other.Leave()
		says(t, tb, "what comes then ")
		r := tail.Tube().NewReader(tail.Tube().Len())
		defer r.Leave()
		for end := time.After(5 * time.Second); tail.Tube().Len() < tb.Len(); {
			select {
			case <-r.More():
				for range r.Waiting() {
				}
			case <-end:
				t.Fatalf("the follower has %d events of %d", tail.Tube().Len(), tb.Len())
			}
		}
	})
}

// CL-12: what pages have is in the runs' own logs by and by, and pages are removed.
func TestPagesAreRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := install(t)
		a, _, crash := i.start(t)
		defer crash()
		var tubes []*tube.Tube
		for n := range 20 {
			tb, _ := pagedRun(t, a, fmt.Sprint("r", n), nil)
			tubes = append(tubes, tb)
		}
		pages, err := i.written.Log(t.Context(), store.LogOptions{Space: "pages", Keep: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		logName := logs.PageLog(a)
		most := int64(0)
		for n := range 3000 {
			token(t, tubes[n%len(tubes)], "more ")
			time.Sleep(20 * time.Millisecond)
			info, err := pages.Info(t.Context(), logName)
			if err != nil {
				t.Fatal(err)
			}
			most = max(most, info.Entries)
		}
		if most > 1500 { // of half a minute
			t.Errorf("there were %d pages", most)
		}
		time.Sleep(10 * time.Second)
		if n := logs.InPages(a); n > 0 {
			t.Errorf("%d runs are only in pages", n)
		}
	})
}
