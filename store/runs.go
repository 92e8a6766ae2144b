package store

import (
	"errors"
	"time"
)

// States of a run that has not ended. Every other state is an end.
const (
	RunQueued  = "queued"
	RunRunning = "running"
	RunWaiting = "waiting"
)

// LiveStates are the states of runs that have not ended.
var LiveStates = []string{RunQueued, RunRunning, RunWaiting}

// ErrCursor is the error of a list whose cursor is not one that a list returned.
var ErrCursor = errors.New("invalid cursor")

// Run is one execution of a workflow or an agent.
type Run struct {
	ID              string
	Workflow, Agent string
	Owner           string
	Session         string // full name; "": none
	Replica         string // that works on the run; "": none
	Attempt         int
	Crashes         int
	State           string
	Request         []byte    // JSON: everything that another replica needs to start the run again
	Created         time.Time // zero for Start: now
	Ended           time.Time // zero: not yet
	Expires         time.Time // zero: never
	Result          []byte    // JSON
	Bytes           int64     // size of its events; 0 before the end
	Removed         Removed
}

// Removed says what was removed of an ended run.
type Removed int

// What was removed of an ended run.
const (
	RemovedNothing Removed = iota
	RemovedEvents          // because of a bound
	RemovedAll             // it has expired: events, request and result
)

// RunBatch is a part of the events of a run.
type RunBatch struct {
	Run     string
	Attempt int
	Seq     int    // 1, 2, 3… in each attempt
	First   uint64 // number of the first event
	Events  []byte
}

// RunEnd is the end of a run.
type RunEnd struct {
	ID      string
	Replica string // expected
	Attempt int    // expected
	State   string
	Result  []byte
	Expires time.Time       // zero: never
	Batches []RunBatch      // the last ones
	FreeKey *IdempotencyKey // that is removed, if it leads to the run; only Owner and Key are used
}

// Takeover makes a replica the one that works on a run. The attempt rises by one.
type Takeover struct {
	ID          string
	FromReplica string // expected
	FromAttempt int    // expected
	FromState   string // expected; "": any
	Replica     string
	Crashes     int
	State       string
	AfterSeq    int // the last batch of FromAttempt that the replica has read; readers ignore those behind it
}

// RunQuery selects runs. A zero field selects all.
type RunQuery struct {
	Owner                    *string
	Workflow, Agent, Session string
	States                   []string
	From, To                 time.Time // of Created: From ≤ Created < To
	Cursor                   string    // next of the page before
	Limit                    int       // 0: 50
}

// IdempotencyKey leads to the run that a request with the key has started. Only a hash of Key is stored.
type IdempotencyKey struct {
	Owner, Key string
	Hash       [16]byte // of the request
	Run        string
	Expires    time.Time // zero: never
}

// Replica is a process that shares the database.
type Replica struct {
	ID, Address, Version string
	Seen                 time.Time // by the clock of the database
}
