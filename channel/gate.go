package channel

import (
	"cmp"
	"slices"

	"github.com/lingserve/lingserve/tool"
	"github.com/lingserve/lingserve/turn"
)

// The gates, in order. The last two are budgets, which are asked beside [Evaluate].
const (
	GateSelf    = "self"
	GateBot     = "bot"
	GateRoute   = "route"
	GateSender  = "sender"
	GateCommand = "command"
	GateMention = "mention"
	GateLoop    = "loop"
	GateRate    = "rate"
)

// byTrigger is what a verdict names in the place of a setting where a gate passes because the server itself started the turn.
const byTrigger = "trigger"

// Decision is what the gates say.
type Decision struct {
	Admission         Admission // of the first gate that blocks, else dispatch
	Verdicts          []Verdict // of every gate, in order
	Addressed         bool
	CommandAuthorized bool      // the message is a command, and its sender may give it
	Role              tool.Role // of the sender, whatever was written; holds only if HasRole
	HasRole           bool
	Approver          turn.Approver // who can answer a question for approval in this conversation
}

// Blocked returns the verdict that decided. ok is false where every gate lets the message pass.
func (d Decision) Blocked() (v Verdict, ok bool) {
	for _, v := range d.Verdicts {
		if v.State == Blocked {
			return v, true
		}
	}
	return Verdict{}, false
}

// Talks says whether the gates self to sender pass: whose words may wait in the window for a later mention.
func (d Decision) Talks() bool {
	for _, v := range d.Verdicts {
		if v.State == Blocked {
			return false
		}
		if v.Gate == GateSender {
			return true
		}
	}
	return false
}

// Evaluate decides the gates self to mention. It is pure, and asks every gate, though the first that blocks decides. Marks of an echo
// and budgets are asked beside it.
func Evaluate(f Facts) Decision {
	a := &f.Access
	d := Decision{Admission: Admission{Kind: Dispatch}, Verdicts: make([]Verdict, 0, 8)} // with room for the two budgets
	say := func(v Verdict, record bool) {
		if v.State == Blocked && d.Admission.Kind == Dispatch {
			d.Admission = Admission{Kind: Drop, Reason: v.Reason, RecordHistory: record}
			switch v.Reason {
			case ReasonPairingRequired:
				d.Admission.Kind = Handled
			case ReasonUnmentioned:
				d.Admission.Kind = ObserveOnly
			}
		}
		d.Verdicts = append(d.Verdicts, v)
	}

	say(selfGate(f.Sender), false)
	say(botGate(f.Sender, f.Conversation.Kind, a), false)
	say(routeGate(f.Conversation.Kind, a), false)

	sender, talks := senderVerdict(f.Conversation.Kind, f.Trigger, a)
	say(sender, false)

	d.Role, d.HasRole = roleOf(a.Commands, talks)
	d.Approver = approverOf(&f, d)
	command, isCommand := commandGate(&f, d.HasRole)
	d.CommandAuthorized = isCommand && d.HasRole
	say(command, false)

	addressed, implicit := addressedBy(&f)
	d.Addressed = addressed || d.CommandAuthorized && !a.Mentions.HasAnyMention
	mention := mentionGate(&f, d.Addressed, implicit)
	// What no agent may read does not wait for one either.
	record := unmentioned(a) == UnmentionedHistory && !f.Supplemental.HidesMessage(a.Visibility)
	say(mention, mention.Reason == ReasonMissingMention && record)
	return d
}

func selfGate(s SenderFacts) Verdict {
	v := Verdict{Gate: GateSelf, State: Passed, Setting: "default:self", Value: "false"}
	if s.IsSelf {
		v.State, v.Reason, v.Value = Blocked, ReasonSelfEcho, "true"
		v.Hint = "the agent never answers itself"
	}
	return v
}

func botGate(s SenderFacts, kind ChatType, a *AccessFacts) Verdict {
	allow := cmp.Or(a.AllowBots, BotsNone)
	v := Verdict{Gate: GateBot, State: Passed, Setting: source(a, keyAllowBots), Value: string(allow)}
	switch {
	case !s.IsBot:
		v.State = Skipped
	case a.AllowBots == "" && policyOf(kind, a) == "":
		v.State = Skipped // there is no policy at all, which is what the gate sender says
	case allow == BotsAll || allow == BotsMentions && a.Mentions.WasMentioned:
	case allow == BotsMentions:
		v.State, v.Reason = Blocked, ReasonBotNotAllowed
		v.Hint = "mention the agent by name, or set allow_bots: all"
	default:
		v.State, v.Reason = Blocked, ReasonBotNotAllowed
		v.Hint = "set allow_bots: mentions or all"
	}
	return v
}

