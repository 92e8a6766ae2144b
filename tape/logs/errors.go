package logs

import (
	"context"
	"errors"
	"fmt"

	"github.com/lingserve/lingserve/store"
	"github.com/lingserve/lingserve/tape"
)

// Error says that the engine did not do what it was asked to, for a reason that is nobody's mistake and may pass. Its text can be shown to
// anybody.
type Error struct {
	text  string
	cause error
}

func (e *Error) Error() string { return "tape: " + e.text }

// ErrorCode says to those who sort errors by codes that a later retry can succeed.
func (*Error) ErrorCode() string { return "overloaded" }

// Is tells [tape.ErrAway] and [tape.ErrUnsure], for those who tell users.
func (e *Error) Is(target error) bool {
	return target == tape.ErrAway && e.text == textAway || target == tape.ErrUnsure && e.text == textUnsure
}

// Unwrap returns what the engine said.
func (e *Error) Unwrap() error { return e.cause }

const (
	textAway   = "the store of sessions is unreachable; retry later"
	textFull   = "the store of sessions has no space; retry later"
	textBusy   = "too many writers use the session at once; retry later"
	textUnsure = "the store of sessions did not answer a write, so it may or may not be stored; check before you retry"
)

func isNotFound(err error) bool {
	return errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrDeleted)
}

// explain makes of an error of the engine what callers are told.
func (s *Store) explain(name string, err error) error {
	for _, known := range [...]struct{ is, tells error }{
		{store.ErrNotFound, tape.ErrNotFound},
		{store.ErrDeleted, tape.ErrNotFound},
		{store.ErrTooLarge, tape.ErrTooLarge},
		{store.ErrInvalid, tape.ErrInvalid},
		{store.ErrDamaged, tape.ErrDamaged},
		{store.ErrClosed, tape.ErrClosed},
	} {
		if errors.Is(err, known.is) {
			return fmt.Errorf("%w: tape %s: %w", known.tells, name, err)
		}
	}
	switch {
	case err == nil, errors.Is(err, context.Canceled), tape.Refused(err):
		return err
	case errors.Is(err, store.ErrAway):
		return &Error{textAway, err}
	case errors.Is(err, store.ErrUnsure):
		return &Error{textUnsure, err}
	case errors.Is(err, store.ErrFull) && s.options.MaxBytes > 0:
		return fmt.Errorf("%w: the store holds at most %d bytes", tape.ErrTooLarge, s.options.MaxBytes)
	case errors.Is(err, store.ErrFull):
		return &Error{textFull, err}
	case name == "":
		return err
	}
	return fmt.Errorf("tape %s: %w", name, err)
}
