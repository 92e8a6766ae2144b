package channel

import (
	"context"
	"time"
)

// Phase is what a stage tells.
type Phase string

// The phases: start, then exactly one of the others; warnings may come between.
const (
	PhaseStart   Phase = "start"
	PhaseDone    Phase = "done"
	PhaseDrop    Phase = "drop"
	PhaseHandled Phase = "handled"
	PhaseError   Phase = "error"
	PhaseWarning Phase = "warning"
)

// Trace is one thing that happens in a turn. It has no text of anybody.
type Trace struct {
	TurnID, TraceID  string
	Stage            Stage
	Phase            Phase
	Channel, Account string
	MessageID        string
	Conversation     string
	SessionKey       string
	Sender           string // "" if log.sender_ids says so
	Admission        Admission
	Setting          string // of what decided
	Warning          string
	Preview          string // where log.previews is on
	Duration         time.Duration
	Outcome          Outcome // with the last event of finalize
	Err              error
}

// Observer gets what happens. It is called synchronously and must not block.
type Observer interface{ Observe(context.Context, Trace) }
