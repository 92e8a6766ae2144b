package channel_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/tool"
)

// admitted are facts that every gate lets pass.
func admitted(kind channel.ChatType) channel.Facts {
	return channel.Facts{
		Channel: "telegram", MessageID: "1",
		Sender:       channel.SenderFacts{ID: "42"},
		Conversation: channel.ConversationFacts{Kind: kind, ID: "7"},
		Route:        channel.RouteFacts{AgentID: "assistant", RouteSessionKey: "telegram:7"},
		Reply:        channel.ReplyPlanFacts{To: "7"},
		Message:      channel.MessageFacts{RawBody: "hello"},
		Access: channel.AccessFacts{
			DM:    channel.DMFacts{Policy: channel.PolicyOpen},
			Group: channel.GroupFacts{Policy: channel.PolicyOpen, RouteAllowed: true},
		},
	}
}

func dropped(r channel.Reason) channel.Admission {
	return channel.Admission{Kind: channel.Drop, Reason: r}
}

var goesOn = channel.Admission{Kind: channel.Dispatch}

// CH-101: every row of the table of direct conversations, for every list, sender and pairing.
func TestThePolicyOfDirectConversationsDecidesAsItsTable(t *testing.T) {
	lists := map[string][]string{"no list": nil, "empty list": {}, "a list": {"1", "2"}, "everybody": {channel.Anyone}}
	for _, policy := range []channel.PolicyKind{"", channel.PolicyDisabled, channel.PolicyOpen, channel.PolicyAllowlist, channel.PolicyPairing, "other"} {
		for list, entries := range lists {
			for _, listed := range []bool{false, true} {
				for _, paired := range []channel.Tri{channel.Unknown, channel.No, channel.Yes} {
					name := fmt.Sprintf("%s/%s/listed %t/paired %d", policy, list, listed, paired)
					t.Run(name, func(t *testing.T) {
						if listed && len(entries) == 0 {
							t.Skip("nobody is on it")
						}
						f := admitted(channel.Direct)
						f.Access.DM = channel.DMFacts{Policy: policy, AllowFrom: entries, Sender: listed, Paired: paired}
						if diff := cmp.Diff(wantDirect(policy, list, listed, paired), channel.Evaluate(f).Admission); diff != "" {
							t.Error(diff)
						}
					})
				}
			}
		}
	}
}

func wantDirect(policy channel.PolicyKind, list string, listed bool, paired channel.Tri) channel.Admission {
	switch policy {
	case channel.PolicyDisabled:
		return dropped(channel.ReasonDMDisabled)
	case channel.PolicyOpen:
		if list == "no list" || list == "everybody" || listed {
			return goesOn
		}
		return dropped(channel.ReasonDMNotAllowed)
	case channel.PolicyAllowlist:
		if listed {
			return goesOn
		}
		return dropped(channel.ReasonDMNotAllowed)
	case channel.PolicyPairing:
		switch {
		case listed || paired == channel.Yes:
			return goesOn
		case paired == channel.Unknown:
			return dropped(channel.ReasonPairingUnavailable)
		}
		return channel.Admission{Kind: channel.Handled, Reason: channel.ReasonPairingRequired}
	}
	return dropped(channel.ReasonNoPolicy)
}

// CH-101, CH-102: every row of the table of groups. Who is paired does not count there.
func TestThePolicyOfGroupsDecidesAsItsTable(t *testing.T) {
	lists := map[string][]string{"no list": nil, "empty list": {}, "a list": {"1", "2"}}
	for _, kind := range []channel.ChatType{channel.Group, channel.Broadcast} {
		for _, policy := range []channel.PolicyKind{"", channel.PolicyDisabled, channel.PolicyOpen, channel.PolicyAllowlist, channel.PolicyPairing} {
			for list, entries := range lists {
				for _, listed := range []bool{false, true} {
					t.Run(fmt.Sprintf("%s/%s/%s/listed %t", kind, policy, list, listed), func(t *testing.T) {
						if listed && len(entries) == 0 {
							t.Skip("nobody is on it")
						}
						f := admitted(kind)
						f.Access.DM = channel.DMFacts{Policy: channel.PolicyOpen, Paired: channel.Yes, Sender: true}
						f.Access.Group = channel.GroupFacts{Policy: policy, RouteAllowed: true, AllowFrom: entries, Sender: listed}
						want := dropped(channel.ReasonNoPolicy)
						switch policy {
						case channel.PolicyDisabled:
							want = dropped(channel.ReasonGroupDisabled)
						case channel.PolicyOpen:
							want = goesOn
						case channel.PolicyAllowlist:
							if want = goesOn; !listed {
								want = dropped(channel.ReasonGroupNotAllowed)
							}
						}
						if diff := cmp.Diff(want, channel.Evaluate(f).Admission); diff != "" {
							t.Error(diff)
						}
					})
				}
			}
		}
	}
}

