package platform

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// Effect is what a refusal means for what was to be sent.
type Effect uint8

// The effects.
const (
	Refused   Effect = iota // the call was not accepted
	Permanent               // nor is any other to that place
	Busy                    // the rate limit was reached
	Untaken                 // nothing was done of the call, which may be repeated
	Unknown                 // the call may have been accepted
)

// Kind is what refusals mean.
type Kind struct {
	Text   string // for the log
	Effect Effect
}

// Refusal is a call that a platform has refused. It has no text of the platform's, which may repeat what was sent.
type Refusal struct {
	Kind       *Kind
	Code       string        // of the platform: "status 403"
	RetryAfter time.Duration // with [Busy]
}

func (r *Refusal) Error() string { return fmt.Sprintf("%s (%s)", r.Kind.Text, r.Code) }

// Is reports whether an error is a refusal of one of the kinds.
func Is(err error, kinds ...*Kind) bool {
	r, ok := errors.AsType[*Refusal](err)
	return ok && slices.Contains(kinds, r.Kind)
}
