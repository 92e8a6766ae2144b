package channel

import (
	"cmp"
	"slices"
	"strconv"

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

// byTrigger is the setting of a verdict that passes because the server started the turn.
const byTrigger = "trigger"

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
	i := slices.IndexFunc(d.Verdicts, func(v Verdict) bool { return v.State == Blocked })
	if i < 0 {
		return Verdict{}, false
	}
	return d.Verdicts[i], true
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
	var d Decision
	sender, talks := senderVerdict(&f)
	var by string // the list that gives the role
	d.Role, by, d.HasRole = roleOf(a.Commands, talks)
	d.Approver = approverOf(&f, d)
	isCommand := f.isCommand()
	d.CommandAuthorized = isCommand && d.HasRole
	addressed, implicit := addressedBy(&a.Mentions)
	d.Addressed = addressed || d.CommandAuthorized && !a.Mentions.HasAnyMention
	d.Verdicts = append(make([]Verdict, 0, 8), selfGate(&f), botGate(&f), routeGate(&f), sender, commandGate(&f, isCommand, d.HasRole, by),
		mentionGate(&f, d.Addressed, implicit))
	d.Admission = Admission{Kind: Dispatch}
	if v, blocked := d.Blocked(); blocked {
		d.Admission = Admission{Kind: Drop, Reason: v.Reason}
		switch v.Reason {
		case ReasonPairingRequired:
			d.Admission.Kind = Handled
		case ReasonUnmentioned:
			d.Admission.Kind = ObserveOnly
		case ReasonMissingMention: // hidden messages are not stored
			d.Admission.RecordHistory = a.unmentioned() == UnmentionedHistory && !f.Supplemental.HidesMessage(a.Visibility)
		}
	}
	return d
}

func (v Verdict) block(reason Reason, hint string) Verdict {
	v.State, v.Reason, v.Hint = Blocked, reason, hint
	return v
}

func (v Verdict) skip() Verdict {
	v.State = Skipped
	return v
}

// from sets the path and the value of the setting.
func (v Verdict) from(setting, value string) Verdict {
	v.Setting, v.Value = setting, value
	return v
}

func selfGate(f *Facts) Verdict {
	v := Verdict{Gate: GateSelf, State: Passed, Setting: "default:self", Value: strconv.FormatBool(f.Sender.IsSelf)}
	if f.Sender.IsSelf {
		return v.block(ReasonSelfEcho, "the agent never answers itself")
	}
	return v
}

func botGate(f *Facts) Verdict {
	a := &f.Access
	allow := cmp.Or(a.AllowBots, BotsNone)
	v := Verdict{Gate: GateBot, State: Passed, Setting: source(a, keyAllowBots), Value: string(allow)}
	switch {
	case !f.Sender.IsBot, a.AllowBots == "" && f.policy() == "": // without a policy, the gate sender blocks
		return v.skip()
	case allow == BotsAll || allow == BotsMentions && a.Mentions.WasMentioned:
		return v
	case allow == BotsMentions:
		return v.block(ReasonBotNotAllowed, "mention the agent by name, or set allow_bots: all")
	}
	return v.block(ReasonBotNotAllowed, "set allow_bots: mentions or all")
}

func routeGate(f *Facts) Verdict {
	group := &f.Access.Group
	v := Verdict{Gate: GateRoute, State: Passed, Setting: source(&f.Access, keyEnabled), Value: strconv.FormatBool(group.RouteAllowed)}
	switch {
	case f.Conversation.Kind == Direct || group.Policy == "":
		return v.skip()
	case !group.RouteAllowed:
		return v.block(ReasonRouteNotAllowed, "add the conversation to groups.only, or set enabled: true for it or for the thread")
	}
	return v
}

// policy returns the policy for conversations of this kind.
func (f *Facts) policy() PolicyKind {
	if f.Conversation.Kind == Direct {
		return f.Access.DM.Policy
	}
	return f.Access.Group.Policy
}

// senderVerdict returns the verdict of the gate sender. talks reports whether the policy, not a trigger, lets the sender talk.
func senderVerdict(f *Facts) (v Verdict, talks bool) {
	a := &f.Access
	key, hint, reason := senderGate(f.Conversation.Kind, *a)
	v = Verdict{Gate: GateSender, State: Passed}
	if f.Trigger != "" {
		return v.from(byTrigger, string(f.Trigger)), reason == ""
	}
	v = v.from(source(a, key), string(f.policy()))
	switch key { // the value of a list never has its entries
	case keyDMAllowFrom:
		v.Value = listed(a.DM.AllowFrom, a.DM.Sender)
	case keyGroupAllowFrom:
		v.Value = listed(a.Group.AllowFrom, a.Group.Sender)
	}
	if reason != "" {
		return v.block(reason, hint), false
	}
	return v, true
}

func listed(list []string, on bool) string {
	switch {
	case on:
		return "listed"
	case len(list) == 0:
		return "empty list"
	}
	return "not listed"
}

