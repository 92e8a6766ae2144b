package run

import (
	"slices"
	"testing"
)

// RU-01: each state has a name and a row, each is reached from the first, and a transition that is not in the table is told.
func TestRU_01_ARunHasATableOfStates(t *testing.T) {
	reached := map[state]bool{stateNew: true}
	for more := true; more; {
		more = false
		for from, list := range transitions {
			for _, to := range list {
				if reached[from] && !reached[to] {
					reached[to], more = true, true
				}
			}
		}
	}
	if len(reached) != len(stateNames) || len(transitions) != len(stateNames) {
		t.Errorf("%d states of %d are reached, and %d have a row", len(reached), len(stateNames), len(transitions))
	}
	before := OnWrongState
	defer func() { OnWrongState = before }()
	for from := range transitions {
		for to := range transitions {
			var told error
			OnWrongState = func(err error) { told = err }
			var m machine
			m.state.Store(int32(from))
			m.enter(to)
			if !m.is(to) || (told == nil) != slices.Contains(transitions[from], to) {
				t.Errorf("from %s to %s: %v", from, to, told)
			}
		}
	}
}
