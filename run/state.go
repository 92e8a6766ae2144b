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
	stateQueued           // waits for a slot, in which a restarted run works
	stateRunning          // works here
	stateFollowed         // another replica is its place
	stateEnded            // its end is known here, and is kept in memory
	stateHandedOver       // another server continues it
	stateMoved            // another replica has it: nothing of it is known here any more
	stateDropped          // it has left memory: it is in the store, or has expired
)

var stateNames = [...]string{"new", "queued", "running", "followed", "ended", "handed over", "moved", "dropped"}

func (s state) String() string { return stateNames[s] }

// transitions are those that there are. A run that moved may have been ended here before the replica learned of that, since the log decides.
var transitions = map[state][]state{
	stateNew:        {stateQueued, stateRunning, stateFollowed, stateEnded},
	stateQueued:     {stateRunning, stateEnded, stateHandedOver, stateMoved},
	stateRunning:    {stateEnded, stateHandedOver, stateMoved},
	stateFollowed:   {stateEnded, stateMoved},
	stateEnded:      {stateDropped},
	stateHandedOver: {stateDropped}, // on one server, which keeps its file
	stateMoved:      {},
	stateDropped:    {},
}

// machine has the state of a run. The zero value is new.
type machine struct{ state atomic.Int32 }

// is reports whether the run is in a state.
func (m *machine) is(s state) bool { return state(m.state.Load()) == s }

// enter makes a transition. One that is not in the table is a bug: tests fail of it, and the product goes on.
func (m *machine) enter(to state) {
	from := state(m.state.Swap(int32(to)))
	if !slices.Contains(transitions[from], to) && OnWrongState != nil {
		OnWrongState(fmt.Errorf("run: no transition from %s to %s", from, to))
	}
}

// OnWrongState is told of a transition that is not in the table. Tests set it before they start a service; nil is nobody.
var OnWrongState func(error)
