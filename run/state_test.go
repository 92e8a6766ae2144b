package run

import (
	"slices"
	"testing"
)

// RU-01: each state has a name and a row, each is reached from the first, and a transition that is not in the table is reported.
func TestRU_01_TheTableOfStatesIsChecked(t *testing.T) {
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
			var reported error
			OnWrongState = func(err error) { reported = err }
			var m machine
			m.state.Store(int32(from))
			m.enter(to)
			if !m.is(to) || (reported == nil) != slices.Contains(transitions[from], to) {
				t.Errorf("from %s to %s: %v", from, to, reported)
			}
		}
	}
}
