package channel

import (
	"context"
	"iter"
	"time"
)

// EventKey names an event of a platform. `5` and "5" are one thread.
type EventKey struct {
	Channel, Account, Conversation, Thread, ID string
	Synthetic                                  bool // ID was made from content: the key lives for 60 s
}

// ClaimState is how far an event is.
type ClaimState string

// The states.
const (
	ClaimNone     ClaimState = ""         // never seen
	ClaimAccepted ClaimState = "accepted" // stored, not begun
	ClaimTaken    ClaimState = "claimed"  // a turn runs with it
	ClaimSettled  ClaimState = "settled"
)

// Claim is the right to run a turn with an event. One that is outdated does nothing.
type Claim interface {
	Commit(context.Context, Outcome) error
	Release(context.Context, error) error
}

// Journal keeps events from their arrival to their outcome, so that none is lost and none runs twice.
type Journal interface {
	// Accept stores an event; it is durable when Accept returns. isNew is false for one that is known.
	Accept(_ context.Context, k EventKey, raw []byte) (isNew bool, err error)
	// Claim takes an event. A nil claim says that somebody else has it, in the state that is returned.
	Claim(_ context.Context, k EventKey) (Claim, ClaimState, error)
	Peek(context.Context, EventKey) (ClaimState, error)
	// Pending yields what was accepted and not settled, oldest first.
	Pending(context.Context) iter.Seq2[JournalEntry, error]
}

// JournalEntry is an event that waits.
type JournalEntry struct {
	Key     EventKey
	Raw     []byte
	At      time.Time
	Attempt int // earlier turns that were released
}
