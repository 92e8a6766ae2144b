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
	runFollowed            // works at another replica
	runEnded               // its end is known here, and is kept in memory
	runHandedOver          // another server continues it
	runMoved               // works at another replica, and is not followed here any more
	runDropped             // has left memory: it is in the store, or has expired
)

// A run that moved may have been ended here before the replica learns of that, since the log decides. One that is handed over may end before
// the log lets it go.
var runTable = table[runState]{
	[]string{"new", "queued", "running", "followed", "ended", "handed over", "moved", "dropped"},
	map[runState][]runState{
		runNew:        {runQueued, runRunning, runFollowed, runEnded},
		runQueued:     {runRunning, runEnded, runHandedOver, runMoved},
		runRunning:    {runEnded, runHandedOver, runMoved},
		runFollowed:   {runEnded, runMoved},
		runEnded:      {runDropped},
		runHandedOver: {runEnded, runDropped}, // dropped by a single server, which keeps its file
		runMoved:      {},
		runDropped:    {},
	},
}

func (runState) table() *table[runState] { return &runTable }
func (s runState) String() string        { return runTable.names[s] }

// startState is how far the start of a run is.
type startState int32

const (
	startReceived  startState = iota // nothing is checked
	startChecked                     // it is allowed, and what it asks for is there
	startKeyed                       // its key, if any, leads to its id
	startForwarded                   // the replica with its session was asked to start it
	startDoubtful                    // that replica did not answer, and may have started it
	startPlaced                      // it is to start here
	startCharged                     // it counts for the server and its caller
	startLogged                      // the log has its opening, and work may begin
	startSteered                     // a running turn took its message
	startReplayed                    // its key leads to the run of an earlier request
	startRefused
	startRunning // it is accepted
)

// A request whose key leads to a run is replayed before it is checked. The key is claimed before the place is found, so that replicas of earlier
// versions, which do not claim it, can be the place. What is steered, or restarted, was accepted before: it is charged, and never refused for
// want of room.
var startTable = table[startState]{
	[]string{
		"received", "checked", "keyed", "forwarded", "doubtful", "placed", "charged", "logged", "steered", "replayed", "refused", "running",
	},
	map[startState][]startState{
		startReceived:  {startChecked},
		startChecked:   {startKeyed, startPlaced, startReplayed},
		startKeyed:     {startForwarded, startPlaced, startReplayed, startRefused},
		startForwarded: {startForwarded, startPlaced, startDoubtful, startSteered, startReplayed, startRefused, startRunning},
		startDoubtful:  {startForwarded, startPlaced, startReplayed, startRefused},
		startPlaced:    {startCharged, startSteered, startReplayed, startRefused},
		startCharged:   {startLogged},
		startLogged:    {startRunning, startReplayed, startRefused},
		startSteered:   {startCharged, startRefused},
		startReplayed:  {},
		startRefused:   {},
		startRunning:   {},
	},
}

func (startState) table() *table[startState] { return &startTable }
func (s startState) String() string          { return startTable.names[s] }

// keyState is what an Idempotency-Key is to a start.
type keyState int32

const (
	keyFree      keyState = iota // it leads nowhere
	keyClaimed                   // this start claimed it, and frees it if it is refused
	keyHeld                      // it leads to a run
	keyUnstarted                 // it leads to an id, under which no run started: nothing was done
	keySpent                     // its run has expired
)

var keyTable = table[keyState]{
	[]string{"free", "claimed", "held", "unstarted", "spent"},
	map[keyState][]keyState{
		keyFree:      {keyClaimed, keyHeld, keyUnstarted, keySpent},
		keyClaimed:   {keyFree, keyHeld},
		keyHeld:      {},
		keyUnstarted: {keyUnstarted, keyClaimed},
		keySpent:     {},
	},
}

func (keyState) table() *table[keyState] { return &keyTable }
func (s keyState) String() string        { return keyTable.names[s] }

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
