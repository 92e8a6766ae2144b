package platform

import (
	"cmp"
	"slices"

	"github.com/lingserve/lingserve/channel"
)

// placesOf returns all places of a channel, its defaults last.
func placesOf(ch channel.ChannelPlace) (all []channel.Place) {
	of := func(a channel.AccountPlace) {
		all = append(all, a.Place)
		for _, p := range a.Directs {
			all = append(all, p)
		}
		for _, g := range a.Groups {
			all = append(all, g.Place)
			for _, t := range g.Threads {
				all = append(all, t)
			}
		}
	}
	of(ch.AccountPlace)
	for _, a := range ch.Accounts {
		of(a)
	}
	return append(all, ch.Shipped)
}

// Admits reports whether a channel admits any sender.
func Admits(ch channel.ChannelPlace) bool {
	return slices.ContainsFunc(placesOf(ch), func(p channel.Place) bool {
		return p.DMPolicy != "" && p.DMPolicy != channel.PolicyDisabled || p.GroupPolicy != "" && p.GroupPolicy != channel.PolicyDisabled
	})
}

// Approves reports whether anyone on a channel may approve tool calls.
func Approves(ch channel.ChannelPlace) bool { return slices.ContainsFunc(placesOf(ch), approves) }

// approves reports whether anyone at a place may approve tool calls.
func approves(p channel.Place) bool {
	return p.CommandMode == channel.CommandsSenders || len(p.Users)+len(p.Operators)+len(p.Admins) > 0
}

// Answers reports whether an agent answers anywhere on a channel.
func Answers(ch channel.ChannelPlace, agent string) bool {
	return cmp.Or(ch.Agent, ch.Shipped.Agent) == agent || slices.ContainsFunc(placesOf(ch), func(p channel.Place) bool {
		return p.Agent == agent && p.Agent != ch.Shipped.Agent
	})
}
