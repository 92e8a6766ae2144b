package channel

// AdmissionKind says whether a turn goes on. A later stage tightens it, never loosens.
type AdmissionKind string

// The kinds, the strictest last. The zero value is undecided.
const (
	Dispatch    AdmissionKind = "dispatch"
	ObserveOnly AdmissionKind = "observeOnly"
	Handled     AdmissionKind = "handled"
	Drop        AdmissionKind = "drop"
)

// Reason says why a turn was not dispatched.
type Reason string

// The reasons: a closed set. An adapter's own is ReasonChannelLocal with a detail.
const (
	ReasonNotATurn            Reason = "not_a_turn"
	ReasonHandledLocally      Reason = "handled_locally"
	ReasonMerged              Reason = "merged"
	ReasonPairingRequired     Reason = "pairing_required"
	ReasonIngestNull          Reason = "ingest_null"
	ReasonUnsupported         Reason = "unsupported"
	ReasonTooLarge            Reason = "too_large"
	ReasonDedupe              Reason = "dedupe"
	ReasonSelfEcho            Reason = "self_echo"
	ReasonBotNotAllowed       Reason = "bot_not_allowed"
	ReasonBotLoop             Reason = "bot_loop"
	ReasonNoPolicy            Reason = "no_policy"
	ReasonRouteNotAllowed     Reason = "route_not_allowed"
	ReasonDMDisabled          Reason = "dm_disabled"
	ReasonDMNotAllowed        Reason = "dm_not_allowed"
	ReasonDMAllowlistEmpty    Reason = "dm_allowlist_empty"
	ReasonPairingUnavailable  Reason = "pairing_unavailable"
	ReasonGroupDisabled       Reason = "group_disabled"
	ReasonGroupNotAllowed     Reason = "group_not_allowed"
	ReasonGroupAllowlistEmpty Reason = "group_allowlist_empty"
	ReasonCommandNotAllowed   Reason = "command_not_allowed"
	ReasonMissingMention      Reason = "missing_mention"
	ReasonNoRoute             Reason = "no_route"
	ReasonRateLimited         Reason = "rate_limited"
	ReasonSessionBusy         Reason = "session_busy"
	ReasonOverloaded          Reason = "overloaded"
	ReasonDraining            Reason = "draining"
	ReasonChannelLocal        Reason = "channel_local"
	ReasonObserver            Reason = "observer"
	ReasonUnmentioned         Reason = "unmentioned"
)

// Admission is what a stage says of a turn. The zero value is undecided.
type Admission struct {
	Kind          AdmissionKind
	Reason        Reason
	Detail        string // of ReasonChannelLocal: [a-z0-9_]{1,32}
	RecordHistory bool   // of a drop: the message waits in the window for a later mention
}

// VerdictState says what a gate decided.
type VerdictState string

// The states.
const (
	Passed  VerdictState = "pass"
	Blocked VerdictState = "block"
	Skipped VerdictState = "skip" // does not apply
)

// Verdict is what one gate decided, and which setting made it. It holds no list entries and no text.
type Verdict struct {
	Gate    string
	State   VerdictState
	Reason  Reason
	Setting string // path in the configuration; "default:…" for one that is built in
	Value   string
	Hint    string // what to change
}