// CH-02, CH-101: the zero value of what is known admits nobody, bots and groups included.
func TestWithoutAccessFactsThereIsNoPolicy(t *testing.T) {
	for _, kind := range []channel.ChatType{channel.Direct, channel.Group, channel.Broadcast} {
		for _, bot := range []bool{false, true} {
			f := admitted(kind)
			f.Sender.IsBot, f.Access = bot, channel.AccessFacts{}
			if diff := cmp.Diff(dropped(channel.ReasonNoPolicy), channel.Evaluate(f).Admission); diff != "" {
				t.Errorf("%s, bot %t: %s", kind, bot, diff)
			}
			f.Access = channel.Policy{}.Access(f.Sender, channel.MentionFacts{})
			if diff := cmp.Diff(dropped(channel.ReasonNoPolicy), channel.Evaluate(f).Admission); diff != "" {
				t.Errorf("%s, bot %t, no settings: %s", kind, bot, diff)
			}
		}
	}
}

// CH-101: gates in their order, and the first that blocks decides.
func TestTheFirstGateThatBlocksDecides(t *testing.T) {
	f := admitted(channel.Group)
	f.Sender.IsSelf, f.Sender.IsBot = true, true
	f.Access.AllowBots = channel.BotsNone
	f.Access.Group = channel.GroupFacts{Policy: channel.PolicyAllowlist, RequireMention: true}
	f.Access.Mentions.CanDetect = true
	f.Message.RawBody = ",tape.reset"
	steps := []struct {
		setting string
		reason  channel.Reason
		mend    func()
	}{
		{"self", channel.ReasonSelfEcho, func() { f.Sender.IsSelf = false }},
		{"allow_bots", channel.ReasonBotNotAllowed, func() { f.Access.AllowBots = channel.BotsAll }},
		{"groups.enabled", channel.ReasonRouteNotAllowed, func() { f.Access.Group.RouteAllowed = true }},
		{"groups.allow_from", channel.ReasonGroupNotAllowed, func() { f.Access.Group.Policy = channel.PolicyOpen }},
		{"commands.mode", channel.ReasonCommandNotAllowed, func() { f.Message.RawBody = "hello" }},
		{"groups.require_mention", channel.ReasonMissingMention, func() { f.Access.Mentions.WasMentioned = true }},
	}
	for i, step := range steps {
		d := channel.Evaluate(f)
		if d.Setting != "default:"+step.setting || d.Admission.Reason != step.reason {
			t.Errorf("got %+v by %s, want %s by %s", d.Admission, d.Setting, step.reason, step.setting)
		}
		if want := i > 3; d.Talks != want {
			t.Errorf("with %d gates mended, the sender may talk: %t", i, d.Talks)
		}
		step.mend()
	}
	d := channel.Evaluate(f)
	if d.Setting != "" || d.Admission != goesOn || !d.Talks {
		t.Errorf("with all mended: %+v", d)
	}
}

// CH-101
func TestBotsTalkAsAllowBotsSays(t *testing.T) {
	for _, allow := range []channel.AllowBots{"", channel.BotsNone, channel.BotsMentions, channel.BotsAll} {
		for _, mentioned := range []bool{false, true} {
			for _, implicit := range []bool{false, true} {
				f := admitted(channel.Group)
				f.Sender.IsBot = true
				f.Access.AllowBots = allow
				f.Access.Mentions.WasMentioned = mentioned
				if implicit {
					f.Access.Mentions.Implicit = []channel.MentionKind{channel.ReplyToBot}
					f.Access.Mentions.AllowedImplicit = f.Access.Mentions.Implicit
				}
				want := dropped(channel.ReasonBotNotAllowed)
				if allow == channel.BotsAll || allow == channel.BotsMentions && mentioned {
					want = goesOn
				}
				if diff := cmp.Diff(want, channel.Evaluate(f).Admission); diff != "" {
					t.Errorf("%q, mentioned %t, implicit %t: %s", allow, mentioned, implicit, diff)
				}
			}
		}
	}
}

