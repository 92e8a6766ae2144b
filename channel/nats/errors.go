package nats

import (
	"errors"
	"fmt"

	"github.com/lingserve/lingserve/cluster"
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
	textAway = "the servers that replicas share are unreachable; retry later"
	textFull = "the servers that replicas share have no space; retry later"
	textBusy = "too many changes of the same data at once; retry later"
)

// errMoved says that another message has come behind the one that was seen.
var errMoved = errors.New("somebody else was faster")

// errOutdated says that an event has another owner by now.
var errOutdated = errors.New("channel: another replica took over the event, because this one seemed dead")

// explain makes of an error of the servers what callers are told.
func explain(err error) error {
	switch {
	case cluster.Full(err):
		return &Error{textFull, err}
	case cluster.Passing(err):
		return &Error{textAway, err}
	}
	return fmt.Errorf("channel: the servers that the replicas share have refused: %w", err)
}
