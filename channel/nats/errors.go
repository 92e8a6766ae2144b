package nats

import (
	"context"
	"errors"
	"fmt"

	client "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Error says that the servers did not do what they were asked to, for a reason that is nobody's mistake and may pass. Its text can be
// shown to anybody.
type Error struct {
	text  string
	cause error
}

func (e *Error) Error() string { return "channel: " + e.text }

// ErrorCode says to those who sort errors by codes that it is worth while to try again later.
func (*Error) ErrorCode() string { return "overloaded" }

// Unwrap returns what the servers, or the way to them, said.
func (e *Error) Unwrap() error { return e.cause }

const (
	textAway = "the servers that the replicas share cannot be reached; try again later"
	textFull = "the servers that the replicas share have no room; try again later"
	textBusy = "too many change the same thing at once; try again later"
)

// errMoved says that another message has come behind the one that was seen.
var errMoved = errors.New("somebody else was faster")

// errOutdated says that an event has another owner by now.
var errOutdated = errors.New("channel: another replica has taken the event over, as this one was taken for dead")

// Codes of JetStream's errors.
const (
	codeNotAvailable = 10008 // no leader of all
	codeNotLeader    = 10009
	codeNoResources  = 10023
	codeNoStorage    = 10047
	codeStoreFailed  = 10077 // a limit of bytes, for one
	codeInFlight     = 10164 // another message of the subject is being stored
)

func code(err error) jetstream.ErrorCode {
	if e, ok := errors.AsType[*jetstream.APIError](err); ok {
		return e.ErrorCode
	}
	return 0
}

// full says whether there is no room.
func full(err error) bool {
	switch code(err) {
	case codeNoResources, codeNoStorage, codeStoreFailed:
		return true
	}
	return false
}

// passing says whether an error may go away by itself, within seconds.
func passing(err error) bool {
	if full(err) {
		return false
	}
	if e, ok := errors.AsType[*jetstream.APIError](err); ok {
		return e.Code == 503 || e.Code == 408 || e.ErrorCode == codeNotLeader || e.ErrorCode == codeNotAvailable || e.ErrorCode == codeInFlight
	}
	for _, known := range []error{
		client.ErrNoResponders, client.ErrTimeout, context.DeadlineExceeded, client.ErrReconnectBufExceeded, client.ErrConnectionReconnecting,
		client.ErrDisconnected, client.ErrStaleConnection, client.ErrConnectionClosed, client.ErrNoServers, jetstream.ErrNoStreamResponse,
	} {
		if errors.Is(err, known) {
			return true
		}
	}
	return false
}

// unsent says whether a message surely was not stored.
func unsent(err error) bool {
	return errors.Is(err, client.ErrReconnectBufExceeded) || errors.Is(err, client.ErrConnectionClosed) ||
		errors.Is(err, client.ErrNoResponders) || errors.Is(err, jetstream.ErrNoStreamResponse)
}

// explain makes of an error of the servers what callers are told.
func explain(err error) error {
	switch {
	case full(err):
		return &Error{textFull, err}
	case passing(err):
		return &Error{textAway, err}
	}
	return fmt.Errorf("channel: the servers that the replicas share have refused: %w", err)
}
