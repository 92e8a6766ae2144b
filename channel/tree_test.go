package channel_test

import (
	"errors"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/channel"
)

func tree(t testing.TB, c channel.Configuration) *channel.Tree {
	t.Helper()
	s, err := channel.NewTree(c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// at is a configuration of one channel.
func at(p channel.Place) channel.Configuration { return channel.Configuration{ofChannel: &p} }

var ofChannel = channel.PlaceName{Level: channel.OfChannel, Channel: "telegram"}

// ofGroup names a group, or a thread in it.
func ofGroup(account, id, thread string) channel.PlaceName {
	n := channel.PlaceName{Level: channel.OfGroup, Channel: "telegram", Account: account, Conversation: id, Thread: thread}
	if thread != "" {
		n.Level = channel.OfThread
	}
	return n
}

func group(id string) channel.PolicyQuery {
	return channel.PolicyQuery{Channel: "telegram", Conversation: id, Kind: channel.Group}
}

// CH-103: every setting by itself, at every level it can stand on, over all others it can stand on.
func TestSettingsResolveFieldByFieldFromTheMostSpecificLevel(t *testing.T) {
	values := map[string][]string{ // as many as there can be levels
		"dm.policy": {"open", "disabled", "allowlist", "pairing"}, "groups.policy": {"open", "disabled", "allowlist"},
		"unmentioned": {"drop", "observe"}, "allow_bots": {"all", "mentions"}, "context_visibility": {"all", "allowlist"},
		"commands.mode": {"off", "senders"}, "on_busy": {"reject", "steer", "interrupt"}, "log.sender_ids": {"none", "plain"},
		"implicit_mentions": {"native", "bot_thread", "quoted_bot"}, "debounce": {"1s", "2s", "3s", "4s"},
	}
	for _, s := range channel.SettingsTable() {
		t.Run(s.Key, func(t *testing.T) {
			choices := values[s.Key]
			switch {
			case choices != nil:
			case fieldOf(s, new(channel.Place)).Type() == reflect.TypeFor[*bool]():
				choices = []string{"false", "true"}
			case fieldOf(s, new(channel.Place)).Type() == reflect.TypeFor[*int]():
				choices = []string{"1", "2", "3", "4"}
			default:
				choices = []string{"a", "b", "c", "d"}
			}
			levels := []struct {
				level channel.Level
				path  string
			}{
				{channel.OfChannel, "channels.telegram."},
				{channel.OfChannel, "channels.telegram.accounts.work."},
				{channel.OfGroup, "channels.telegram.groups.-100."},
				{channel.OfGroup, "channels.telegram.accounts.work.groups.-100."},
				{channel.OfThread, "channels.telegram.groups.-100.threads.7."},
				{channel.OfThread, "channels.telegram.accounts.work.groups.-100.threads.7."},
			}
			q := channel.PolicyQuery{Channel: "telegram", Account: "work", Conversation: "-100", Thread: "7", Kind: channel.Group}
			if s.Levels&channel.OfGroup == 0 && s.Levels&channel.OfDirect != 0 {
				t.Fatal("a setting of direct conversations alone is not tested")
			}
			// What says something, from the least specific on: a level more each time.
			var places [6]channel.Place
			said := "default:" + s.Key
			for i := 0; ; i++ {
				p := tree(t, configuration(places)).Policy(q)
				if s.Key != "groups.only" {
					if got, ok := p.Sources[s.Key]; got != said && (ok || s.Default != "") {
						t.Errorf("after %d levels the path is %q, want %q", i, got, said)
					}
				}
				if i == len(levels) {
					break
				}
				key, ok := s.At(levels[i].level)
				if !ok {
					continue
				}
				set(t, s, &places[i], choices[i%len(choices)])
				said = levels[i].path + key
				got := tree(t, configuration(places)).Policy(q)
				var want channel.Place
				set(t, s, &want, choices[i%len(choices)])
				if err := sameAs(s, got, want); err != nil {
					t.Errorf("%s: %v", said, err)
				}
			}
		})
	}
}

// fieldOf returns the field of a place that has a setting.
func fieldOf(s channel.Setting, p *channel.Place) reflect.Value {
	v := reflect.ValueOf(p).Elem()
	for i := range v.NumField() {
		if v.Type().Field(i).Tag.Get("key") == s.Key {
			return v.Field(i)
		}
	}
	panic(s.Key)
}

func set(t testing.TB, s channel.Setting, p *channel.Place, text string) {
	t.Helper()
	var value any
	field := fieldOf(s, p)
	switch field.Interface().(type) {
	case *bool:
		value = new(text == "true")
	case *string:
		value = &text
	case *int:
		n, err := strconv.Atoi(text)
		value = &n
		if err != nil {
			t.Fatal(err)
		}
	case *time.Duration:
		d, err := time.ParseDuration(text)
		value = &d
		if err != nil {
			t.Fatal(err)
		}
	case []channel.MentionKind:
		value = []channel.MentionKind{channel.MentionKind(text)}
	case []string:
		value = []string{text}
	default:
		value = text
	}
	field.Set(reflect.ValueOf(value).Convert(field.Type()))
}

func configuration(p [6]channel.Place) channel.Configuration {
	return channel.Configuration{
		ofChannel: &p[0], {Level: channel.OfChannel, Channel: "telegram", Account: "work"}: &p[1],
		ofGroup("", "-100", ""): &p[2], ofGroup("work", "-100", ""): &p[3],
		ofGroup("", "-100", "7"): &p[4], ofGroup("work", "-100", "7"): &p[5],
	}
}

// sameAs compares the field of a policy that a setting is about with a place that says it.
func sameAs(s channel.Setting, p channel.Policy, want channel.Place) error {
	fields := map[string][2]any{
		"dm.policy": {p.DM, want.DMPolicy}, "dm.allow_from": {p.DMAllowFrom, want.DMAllowFrom},
		"groups.policy": {p.Group, want.GroupPolicy}, "groups.allow_from": {p.GroupAllowFrom, want.GroupAllowFrom},
		"unmentioned": {p.Unmentioned, want.Unmentioned}, "mentions.patterns": {p.Patterns, want.Patterns},
		"implicit_mentions": {p.Implicit, want.Implicit}, "allow_bots": {p.AllowBots, want.AllowBots},
		"context_visibility": {p.Visibility, want.Visibility}, "commands.mode": {p.CommandMode, want.CommandMode},
		"commands.users": {p.Users, want.Users}, "commands.operators": {p.Operators, want.Operators},
		"commands.admins": {p.Admins, want.Admins}, "on_busy": {p.OnBusy, want.OnBusy}, "agent": {p.Agent, want.Agent},
		"log.sender_ids": {p.SenderIDs, want.SenderIDs},
	}
	pointers := map[string][2]any{
		"groups.enabled": {p.RouteAllowed, want.Enabled}, "groups.require_mention": {p.RequireMention, want.RequireMention},
		"match_mutable": {p.MatchMutable, want.MatchMutable}, "error_notice": {p.ErrorNotice, want.ErrorNotice},
		"log.previews": {p.Previews, want.Previews}, "debounce": {p.Debounce, want.Debounce},
		"system_prompt": {p.SystemPrompt, want.SystemPrompt}, "greeting": {p.Greeting, want.Greeting}, "timezone": {p.Timezone, want.Timezone},
		"limits.sender_rate":  {p.SenderRate, want.SenderRate},
		"limits.sender_burst": {p.SenderBurst, want.SenderBurst},
		"limits.chat_rate":    {p.ChatRate, want.ChatRate},
	}
	if f, ok := pointers[s.Key]; ok {
		switch v := f[1].(type) {
		case *bool:
			f[1] = *v
		case *string:
			f[1] = *v
		case *int:
			f[1] = *v
		case *time.Duration:
			f[1] = *v
		}
		fields[s.Key] = f
	}
	if s.Key == "groups.only" {
		fields[s.Key] = [2]any{p.RouteAllowed, false} // the group is on none of the lists
	}
	f, ok := fields[s.Key]
	if !ok {
		return errors.New("the test does not know the field of the policy")
	}
	if diff := cmp.Diff(f[1], f[0]); diff != "" {
		return errors.New(diff)
	}
	return nil
}

// CH-103: some platforms make a thread a conversation of its own.
func TestAThreadThatIsAConversationHasTheSettingsOfItsParent(t *testing.T) {
	no, yes := false, true
	s := tree(t, channel.Configuration{
		ofGroup("", "outer", ""):      {RequireMention: &no, Agent: "of outer"},
		ofGroup("", "outer", "inner"): {RequireMention: &yes, Agent: "of inner"},
	})
	for inner, want := range map[string]bool{"inner": true, "other": false} {
		q := group(inner)
		q.Parent = "outer"
		if p := s.Policy(q); p.RequireMention != want {
			t.Errorf("%s: %t", inner, p.RequireMention)
		}
	}
	for inner, want := range map[string]string{"inner": "of inner", "other": "of outer"} {
		agent := s.Policy(channel.PolicyQuery{Channel: "telegram", Kind: channel.Group, Conversation: inner, Parent: "outer"}).Agent
		if agent != want {
			t.Errorf("%s goes to %q, want %q", inner, agent, want)
		}
	}
}

// CH-102
func TestTheListOfGroupsIsThatOfDirectConversationsOnlyIfItSaysSo(t *testing.T) {
	with := func(list []string) channel.Policy {
		return tree(t, at(channel.Place{
			DMPolicy: channel.PolicyAllowlist, DMAllowFrom: []string{"42"}, GroupPolicy: channel.PolicyAllowlist, GroupAllowFrom: list,
		})).Policy(group("-100"))
	}
	who := channel.SenderFacts{ID: "42"}
	for name, test := range map[string]struct {
		list []string
		want bool
	}{"no list": {nil, false}, "an empty list": {[]string{}, false}, "inherit": {[]string{"inherit"}, true}} {
		p := with(test.list)
		if got := p.Access(who, channel.MentionFacts{}).Group.Sender; got != test.want {
			t.Errorf("%s: %t", name, got)
		}
		if test.want && p.Sources["groups.allow_from"] != "channels.telegram.dm.allow_from" {
			t.Errorf("the path is %q", p.Sources["groups.allow_from"])
		}
	}
}

// CH-101: the gate route.
func TestOnlyConversationsThatAreAllowedAreAnswered(t *testing.T) {
	no, yes := false, true
	s := tree(t, channel.Configuration{
		ofChannel:                   {GroupPolicy: channel.PolicyOpen, Only: []string{"listed", "off", "threads"}},
		ofGroup("", "off", ""):      {Enabled: &no},
		ofGroup("", "on", ""):       {Enabled: &yes},
		ofGroup("", "threads", ""):  {Enabled: &no},
		ofGroup("", "threads", "7"): {Enabled: &yes},
		{Level: channel.OfChannel, Channel: "telegram", Account: "all"}: {Only: []string{"*"}},
	})
	for name, test := range map[string]struct {
		query channel.PolicyQuery
		want  bool
		path  string
	}{
		"on the list":               {channel.PolicyQuery{Conversation: "listed"}, true, "channels.telegram.groups.only"},
		"not on the list":           {channel.PolicyQuery{Conversation: "other"}, false, "channels.telegram.groups.only"},
		"inside of what is on it":   {channel.PolicyQuery{Conversation: "other", Parent: "listed"}, true, "channels.telegram.groups.only"},
		"switched off":              {channel.PolicyQuery{Conversation: "off"}, false, "channels.telegram.groups.off.enabled"},
		"switched on":               {channel.PolicyQuery{Conversation: "on"}, true, "channels.telegram.groups.on.enabled"},
		"a thread that is on":       {channel.PolicyQuery{Conversation: "threads", Thread: "7"}, true, "channels.telegram.groups.threads.threads.7.enabled"},
		"another thread":            {channel.PolicyQuery{Conversation: "threads", Thread: "8"}, false, "channels.telegram.groups.threads.enabled"},
		"an account that is in all": {channel.PolicyQuery{Account: "all", Conversation: "other"}, true, "channels.telegram.accounts.all.groups.only"},
	} {
		q := test.query
		q.Channel, q.Kind = "telegram", channel.Group
		p := s.Policy(q)
		f := admitted(channel.Group)
		f.Access = p.Access(f.Sender, channel.MentionFacts{})
		d := channel.Evaluate(f)
		if reached := d.Admission.Reason != channel.ReasonRouteNotAllowed; reached != test.want || !reached && d.Setting != test.path {
			t.Errorf("%s: %+v", name, d)
		}
	}
}

// CH-152, CH-162: what a channel ships with can be narrowed.
func TestAChannelsOwnDefaultsComeBeforeTheBuiltInOnes(t *testing.T) {
	shipped := channel.Place{DMPolicy: channel.PolicyOpen, CommandMode: channel.CommandsSenders, Agent: "shipped"}
	q := channel.PolicyQuery{Channel: "telegram", Conversation: "1", Kind: channel.Direct}
	s := tree(t, channel.Configuration{{Channel: "telegram"}: &shipped})
	if p := s.Policy(q); p.DM != channel.PolicyOpen || p.CommandMode != channel.CommandsSenders || p.Sources["dm.policy"] != "default:dm.policy" {
		t.Errorf("%+v", p)
	}
	if agent := s.Policy(channel.PolicyQuery{Channel: "telegram"}).Agent; agent != "shipped" {
		t.Errorf("the agent is %q", agent)
	}
	s = tree(t, channel.Configuration{{Channel: "telegram"}: &shipped, ofChannel: {DMPolicy: channel.PolicyDisabled, Agent: "own"}})
	if p := s.Policy(q); p.DM != channel.PolicyDisabled || p.CommandMode != channel.CommandsSenders {
		t.Errorf("%+v", p)
	}
	if agent := s.Policy(channel.PolicyQuery{Channel: "telegram"}).Agent; agent != "own" {
		t.Errorf("the agent is %q", agent)
	}
}

// CH-06, CH-101: what is not in the configuration admits nobody.
func TestAChannelThatIsNotConfiguredAdmitsNobody(t *testing.T) {
	for name, s := range map[string]*channel.Tree{"an empty configuration": tree(t, channel.Configuration{}), "none": new(channel.Tree)} {
		for _, kind := range []channel.ChatType{channel.Direct, channel.Group, channel.Broadcast} {
			f := admitted(kind)
			f.Access = s.Policy(channel.PolicyQuery{Channel: "telegram", Conversation: "1", Kind: kind}).Access(f.Sender, channel.MentionFacts{})
			if got := channel.Evaluate(f).Admission; got != dropped(channel.ReasonNoPolicy) {
				t.Errorf("%s, %s: %+v", name, kind, got)
			}
		}
		if s.Policy(channel.PolicyQuery{Channel: "telegram"}).Agent != "" {
			t.Errorf("%s has a route", name)
		}
	}
}

// CH-101, CH-102, CH-105: what cannot be meant is an error, with its path.
func TestMistakesOfSettingsAreErrorsWithTheirPath(t *testing.T) {
	inGroup := func(outer, p channel.Place) channel.Configuration {
		return channel.Configuration{ofChannel: &outer, ofGroup("", "-1", ""): &p}
	}
	for name, test := range map[string]struct {
		all  channel.Configuration
		want []string
	}{
		"everybody on an allowlist": {
			at(channel.Place{DMPolicy: channel.PolicyAllowlist, DMAllowFrom: []string{"1", "*"}}),
			[]string{`channels.telegram.dm.allow_from: "*" in the list has no effect with the policy allowlist; set dm.policy: open to admit everybody`},
		},
		"everybody is paired": {
			at(channel.Place{DMPolicy: channel.PolicyPairing, DMAllowFrom: []string{"*"}}),
			[]string{`channels.telegram.dm.allow_from: "*" in the list has no effect with the policy pairing`},
		},
		"everybody on an open list": {at(channel.Place{DMPolicy: channel.PolicyOpen, DMAllowFrom: []string{"*"}}), nil},
		"everybody on the allowlist of groups": {
			at(channel.Place{GroupPolicy: channel.PolicyAllowlist, GroupAllowFrom: []string{"*"}}),
			[]string{`channels.telegram.groups.allow_from: "*" in the list`},
		},
		"a list above, and the policy below": {
			inGroup(channel.Place{GroupPolicy: channel.PolicyOpen, GroupAllowFrom: []string{"*"}}, channel.Place{GroupPolicy: channel.PolicyAllowlist}),
			[]string{`channels.telegram.groups.allow_from: "*" in the list`},
		},
		"everybody by inheriting": {
			at(channel.Place{DMPolicy: channel.PolicyOpen, DMAllowFrom: []string{"*"}, GroupPolicy: channel.PolicyAllowlist, GroupAllowFrom: []string{"inherit"}}),
			[]string{`channels.telegram.dm.allow_from: "*" in the list has no effect with the policy allowlist; set groups.policy: open to admit everybody`},
		},
		"an id with a dot": {
			channel.Configuration{ofGroup("a.b", "c d", "7"): {GroupPolicy: channel.PolicyAllowlist, GroupAllowFrom: []string{"*"}}},
			[]string{`channels.telegram.accounts."a.b".groups."c d".threads.7.allow_from: "*" in the list`},
		},
		"ids of nothing": {
			channel.Configuration{
				{Level: channel.OfDirect, Channel: "telegram"}: {}, {Level: channel.OfThread, Channel: "telegram", Conversation: "-1"}: {},
			},
			[]string{`channels.telegram.dm."": expected a name or an id`, `channels.telegram.groups.-1.threads."": expected`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := channel.NewTree(test.all)
			if len(test.want) == 0 {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if err == nil {
				t.Fatal("no error")
			}
			if got := s.Policy(group("-1")); got.Sources != nil {
				t.Error("the mistake is in force")
			}
			lines := strings.Split(err.Error(), "\n")
			if len(lines) != len(test.want) {
				t.Fatalf("got %d errors, want %d:\n%s", len(lines), len(test.want), err)
			}
			for i, want := range test.want {
				if !strings.Contains(lines[i], want) {
					t.Errorf("got %q, want %q", lines[i], want)
				}
			}
			if _, ok := errors.AsType[*channel.SettingError](err); !ok {
				t.Error("no error is a SettingError")
			}
		})
	}
}

func TestAChangeOfTheConfigurationIsInForceAtOnce(t *testing.T) {
	open := at(channel.Place{DMPolicy: channel.PolicyOpen, Agent: "a"})
	shut := at(channel.Place{DMPolicy: channel.PolicyDisabled, Agent: "b"})
	q := channel.PolicyQuery{Channel: "telegram", Conversation: "1", Kind: channel.Direct}
	s := tree(t, open)
	before := s.Policy(q)
	if err := s.Set(shut); err != nil {
		t.Fatal(err)
	}
	after := s.Policy(q)
	if before.DM != channel.PolicyOpen || after.DM != channel.PolicyDisabled {
		t.Errorf("before %+v, after %+v", before, after)
	}
	if agent := s.Policy(channel.PolicyQuery{Channel: "telegram"}).Agent; agent != "b" {
		t.Errorf("the agent is %q", agent)
	}
	if err := s.Set(at(channel.Place{DMPolicy: channel.PolicyAllowlist, DMAllowFrom: []string{"*"}})); err == nil {
		t.Fatal("no error")
	}
	if again := s.Policy(q); again.DM != channel.PolicyDisabled {
		t.Errorf("a mistake is in force: %+v", again)
	}
}
