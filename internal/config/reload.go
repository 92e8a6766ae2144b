package config

import (
	"reflect"
	"slices"

	"github.com/lingserve/lingserve/internal/yaml"
)

// Reload puts the settings together once more, as they are now.
func (c *Config) Reload() (*Config, error) { return Load(c.flags, c.environ) }

// NeedsRestart returns the keys of the settings that differ in next and that a running server does not take, sorted; of what is only in one of
// the configurations, such as an agent, the key of its section. It leaves out channels, which have settings of both kinds, and keys of providers
// where both configurations have one.
func (c *Config) NeedsRestart(next *Config) (changed []string) {
	before, after := byKey(c.settings), byKey(next.settings)
	for key, s := range before {
		other, ok := after[key]
		switch {
		case s.path[0] == "channels" || s.path[0] == "providers" && s.path[2] == "key" && ok && (s.text() == "") == (other.text() == ""):
		case !ok:
			changed = append(changed, yaml.Path(s.path[:2]...))
		case !reflect.DeepEqual(s.field.Interface(), other.field.Interface()):
			changed = append(changed, key)
		}
	}
	for key, s := range after {
		if _, ok := before[key]; !ok && s.path[0] != "channels" {
			changed = append(changed, yaml.Path(s.path[:2]...))
		}
	}
	if !reflect.DeepEqual(c.prices, next.prices) {
		changed = append(changed, pricesKey)
	}
	slices.Sort(changed)
	return slices.Compact(changed)
}

func byKey(settings []Setting) map[string]Setting {
	m := map[string]Setting{}
	for _, s := range settings {
		m[s.Key] = s
	}
	return m
}
