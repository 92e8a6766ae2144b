package db

import (
	"errors"

	"github.com/lingserve/lingserve/store"
)

// Error says why the database did not do what it was asked to. The reason may pass. The text can be shown to anybody.
type Error struct {
	state error // [store.ErrAway], [store.ErrFull] or [store.ErrUnsure]
	cause error
}

// newError returns an [Error]. It has the text of the cause, but does not wrap it: its context may be that of the transaction, not of a caller.
func newError(state, cause error) error { return &Error{state, errors.New(cause.Error())} }

func (e *Error) Error() string {
	switch e.state {
	case store.ErrUnsure:
		return "the database did not answer a write, so it may or may not be stored; check before you retry"
	case store.ErrFull:
		return "the database has no space; retry later"
	}
	return "the database is unreachable; retry later"
}

// ErrorCode returns the code that says that a later retry can succeed.
func (*Error) ErrorCode() string { return "overloaded" }

// Is reports the state of the database.
func (e *Error) Is(target error) bool { return target == e.state }

// Unwrap returns the cause, which may name the database's address.
func (e *Error) Unwrap() error { return e.cause }

// errConflict is the error of a transaction that another one got in the way of. It is tried again.
var errConflict = errors.New("another transaction was in the way")
