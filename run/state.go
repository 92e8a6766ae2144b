package run

import (
	"fmt"
	"slices"
	"sync/atomic"
)

// state is what a run is to this replica.
type state int32

const (
	stateNew        state = iota
	stateQueued           // waits for its turn in its session, or after a restart for a slot
	stateRunning          // works here
	stateEnded            // its end is stored, and it is kept in memory
	stateHandedOver       // another server continues it
	stateMoved            // another replica has it
	stateDropped          // has left memory: it is in the store, or has expired
)

var stateNames = [...]string{"new", "queued", "running", "ended", "handed over", "moved", "dropped"}

func (s state) String() string { return stateNames[s] }

// transitions has the states that may follow each state. A run that is handed over may end before the store lets it go.
var transitions = map[state][]state{
	stateNew:        {stateQueued, stateRunning, stateEnded},
	stateQueued:     {stateRunning, stateEnded, stateHandedOver, stateMoved},
	stateRunning:    {stateEnded, stateHandedOver, stateMoved},
	stateEnded:      {stateDropped},
	stateHandedOver: {stateEnded, stateMoved},
	stateMoved:      {},
	stateDropped:    {},
}

// machine has the state of a run. The zero value is new.
type machine struct{ state atomic.Int32 }

// is reports whether the state is s.
func (m *machine) is(s state) bool { return state(m.state.Load()) == s }

// enter makes a transition. One that is not in the table is a bug: tests fail, and the product goes on.
func (m *machine) enter(to state) {
	from := state(m.state.Swap(int32(to)))
	if !slices.Contains(transitions[from], to) && OnWrongState != nil {
		OnWrongState(fmt.Errorf("run: no transition from %s to %s", from, to))
	}
}

// enterFrom makes a transition if the state is from, and reports whether it was.
func (m *machine) enterFrom(from, to state) bool {
	return m.state.CompareAndSwap(int32(from), int32(to))
}

// OnWrongState is called with a transition that is not in the table. Tests set it before they open a service.
var OnWrongState func(error)