func routeGate(kind ChatType, a *AccessFacts) Verdict {
	v := Verdict{Gate: GateRoute, State: Passed, Setting: source(a, keyEnabled), Value: yesNo(a.Group.RouteAllowed)}
	switch {
	case kind == Direct || a.Group.Policy == "":
		v.State = Skipped
	case !a.Group.RouteAllowed:
		v.State, v.Reason = Blocked, ReasonRouteNotAllowed
		v.Hint = "add the conversation to groups.only, or set enabled: true for it or for the thread"
	}
	return v
}

// policyOf is the policy for conversations of this kind.
func policyOf(kind ChatType, a *AccessFacts) PolicyKind {
	if kind == Direct {
		return a.DM.Policy
	}
	return a.Group.Policy
}

// senderVerdict says whether the sender may talk, and whether that is by the policy and not by a trigger.
func senderVerdict(kind ChatType, trigger Trigger, a *AccessFacts) (v Verdict, talks bool) {
	key, hint, reason := senderGate(kind, *a)
	if trigger != "" {
		return Verdict{Gate: GateSender, State: Passed, Setting: byTrigger, Value: string(trigger)}, reason == ""
	}
	v = Verdict{Gate: GateSender, State: Passed, Setting: source(a, key), Value: string(policyOf(kind, a)), Hint: hint}
	if key == keyDMAllowFrom || key == keyGroupAllowFrom {
		v.Value = listed(kind, a)
	}
	if reason != "" {
		v.State, v.Reason = Blocked, reason
	}
	return v, reason == ""
}

// listed says what a list came to: never what is on it.
func listed(kind ChatType, a *AccessFacts) string {
	list, on := a.Group.AllowFrom, a.Group.Sender
	if kind == Direct {
		list, on = a.DM.AllowFrom, a.DM.Sender
	}
	switch {
	case on:
		return "listed"
	case len(list) == 0:
		return "empty list"
	default:
		return "not listed"
	}
}

// senderGate is the table of the policies: which setting decides, what to change, and why the sender may not talk, "" where he may.
func senderGate(kind ChatType, a AccessFacts) (key, hint string, reason Reason) {
	if kind != Direct {
		return groupGate(a.Group)
	}
	dm := a.DM
	switch dm.Policy {
	case PolicyDisabled:
		return keyDMPolicy, "set dm.policy: allowlist, pairing or open", ReasonDMDisabled
	case PolicyOpen:
		switch {
		case dm.AllowFrom == nil:
			return keyDMPolicy, "", ""
		case dm.Sender || slices.Contains(dm.AllowFrom, Anyone):
			return keyDMAllowFrom, "", ""
		}
		return keyDMAllowFrom, "add the sender's id to dm.allow_from, or remove this list to admit all senders", ReasonDMNotAllowed
	case PolicyAllowlist:
		switch {
		case dm.Sender:
			return keyDMAllowFrom, "", ""
		case len(dm.AllowFrom) == 0:
			return keyDMAllowFrom, "list the admitted senders' ids in dm.allow_from", ReasonDMAllowlistEmpty
		}
		return keyDMAllowFrom, "add the sender's id to dm.allow_from", ReasonDMNotAllowed
	case PolicyPairing:
		switch {
		case dm.Sender:
			return keyDMAllowFrom, "", ""
		case dm.Paired == Yes:
			return keyDMPolicy, "", ""
		case dm.Paired == Unknown:
			return keyDMPolicy, "cannot read the pairings; check the folder data/pairing", ReasonPairingUnavailable
		}
		return keyDMPolicy, "approve the sender's code with \"lingserve channels pair approve CODE\", or add the id to dm.allow_from", ReasonPairingRequired
	}
	return keyDMPolicy, "set dm.policy: allowlist, pairing or open", ReasonNoPolicy
}

func groupGate(g GroupFacts) (key, hint string, reason Reason) {
	switch g.Policy {
	case PolicyDisabled:
		return keyGroupPolicy, "set groups.policy: allowlist or open", ReasonGroupDisabled
	case PolicyOpen:
		return keyGroupPolicy, "", ""
	case PolicyAllowlist:
		switch {
		case g.Sender:
			return keyGroupAllowFrom, "", ""
		case len(g.AllowFrom) == 0:
			return keyGroupAllowFrom, "list the admitted senders' ids in groups.allow_from, or use inherit for the list of dm", ReasonGroupAllowlistEmpty
		}
		return keyGroupAllowFrom, "add the sender's id to groups.allow_from", ReasonGroupNotAllowed
	}
	// Pairing is for direct conversations: in a group, it is a mistake of the configuration and admits nobody.
	return keyGroupPolicy, "set groups.policy: allowlist or open", ReasonNoPolicy
}

// roleOf is the highest role that somebody is given: by the authorizers, or as one who may talk.
func roleOf(c CommandFacts, talks bool) (role tool.Role, ok bool) {
	if c.Mode == CommandsSenders && talks {
		ok = true // at least a user, which is the lowest
	}
	for _, by := range c.Authorizers {
		if by.Configured && by.Allowed && (!ok || by.Role > role) {
			role, ok = by.Role, true
		}
	}
	return role, ok
}

