package runlogtest

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/lingserve/lingserve/internal/longtest"
	"github.com/lingserve/lingserve/runlog"
	"github.com/lingserve/lingserve/tube"
)

// Test is for every log. open makes a place for logs, of which at most one is open at a time unless the log is shared, and
// returns what opens one there: Left is then what those before have left.
func Test(t *testing.T, open func(testing.TB) func(testing.TB) *Replica) {
	for _, c := range []struct {
		name string
		test func(*testing.T, func(testing.TB) *Replica)
	}{
		{"what a run has sent is kept", kept},
		{"a run that has ended has its head", ended},
		{"a run that is dropped is gone", dropped},
		{"a run has another opening", reopened},
		{"a run is gone on with", goneOnWith},
		{"a run is run once more", onceMore},
		{"many runs at once", many},
		{"large values", large},
		{"CL-04: what is stored is shown", shown},
		{"the end and the drop count once", once},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, open(t)) })
	}
	t.Run("whatever happens, a beginning of what was sent is there", func(t *testing.T) { model(t, open(t)) })
}

func kept(t *testing.T, open func(testing.TB) *Replica) {
	r := open(t)
	tb, _ := r.keep("kept")
	name(t, tb, "started", `{"run":"kept"}`)
	say(t, tb, "a", "one")
	r.flush(t)
	say(t, tb, "a", " two")
	if _, err := tb.Send(tube.Event{URI: []byte("secret"), Value: []byte("x"), Hidden: true}); err != nil {
		t.Fatal(err)
	}
	r.flush(t)
	r.Crash()
	got, ok := open(t).look(t, "kept")
	if !ok {
		t.Fatal("there is no such run")
	}
	same(t, "what was kept", state{Opening: "opening of kept", Events: []string{
		`0 {"event":"started","data":{"run":"kept"}}`, `1 {"uri":"a","delta":"one"}`, `2 {"uri":"a","delta":" two"}`, `3 {"uri":"secret","delta":"x"} hidden`,
	}}, got)
}

func ended(t *testing.T, open func(testing.TB) *Replica) {
	r := open(t)
	tb, e := r.keep("ended")
	say(t, tb, "a", "one")
	_ = tb.Close("completed")
	e.End([]byte("its head"))
	empty, e := r.keep("empty")
	_ = empty.Close("failed")
	e.End(nil)
	r.flush(t)
	r.close(t)
	r = open(t)
	got, _ := r.look(t, "ended")
	same(t, "the end", state{"opening of ended", "its head", true, []string{`0 {"uri":"a","delta":"one"}`, `1 {"event":"finished","data":{"status":"completed"}}`}}, got)
	if got, ok := r.look(t, "empty"); !ok || !got.Ended || len(got.Events) != 1 {
		t.Errorf("one without a head: %+v", got)
	}
}

func dropped(t *testing.T, open func(testing.TB) *Replica) {
	r := open(t)
	tb, e := r.keep("dropped")
	say(t, tb, "a", "one")
	r.flush(t)
	e.Drop()
	_, e = r.keep("at once")
	e.Drop()
	tb, e = r.keep("at its end")
	_ = tb.Close("completed")
	e.End([]byte("head"))
	r.flush(t)
	e.Drop()
	tb, _ = r.keep("not dropped")
	say(t, tb, "a", "one")
	r.flush(t)
	r.close(t)
	r = open(t)
	for _, id := range []string{"dropped", "at once", "at its end"} {
		if got, ok := r.look(t, id); ok {
			t.Errorf("%s: %+v", id, got)
		}
	}
	if _, ok := r.look(t, "not dropped"); !ok {
		t.Error("one that was not dropped is gone")
	}
}

