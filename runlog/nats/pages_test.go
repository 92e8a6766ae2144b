package nats

import (
	"encoding/binary"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	client "github.com/nats-io/nats.go"
)

func page(before uint64, entries ...inPage) []byte {
	b := appendPage(nil, kindPage, 0, before)
	for _, in := range entries {
		for _, n := range []uint64{in.run, in.after, in.number} {
			b = binary.AppendUvarint(b, n)
		}
		b = appendText(b, in.records)
	}
	return b
}

// CL-05: what is read of pages is what follows the run's last message, in order, and nothing where something is missing.
func TestWhatPagesHaveIsTakenInOrder(t *testing.T) {
	begun := func() *applied {
		a := &applied{run: "run", options: options()}
		if err := a.take(5, message(1, 0, 0, 0, 0, written(t, "one"))); err != nil {
			t.Fatal(err)
		}
		return a
	}
	more := func(n uint64) []byte { return append([]byte{recordLeap}, binary.AppendUvarint(nil, n)...) }
	of := func(run, after, number uint64) inPage { return inPage{run, after, number, more(100 * number)} }
	for name, c := range map[string]struct {
		pages []stored
		taken uint64
		err   error
	}{
		"in order":                  {[]stored{{6, page(0, of(1, 5, 1), of(2, 5, 1))}, {7, page(6, of(1, 5, 2))}}, 2, nil},
		"once more":                 {[]stored{{6, page(0, of(1, 5, 1))}, {7, page(6, of(1, 5, 1))}}, 1, nil},
		"of before":                 {[]stored{{6, page(0, of(1, 4, 1))}}, 0, nil},
		"of another run":            {[]stored{{6, page(0, of(2, 5, 1))}}, 0, nil},
		"one is missing":            {[]stored{{6, page(0, of(1, 5, 2))}}, 0, errStale},
		"behind a newer message":    {[]stored{{8, page(0, of(1, 7, 1))}}, 0, errStale},
		"a seal":                    {[]stored{{6, page(0, of(1, 5, 1))}, {7, appendPage(nil, kindSeal, 0, 0)}}, 1, nil},
		"a text that is cut off":    {[]stored{{6, append(page(0), 1, 5, 1, 9, 'x')}}, 0, errMessage},
		"another version":           {[]stored{{6, []byte{kindPage, 9}}}, 0, errMessage},
		"no page":                   {[]stored{{6, nil}}, 0, errMessage},
		"a record of no known form": {[]stored{{6, page(0, inPage{1, 5, 1, []byte("?")})}}, 1, errMessage},
	} {
		a := begun()
		if err := a.takePages(c.pages); !errors.Is(err, c.err) || a.number != c.taken {
			t.Errorf("%s: %d taken, %v", name, a.number, err)
		}
	}
	a := begun()
	if err := a.takePages([]stored{{6, page(0, of(1, 5, 1))}}); err != nil || len(a.paged) == 0 {
		t.Fatalf("%v", err)
	}
	if err := a.take(9, message(2, 0, 0, 5, 5, nil)); err != nil || a.number != 0 || len(a.paged) != 0 || a.whole != 9 {
		t.Errorf("a message of the run has all that was in pages: %+v, %v", a, err)
	}
}

