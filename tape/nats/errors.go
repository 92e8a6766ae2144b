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

func (e *Error) Error() string { return "tape: " + e.text }

// ErrorCode says to those who sort errors by codes that it is worth while to try again later.
func (*Error) ErrorCode() string { return "overloaded" }

// Unwrap returns what the servers, or the way to them, said.
func (e *Error) Unwrap() error { return e.cause }

const (
	textAway    = "the servers that keep the sessions cannot be reached; try again later"
	textFull    = "the servers that keep the sessions have no room; try again later"
	textBusy    = "the session is written to by too many at once; try again later"
	textUnknown = "the servers that keep the sessions went away while they were written to, and it cannot be said whether that was kept; look before trying again"
)

// Codes of JetStream's errors.
const (
	codeNoMessage    = jetstream.JSErrCodeMessageNotFound
	codeNotAvailable = 10008 // no leader of all
	codeNotLeader    = 10009
	codeNoResources  = 10023
	codeNoStorage    = 10047
	codeStoreFailed  = 10077 // a limit of bytes, for one
	codeTooManyBatch = 10210 // atomic batches that have begun
	codeIncomplete   = 10176 // an atomic batch of which a message was lost, or that took too long
)

// code is that of JetStream's error, 0 of others.
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
	if e, ok := errors.AsType[*jetstream.APIError](err); ok {
		return e.Code == 503 || e.Code == 408 || e.ErrorCode == codeNotLeader || e.ErrorCode == codeNotAvailable || e.ErrorCode == codeTooManyBatch || e.ErrorCode == codeIncomplete
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

// explain makes of an error of the servers what callers are told.
func explain(err error) error {
	switch {
	case full(err):
		return &Error{textFull, err}
	case passing(err):
		return &Error{textAway, err}
	}
	return fmt.Errorf("tape: the servers that keep the sessions have refused: %w", err)
}
