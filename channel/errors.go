package channel

import "fmt"

// StageError is what a stage failed of.
type StageError struct {
	Stage Stage
	Err   error
}

func (e *StageError) Error() string { return fmt.Sprintf("channel: %s: %v", e.Stage, e.Err) }

// Unwrap returns what the stage failed of.
func (e *StageError) Unwrap() error { return e.Err }

// PanicError is a panic in a callback. Its stack is only logged.
type PanicError struct{ Value any }

func (e *PanicError) Error() string { return "panic in a callback" }
