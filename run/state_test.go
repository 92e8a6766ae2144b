package run

import (
	"slices"
	"testing"
)

// RU-01: each state has a name and a row, each is reached from the first, and a transition that is not in the table is told.
func TestRU_01_EachTableOfStatesIsChecked(t *testing.T) {
	t.Run("run", testTable[runState])
	t.Run("turn", testTable[turnState])
}

func testTable[S stateOf[S]](t *testing.T) {
	var first S
	table := first.table()
	reached := map[S]bool{first: true}
	for more := true; more; {
		more = false
		for from, list := range table.next {
			for _, to := range list {
				if reached[from] && !reached[to] {
					reached[to], more = true, true
				}
			}
		}
	}
	if len(reached) != len(table.names) || len(table.next) != len(table.names) {
		t.Errorf("%d states of %d are reached, and %d have a row", len(reached), len(table.names), len(table.next))
	}
	before := OnWrongState
	defer func() { OnWrongState = before }()
	for from := range table.next {
		for to := range table.next {
			var told error
			OnWrongState = func(err error) { told = err }
			var m machine[S]
			m.state.Store(int32(from))
			m.enter(to)
			if !m.is(to) || (told == nil) != slices.Contains(table.next[from], to) {
				t.Errorf("from %s to %s: %v", from, to, told)
			}
		}
	}
}
