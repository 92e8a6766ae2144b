package store

import "time"

// Event is an event of a chat platform that has no outcome yet.
type Event struct {
	Key      string // names it; the same for an event that is delivered again
	Login    string // it came by: a channel, or channel@account
	Lane     string // of the conversation and thread; events of a lane start in the order of their arrival
	Bundle   string // events of one lane and bundle that wait at the same time are claimed as one; "": it is alone
	Raw      []byte // as it came
	Arrived  time.Time
	Due      time.Time // not claimed before; zero: at once
	Brief    bool      // its key is known for a minute after its end, else for a day
	Session  string    // that its turn has begun in; ""
	Attempts int       // turns that have failed
	Crashes  int       // of replicas, since a turn of it last got further
	Begun    bool      // its turn may have begun: another replica has claimed it, or this one before
	Progress []byte    // what the turn has noted last; nil
	Parts    [][]byte  // of a bundle that was claimed: the Raw of all its events, in their order
	Merged   []string  // likewise, the keys of the others
}

// EventClaim says which events a replica can run.
type EventClaim struct {
	Replica string
	Alive   []string // replicas that keep their events, this one among them
	Logins  []string // that are served here
	Busy    []string // lanes of which no further event may start now
	Limit   int
}

// EventNote is what a turn notes about its event.
type EventNote struct {
	Session  string
	Progress []byte
	Advanced bool // the turn has sent more of its answer, so earlier crashes do not count
}

// EventEnd is the end of an event, and of those that were claimed with it.
type EventEnd struct {
	Key, Replica string
	Outcome      string
	Reply        *Reply // that is to be sent; nil: none
}

// EventRelease gives an event back.
type EventRelease struct {
	Key, Replica string
	Due          time.Time // of the next claim
	Failed       bool      // its turn has failed: the next claim is a new attempt
	Parked       string    // it is not claimed before [Events.Unpark] of this name; "": it waits
}

// Reply is a part of an answer that is kept until it is sent.
type Reply struct {
	ID       int64
	Login    string // that it is sent by
	Target   string // where it goes; replies to one target keep their order
	Session  string
	Block    []byte
	Created  time.Time
	Due      time.Time // not claimed before
	Attempts int       // that have begun
	Unsure   bool      // an attempt was begun of which the outcome is not known
}
