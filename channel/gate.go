package channel

import (
	"cmp"
	"slices"

	"github.com/lingserve/lingserve/tool"
	"github.com/lingserve/lingserve/turn"
)

// The gates, in order. [Evaluate] has all but the last two, which are rates.
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

// Decision is the result of the gates.
type Decision struct {
	Admission         Admission // of the first gate that blocks; else dispatch
	Verdicts          []Verdict // of all gates, in order
	Addressed         bool
	CommandAuthorized bool      // the message is a command, and the sender has a role
	Role              tool.Role // of the sender, also if the message is not a command; valid only if HasRole
	HasRole           bool
	Approver          turn.Approver // who can answer a question for approval in this conversation
}

// Blocked returns the verdict of the first gate that blocks. ok is false if all gates pass.
func (d Decision) Blocked() (v Verdict, ok bool) {
	for _, v := range d.Verdicts {
		if v.State == Blocked {
			return v, true
		}
	}
	return Verdict{}, false
}

// Talks reports whether the gates self to sender pass. Only such messages are stored in the history window.
func (d Decision) Talks() bool {
	for _, v := range d.Verdicts {
		if v.State == Blocked || v.Gate == GateSender {
			return v.State != Blocked
		}
	}
	return false
}

// Evaluate evaluates the gates self to mention, also after one that blocks. It is pure.
func Evaluate(f Facts) Decision {
	a := &f.Access
	sender, isCommand := senderGate(f.Conversation.Kind, *a), f.isCommand()
	role, list, hasRole := roleOf(a.Commands, sender.reason == "")
	addressed, mentionKey := addressedBy(&a.Mentions)
	d := Decision{Role: role, HasRole: hasRole, CommandAuthorized: isCommand && hasRole, Approver: approverOf(&f, role, hasRole)}
	d.Addressed = addressed || d.CommandAuthorized && !a.Mentions.HasAnyMention
	command, mention := ruling{}, mentionGate(&f, d.Addressed, mentionKey)
	switch {
	case f.Trigger != "": // the server itself starts the turn
		sender, mention = ruling{}, ruling{}
	case isCommand && !hasRole:
		command = ruling{keyCommandMode, ReasonCommandNotAllowed}
	case isCommand:
		command = ruling{key: list}
	}
	d.Verdicts = make([]Verdict, 0, 8) // the kernel appends those of its gates
	for _, gate := range []struct {
		name string
		ruling
	}{
		{GateSelf, selfGate(&f)},
		{GateBot, botGate(&f)},
		{GateRoute, routeGate(&f)},
		{GateSender, sender},
		{GateCommand, command},
		{GateMention, mention},
	} {
		d.Verdicts = append(d.Verdicts, a.verdict(gate.name, gate.ruling))
	}
	d.Admission = admissionOf(&f, d)
	return d
}

// admissionOf returns the admission that follows from the first gate that blocks.
func admissionOf(f *Facts, d Decision) Admission {
	v, blocked := d.Blocked()
	switch {
	case !blocked:
		return Admission{Kind: Dispatch}
	case v.Reason == ReasonPairingRequired:
		return Admission{Kind: Handled, Reason: v.Reason}
	case v.Reason == ReasonUnmentioned:
		return Admission{Kind: ObserveOnly, Reason: v.Reason}
	}
	a := Admission{Kind: Drop, Reason: v.Reason}
	if v.Reason == ReasonMissingMention { // hidden messages are not stored
		a.RecordHistory = f.Access.unmentioned() == UnmentionedHistory && !f.Supplemental.HidesMessage(f.Access.Visibility)
	}
	return a
}

// ruling is what a gate decides: key is the setting that decided, or "" if the gate does not apply; reason is why it blocks, or "".
type ruling struct {
	key    string
	reason Reason
}