// CH-105
func TestCommandsAreForThoseOnTheLists(t *testing.T) {
	lists := func(users, operators, admins int) []channel.Authorizer { // 0 not configured, 1 not listed, 2 listed
		return []channel.Authorizer{
			{Name: "users", Role: tool.User, Configured: users > 0, Allowed: users == 2},
			{Name: "operators", Role: tool.Operator, Configured: operators > 0, Allowed: operators == 2},
			{Name: "admins", Role: tool.Admin, Configured: admins > 0, Allowed: admins == 2},
		}
	}
	for _, mode := range []channel.CommandMode{"", channel.CommandsAuthorizers, channel.CommandsSenders, channel.CommandsOff} {
		for users := range 3 {
			for operators := range 3 {
				for admins := range 3 {
					for _, body := range []string{",help", "，help", "hello", ", well", ",123"} {
						f := admitted(channel.Direct)
						f.Access.Commands = channel.CommandFacts{Mode: mode, Authorizers: lists(users, operators, admins)}
						f.Message.RawBody = body
						d := channel.Evaluate(f)

						role, has := tool.User, mode == channel.CommandsSenders || users == 2 || operators == 2 || admins == 2
						if operators == 2 {
							role = tool.Operator
						}
						if admins == 2 {
							role = tool.Admin
						}
						command := mode != channel.CommandsOff && strings.HasSuffix(body, "help")
						want := goesOn
						if command && !has {
							want = dropped(channel.ReasonCommandNotAllowed)
						}
						name := fmt.Sprintf("%q users %d operators %d admins %d %q", mode, users, operators, admins, body)
						if d.Admission != want || d.HasRole != has || has && d.Role != role || d.CommandAuthorized != (command && has) {
							t.Errorf("%s: %+v", name, d)
						}
					}
				}
			}
		}
	}
}

// CH-105: a list that stands in the facts but is not configured gives nothing.
func TestAnAuthorizerThatIsNotConfiguredGivesNoRole(t *testing.T) {
	f := admitted(channel.Direct)
	f.Access.Commands.Authorizers = []channel.Authorizer{{Name: "admins", Role: tool.Admin, Allowed: true}}
	if d := channel.Evaluate(f); d.HasRole {
		t.Errorf("%+v", d)
	}
}

// CH-105: who may not talk is no user by the mode senders, and what a command is, the text for commands says.
func TestACommandIsReadFromTheTextForCommands(t *testing.T) {
	f := admitted(channel.Direct)
	f.Access.Commands.Mode = channel.CommandsSenders
	f.Message = channel.MessageFacts{RawBody: "/help", CommandBody: ",help"}
	if d := channel.Evaluate(f); !d.CommandAuthorized {
		t.Errorf("%+v", d)
	}
	f.Access.DM.Policy = channel.PolicyDisabled
	if d := channel.Evaluate(f); d.CommandAuthorized || d.HasRole {
		t.Errorf("who may not talk: %+v", d)
	}
}

// CH-105: words of somebody else give no commands.
func TestAForwardedMessageIsNoCommand(t *testing.T) {
	f := admitted(channel.Direct)
	f.Access.Commands.Mode = channel.CommandsSenders
	f.Message.RawBody = ",tape.reset"
	f.Supplemental.Forwarded = &channel.Forwarded{From: "somebody", SenderAllowed: channel.Yes}
	if d := channel.Evaluate(f); d.CommandAuthorized || d.Admission != goesOn {
		t.Errorf("%+v", d)
	}
}

