package channel

import (
	"cmp"
	"fmt"
	"slices"
)

// Rule sends messages to an agent. An empty field matches everything.
type Rule struct {
	Channel, Account string
	Kind             ChatType // Group also matches broadcast channels
	Peer             string   // the conversation, or RoutePeer
	Space            string   // workspace, guild, tenant
	Parent, Thread   string
	Agent            string
}

// weight orders rules by how specific they are: thread, conversation, parent, space, kind, account, channel.
func (r Rule) weight() (weight int) {
	for _, field := range [...]string{r.Thread, r.Peer, r.Parent, r.Space, string(r.Kind), r.Account, r.Channel} {
		weight <<= 1
		if field != "" {
			weight++
		}
	}
	return weight
}

func (r Rule) matches(q RouteQuery) bool {
	is := func(rule, query string) bool { return rule == "" || rule == query }
	return is(r.Channel, q.Channel) && is(r.Account, q.Account) && is(r.Peer, q.Peer.ID) && is(r.Space, q.Space) &&
		is(r.Parent, q.Parent) && is(r.Thread, q.Thread) &&
		(is(string(r.Kind), string(q.Peer.Kind)) || r.Kind == Group && q.Peer.Kind == Broadcast)
}

// RouteTable is [Routes] from rules.
type RouteTable struct{ rules []Rule } // the most specific first

// NewRoutes checks and orders rules. An error is a rule without an agent, or two rules with different agents for the same messages.
func NewRoutes(rules []Rule) (*RouteTable, error) {
	seen := map[Rule]int{}
	for i, r := range rules {
		agent := r.Agent
		r.Agent = ""
		j, ok := seen[r]
		switch {
		case agent == "":
			return nil, fmt.Errorf("routes: rule %d has no agent", i+1)
		case !slices.Contains([]ChatType{"", Direct, Group, Broadcast}, r.Kind):
			return nil, fmt.Errorf("routes: rule %d: unknown kind %q; expected direct, group or channel", i+1, r.Kind)
		case ok && rules[j].Agent != agent:
			return nil, fmt.Errorf("routes: rules %d and %d name different agents for the same place; remove one", j+1, i+1)
		}
		seen[r] = i
	}
	return newRouteTable(rules), nil
}

// newRouteTable orders rules. Rules of one weight keep their order.
func newRouteTable(rules []Rule) *RouteTable {
	rules = slices.Clone(rules)
	slices.SortStableFunc(rules, func(a, b Rule) int { return cmp.Compare(b.weight(), a.weight()) })
	return &RouteTable{rules}
}

// Route returns the agent of the first rule that matches.
func (t *RouteTable) Route(q RouteQuery) (agent string, ok bool) {
	i := slices.IndexFunc(t.rules, func(r Rule) bool { return r.matches(q) })
	if i < 0 {
		return "", false
	}
	return t.rules[i].Agent, true
}

// routes returns the rules of the configuration and, after rules of the same weight, those of the settings "agent".
func (c Configuration) routes() *RouteTable {
	rules := slices.Clone(c.Routes)
	for q, where := range c.places() {
		r := Rule{Channel: q.Channel, Account: q.Account, Kind: q.Kind, Peer: q.Conversation, Thread: q.Thread, Agent: where.place.Agent}
		if r.Agent == "" {
			continue
		}
		rules = append(rules, r)
		if where.level&(OfGroup|OfThread) != 0 { // some platforms make a thread a conversation, whose parent is the group
			r.Peer, r.Thread, r.Parent = q.Thread, "", q.Conversation
			rules = append(rules, r)
		}
	}
	for name, ch := range c.Channels {
		if ch.Shipped.Agent != "" && ch.Agent == "" {
			rules = append(rules, Rule{Channel: name, Agent: ch.Shipped.Agent})
		}
	}
	return newRouteTable(rules)
}
