package channel

import (
	"fmt"
	"slices"
	"strings"
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

// strict orders the kinds: a higher one wins.
func (k AdmissionKind) strict() int {
	switch k {
	case Dispatch:
		return 1
	case ObserveOnly:
		return 2
	case Handled:
		return 3
	case Drop:
		return 4
	}
	return 0
}

// Tighten is the stricter of two admissions, a where they are of one kind.
func (a Admission) Tighten(b Admission) Admission {
	if b.Kind.strict() > a.Kind.strict() {
		return b
	}
	return a
}

// Stops says whether a turn with this admission goes no further.
func (a Admission) Stops() bool { return a.Kind == Drop || a.Kind == Handled }

// said says of a reason which admission it is for and which stages may say so.
type said struct {
	kinds  []AdmissionKind
	stages []Stage
}

// reasons is the closed set of them.
var reasons = func() map[Reason]said {
	drops, handles, observes := []AdmissionKind{Drop}, []AdmissionKind{Handled}, []AdmissionKind{ObserveOnly}
	early, local := []Stage{StagePreflight, StageResolve}, []Stage{StageClassify, StagePreflight, StageResolve}
	gate, lane := []Stage{StageAuthorize}, []Stage{StageDispatch}
	m := map[Reason]said{
		ReasonNotATurn:        {handles, local},
		ReasonHandledLocally:  {handles, local},
		ReasonMerged:          {handles, local},
		ReasonPairingRequired: {handles, gate},
		ReasonIngestNull:      {drops, []Stage{StageIngest}},
		ReasonUnsupported:     {drops, early},
		ReasonTooLarge:        {drops, early},
		ReasonDedupe:          {drops, []Stage{StagePreflight, StageAuthorize}},
		ReasonSelfEcho:        {drops, []Stage{StagePreflight, StageAuthorize}},
		ReasonMissingMention:  {drops, []Stage{StagePreflight, StageAuthorize}},
		ReasonNoRoute:         {drops, []Stage{StageResolve}},
		ReasonRateLimited:     {drops, gate},
		ReasonSessionBusy:     {drops, lane},
		ReasonOverloaded:      {drops, lane},
		ReasonDraining:        {drops, lane},
		ReasonChannelLocal:    {[]AdmissionKind{Drop, Handled}, early},
		ReasonObserver:        {observes, early},
		ReasonUnmentioned:     {observes, gate},
	}
	for _, r := range []Reason{
		ReasonBotNotAllowed, ReasonBotLoop, ReasonNoPolicy, ReasonRouteNotAllowed, ReasonDMDisabled, ReasonDMNotAllowed,
		ReasonDMAllowlistEmpty, ReasonPairingUnavailable, ReasonGroupDisabled, ReasonGroupNotAllowed, ReasonGroupAllowlistEmpty,
		ReasonCommandNotAllowed,
	} {
		m[r] = said{drops, gate}
	}
	return m
}()

// maxDetail bounds the detail of a reason of an adapter's own.
const maxDetail = 32

// named is a name that somebody made up, for an error: only where it looks like one, since an adapter may have taken it from a message.
func named(name string) string {
	if !isDetail(name) {
		return ""
	}
	return " " + name
}

// Check returns an error if a stage may not say this.
func (a Admission) Check(s Stage) error {
	switch {
	case a.Kind == "" || a.Kind == Dispatch:
		return nil
	case a.Kind.strict() == 0:
		return fmt.Errorf("unknown admission%s; expected %s, %s, %s or %s", named(string(a.Kind)), Dispatch, ObserveOnly, Handled, Drop)
	}
	known, ok := reasons[a.Reason]
	switch {
	case !ok:
		return fmt.Errorf("unknown reason%s; use %s with a detail for a channel's own reasons", named(string(a.Reason)), ReasonChannelLocal)
	case !slices.Contains(known.kinds, a.Kind):
		return fmt.Errorf("the reason %s does not go with the admission %s", a.Reason, a.Kind)
	case !slices.Contains(known.stages, s):
		return fmt.Errorf("the reason %s does not go with the stage %s", a.Reason, s)
	case a.Reason == ReasonChannelLocal && !isDetail(a.Detail):
		return fmt.Errorf("the reason %s needs a detail of 1 to %d of a-z, 0-9 and _", a.Reason, maxDetail)
	case a.Reason != ReasonChannelLocal && a.Detail != "":
		return fmt.Errorf("the reason %s takes no detail; that is for %s", a.Reason, ReasonChannelLocal)
	}
	return nil
}

func isDetail(s string) bool {
	return s != "" && len(s) <= maxDetail && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789_") == ""
}
