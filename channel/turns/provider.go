package turns

import (
	"fmt"

	"github.com/lingserve/lingserve/channel/kernel"
	"github.com/lingserve/lingserve/turn"
)

// Channels are those that plugins of a framework bring, by [kernel.Provider], in the order in which the plugins were registered.
// It is an error if two have one name, or one has none.
func Channels(f *turn.Framework) ([]kernel.Channel, error) {
	var list []kernel.Channel
	by := map[string]string{}
	providers := turn.Implementers[kernel.Provider](f)
	for i := len(providers) - 1; i >= 0; i-- {
		p := providers[i]
		for _, c := range p.Hook.Channels() {
			name := c.Name()
			if name == "" {
				return nil, fmt.Errorf("turns: the plugin %s has a channel without a name", p.Name)
			}
			if other, taken := by[name]; taken {
				return nil, fmt.Errorf("turns: the plugins %s and %s both have a channel %q; rename one", other, p.Name, name)
			}
			by[name] = p.Name
			list = append(list, c)
		}
	}
	return list, nil
}
