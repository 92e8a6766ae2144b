package channel

import "time"

// Outcome is what became of a turn.
type Outcome string

// The outcomes.
const (
	OutcomeVisible  Outcome = "visible"
	OutcomeSilent   Outcome = "silent" // there was nothing to show
	OutcomeObserved Outcome = "observed"
	OutcomeDeferred Outcome = "deferred" // given to a turn that runs
	OutcomeQueued   Outcome = "queued"   // the outbox has the reply
	OutcomeBlocked  Outcome = "blocked"
	OutcomePartial  Outcome = "partial" // an error after something was seen
	OutcomeUnknown  Outcome = "unknown" // a send cannot be settled
	OutcomeFailed   Outcome = "failed"
	OutcomeCanceled Outcome = "canceled"
)

// Result is what a turn came to, filled as far as it got.
type Result struct {
	TurnID, SessionKey string
	Admission          Admission
	Class              EventClass
	Stage              Stage // the last that was begun, finalize left out
	Outcome            Outcome
	Dispatched         bool
	Route              RouteFacts
	Context            *TurnContext
	Dispatch           DispatchResult
	Setting            string // by which a gate has blocked the message
	RetryAfter         time.Duration
}

// DispatchResult is what was sent.
type DispatchResult struct {
	Sent     bool // something was sent: also by the dispatch itself, without the sink
	Deferred bool // the message was given to a turn that runs
	NoReply  bool // there is nothing to show, by decision
}
