package turn

import (
	"context"
	"fmt"
)

// Codes of errors; those of a model's server begin with "upstream_".
const (
	CodeInvalid    = "invalid_request"
	CodeConflict   = "conflict"
	CodeOverloaded = "overloaded"
	CodeDraining   = "draining"
	CodeTooLarge   = "too_large"
	CodeGone       = "gone"
	CodeOutput     = "output_invalid"
	CodeRefused    = "output_refused"
	CodeInternal   = "internal"
)

// Coded is an error that knows its code.
type Coded interface {
	error
	ErrorCode() string
}

// These are the errors of turns and lanes that callers tell apart.
var (
	ErrNoPrompt    error = &codedError{CodeInvalid, "turn: the prompt is empty", nil}
	ErrNoOutput    error = &codedError{CodeInternal, "turn: no model answered", nil}
	ErrBusy        error = &codedError{CodeConflict, "turn: the session is busy", nil}
	ErrQueueFull   error = &codedError{CodeOverloaded, "turn: too many messages are waiting", nil}
	ErrDraining    error = &codedError{CodeDraining, "turn: the server is shutting down", nil}
	ErrInterrupted error = &codedError{CodeConflict, "turn: interrupted by a later message", nil}
	ErrStopped     error = &codedError{CodeConflict, "turn: stopped", nil}
	ErrLeaseLost   error = &codedError{CodeInternal, "turn: the session's lease was lost", nil}
	// ErrHandedOver ends a turn that goes on in another process: nothing more of it is written here but the results of tools that have ended.
	ErrHandedOver error = &codedError{CodeInternal, "turn: another process goes on with it", nil}
	ErrTimeout    error = &codedError{CodeInternal, "turn: it took too long", context.DeadlineExceeded}
)

type codedError struct {
	code, text string
	cause      error // or nil
}

func (e *codedError) Error() string     { return e.text }
func (e *codedError) ErrorCode() string { return e.code }
func (e *codedError) Unwrap() error     { return e.cause }

// Invalid makes an error the caller's mistake.
func Invalid(err error) error { return &codedError{CodeInvalid, err.Error(), err} }

// StageError says in which stage, and in whose hook, a turn has failed.
type StageError struct {
	Stage  Stage
	Plugin string // "" where there is no single one
	Err    error  // the very value that the hook returned; of several hooks their StageErrors joined
}

func (e *StageError) Error() string {
	if e.Plugin == "" {
		return fmt.Sprintf("%s: %v", e.Stage, e.Err)
	}
	return fmt.Sprintf("%s (%s): %v", e.Stage, e.Plugin, e.Err)
}

func (e *StageError) Unwrap() error { return e.Err }

// PanicError is a panic of a hook, or of a stream that it made. The stack is in the log.
type PanicError struct{ Value any }

func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// Unwrap returns the value where it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}
