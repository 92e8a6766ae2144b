package nats

import (
	"fmt"

	"github.com/lingserve/lingserve/cluster"
	"github.com/lingserve/lingserve/tape"
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

// Is tells [tape.ErrAway] and [tape.ErrUnsure], for those who tell users.
func (e *Error) Is(target error) bool {
	return target == tape.ErrAway && e.text == textAway || target == tape.ErrUnsure && e.text == textUnknown
}

// Unwrap returns what the servers, or the way to them, said.
func (e *Error) Unwrap() error { return e.cause }

const (
	textAway    = "the servers that store the sessions are unreachable; retry later"
	textFull    = "the servers that store the sessions have no space; retry later"
	textBusy    = "too many writers use the session at once; retry later"
	textUnknown = "the servers that store the sessions disconnected during a write, so it may or may not be stored; check before you retry"
)

// explain makes of an error of the servers what callers are told.
func explain(err error) error {
	switch {
	case cluster.Full(err):
		return &Error{textFull, err}
	case cluster.Passing(err):
		return &Error{textAway, err}
	}
	return fmt.Errorf("tape: the servers that keep the sessions have refused: %w", err)
}
