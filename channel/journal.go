package channel

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"
)

// EventKey names an event of a platform. `5` and "5" are one thread.
type EventKey struct {
	Channel, Account, Conversation, Thread, ID string
	Synthetic                                  bool // ID was made from content: the key lives for 60 s
}

// String is the key as one text, the parts escaped: other keys have other texts. Synthetic is no part of it.
func (k EventKey) String() string {
	var b strings.Builder
	b.Grow(len(k.Channel) + len(k.Account) + len(k.Conversation) + len(k.Thread) + len(k.ID) + 4)
	for i, part := range [...]string{k.Channel, k.Account, k.Conversation, k.Thread, k.ID} {
		if i > 0 {
			b.WriteByte('/')
		}
		escapeTo(&b, part)
	}
	return b.String()
}

// escapeTo writes a part of a key: what parts it from others, and what would make it unreadable in a log, as %XX.
func escapeTo(b *strings.Builder, part string) {
	const hex = "0123456789ABCDEF"
	for i := range len(part) {
		if c := part[i]; c == '/' || c == '%' || c <= ' ' || c >= 0x7f {
			b.WriteByte('%')
			b.WriteByte(hex[c>>4])
			b.WriteByte(hex[c&15])
		} else {
			b.WriteByte(c)
		}
	}
}

// ParseEventKey reads what [EventKey.String] wrote.
func ParseEventKey(text string) (EventKey, error) {
	parts := strings.Split(text, "/")
	if len(parts) != 5 {
		return EventKey{}, fmt.Errorf("channel: expected an event key of 5 parts, channel/account/conversation/thread/id, found %d", len(parts))
	}
	for i, part := range parts {
		plain, err := unescape(part)
		if err != nil {
			return EventKey{}, err
		}
		parts[i] = plain
	}
	return EventKey{Channel: parts[0], Account: parts[1], Conversation: parts[2], Thread: parts[3], ID: parts[4]}, nil
}

func unescape(part string) (string, error) {
	if !strings.Contains(part, "%") {
		return part, nil
	}
	b := make([]byte, 0, len(part))
	for i := 0; i < len(part); i++ {
		if part[i] != '%' {
			b = append(b, part[i])
			continue
		}
		if i+2 >= len(part) {
			return "", errors.New("channel: an event key ends in the middle of an escape")
		}
		high, low := unhex(part[i+1]), unhex(part[i+2])
		if high > 15 || low > 15 {
			return "", errors.New("channel: an event key has an escape that is not %XX")
		}
		b = append(b, high<<4|low)
		i += 2
	}
	return string(b), nil
}

func unhex(c byte) byte {
	switch {
	case '0' <= c && c <= '9':
		return c - '0'
	case 'A' <= c && c <= 'F':
		return c - 'A' + 10
	case 'a' <= c && c <= 'f':
		return c - 'a' + 10
	}
	return 0xff
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

// Claim is the right to run a turn with an event. One that is outdated does nothing. It may also be a [Repeater],
// a [KeyedClaim], and [Unaccepted].
type Claim interface {
	Commit(context.Context, Outcome) error
	Release(context.Context, error) error
}

// Repeater says of a claim whether its event runs again when it is released, so that nobody is told of a failure that is not
// the last word.
type Repeater interface{ Again() bool }

// Unaccepted is a [Claim] of a door that knows its events by itself, and to which nobody delivers one again: no journal has the event,
// and what is sent for it is not marked in the ledger.
type Unaccepted interface{ Unaccepted() }

// KeyedClaim says which event a claim is for: its door may have named it in another way than the adapter does.
type KeyedClaim interface{ Key() EventKey }

// Eraser is a journal that removes events with their session.
type Eraser interface {
	Erase(_ context.Context, match func(EventKey) bool) error
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

// BatchAccepter is a journal that makes several events durable at once: what a poller gets in one answer.
type BatchAccepter interface {
	// AcceptAll is Accept for each of the events. An error is of all of them: none was accepted by this call.
	AcceptAll(context.Context, []JournalEntry) (isNew []bool, err error)
}

// Heir is a journal that several processes share: one of them runs what another has left that has died or ended. Until then, what a process has
// accepted is claimed by it alone.
type Heir interface {
	// Inherit yields accepted events that nobody is about to run, as it is found out that their process is gone, until ctx ends. It is
	// called once for each door, which all get the same: claims decide whose an event is. It yields one again that changed since.
	Inherit(context.Context) iter.Seq2[JournalEntry, error]
}

// Giver is an [Heir] whose processes leave events to each other, so that one of them has all that a conversation is about.
type Giver interface {
	// Give leaves an event that this process has accepted, and nobody has claimed, to the one that runs an event of the same conversation and
	// thread, if that is another one: it gets it from its [Heir.Inherit]. given is false where the event stays here, or that is not known: then
	// it can be claimed here, or not.
	Give(context.Context, EventKey) (given bool)
}

// JournalEntry is an event that waits.
type JournalEntry struct {
	Key     EventKey
	Raw     []byte
	At      time.Time
	Attempt int // earlier turns that were released, or in which a process has died
}

const (
	// keyLife is how long a settled event is known; platforms give up to deliver one again before.
	keyLife = 24 * time.Hour
	// syntheticLife is the same for an id that was made from content: the same words may be meant twice.
	syntheticLife = time.Minute
	// maxEvents bounds the keys that are kept in memory.
	maxEvents = 10_000
)

// retries are the pauses before an accepted event that was released runs again. After the last it settles as failed.
var retries = [...]time.Duration{time.Second, 5 * time.Second, 30 * time.Second}

// RetryAfter is the pause before the turn that follows so many released ones, and false when there is none.
func RetryAfter(attempt int) (time.Duration, bool) {
	if attempt < 1 || attempt > len(retries) {
		return 0, false
	}
	return retries[attempt-1], true
}

// ReleaseCounts says whether a release is one of the attempts that an event has: a server that goes down is no fault of its,
// nor is a sender who is not paired yet.
func ReleaseCounts(cause error) bool { return !isDraining(cause) && !errors.Is(cause, errParked) }

var (
	// ErrJournalFull says that too many events wait for their turn: the platform is to come again later.
	ErrJournalFull = errors.New("channel: too many events are waiting; retry later")
	// ErrJournalClosed says that the journal was closed.
	ErrJournalClosed = errors.New("channel: the journal is closed")
)
