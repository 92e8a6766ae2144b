package trail_test

import (
	"maps"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/internal/trail"
)

func TestRepeatedLinesAreCountedAndReportedEachMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		left, written := map[trail.Repeated]int{}, map[trail.Repeated]int{}
		var mu sync.Mutex // a timer reports from its own goroutine
		c := trail.Collector{Report: func(kind trail.Repeated, n int) {
			mu.Lock()
			defer mu.Unlock()
			left[kind] += n
		}}
		reported := func() map[trail.Repeated]int {
			mu.Lock()
			defer mu.Unlock()
			return maps.Clone(left)
		}
		write := func(reason, client string, n int) {
			kind := trail.Repeated{Reason: reason, Client: client}
			for range n {
				if c.Allow(kind) {
					written[kind]++
				}
			}
		}
		flood, few, other := trail.Repeated{"none", "a"}, trail.Repeated{"origin", "a"}, trail.Repeated{"none", "b"}
		write("none", "a", 1000)
		write("origin", "a", 2)
		write("none", "b", 1)
		if d := cmp.Diff(map[trail.Repeated]int{flood: 3, few: 2, other: 1}, written); d != "" || len(reported()) > 0 {
			t.Error(d, reported())
		}
		time.Sleep(trail.CollectEvery + time.Second)
		synctest.Wait()
		if d := cmp.Diff(map[trail.Repeated]int{flood: 997}, reported()); d != "" {
			t.Error(d)
		}
		write("none", "a", 5) // the next minute has lines again
		if written[flood] != 6 {
			t.Error(written)
		}
		c.Flush()
		if got := reported(); got[flood] != 999 {
			t.Error(got)
		}
	})
}

func TestAddressesBeyondABoundAreOneKind(t *testing.T) {
	left := map[trail.Repeated]int{}
	c := trail.Collector{Report: func(kind trail.Repeated, n int) { left[kind] += n }}
	written := 0
	for i := range 10_000 {
		if c.Allow(trail.Repeated{Reason: "none", Client: strconv.Itoa(i)}) {
			written++
		}
	}
	c.Flush()
	if n := left[trail.Repeated{Reason: "none"}]; written > 1100 || n != 10_000-written {
		t.Error(written, left)
	}
}
