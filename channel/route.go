package channel

import (
	"cmp"
	"fmt"
	"slices"
)

// Rule sends messages to an agent. What is empty is anything.
type Rule struct {
	Channel, Account string
	Kind             ChatType // Group stands for groups and channels
	Peer             string   // the conversation, or what RoutePeer says
	Space            string   // workspace, guild, tenant
	Parent, Thread   string
	Agent            string
}

// weight orders rules: a thread says more than a conversation, which says more than what it is in, and so on to the channel.
func (r Rule) weight() int {
	w := 0
	for _, part := range [...]bool{
		r.Thread != "", r.Peer != "", r.Parent != "", r.Space != "", r.Kind != "", r.Account != "", r.Channel != "",
	} {
		w <<= 1
		if part {
			w |= 1
		}
	}
	return w
}

func (r Rule) matches(q RouteQuery) bool {
	is := func(rule, query string) bool { return rule == "" || rule == query }
	return is(r.Channel, q.Channel) && is(r.Account, q.Account) && is(r.Peer, q.Peer.ID) && is(r.Space, q.Space) &&
		is(r.Parent, q.Parent) && is(r.Thread, q.Thread) &&
		(r.Kind == "" || r.Kind == q.Peer.Kind || r.Kind == Group && q.Peer.Kind == Broadcast)
}

// RouteTable is [Routes] by rules, the most specific first.
type RouteTable struct{ rules []Rule }

// NewRoutes orders rules. Two rules for one place with different agents are an error, and so is one without an agent.
func NewRoutes(rules []Rule) (*RouteTable, error) {
	places := map[Rule]int{}
	for i, r := range rules {
		if r.Agent == "" {
			return nil, fmt.Errorf("routes: rule %d has no agent", i+1)
		}
		switch r.Kind {
		case "", Direct, Group, Broadcast:
		default:
			return nil, fmt.Errorf("routes: rule %d: unknown kind %q; expected direct, group or channel", i+1, r.Kind)
		}
		agent := r.Agent
		r.Agent = ""
		if j, ok := places[r]; ok && rules[j].Agent != agent {
			return nil, fmt.Errorf("routes: rules %d and %d name different agents for the same place; remove one", j+1, i+1)
		}
		places[r] = i
	}
	return &RouteTable{ordered(rules)}, nil
}

// ordered is the most specific first; of equal ones, the earlier.
func ordered(rules []Rule) []Rule {
	rules = slices.Clone(rules)
	slices.SortStableFunc(rules, func(a, b Rule) int { return cmp.Compare(b.weight(), a.weight()) })
	return rules
}

// Route is the agent of the first rule that matches. ok is false where none does.
func (t *RouteTable) Route(q RouteQuery) (agent string, ok bool) {
	for _, r := range t.rules {
		if r.matches(q) {
			return r.Agent, true
		}
	}
	return "", false
}

// routes are the rules of the configuration, and behind those of equal weight what the settings "agent" say.
func (c Configuration) routes() *RouteTable {
	rules := slices.Clone(c.Routes)
	for name, ch := range c.Channels {
		for where := range c.places(name) {
			agent, q := where.place.Agent, where.query
			if agent == "" {
				continue
			}
			r := Rule{Channel: q.Channel, Account: q.Account, Kind: q.Kind, Peer: q.Conversation, Thread: q.Thread, Agent: agent}
			rules = append(rules, r)
			if where.level&(OfGroup|OfThread) != 0 {
				// Some platforms make a thread a conversation of its own, inside of another.
				r.Peer, r.Thread, r.Parent = q.Thread, "", q.Conversation
				rules = append(rules, r)
			}
		}
		if ch.Shipped.Agent != "" && ch.Agent == "" {
			rules = append(rules, Rule{Channel: name, Agent: ch.Shipped.Agent})
		}
	}
	return &RouteTable{ordered(rules)}
}