func TestAPageThatIsMissingIsNoticed(t *testing.T) {
	all := []stored{{6, page(3)}, {8, page(6)}, {9, page(8)}}
	floored := stored{9, appendPage(nil, kindPage, 8, 8)} // and what is below 8 may be gone
	for name, c := range map[string]struct {
		pages      []stored
		from, last uint64
		whole      bool
	}{
		"all":                  {all, 5, 9, true},
		"and a seal":           {append(all[:3:3], stored{12, appendPage(nil, kindSeal, 0, 0)}), 5, 12, true},
		"only a seal":          {[]stored{{12, appendPage(nil, kindSeal, 0, 0)}}, 5, 12, true},
		"none":                 {nil, 5, 9, false},
		"the last is missing":  {all[:2], 5, 9, false},
		"the first is missing": {all[1:], 5, 9, false},
		"one between":          {[]stored{all[0], all[2]}, 5, 9, false},
		"the first is removed": {[]stored{all[1], floored}, 5, 9, true},
		"one between, removed": {[]stored{all[0], {8, page(7)}, floored}, 5, 9, true},
		"above the floor":      {[]stored{all[0], floored}, 5, 9, false},
		"a seal, and a floor":  {[]stored{all[1], floored, {12, appendPage(nil, kindSeal, 3, 0)}}, 5, 12, true},
	} {
		if got := whole(c.pages, c.from, c.last); got != c.whole {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// CL-04, CL-12: a replica that writes little writes at once.
func TestPagesAreForWhoIsBusy(t *testing.T) {
	now := time.Now()
	p := &pager{}
	for i, c := range []struct {
		writes int
		after  time.Duration
		took   time.Duration // to store a message
		busy   bool
	}{
		{5, busyFor, 0, false},
		{busyWrites * int(busyFor/busyIn), busyFor, 0, true},
		{0, busyFor / 2, 0, true},
		{0, busyFor / 2, 0, false},
		{1000, time.Hour, 0, false}, // not in an hour
		{20, busyFor, busyIn, false},
		{20, busyFor, 3 * busyIn, true}, // servers that take longer have as many on their way
	} {
		p.took = c.took
		now, p.rest = now.Add(c.after), time.Time{}
		p.writes += c.writes
		if p.watch(now); p.busy != c.busy || p.rest.IsZero() == c.busy {
			t.Errorf("step %d: busy %v, rest %v", i, p.busy, p.rest)
		}
	}
}

// CL-12: a replica is busy still when its servers have stood still for a while.
func TestAReplicaIsBusyWhileServersStandStill(t *testing.T) {
	begin := time.Now()
	p := &pager{since: begin}
	p.writes = busyWrites * int(busyFor/busyIn)
	now := begin.Add(busyFor)
	p.watch(now)
	p.sent, p.sentAt = []*entry{{}}, now
	for range 100 {
		now = now.Add(pageEvery)
		p.watch(now)
	}
	p.sent = nil
	p.writes = busyWrites * int(busyFor/busyIn)
	now = now.Add(busyFor)
	p.watch(now)
	if !p.busy {
		t.Fatal("runs are written one by one since the servers stood still")
	}
	if p.watch(now.Add(busyFor)); p.busy {
		t.Fatal("busy, though nobody writes")
	}
}

// CL-04: a page is stored when a server says so of it, and not when one of a page before comes once more.
func TestAnAnswerOfAPageBeforeSaysNothingOfTheNext(t *testing.T) {
	now := time.Now()
	p := &pager{last: 7, sent: []*entry{{over: true}}, due: now.Add(time.Second), sentAt: now, data: page(7), head: len(page(7))}
	p.answer(&client.Msg{Data: []byte(`{"stream":"PAGES","seq":7}`)}, now)
	if len(p.sent) != 1 || p.due.IsZero() || p.took != 0 {
		t.Errorf("%d runs are on their way, due %v, took %v", len(p.sent), p.due, p.took)
	}
	p.answer(&client.Msg{Data: []byte(`{"stream":"PAGES","seq":8}`)}, now)
	if len(p.sent) != 0 || !p.due.IsZero() || p.last != 8 {
		t.Errorf("%d runs are on their way, due %v, behind %d", len(p.sent), p.due, p.last)
	}
}

// CL-12: runs that were put into pages one by one are written to their own subjects some at a time, and not all at once.
func TestRunsAreWrittenToTheirOwnSubjectsSomeAtATime(t *testing.T) {
	begin := time.Now()
	p := &pager{begin: begin, own: ownEvery}
	at := map[time.Duration]int{}
	const runs = 1000
	for i := range runs {
		now := begin.Add(time.Duration(i) * time.Millisecond / 10)
		owed := p.owed(now)
		if wait := owed.Sub(now); wait <= ownEvery-ownTogether || wait >= 2*ownEvery {
			t.Fatalf("owed after %v", wait)
		}
		at[owed.Sub(begin)]++
	}
	if most := int(ownEvery/ownTogether) + 3; len(at) > most || len(at) < most/2 {
		t.Errorf("%d runs at %d times", runs, len(at))
	}
}

// CL-12: while a page is collected, what is sent wakes nobody; the first that is sent behind that does.
func TestNobodyIsWokenWhileAPageIsCollected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &pump{wake: make(chan struct{}, 1), rest: time.Now().Add(pageEvery)}
		for i, woken := range []bool{false, false, true} {
			p.look(&entry{})
			if got := len(p.wake) > 0; got != woken {
				t.Errorf("look %d: woken %v", i, got)
			}
			time.Sleep(pageEvery / 2)
		}
		if len(p.queue) != 3 {
			t.Errorf("%d are to be looked at", len(p.queue))
		}
	})
}

func FuzzPages(f *testing.F) {
	f.Add(page(3, inPage{1, 1, 1, []byte{recordLeap, 200, 1}}, inPage{2, 1, 1, nil}), page(4, inPage{1, 1, 2, appendText([]byte{recordEnd}, "head")}))
	f.Add(appendPage(nil, kindSeal, 0, 0), []byte{kindPage, pageVersion, 0, 1, 1, 1, 200})
	f.Fuzz(func(t *testing.T, one, two []byte) {
		a := &applied{run: "run", options: options()}
		if err := a.take(1, message(1, 0, 0, 0, 0, written(t, "one"))); err != nil {
			t.Fatal(err)
		}
		_ = a.takePages([]stored{{2, one}, {3, two}})
		whole([]stored{{2, one}, {3, two}}, 2, 3)
		if a.follower.Tube().Unshown() > 0 {
			t.Fatal("something is not shown")
		}
	})
}
