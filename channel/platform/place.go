package platform

import (
	"slices"

	"github.com/lingserve/lingserve/channel"
)

// Admits reports whether a channel admits any sender.
func Admits(ch channel.ChannelPlace) bool {
	return slices.ContainsFunc(ch.Places(), func(p channel.Place) bool {
		return p.DMPolicy != "" && p.DMPolicy != channel.PolicyDisabled || p.GroupPolicy != "" && p.GroupPolicy != channel.PolicyDisabled
	})
}