func reopened(t *testing.T, open func(testing.TB) *Replica) {
	r := open(t)
	keep := func(id string) (*tube.Tube, runlog.Entry, runlog.Reopener) {
		tb, e := r.keep(id)
		other, ok := e.(runlog.Reopener)
		if !ok {
			t.Skip("this log knows of one opening")
		}
		return tb, e, other
	}
	tb, _, other := keep("going")
	say(t, tb, "a", "one")
	r.flush(t)
	other.Reopen([]byte("another"))
	r.flush(t)
	other.Reopen([]byte("a third"))
	say(t, tb, "a", "two")
	tb, e, other := keep("over")
	other.Reopen([]byte("at once"))
	_ = tb.Close("completed")
	e.End([]byte("head"))
	r.flush(t)
	r.Crash()
	r = open(t)
	got, _ := r.look(t, "going")
	same(t, "going", state{Opening: "a third", Events: []string{`0 {"uri":"a","delta":"one"}`, `1 {"uri":"a","delta":"two"}`}}, got)
	got, _ = r.look(t, "over")
	same(t, "over", state{"at once", "head", true, []string{`0 {"event":"finished","data":{"status":"completed"}}`}}, got)

	l := r.left("going")
	e = r.Keep(runlog.Run{ID: "going", Opening: l.Opening, Tube: l.Tube})
	say(t, l.Tube, "a", "three")
	r.flush(t)
	if shared, ok := r.Log.(runlog.Shared); ok {
		if f, err := shared.Find(t.Context(), "going"); err != nil || string(f.Opening) != "a third" {
			t.Errorf("of one that was taken over: %q, %v", f.Opening, err)
		}
	}
	e.Drop()
	r.flush(t)
}

func goneOnWith(t *testing.T, open func(testing.TB) *Replica) {
	r := open(t)
	plain, _ := r.keep("plain")
	leaps, _ := r.keep("leaps")
	for i := range 3 {
		say(t, plain, "a", fmt.Sprint(i))
		say(t, leaps, "a", fmt.Sprint(i))
	}
	r.flush(t)
	r.Crash()
	r = open(t)
	for _, id := range []string{"plain", "leaps"} {
		l := r.left(id)
		if l == nil || l.Head != nil || l.Tube.Len() != 3 {
			t.Fatalf("left of %s: %+v", id, l)
		}
		if id == "leaps" {
			l.Tube.Leap(100)
			say(t, l.Tube, "a", "x") // before it is kept
		}
		e := r.Keep(runlog.Run{ID: id, Opening: l.Opening, Tube: l.Tube})
		say(t, l.Tube, "a", "y")
		_ = l.Tube.Close("interrupted")
		e.End([]byte("head"))
	}
	r.flush(t)
	r.Crash()
	r = open(t)
	got, _ := r.look(t, "plain")
	same(t, "plain", state{"opening of plain", "head", true, []string{
		`0 {"uri":"a","delta":"0"}`, `1 {"uri":"a","delta":"1"}`, `2 {"uri":"a","delta":"2"}`, `3 {"uri":"a","delta":"y"}`,
		`4 {"event":"finished","data":{"status":"interrupted"}}`,
	}}, got)
	got, _ = r.look(t, "leaps")
	// It begins with a snapshot, of what there is when that is asked for.
	if last := got.Events[len(got.Events)-1]; !got.Ended || last != `102 {"event":"finished","data":{"status":"interrupted"}}` || !strings.Contains(got.Events[0], `{"a":"012xy"}`) {
		t.Fatalf("leaps: %+v", got)
	}
}

func onceMore(t *testing.T, open func(testing.TB) *Replica) {
	r := open(t)
	tb, _ := r.keep("again")
	say(t, tb, "old", "text")
	r.flush(t)
	r.Crash()
	r = open(t)
	if r.left("again") == nil {
		t.Fatal("nothing is left")
	}
	tb = r.tube(1 << 32)("again")
	r.Keep(runlog.Run{ID: "again", Opening: []byte("another opening"), Tube: tb})
	say(t, tb, "new", "text")
	r.flush(t)
	r.Crash()
	r = open(t)
	l := r.left("again")
	if l == nil || string(l.Opening) != "another opening" || l.Tube.Len() != 1<<32+1 || document(l.Tube) != `{"new":"text"}` {
		t.Fatalf("left: %+v", l)
	}
}