// CH-106, CH-107: all of the formula.
func TestTheGateMentionBlocksAsItsFormula(t *testing.T) {
	for _, kind := range []channel.ChatType{channel.Direct, channel.Group, channel.Broadcast} {
		for bits := range 1 << 8 {
			bit := func(i int) bool { return bits>>i&1 == 1 }
			require, detect, mentioned, implicit, allowed, command, others, observing := bit(0), bit(1), bit(2), bit(3), bit(4), bit(5), bit(6), bit(7)
			f := admitted(kind)
			f.Observing = observing
			f.Access.Group.RequireMention = require
			m := &f.Access.Mentions
			m.CanDetect, m.WasMentioned, m.HasAnyMention = detect, mentioned, mentioned || others
			if implicit {
				m.Implicit = []channel.MentionKind{channel.QuotedBot}
			}
			if allowed {
				m.AllowedImplicit = []channel.MentionKind{channel.ReplyToBot, channel.QuotedBot}
			}
			if command {
				f.Message.RawBody = ",help"
				f.Access.Commands.Mode = channel.CommandsSenders
			}
			d := channel.Evaluate(f)
			addressed := mentioned || implicit && allowed || command && !others
			blocked := kind != channel.Direct && require && detect && !addressed && !observing
			want := goesOn
			if blocked {
				want = channel.Admission{Kind: channel.Drop, Reason: channel.ReasonMissingMention, RecordHistory: true}
			}
			if d.Admission != want || d.Addressed != addressed {
				t.Errorf("%s %08b: %+v", kind, bits, d)
			}
		}
	}
}

// CH-106
func TestUnmentionedMessagesAreKeptDroppedOrAnsweredUnseen(t *testing.T) {
	for mode, want := range map[channel.UnmentionedMode]channel.Admission{
		"":                         {Kind: channel.Drop, Reason: channel.ReasonMissingMention, RecordHistory: true},
		channel.UnmentionedHistory: {Kind: channel.Drop, Reason: channel.ReasonMissingMention, RecordHistory: true},
		channel.UnmentionedDrop:    dropped(channel.ReasonMissingMention),
		channel.UnmentionedObserve: {Kind: channel.ObserveOnly, Reason: channel.ReasonUnmentioned},
	} {
		f := admitted(channel.Group)
		f.Access.Group.RequireMention, f.Access.Group.Unmentioned = true, mode
		f.Access.Mentions.CanDetect = true
		if diff := cmp.Diff(want, channel.Evaluate(f).Admission); diff != "" {
			t.Errorf("%q: %s", mode, diff)
		}
	}
}

// CH-109, CH-91: words that the policy hides do not come to the agent by way of the window.
func TestAHiddenForwardDoesNotWaitInTheWindow(t *testing.T) {
	for _, allowed := range []channel.Tri{channel.Unknown, channel.No, channel.Yes} {
		for _, visibility := range []channel.Visibility{"", channel.VisibleAllowlist, channel.VisibleAll} {
			f := admitted(channel.Group)
			f.Access.Group.RequireMention, f.Access.Mentions.CanDetect, f.Access.Visibility = true, true, visibility
			f.Supplemental.Forwarded = &channel.Forwarded{From: "somebody", SenderAllowed: allowed}
			want := channel.Admission{
				Kind: channel.Drop, Reason: channel.ReasonMissingMention,
				RecordHistory: allowed == channel.Yes || visibility != channel.VisibleAllowlist,
			}
			if diff := cmp.Diff(want, channel.Evaluate(f).Admission); diff != "" {
				t.Errorf("%q, allowed %d: %s", visibility, allowed, diff)
			}
		}
	}
}

