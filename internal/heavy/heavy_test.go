package heavy

import (
	"sync"
	"sync/atomic"
	"testing"
)

func TestLargeTextsWaitForTheirTurnAndSmallOnesDoNot(t *testing.T) {
	var now, most atomic.Int64
	var all sync.WaitGroup
	for range 4 * cap(slots) {
		all.Go(func() {
			Do(Large, func() {
				n := now.Add(1)
				for seen := most.Load(); n > seen && !most.CompareAndSwap(seen, n); seen = most.Load() {
				}
				Do(Large-1, func() {}) // it has its own turn at once
				now.Add(-1)
			})
		})
	}
	all.Wait()
	if int(most.Load()) > cap(slots) || len(slots) != 0 {
		t.Errorf("%d were worked on at once, and %d still are; expected at most %d", most.Load(), len(slots), cap(slots))
	}
}

func TestAPanicGivesItsTurnBack(t *testing.T) {
	for range cap(slots) + 1 {
		func() {
			defer func() { _ = recover() }()
			Do(Large, func() { panic("a hook") })
		}()
	}
	if len(slots) != 0 {
		t.Errorf("%d turns are lost", len(slots))
	}
}
