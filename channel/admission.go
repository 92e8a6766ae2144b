package channel

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
)

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
	ReasonNotATurn           Reason = "not_a_turn"
	ReasonHandledLocally     Reason = "handled_locally"
	ReasonMerged             Reason = "merged"
	ReasonPairingRequired    Reason = "pairing_required"
	ReasonIngestNull         Reason = "ingest_null"
	ReasonUnsupported        Reason = "unsupported"
	ReasonTooLarge           Reason = "too_large"
	ReasonDedupe             Reason = "dedupe"
	ReasonSelfEcho           Reason = "self_echo"
	ReasonBotNotAllowed      Reason = "bot_not_allowed"
	ReasonBotLoop            Reason = "bot_loop"
	ReasonNoPolicy           Reason = "no_policy"
	ReasonRouteNotAllowed    Reason = "route_not_allowed"
	ReasonDMDisabled         Reason = "dm_disabled"
	ReasonDMNotAllowed       Reason = "dm_not_allowed"
	ReasonPairingUnavailable Reason = "pairing_unavailable"
	ReasonGroupDisabled      Reason = "group_disabled"
	ReasonGroupNotAllowed    Reason = "group_not_allowed"
	ReasonCommandNotAllowed  Reason = "command_not_allowed"
	ReasonMissingMention     Reason = "missing_mention"
	ReasonNoRoute            Reason = "no_route"
	ReasonRateLimited        Reason = "rate_limited"
	ReasonSessionBusy        Reason = "session_busy"
	ReasonOverloaded         Reason = "overloaded"
	ReasonDraining           Reason = "draining"
	ReasonChannelLocal       Reason = "channel_local"
	ReasonObserver           Reason = "observer"
	ReasonUnmentioned        Reason = "unmentioned"
)

// HTTPStatus returns the status of the answer to a message whose turn has ended for a reason; "" is that it was answered (CH-14).
func (r Reason) HTTPStatus() int {
	switch r {
	case "", ReasonNotATurn, ReasonHandledLocally, ReasonMerged, ReasonDedupe, ReasonMissingMention, ReasonObserver, ReasonUnmentioned:
		return http.StatusOK
	case ReasonIngestNull, ReasonUnsupported:
		return http.StatusBadRequest
	case ReasonTooLarge:
		return http.StatusRequestEntityTooLarge
	case ReasonNoRoute:
		return http.StatusNotFound
	case ReasonRateLimited:
		return http.StatusTooManyRequests
	case ReasonSessionBusy:
		return http.StatusConflict
	case ReasonOverloaded, ReasonDraining:
		return http.StatusServiceUnavailable
	}
	return http.StatusForbidden // also for a reason that is new: no one is let in by mistake
}

// Admission is what a stage decides about a turn. The zero value is undecided.
type Admission struct {
	Kind          AdmissionKind
	Reason        Reason
	Detail        string // of ReasonChannelLocal: [a-z0-9_]{1,32}
	RecordHistory bool   // of a drop: the message waits in the window for a later mention
}

// strictness orders the kinds: a higher one wins. It is 0 for an unknown kind.
func (k AdmissionKind) strictness() int {
	return slices.Index([]AdmissionKind{Dispatch, ObserveOnly, Handled, Drop}, k) + 1
}

// Tighten returns the stricter admission, or a if they have the same kind.
func (a Admission) Tighten(b Admission) Admission {
	if b.Kind.strictness() > a.Kind.strictness() {
		return b
	}
	return a
}

// Stops reports whether a turn with this admission ends.
func (a Admission) Stops() bool { return a.Kind == Drop || a.Kind == Handled }

// code matches reasons and details, so that neither can be text of a message.
var code = regexp.MustCompile(`^[a-z0-9_]{1,32}$`)

// Check returns an error if the admission has an unknown kind, or stops the turn without a valid reason. The error has no values, which may be
// from a message.
func (a Admission) Check() error {
	local := a.Reason == ReasonChannelLocal
	switch {
	case a.Kind == "" || a.Kind == Dispatch:
		return nil
	case a.Kind.strictness() == 0:
		return fmt.Errorf("unknown admission; expected %s, %s, %s or %s", Dispatch, ObserveOnly, Handled, Drop)
	case !code.MatchString(string(a.Reason)):
		return fmt.Errorf("the admission %s has an invalid reason; use %s with a detail for a channel's own reasons", a.Kind, ReasonChannelLocal)
	case local != (a.Detail != "") || local && !code.MatchString(a.Detail):
		return fmt.Errorf("the reason %s has a detail of 1 to 32 of a-z, 0-9 and _, and other reasons have none", ReasonChannelLocal)
	}
	return nil
}