func (a *AccessFacts) verdict(gate string, r ruling) Verdict {
	switch {
	case r.key == "":
		return Verdict{Gate: gate, State: Skipped}
	case r.reason != "":
		return Verdict{Gate: gate, State: Blocked, Reason: r.reason, Setting: source(a, r.key), Hint: hints[r.reason]}
	}
	return Verdict{Gate: gate, State: Passed, Setting: source(a, r.key)}
}

// hints say what to change so that a message is admitted.
var hints = map[Reason]string{
	ReasonBotNotAllowed:       "set allow_bots: mentions or all",
	ReasonRouteNotAllowed:     "add the conversation to groups.only, or set enabled: true for it or for the thread",
	ReasonNoPolicy:            "set dm.policy and groups.policy to allowlist or open",
	ReasonDMDisabled:          "set dm.policy: allowlist, pairing or open",
	ReasonDMNotAllowed:        "add the sender's id to dm.allow_from",
	ReasonDMAllowlistEmpty:    "list the admitted senders' ids in dm.allow_from",
	ReasonPairingUnavailable:  "cannot read the pairings; check the folder data/pairing",
	ReasonPairingRequired:     "approve the sender's code with \"lingserve channels pair approve CODE\", or add the id to dm.allow_from",
	ReasonGroupDisabled:       "set groups.policy: allowlist or open",
	ReasonGroupNotAllowed:     "add the sender's id to groups.allow_from",
	ReasonGroupAllowlistEmpty: "list the admitted senders' ids in groups.allow_from, or use inherit for the list of dm",
	ReasonCommandNotAllowed:   "add the sender's id to commands.users, operators or admins, or set commands.mode",
	ReasonMissingMention:      "mention the agent, or set require_mention: false; to accept names in plain text, set mentions.patterns",
	ReasonUnmentioned:         "mention the agent to get a visible answer, or set require_mention: false",
}

func selfGate(f *Facts) ruling {
	if f.Sender.IsSelf {
		return ruling{"self", ReasonSelfEcho}
	}
	return ruling{key: "self"}
}

func botGate(f *Facts) ruling {
	policy := f.Access.Group.Policy
	if f.Conversation.Kind == Direct {
		policy = f.Access.DM.Policy
	}
	allow := f.Access.AllowBots
	switch {
	case !f.Sender.IsBot, allow == "" && policy == "": // without a policy, the gate sender blocks
		return ruling{}
	case allow == BotsAll || allow == BotsMentions && f.Access.Mentions.WasMentioned:
		return ruling{key: keyAllowBots}
	}
	return ruling{keyAllowBots, ReasonBotNotAllowed}
}

func routeGate(f *Facts) ruling {
	group := &f.Access.Group
	switch {
	case f.Conversation.Kind == Direct || group.Policy == "":
		return ruling{}
	case !group.RouteAllowed:
		return ruling{keyEnabled, ReasonRouteNotAllowed}
	}
	return ruling{key: keyEnabled}
}

func senderGate(kind ChatType, a AccessFacts) ruling {
	if kind != Direct {
		return groupGate(a.Group)
	}
	dm := a.DM
	switch {
	case dm.Policy == PolicyDisabled:
		return ruling{keyDMPolicy, ReasonDMDisabled}
	case dm.Policy == PolicyOpen && dm.AllowFrom == nil:
		return ruling{key: keyDMPolicy}
	case dm.Policy == PolicyOpen && slices.Contains(dm.AllowFrom, Anyone):
		return ruling{key: keyDMAllowFrom}
	case dm.Policy != PolicyOpen && dm.Policy != PolicyAllowlist && dm.Policy != PolicyPairing:
		return ruling{keyDMPolicy, ReasonNoPolicy}
	case dm.Sender:
		return ruling{key: keyDMAllowFrom}
	case dm.Policy == PolicyAllowlist && len(dm.AllowFrom) == 0:
		return ruling{keyDMAllowFrom, ReasonDMAllowlistEmpty}
	case dm.Policy != PolicyPairing:
		return ruling{keyDMAllowFrom, ReasonDMNotAllowed}
	case dm.Paired == Unknown:
		return ruling{keyDMPolicy, ReasonPairingUnavailable}
	case dm.Paired == No:
		return ruling{keyDMPolicy, ReasonPairingRequired}
	}
	return ruling{key: keyDMPolicy}
}