func many(t *testing.T, open func(testing.TB) *Replica) {
	const each = 20
	runs := longtest.Times(200, 1000)
	r := open(t)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for n := i; n < runs; n += 8 {
				id := fmt.Sprint("run-", n)
				tb, e := r.keep(id)
				for k := range each {
					say(t, tb, "a", fmt.Sprint(k, " "))
				}
				if n%2 == 0 {
					_ = tb.Close("completed")
					e.End([]byte(id))
				}
			}
		})
	}
	wg.Wait()
	r.flush(t)
	r.Crash()
	r = open(t)
	for n := range runs {
		id := fmt.Sprint("run-", n)
		if n%2 == 0 && n%100 > 0 {
			continue // it takes its time to look at all
		}
		got, ok := r.look(t, id)
		want := each
		if n%2 == 0 {
			want++
		}
		if !ok || len(got.Events) != want || got.Ended != (n%2 == 0) || got.Opening != "opening of "+id {
			t.Fatalf("%s: there %v, ended %v, %d events", id, ok, got.Ended, len(got.Events))
		}
	}
}

func large(t *testing.T, open func(testing.TB) *Replica) {
	r := open(t)
	o := Tube()
	o.Held, o.MaxBytes = r.Holds(), 64<<20
	tb := tube.New("large", o)
	opening := strings.Repeat("o", 2<<20)
	e := r.Keep(runlog.Run{ID: "large", Opening: []byte(opening), Tube: tb})
	say(t, tb, "a", "before")
	say(t, tb, "big", strings.Repeat("x", 3<<20+7))
	for range 5000 {
		say(t, tb, "a", words(40))
	}
	_ = tb.Close("completed")
	head := strings.Repeat("h", 1<<20+1)
	e.End([]byte(head))
	r.flush(t)
	r.Crash()
	got, ok := open(t).look(t, "large")
	if !ok || got.Opening != opening || got.Head != head || !got.Ended || len(got.Events) < 1 {
		t.Fatalf("there %v, opening of %d bytes, head of %d, %d events", ok, len(got.Opening), len(got.Head), len(got.Events))
	}
	if want := events(tb); len(want) == len(got.Events) {
		same(t, "events", want, got.Events)
	} else if last := got.Events[len(got.Events)-1]; last != want[len(want)-1] {
		t.Fatalf("it ends with %.80s", last)
	}
}

func shown(t *testing.T, open func(testing.TB) *Replica) {
	r := open(t)
	if !r.Holds() {
		t.Skip("this log does not hold")
	}
	tb, e := r.keep("shown")
	say(t, tb, "a", "one")
	await(t, tb, 1)
	say(t, tb, "a", "two")
	_ = tb.Close("completed")
	await(t, tb, 3)
	closed(t, tb.Ended(), "the end")
	if got, ok := r.look(t, "shown"); !ok || len(got.Events) != 3 || got.Ended {
		t.Errorf("shown, and not stored: %+v", got)
	}
	e.End([]byte("head"))
	r.flush(t)
	if got, _ := r.look(t, "shown"); !got.Ended {
		t.Errorf("%+v", got)
	}
}

func once(t *testing.T, open func(testing.TB) *Replica) {
	r := open(t)
	tb, e := r.keep("once")
	_ = tb.Close("completed")
	e.End([]byte("first"))
	e.End([]byte("second"))
	r.flush(t)
	r.close(t)
	r.close(t)
	if err := r.Flush(t.Context()); err == nil {
		t.Error("a log that is closed flushes")
	}
	r = open(t)
	if got, _ := r.look(t, "once"); got.Head != "first" {
		t.Errorf("%+v", got)
	}
}

