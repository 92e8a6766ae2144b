package logs

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingserve/lingserve/cluster/replicas"
)

func message(body string) replicas.Message { return replicas.Message{Body: []byte(body)} }

const (
	collect = 1400 * time.Microsecond
	busyIn  = collect * 5 / 7
)

// CL-04, CL-12: a replica that writes little writes at once.
func TestPagesAreCollectedByWhoIsBusy(t *testing.T) {
	now := time.Now()
	p := &pager{collect: collect}
	for i, c := range []struct {
		writes int
		after  time.Duration
		took   time.Duration // to store a page
		busy   bool
	}{
		{5, busyFor, 0, false},
		{busyWrites * int(busyFor/busyIn), busyFor, 0, true},
		{0, busyFor / 2, 0, true},
		{0, busyFor / 2, 0, false},
		{1000, time.Hour, 0, false}, // not in an hour
		{20, busyFor, busyIn, false},
		{20, busyFor, 3 * busyIn, true}, // a store that takes longer has as many on their way
	} {
		p.took = c.took
		now, p.rest = now.Add(c.after), time.Time{}
		p.writes += c.writes
		if p.watch(now); p.busy != c.busy || p.rest.IsZero() == c.busy {
			t.Errorf("step %d: busy %v, rest %v", i, p.busy, p.rest)
		}
	}
}

// CL-12: a replica is busy still when its store has stood still for a while.
func TestAReplicaIsBusyWhileItsStoreStandsStill(t *testing.T) {
	begin := time.Now()
	p := &pager{since: begin, collect: collect}
	p.writes = busyWrites * int(busyFor/busyIn)
	now := begin.Add(busyFor)
	p.watch(now)
	p.sent, p.sentAt = []*entry{{}}, now
	for range 100 {
		now = now.Add(p.collect)
		p.watch(now)
	}
	p.sent = nil
	p.writes = busyWrites * int(busyFor/busyIn)
	now = now.Add(busyFor)
	p.watch(now)
	if !p.busy {
		t.Fatal("pages are not collected since the store stood still")
	}
	if p.watch(now.Add(busyFor)); p.busy {
		t.Fatal("busy, though nobody writes")
	}
}

// CL-12: runs that were put into pages one by one get batches of their own some at a time, and not all at once.
func TestRunsGetBatchesSomeAtATime(t *testing.T) {
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
		p := &pump{wake: make(chan struct{}, 1), rest: time.Now().Add(defaultCollect)}
		for i, woken := range []bool{false, false, true} {
			p.look(&entry{})
			if got := len(p.wake) > 0; got != woken {
				t.Errorf("look %d: woken %v", i, got)
			}
			time.Sleep(defaultCollect / 2)
		}
		if len(p.queue) != 3 {
			t.Errorf("%d are to be looked at", len(p.queue))
		}
	})
}
