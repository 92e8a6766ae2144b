package platform

import (
	"cmp"
	"slices"

	"github.com/lingserve/lingserve/channel"
)

// Admits reports whether a channel admits any sender.
func Admits(ch channel.ChannelPlace) bool {
	return slices.ContainsFunc(ch.Places(), func(p channel.Place) bool {
		return p.DMPolicy != "" && p.DMPolicy != channel.PolicyDisabled || p.GroupPolicy != "" && p.GroupPolicy != channel.PolicyDisabled
	})
}

// Approves reports whether anyone on a channel may approve tool calls.
func Approves(ch channel.ChannelPlace) bool { return slices.ContainsFunc(ch.Places(), approves) }

// approves reports whether anyone at a place may approve tool calls.
func approves(p channel.Place) bool {
	return p.CommandMode == channel.CommandsSenders || len(p.Users)+len(p.Operators)+len(p.Admins) > 0
}

// Answers reports whether an agent answers anywhere on a channel.
func Answers(ch channel.ChannelPlace, agent string) bool {
	return cmp.Or(ch.Agent, ch.Shipped.Agent) == agent || slices.ContainsFunc(ch.Places(), func(p channel.Place) bool {
		return p.Agent == agent && p.Agent != ch.Shipped.Agent
	})
}
