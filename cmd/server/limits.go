package main

import (
	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/config"
)

// slotsOf are those of each provider.
func slotsOf(l config.Limit) adapter.Slots {
	s := adapter.Slots{Max: l.Upstream, Queue: l.UpstreamQueue, Wait: l.UpstreamWait}
	if s.Queue == 0 {
		s.Queue = -1 // to the registry, 0 is its default
	}
	return s
}