// model sends to a few runs, crashes, and goes on with what is left, and compares with lists of events.
func model(t *testing.T, open func(testing.TB) *Replica) {
	number := 0
	rapid.Check(t, func(rt *rapid.T) {
		number++
		r := open(t)
		type run struct {
			id      string
			tube    *tube.Tube
			entry   runlog.Entry
			sent    []string // all events
			safe    int      // how many were there at the last flush
			ended   bool
			over    bool // its end is safe
			dropped bool
		}
		var runs []*run
		flush := func() {
			r.flush(t)
			for _, x := range runs {
				x.safe, x.over = len(x.sent), x.ended
			}
		}
		crash := func() {
			if rapid.Bool().Draw(rt, "gracefully") {
				r.close(t)
				for _, x := range runs {
					x.safe, x.over = len(x.sent), x.ended
				}
			} else {
				r.Crash()
				for _, x := range runs {
					if r.Holds() && !x.dropped { // CL-04: what was shown is never unsaid
						x.safe = max(x.safe, int(x.tube.Len()))
					}
				}
			}
			r = open(t)
			for i := len(runs) - 1; i >= 0; i-- {
				x := runs[i]
				got, ok := r.look(t, x.id)
				if l := r.left(x.id); x.dropped {
					if l != nil { // a crash may take the drop with it
						r.Keep(runlog.Run{ID: x.id, Opening: l.Opening, Tube: l.Tube}).Drop()
					}
					runs = append(runs[:i], runs[i+1:]...)
					continue
				}
				if !ok && x.safe > 0 {
					rt.Fatalf("%s is gone", x.id)
				}
				if len(got.Events) < x.safe || len(got.Events) > len(x.sent) {
					rt.Fatalf("%s: %d events of %d, and %d were safe", x.id, len(got.Events), len(x.sent), x.safe)
				}
				same(rt, x.id, fmt.Sprint(x.sent[:len(got.Events)]), fmt.Sprint(got.Events))
				if x.over && !got.Ended || got.Ended && !x.ended {
					rt.Fatalf("%s: ended %v", x.id, got.Ended)
				}
				l := r.left(x.id)
				if l == nil || got.Ended {
					runs = append(runs[:i], runs[i+1:]...)
					continue
				}
				x.sent, x.tube, x.ended, x.safe = got.Events, l.Tube, false, len(got.Events)
				x.entry = r.Keep(runlog.Run{ID: x.id, Opening: l.Opening, Tube: l.Tube})
				select {
				case <-l.Tube.Ended(): // only its head was lost
					x.entry.End([]byte("head"))
					x.ended = true
				default:
				}
			}
		}
		for i := range rapid.IntRange(1, 15).Draw(rt, "steps") {
			switch what := rapid.IntRange(0, 11).Draw(rt, "what"); {
			case what == 0 && i > 0:
				crash()
			case what == 1:
				flush()
			case what <= 3 || len(runs) == 0:
				x := &run{id: fmt.Sprint("m", number, "-", i)}
				x.tube, x.entry = r.keep(x.id)
				runs = append(runs, x)
			default:
				x := rapid.SampledFrom(runs).Draw(rt, "run")
				if x.ended || x.dropped {
					break
				}
				switch rapid.IntRange(0, 9).Draw(rt, "do") {
				case 0:
					_ = x.tube.Close("completed")
					x.sent = append(x.sent, fmt.Sprintf(`%d {"event":"finished","data":{"status":"completed"}}`, len(x.sent)))
					x.entry.End([]byte("head"))
					x.ended = true
				case 1:
					x.entry.Drop()
					x.dropped = true
				default:
					for range rapid.IntRange(1, 30).Draw(rt, "events") {
						uri := rapid.SampledFrom([]string{"a", "b/c", "d/0"}).Draw(rt, "uri")
						x.sent = append(x.sent, fmt.Sprintf(`%d {"uri":"%s","delta":"%d"}`, len(x.sent), uri, i))
						say(t, x.tube, uri, fmt.Sprint(i))
					}
				}
			}
		}
		flush()
		crash()
		for _, x := range runs { // whoever comes next begins with nothing
			x.entry.Drop()
		}
		r.flush(t)
		r.Crash()
	})
}