// CH-100, CH-102
func TestListsMatchStableIDsAndNamesOnlyIfTold(t *testing.T) {
	who := channel.SenderFacts{ID: "42alt", Username: "@Alice", Name: "Alice Doe", Roles: []string{"mod"}}
	for name, test := range map[string]struct {
		list          []string
		mutable, want bool
	}{
		"an id":                     {list: []string{"1", "42alt"}, want: true},
		"the start of an id":        {list: []string{"4"}},
		"a handle":                  {list: []string{"@alice"}},
		"a handle, if told":         {list: []string{"@alice"}, mutable: true, want: true},
		"a handle without its sign": {list: []string{"alice"}, mutable: true, want: true},
		"a name":                    {list: []string{"Alice Doe"}},
		"a name, if told":           {list: []string{"alice doe"}, mutable: true, want: true},
		"a role":                    {list: []string{"role:mod"}, want: true},
		"another role":              {list: []string{"role:admin"}},
		"a role without its prefix": {list: []string{"mod"}},
		"an id in another case":     {list: []string{"42ALT"}},
		"everybody":                 {list: []string{"*"}, mutable: true},
		"an empty entry":            {list: []string{""}, mutable: true},
		"nobody":                    {list: []string{}},
		"no list":                   {},
	} {
		t.Run(name, func(t *testing.T) {
			p := channel.Policy{DMAllowFrom: test.list, GroupAllowFrom: test.list, Users: test.list, Admins: test.list, MatchMutable: test.mutable}
			a := p.Access(who, channel.MentionFacts{})
			if a.DM.Sender != test.want || a.Group.Sender != test.want || a.Commands.Authorizers[0].Allowed != test.want || a.Commands.Authorizers[2].Allowed != test.want {
				t.Errorf("%+v", a)
			}
			if got := a.Commands.Authorizers[0].Configured; got != (len(test.list) > 0) {
				t.Errorf("configured: %t", got)
			}
		})
	}
}

// CH-102: somebody called "*" or without any id is not everybody.
func TestNobodyMatchesByAnEmptyIdentity(t *testing.T) {
	p := channel.Policy{DM: channel.PolicyAllowlist, DMAllowFrom: []string{"42", "", "*", "@", "role:"}, MatchMutable: true}
	for _, who := range []channel.SenderFacts{{}, {ID: "*"}, {Username: "@", Name: "*"}} {
		if p.Access(who, channel.MentionFacts{}).DM.Sender {
			t.Errorf("%+v is on the list", who)
		}
	}
}

// CH-100, CH-109: what SenderAllowed is made of.
func TestSeesSaysWhetherSomebodyMayTalk(t *testing.T) {
	p := channel.Policy{DM: channel.PolicyAllowlist, DMAllowFrom: []string{"42"}, Group: channel.PolicyOpen}
	for name, test := range map[string]struct {
		kind channel.ChatType
		id   string
		want channel.Tri
	}{
		"on the list":                  {channel.Direct, "42", channel.Yes},
		"not on the list":              {channel.Direct, "1", channel.No},
		"nobody knows":                 {channel.Direct, "", channel.Unknown},
		"anybody in an open group":     {channel.Group, "1", channel.Yes},
		"nobody knows, in an open one": {channel.Group, "", channel.Unknown},
	} {
		if got := p.Sees(test.kind, channel.SenderFacts{ID: test.id}); got != test.want {
			t.Errorf("%s: got %d, want %d", name, got, test.want)
		}
	}
}

// CH-103: a decision names the path that supplied the value that decided.
func TestADecisionNamesTheSettingThatDecided(t *testing.T) {
	mentions := channel.MentionFacts{CanDetect: true}
	for setting, change := range map[string]func(*channel.Facts){
		"dm.policy":     func(f *channel.Facts) { f.Access.DM.Policy = channel.PolicyDisabled },
		"dm.allow_from": func(f *channel.Facts) { f.Access.DM.Policy = channel.PolicyAllowlist },
		"groups.policy": func(f *channel.Facts) {
			f.Conversation.Kind, f.Access.Group.Policy = channel.Group, channel.PolicyDisabled
		},
		"unmentioned": func(f *channel.Facts) {
			f.Conversation.Kind, f.Access.Group.RequireMention, f.Access.Mentions = channel.Group, true, mentions
			f.Access.Group.Unmentioned = channel.UnmentionedObserve
		},
	} {
		f := admitted(channel.Direct)
		change(&f)
		if d := channel.Evaluate(f); d.Setting != "default:"+setting {
			t.Errorf("built in: got %s, want %s", d.Setting, setting)
		}
		f.Access.Sources = map[string]string{setting: "channels.telegram." + setting}
		if d := channel.Evaluate(f); d.Setting != "channels.telegram."+setting {
			t.Errorf("set: got %s, want %s", d.Setting, setting)
		}
	}
}
