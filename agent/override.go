package agent

import (
	"slices"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/lingserve/lingserve/tool"
)

// override is a source of tools that ask for what a configuration says.
type override struct {
	set       *tool.Set
	approvals map[string]tool.Approval
	made      *lru.Cache[*tool.Tool, *tool.Tool] // so that each is made once
}

// maxOverridden is how many tools are made once. An agent has fewer.
const maxOverridden = 4096

func newOverride(set *tool.Set, approvals map[string]tool.Approval) *override {
	made, _ := lru.New[*tool.Tool, *tool.Tool](maxOverridden) // it fails for a size of 0
	return &override{set, approvals, made}
}

// Tools lists the tools of the set.
func (o *override) Tools() []*tool.Tool {
	list := slices.Clone(o.set.Tools())
	for i, t := range list {
		asks, ok := o.asks(t.Name)
		if !ok || asks == t.Approval {
			continue
		}
		other, ok := o.made.Get(t)
		if !ok {
			other = t.With(tool.WithApproval(asks))
			o.made.Add(t, other)
		}
		list[i] = other
	}
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