func groupGate(g GroupFacts) ruling {
	switch {
	case g.Policy == PolicyDisabled:
		return ruling{keyGroupPolicy, ReasonGroupDisabled}
	case g.Policy == PolicyOpen:
		return ruling{key: keyGroupPolicy}
	case g.Policy != PolicyAllowlist: // also pairing, which is only for direct conversations
		return ruling{keyGroupPolicy, ReasonNoPolicy}
	case g.Sender:
		return ruling{key: keyGroupAllowFrom}
	case len(g.AllowFrom) == 0:
		return ruling{keyGroupAllowFrom, ReasonGroupAllowlistEmpty}
	}
	return ruling{keyGroupAllowFrom, ReasonGroupNotAllowed}
}

// roleOf returns the sender's highest role, and the setting that gives it.
func roleOf(c CommandFacts, talks bool) (role tool.Role, key string, ok bool) {
	key, ok = keyCommandMode, c.Mode == CommandsSenders && talks // a user, the lowest role
	for _, list := range c.Authorizers {
		if list.Configured && list.Allowed && (!ok || key == keyCommandMode || list.Role > role) {
			role, key, ok = list.Role, "commands."+list.Name, true
		}
	}
	return role, key, ok
}

// approverOf returns the highest role of the people in a conversation: of the sender in a direct one, else of everybody on the lists.
func approverOf(f *Facts, role tool.Role, hasRole bool) turn.Approver {
	c := f.Access.Commands
	if c.Mode == CommandsOff || f.Observing {
		return turn.Approver{None: true}
	}
	by := turn.Approver{None: !hasRole, Role: role}
	if f.Conversation.Kind == Direct {
		return by
	}
	by.None = by.None && c.Mode != CommandsSenders
	for _, list := range c.Authorizers {
		if list.Configured {
			by.None, by.Role = false, max(by.Role, list.Role)
		}
	}
	return by
}

// isCommand reports whether the message is a command. A forwarded message is not: another person wrote it.
func (f *Facts) isCommand() bool {
	text := cmp.Or(f.Message.CommandBody, f.Message.RawBody)
	known := f.Access.Commands.Known
	return f.Access.Commands.Mode != CommandsOff && f.Supplemental.Forwarded == nil && IsCommand(text) && (known == nil || known(clean(text), false))
}

// IsCommand reports whether a text is a command if its sender may use commands.
func IsCommand(text string) bool {
	_, is := turn.CommandName(clean(text))
	return is
}

// addressedBy reports whether the message addresses the agent, by name or by an allowed implicit kind, and the setting that decides.
func addressedBy(m *MentionFacts) (addressed bool, key string) {
	implicit := slices.ContainsFunc(m.Implicit, func(kind MentionKind) bool { return slices.Contains(m.AllowedImplicit, kind) })
	if implicit && !m.WasMentioned {
		return true, keyImplicit
	}
	return m.WasMentioned, keyRequireMention
}

func (a *AccessFacts) unmentioned() UnmentionedMode {
	return cmp.Or(a.Group.Unmentioned, UnmentionedHistory)
}

// mentionGate returns what the gate decides; key is the setting by which a message is addressed.
func mentionGate(f *Facts, addressed bool, key string) ruling {
	a := &f.Access
	switch {
	case f.Observing || f.Conversation.Kind == Direct:
		return ruling{}
	case !a.Group.RequireMention, !a.Mentions.CanDetect: // mentions that cannot be detected are not required
		return ruling{key: keyRequireMention}
	case addressed:
		return ruling{key: key}
	case a.unmentioned() == UnmentionedObserve:
		return ruling{keyUnmentioned, ReasonUnmentioned}
	}
	return ruling{keyRequireMention, ReasonMissingMention}
}
