package providers

import (
	"sync/atomic"

	"github.com/lingserve/lingserve/internal/config"
)

// Keys are the keys of the providers that a configuration describes. They can be exchanged while requests use them.
type Keys struct {
	current map[string]*atomic.Value // of strings, by provider
}

// track returns a function that returns the current key of a provider.
func (k *Keys) track(p *config.Provider) func() string {
	key := new(atomic.Value)
	key.Store(p.Key.Reveal())
	k.current[p.Name] = key
	return func() string { return key.Load().(string) }
}

// Reload takes the keys of a configuration that was read again, and returns the names of the providers whose keys changed. A provider that has
// no key in one of the two configurations keeps what it has: it needs a restart.
func (k *Keys) Reload(next *config.Config) (changed []string) {
	for _, p := range next.Providers {
		key := k.current[p.Name]
		if key == nil || p.Key == "" || key.Load() == "" || key.Load() == p.Key.Reveal() {
			continue
		}
		key.Store(p.Key.Reveal())
		changed = append(changed, p.Name)
	}
	return changed
}
