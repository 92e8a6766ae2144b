package channel

import (
	"cmp"
	"slices"

	"github.com/lingserve/lingserve/tool"
	"github.com/lingserve/lingserve/turn"
)

// Decision is the result of the gates.
type Decision struct {
	Admission         Admission // of the first gate that blocks; else dispatch
	Setting           string    // the path of the setting by which that gate blocks; "default:…" for one that is built in
	Talks             bool      // the gates self to sender pass; only such messages are stored in the history window
	Addressed         bool
	CommandAuthorized bool      // the message is a command, and the sender has a role
	Role              tool.Role // of the sender, also if the message is not a command; valid only if HasRole
	HasRole           bool
	Approver          turn.Approver // who can answer a question for approval in this conversation
}

// Evaluate evaluates the gates self, bot, route, sender, command and mention, in this order. It is pure.
func Evaluate(f Facts) Decision {
	a, isCommand := &f.Access, f.isCommand()
	key, reason := senderGate(f.Conversation.Kind, *a)
	var d Decision
	d.Role, d.HasRole = roleOf(a.Commands, reason == "")
	d.CommandAuthorized = isCommand && d.HasRole
	d.Approver = approverOf(&f, d.Role, d.HasRole)
	d.Addressed = a.Mentions.addressed() || d.CommandAuthorized && !a.Mentions.HasAnyMention
	switch {
	case f.Sender.IsSelf:
		key, reason = "self", ReasonSelfEcho
	case f.Sender.IsBot && !f.letsBotIn():
		key, reason = keyAllowBots, ReasonBotNotAllowed
	case f.Conversation.Kind != Direct && a.Group.Policy != "" && !a.Group.RouteAllowed:
		key, reason = keyEnabled, ReasonRouteNotAllowed
	case reason != "":
	case isCommand && !d.HasRole:
		d.Talks = true
		key, reason = keyCommandMode, ReasonCommandNotAllowed
	default:
		d.Talks = true
		key, reason = mentionGate(&f, d.Addressed)
	}
	d.Admission = f.admissionFor(reason)
	if reason != "" {
		d.Setting = cmp.Or(a.Sources[key], builtIn+key)
	}
	return d
}

// admissionFor returns the admission of a message that a gate blocks; without a reason, none does.
func (f *Facts) admissionFor(reason Reason) Admission {
	switch reason {
	case "":
		return Admission{Kind: Dispatch}
	case ReasonPairingRequired:
		return Admission{Kind: Handled, Reason: reason}
	case ReasonUnmentioned:
		return Admission{Kind: ObserveOnly, Reason: reason}
	}
	a := Admission{Kind: Drop, Reason: reason}
	if reason == ReasonMissingMention { // hidden messages are not stored
		a.RecordHistory = f.Access.unmentioned() == UnmentionedHistory && !f.Supplemental.HidesMessage(f.Access.Visibility)
	}
	return a
}

func (f *Facts) letsBotIn() bool {
	switch f.Access.AllowBots {
	case BotsAll:
		return true
	case BotsMentions:
		return f.Access.Mentions.WasMentioned
	case "":
		return f.Access.DM.Policy == "" && f.Access.Group.Policy == "" // the gate sender blocks
	}
	return false
}

// senderGate returns why the sender may not talk, or "", and the key of the setting that decides.
func senderGate(kind ChatType, a AccessFacts) (key string, reason Reason) {
	if kind != Direct {
		return groupGate(a.Group)
	}
	dm := a.DM
	switch {
	case dm.Policy == PolicyDisabled:
		return keyDMPolicy, ReasonDMDisabled
	case dm.Policy == PolicyOpen && (dm.AllowFrom == nil || slices.Contains(dm.AllowFrom, Anyone)):
		return "", ""
	case dm.Policy != PolicyOpen && dm.Policy != PolicyAllowlist && dm.Policy != PolicyPairing:
		return keyDMPolicy, ReasonNoPolicy
	case dm.Sender:
		return "", ""
	case dm.Policy != PolicyPairing:
		return keyDMAllowFrom, ReasonDMNotAllowed
	case dm.Paired == Unknown:
		return keyDMPolicy, ReasonPairingUnavailable
	case dm.Paired == No:
		return keyDMPolicy, ReasonPairingRequired
	}
	return "", ""
}

func groupGate(g GroupFacts) (key string, reason Reason) {
	switch {
	case g.Policy == PolicyDisabled:
		return keyGroupPolicy, ReasonGroupDisabled
	case g.Policy == PolicyOpen || g.Policy == PolicyAllowlist && g.Sender:
		return "", ""
	case g.Policy != PolicyAllowlist: // also pairing, which is only for direct conversations
		return keyGroupPolicy, ReasonNoPolicy
	}
	return keyGroupAllowFrom, ReasonGroupNotAllowed
}

// roleOf returns the sender's highest role.
func roleOf(c CommandFacts, talks bool) (role tool.Role, ok bool) {
	ok = c.Mode == CommandsSenders && talks // a user, the lowest role
	for _, list := range c.Authorizers {
		if list.Configured && list.Allowed {
			role, ok = max(role, list.Role), true
		}
	}
	return role, ok
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

// addressed reports whether the message addresses the agent, by name or by an allowed implicit kind.
func (m *MentionFacts) addressed() bool {
	return m.WasMentioned || slices.ContainsFunc(m.Implicit, func(kind MentionKind) bool { return slices.Contains(m.AllowedImplicit, kind) })
}

func (a *AccessFacts) unmentioned() UnmentionedMode {
	return cmp.Or(a.Group.Unmentioned, UnmentionedHistory)
}

func mentionGate(f *Facts, addressed bool) (key string, reason Reason) {
	a := &f.Access
	switch {
	case f.Observing, f.Conversation.Kind == Direct, !a.Group.RequireMention, addressed:
		return "", ""
	case !a.Mentions.CanDetect: // so that none is required
		return "", ""
	case a.unmentioned() == UnmentionedObserve:
		return keyUnmentioned, ReasonUnmentioned
	}
	return keyRequireMention, ReasonMissingMention
}
