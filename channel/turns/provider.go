package turns

import (
	"slices"

	"github.com/lingserve/lingserve/channel/kernel"
	"github.com/lingserve/lingserve/turn"
)

// Channels are those that plugins of a framework bring, by [kernel.Provider], in the order in which the plugins were registered.
func Channels(f *turn.Framework) (list []kernel.Channel) {
	for _, p := range slices.Backward(turn.Implementers[kernel.Provider](f)) {
		list = append(list, p.Hook.Channels()...)
	}
	return list
}
