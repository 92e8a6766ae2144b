package channel_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/lingserve/lingserve/channel"
)

// Section 13: Routes.
func TestTheMostSpecificRouteComesFirst(t *testing.T) {
	// From the least specific to the most; each matches the query, and all that come before it are given too.
	rules := []channel.Rule{
		{Agent: "any"},
		{Channel: "telegram", Agent: "channel"},
		{Account: "work", Agent: "account"},
		{Channel: "telegram", Account: "work", Agent: "account of channel"},
		{Kind: channel.Group, Agent: "groups"},
		{Space: "s", Agent: "space"},
		{Parent: "p", Agent: "parent"},
		{Parent: "p", Space: "s", Agent: "parent in space"},
		{Peer: "-100", Agent: "peer"},
		{Channel: "telegram", Peer: "-100", Agent: "peer of channel"},
		{Thread: "7", Agent: "thread"},
		{Thread: "7", Peer: "-100", Agent: "thread of peer"},
		{Thread: "7", Peer: "-100", Channel: "telegram", Agent: "thread of peer of channel"},
	}
	query := channel.RouteQuery{
		Channel: "telegram", Account: "work", Peer: channel.Peer{Kind: channel.Group, ID: "-100"}, Space: "s", Parent: "p", Thread: "7",
	}
	for i, r := range rules {
		given := append([]channel.Rule{{Channel: "slack", Thread: "7", Peer: "-100", Parent: "p", Agent: "another channel"}}, rules[:i+1]...)
		table, err := channel.NewRoutes(given)
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := table.Route(query); !ok || got != r.Agent {
			t.Errorf("got %q, want %q", got, r.Agent)
		}
	}
}

func TestNoRuleIsNoRoute(t *testing.T) {
	table, err := channel.NewRoutes([]channel.Rule{
		{Channel: "telegram", Kind: channel.Direct, Peer: "1", Agent: "a"},
		{Channel: "telegram", Kind: channel.Broadcast, Agent: "b"},
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, q := range map[string]channel.RouteQuery{
		"another channel":         {Channel: "slack", Peer: channel.Peer{Kind: channel.Direct, ID: "1"}},
		"another person":          {Channel: "telegram", Peer: channel.Peer{Kind: channel.Direct, ID: "2"}},
		"a group of the same id":  {Channel: "telegram", Peer: channel.Peer{Kind: channel.Group, ID: "1"}},
		"a group, and no channel": {Channel: "telegram", Peer: channel.Peer{Kind: channel.Group, ID: "3"}},
	} {
		if agent, ok := table.Route(q); ok {
			t.Errorf("%s goes to %q", name, agent)
		}
	}
}

func TestRulesThatCannotBeAreAnError(t *testing.T) {
	for name, test := range map[string]struct {
		rules []channel.Rule
		want  string
	}{
		"no agent":   {[]channel.Rule{{Agent: "a"}, {Channel: "x"}}, "rule 2 has no agent"},
		"two agents": {[]channel.Rule{{Channel: "x", Agent: "a"}, {Agent: "b"}, {Channel: "x", Agent: "c"}}, "rules 1 and 3 name different agents for the same place"},
		"a kind":     {[]channel.Rule{{Kind: "room", Agent: "a"}}, `unknown kind "room"; expected`},
		"said twice": {[]channel.Rule{{Agent: "a"}, {Agent: "a"}}, ""},
		"nothing":    {nil, ""},
	} {
		_, err := channel.NewRoutes(test.rules)
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: got %v, want %q", name, err, test.want)
		}
	}
}

// The order in which rules are written does not matter.
func TestRoutesDoNotDependOnTheOrderOfRules(t *testing.T) {
	some := rapid.SampledFrom([]string{"", "a", "b"})
	rapid.Check(t, func(t *rapid.T) {
		kinds := rapid.SampledFrom([]channel.ChatType{"", channel.Direct, channel.Group})
		rules := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) channel.Rule {
			return channel.Rule{
				Channel: some.Draw(t, "channel"), Account: some.Draw(t, "account"), Kind: kinds.Draw(t, "kind"), Peer: some.Draw(t, "peer"),
				Space: some.Draw(t, "space"), Parent: some.Draw(t, "parent"), Thread: some.Draw(t, "thread"), Agent: some.Draw(t, "agent") + "x",
			}
		}), 0, 8).Draw(t, "rules")
		first, err := channel.NewRoutes(rules)
		if err != nil {
			t.Skip("two agents for one place")
		}
		second, err := channel.NewRoutes(rapid.Permutation(rules).Draw(t, "shuffled"))
		if err != nil {
			t.Fatal(err)
		}
		q := channel.RouteQuery{
			Channel: some.Draw(t, "channel"), Account: some.Draw(t, "account"), Space: some.Draw(t, "space"),
			Parent: some.Draw(t, "parent"), Thread: some.Draw(t, "thread"),
			Peer: channel.Peer{Kind: kinds.Draw(t, "kind"), ID: some.Draw(t, "peer")},
		}
		a, okA := first.Route(q)
		b, okB := second.Route(q)
		if a != b || okA != okB {
			t.Errorf("%q and %q", a, b)
		}
	})
}