// senderGate returns the key of the setting that decides, what to change, and why the sender may not talk; "" if the sender may.
func senderGate(kind ChatType, a AccessFacts) (key, hint string, reason Reason) {
	if kind != Direct {
		return groupGate(a.Group)
	}
	const noPolicy = "set dm.policy: allowlist, pairing or open"
	switch dm := a.DM; {
	case dm.Policy == PolicyDisabled:
		return keyDMPolicy, noPolicy, ReasonDMDisabled
	case dm.Policy == PolicyOpen && dm.AllowFrom == nil, dm.Policy == PolicyPairing && !dm.Sender && dm.Paired == Yes:
		return keyDMPolicy, "", ""
	case dm.Policy == PolicyOpen && (dm.Sender || slices.Contains(dm.AllowFrom, Anyone)),
		dm.Policy == PolicyAllowlist && dm.Sender, dm.Policy == PolicyPairing && dm.Sender:
		return keyDMAllowFrom, "", ""
	case dm.Policy == PolicyOpen:
		return keyDMAllowFrom, "add the sender's id to dm.allow_from, or remove this list to admit all senders", ReasonDMNotAllowed
	case dm.Policy == PolicyAllowlist && len(dm.AllowFrom) == 0:
		return keyDMAllowFrom, "list the admitted senders' ids in dm.allow_from", ReasonDMAllowlistEmpty
	case dm.Policy == PolicyAllowlist:
		return keyDMAllowFrom, "add the sender's id to dm.allow_from", ReasonDMNotAllowed
	case dm.Policy == PolicyPairing && dm.Paired == Unknown:
		return keyDMPolicy, "cannot read the pairings; check the folder data/pairing", ReasonPairingUnavailable
	case dm.Policy == PolicyPairing:
		return keyDMPolicy, "approve the sender's code with \"lingserve channels pair approve CODE\", or add the id to dm.allow_from", ReasonPairingRequired
	}
	return keyDMPolicy, noPolicy, ReasonNoPolicy
}

func groupGate(g GroupFacts) (key, hint string, reason Reason) {
	const noPolicy = "set groups.policy: allowlist or open"
	switch {
	case g.Policy == PolicyDisabled:
		return keyGroupPolicy, noPolicy, ReasonGroupDisabled
	case g.Policy == PolicyOpen:
		return keyGroupPolicy, "", ""
	case g.Policy == PolicyAllowlist && g.Sender:
		return keyGroupAllowFrom, "", ""
	case g.Policy == PolicyAllowlist && len(g.AllowFrom) == 0:
		return keyGroupAllowFrom, "list the admitted senders' ids in groups.allow_from, or use inherit for the list of dm", ReasonGroupAllowlistEmpty
	case g.Policy == PolicyAllowlist:
		return keyGroupAllowFrom, "add the sender's id to groups.allow_from", ReasonGroupNotAllowed
	}
	return keyGroupPolicy, noPolicy, ReasonNoPolicy // also pairing, which is only for direct conversations
}

// roleOf returns the sender's highest role, and the setting with the list that gives it; "" if every sender has it.
func roleOf(c CommandFacts, talks bool) (role tool.Role, by string, ok bool) {
	ok = c.Mode == CommandsSenders && talks // a user, the lowest role
	for _, list := range c.Authorizers {
		if list.Configured && list.Allowed && (by == "" || list.Role > role) {
			role, by, ok = list.Role, "commands."+list.Name, true
		}
	}
	return role, by, ok
}

// approverOf returns the highest role of the people in a conversation: of the sender in a direct one, else of everybody on the lists.
func approverOf(f *Facts, d Decision) turn.Approver {
	c := f.Access.Commands
	if c.Mode == CommandsOff || f.Observing {
		return turn.Approver{None: true}
	}
	by := turn.Approver{None: !d.HasRole, Role: d.Role}
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

func commandGate(f *Facts, isCommand, hasRole bool, by string) Verdict {
	a := &f.Access
	v := Verdict{Gate: GateCommand, State: Passed, Setting: source(a, keyCommandMode), Value: string(cmp.Or(a.Commands.Mode, CommandsAuthorizers))}
	switch {
	case f.Trigger != "":
		return v.from(byTrigger, string(f.Trigger))
	case !isCommand:
		return v.skip()
	case !hasRole:
		return v.block(ReasonCommandNotAllowed,
			"add the sender's id to commands.users, operators or admins, or set commands.mode to senders, or to off to treat commands as text")
	case by != "":
		return v.from(source(a, by), "listed")
	}
	return v
}

// addressedBy reports whether the message addresses the agent: by name, or by an allowed implicit kind.
func addressedBy(m *MentionFacts) (addressed bool, implicit MentionKind) {
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

func (a *AccessFacts) unmentioned() UnmentionedMode {
	return cmp.Or(a.Group.Unmentioned, UnmentionedHistory)
}

func mentionGate(f *Facts, addressed bool, implicit MentionKind) Verdict {
	a := &f.Access
	v := Verdict{Gate: GateMention, State: Passed, Setting: source(a, keyRequireMention), Value: strconv.FormatBool(a.Group.RequireMention)}
	switch {
	case f.Trigger != "":
		return v.from(byTrigger, string(f.Trigger))
	case f.Observing:
		return v.from("default:observeOnly", "true").skip()
	case f.Conversation.Kind == Direct:
		return v.skip()
	case !a.Group.RequireMention:
		return v
	case !a.Mentions.CanDetect:
		v.Hint = "mentions cannot be detected here, so that none is required"
		return v
	case addressed && implicit != "":
		return v.from(source(a, keyImplicit), string(implicit))
	case addressed:
		return v
	case a.unmentioned() == UnmentionedObserve:
		return v.from(source(a, keyUnmentioned), string(UnmentionedObserve)).
			block(ReasonUnmentioned, "mention the agent to get a visible answer, or set require_mention: false")
	}
	return v.block(ReasonMissingMention, "mention the agent, or set require_mention: false; to accept names in plain text, set mentions.patterns")
}
