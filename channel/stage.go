package channel

import (
	"fmt"
)

// Stage is a step of a turn.
type Stage string

// The stages, in order.
const (
	StageIngest    Stage = "ingest"
	StageClassify  Stage = "classify"
	StagePreflight Stage = "preflight"
	StageResolve   Stage = "resolve"
	StageAuthorize Stage = "authorize"
	StageAssemble  Stage = "assemble"
	StageRecord    Stage = "record"
	StageDispatch  Stage = "dispatch"
	StageFinalize  Stage = "finalize"
)

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
