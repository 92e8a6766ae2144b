package nats_test

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/cluster/clustertest"
	"github.com/lingserve/lingserve/runlog"
	"github.com/lingserve/lingserve/runlog/nats"
	"github.com/lingserve/lingserve/tube"
)

// CL-06, CL-11: a run that is left while a page is on its way has nothing become of the others in it: they are not said to be another
// replica's, and all that they send is stored, once.
func TestCL_11_ARunThatIsLeftWhileItsPageIsStoredLeavesTheOthersAlone(t *testing.T) {
	t.Parallel()
	s := clustertest.One(t)
	a, ca := open(t, s, "leftpage")
	b, cb := open(t, s, "leftpage")
	defer crash(t, a, ca)
	defer crash(t, b, cb)
	nats.Always(a)
	var entry atomic.Pointer[runlog.Leaver]
	left := make(chan struct{})
	nats.OnPage(a, func(runs []string) {
		if slices.Contains(runs, "before") && slices.Contains(runs, "left") && slices.Contains(runs, "behind") {
			if e := entry.Swap(nil); e != nil {
				(*e).Leave()
				close(left)
			}
		}
	})
	var tubes []*tube.Tube
	var entries []runlog.Entry
	for _, id := range []string{"before", "left", "behind"} {
		tb := heldTube(id, 0)
		tubes = append(tubes, tb)
		entries = append(entries, a.Keep(runlog.Run{ID: id, Opening: []byte("x"), Tube: tb, Trouble: untroubled(t, id)}))
	}
	leaver := entries[1].(runlog.Leaver)
	entry.Store(&leaver)
	for i, is := 0, false; !is; i++ { // until a page has all of them
		for _, tb := range tubes {
			token(t, tb, fmt.Sprint(i, " "))
		}
		for _, tb := range tubes {
			shows(t, tb, i+1)
		}
		select {
		case <-left:
			is = true
		default:
		}
	}
	want := lines(tubes[1])
	for _, i := range []int{0, 2} {
		for range 5 {
			n := int(tubes[i].Len()) + 1
			token(t, tubes[i], "more ")
			shows(t, tubes[i], n)
		}
		_ = tubes[i].Close("completed")
		entries[i].End(nil)
	}
	flush(t, a)
	for _, i := range []int{0, 2} {
		if d := cmp.Diff(all(t, tubes[i]), followed(t, b, tubes[i].Run())()); d != "" {
			t.Errorf("%s: %s", tubes[i].Run(), d)
		}
	}
	taken, err := adopted(b, "left", ca.Replica())
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, lines(taken.Tube)); d != "" {
		t.Error(d)
	}
}