// approverOf is the highest role of those who can give commands in a conversation. A direct conversation has the sender alone; in a group
// anybody on the lists may be.
func approverOf(f *Facts, d Decision) turn.Approver {
	c := f.Access.Commands
	by := turn.Approver{None: !d.HasRole, Role: d.Role}
	switch {
	case c.Mode == CommandsOff || f.Observing:
		return turn.Approver{None: true}
	case f.Conversation.Kind == Direct:
		return by
	case c.Mode == CommandsSenders:
		by.None = false
	}
	for _, list := range c.Authorizers {
		if list.Configured {
			by.None, by.Role = false, max(by.Role, list.Role)
		}
	}
	return by
}

// commandGate also says whether the message is a command. What was forwarded is none: its words are somebody else's.
func commandGate(f *Facts, hasRole bool) (v Verdict, isCommand bool) {
	a := &f.Access
	mode := cmp.Or(a.Commands.Mode, CommandsAuthorizers)
	v = Verdict{Gate: GateCommand, State: Passed, Setting: source(a, keyCommandMode), Value: string(mode)}
	if mode != CommandsOff && f.Supplemental.Forwarded == nil {
		text := cmp.Or(f.Message.CommandBody, f.Message.RawBody)
		isCommand = IsCommand(text) && (a.Commands.Known == nil || a.Commands.Known(clean(text), false))
	}
	switch {
	case f.Trigger != "":
		v.Setting, v.Value = byTrigger, string(f.Trigger)
	case !isCommand:
		v.State = Skipped
	case hasRole:
		if by := authorizer(a.Commands); by != "" {
			v.Setting, v.Value = source(a, by), "listed"
		}
	default:
		v.State, v.Reason = Blocked, ReasonCommandNotAllowed
		v.Hint = "add the sender's id to commands.users, operators or admins, or set commands.mode to senders, or to off to treat commands as text"
	}
	return v, isCommand
}

// IsCommand reports whether a message is read as a command, if its sender may use commands.
func IsCommand(text string) bool {
	_, is := turn.CommandName(clean(text))
	return is
}

// authorizer is the key of the list that gave the role; "" where the mode did.
func authorizer(c CommandFacts) string {
	best := -1
	for i, by := range c.Authorizers {
		if by.Configured && by.Allowed && (best < 0 || by.Role > c.Authorizers[best].Role) {
			best = i
		}
	}
	if best < 0 {
		return ""
	}
	switch c.Authorizers[best].Name {
	case "users":
		return keyUsers
	case "operators":
		return keyOperators
	case "admins":
		return keyAdmins
	}
	return "commands." + c.Authorizers[best].Name
}

// addressedBy says whether the agent is addressed by name, or else in a way that is allowed.
func addressedBy(f *Facts) (addressed bool, implicit MentionKind) {
	m := &f.Access.Mentions
	if m.WasMentioned {
		return true, ""
	}
	for _, kind := range m.Implicit {
		if slices.Contains(m.AllowedImplicit, kind) {
			return true, kind
		}
	}
	return false, ""
}

func unmentioned(a *AccessFacts) UnmentionedMode {
	return cmp.Or(a.Group.Unmentioned, UnmentionedHistory)
}

func mentionGate(f *Facts, addressed bool, implicit MentionKind) Verdict {
	a := &f.Access
	v := Verdict{Gate: GateMention, State: Passed, Setting: source(a, keyRequireMention), Value: yesNo(a.Group.RequireMention)}
	switch {
	case f.Trigger != "":
		v.Setting, v.Value = byTrigger, string(f.Trigger)
	case f.Observing:
		v.State, v.Setting, v.Value = Skipped, "default:observeOnly", "true"
	case f.Conversation.Kind == Direct:
		v.State = Skipped
	case !a.Group.RequireMention:
	case !a.Mentions.CanDetect:
		v.Hint = "mentions cannot be detected here, so that none is required"
	case addressed:
		if implicit != "" {
			v.Setting, v.Value = source(a, keyImplicit), string(implicit)
		}
	case unmentioned(a) == UnmentionedObserve:
		v.State, v.Reason = Blocked, ReasonUnmentioned
		v.Setting, v.Value = source(a, keyUnmentioned), string(UnmentionedObserve)
		v.Hint = "mention the agent to get a visible answer, or set require_mention: false"
	default:
		v.State, v.Reason = Blocked, ReasonMissingMention
		v.Hint = "mention the agent, or set require_mention: false; to accept names in plain text, set mentions.patterns"
	}
	return v
}

func yesNo(b bool) string {
	if b {
		return "true"
	}
	return "false"
}
