package agent

import (
	"slices"
	"sync"

	"github.com/lingserve/lingserve/tool"
)

// override is a source of tools that ask for what a configuration says.
type override struct {
	set       *tool.Set
	approvals map[string]tool.Approval

	mu   sync.Mutex
	made map[*tool.Tool]*tool.Tool // of the last look, so that each is made once
}

// Tools lists the tools of the set.
func (o *override) Tools() []*tool.Tool {
	list := slices.Clone(o.set.Tools())
	o.mu.Lock()
	defer o.mu.Unlock()
	made := make(map[*tool.Tool]*tool.Tool, len(o.made))
	for i, t := range list {
		asks, ok := o.asks(t.Name)
		if !ok || asks == t.Approval {
			continue
		}
		other := o.made[t]
		if other == nil {
			other = t.With(tool.WithApproval(asks))
		}
		made[t], list[i] = other, other
	}
	o.made = made
	return list
}

// asks returns the approval of the most specific pattern that matches a tool: its name before "prefix.*", a longer one before a shorter.
func (o *override) asks(name string) (asks tool.Approval, ok bool) {
	longest := -1
	for pattern, a := range o.approvals {
		n := len(pattern)
		if tool.Named(name, pattern) {
			n = tool.MaxName + 1
		}
		if n > longest && tool.Matches(name, pattern) {
			longest, asks, ok = n, a, true
		}
	}
	return asks, ok
}
