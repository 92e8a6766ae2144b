package run

import (
	"fmt"
	"slices"
	"sync/atomic"
)

// runState is what a run is to this replica.
type runState int32

const (
	runNew        runState = iota
	runQueued              // waits for a slot, in which a restarted run works
	runRunning             // works here
	runEnded               // its end is stored, and it is kept in memory
	runHandedOver          // another server continues it
	runMoved               // another replica has it
	runDropped             // has left memory: it is in the store, or has expired
)

// A run that is handed over may end before the store lets it go.
var runTable = table[runState]{
	[]string{"new", "queued", "running", "ended", "handed over", "moved", "dropped"},
	map[runState][]runState{
		runNew:        {runQueued, runRunning, runEnded},
		runQueued:     {runRunning, runEnded, runHandedOver, runMoved},
		runRunning:    {runEnded, runHandedOver, runMoved},
		runEnded:      {runDropped},
		runHandedOver: {runEnded},
		runMoved:      {},
		runDropped:    {},
	},
}

func (runState) table() *table[runState] { return &runTable }
func (s runState) String() string        { return runTable.names[s] }

// turnState is what a run's turn does in its session.
type turnState int32

const (
	turnNew     turnState = iota
	turnQueued            // waits in the lane
	turnRunning           // takes messages that are steered to it
	turnSteered           // was given to the turn of another run
	turnUsed              // that turn used it
	turnRefused           // has no run
	turnEnded             // takes no more messages
)

var turnTable = table[turnState]{
	[]string{"new", "queued", "running", "steered", "used", "refused", "ended"},
	map[turnState][]turnState{
		turnNew:     {turnQueued, turnSteered, turnRefused},
		turnQueued:  {turnRunning, turnEnded, turnRefused},
		turnRunning: {turnEnded, turnRefused},
		turnSteered: {turnUsed, turnQueued},
		turnUsed:    {},
		turnRefused: {},
		turnEnded:   {},
	},
}

func (turnState) table() *table[turnState] { return &turnTable }
func (s turnState) String() string         { return turnTable.names[s] }

// table has the names of states, and the transitions that are allowed from each.
type table[S ~int32] struct {
	names []string
	next  map[S][]S
}

// stateOf is the type of the states of a table.
type stateOf[S ~int32] interface {
	~int32
	fmt.Stringer
	table() *table[S]
}

// machine has a state of a table. The zero value has the first.
type machine[S stateOf[S]] struct{ state atomic.Int32 }

func (m *machine[S]) now() S { return S(m.state.Load()) }

// is reports whether the state is s.
func (m *machine[S]) is(s S) bool { return m.now() == s }

// enter makes a transition. One that is not in the table is a bug: tests fail, and the product goes on.
func (m *machine[S]) enter(to S) {
	from := S(m.state.Swap(int32(to)))
	if !slices.Contains(to.table().next[from], to) && OnWrongState != nil {
		OnWrongState(fmt.Errorf("run: no transition from %s to %s", from, to))
	}
}

// enterFrom makes a transition if the state is from, and reports whether it was.
func (m *machine[S]) enterFrom(from, to S) bool {
	return m.state.CompareAndSwap(int32(from), int32(to))
}

// OnWrongState is called with a transition that is not in its table. Tests set it before they open a service.
var OnWrongState func(error)
