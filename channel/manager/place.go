package manager

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

// Admits reports whether somebody may talk on a channel.
func Admits(ch channel.ChannelPlace) bool {
	return slices.ContainsFunc(placesOf(ch), func(p channel.Place) bool {
		return p.DMPolicy != "" && p.DMPolicy != channel.PolicyDisabled || p.GroupPolicy != "" && p.GroupPolicy != channel.PolicyDisabled
	})
}

// Approves reports whether somebody on a channel may answer questions for approval.
func Approves(ch channel.ChannelPlace) bool { return slices.ContainsFunc(placesOf(ch), approves) }

// approves reports whether a place lets somebody answer questions for approval.
func approves(p channel.Place) bool {
	return p.CommandMode == channel.CommandsSenders || len(p.Users)+len(p.Operators)+len(p.Admins) > 0
}

// Answers reports whether an agent Answers somewhere on a channel.
func Answers(ch channel.ChannelPlace, agent string) bool {
	main := cmp.Or(ch.Agent, ch.Shipped.Agent)
	return main == agent || slices.ContainsFunc(placesOf(ch), func(p channel.Place) bool { return p.Agent == agent && p.Agent != ch.Shipped.Agent })
}
