package config

import (
	"reflect"
	"slices"
	"strings"
)

// Reload puts the settings together once more, as they are now.
func (c *Config) Reload() (*Config, error) { return Load(c.flags, c.environ) }

// NeedsRestart returns the keys of the settings that differ in next and that a running server does not take, sorted. It leaves out channels,
// which have settings of both kinds, and keys of providers where both configurations have one.
func (c *Config) NeedsRestart(next *Config) (changed []string) {
	before, after := byKey(c.settings), byKey(next.settings)
	for key, s := range after {
		old, ok := before[key]
		switch {
		case strings.HasPrefix(key, channels) || strings.HasPrefix(key, providers) && c.reloadsKey(next, key):
		case !ok && next.sources[key].Kind != Default, ok && !reflect.DeepEqual(old.field.Interface(), s.field.Interface()):
			changed = append(changed, key)
		}
	}
	for key := range before {
		if _, ok := after[key]; !ok && !strings.HasPrefix(key, channels) && c.sources[key].Kind != Default {
			changed = append(changed, key)
		}
	}
	has := func(section string) bool {
		return slices.ContainsFunc(changed, func(key string) bool { return strings.HasPrefix(key, section+".") })
	}
	for section, pair := range map[string][2]any{ // of which a member may come and go without settings
		"agents": {c.Agents, next.Agents}, "mcp": {c.MCP, next.MCP}, "models": {c.Models, next.Models}, pricesKey: {c.prices, next.prices},
	} {
		if !has(section) && !reflect.DeepEqual(pair[0], pair[1]) {
			changed = append(changed, section)
		}
	}
	slices.Sort(changed)
	return slices.Compact(changed)
}

// reloadsKey reports whether a setting is the key of a provider that had one and has one.
func (c *Config) reloadsKey(next *Config, key string) bool {
	name, ok := strings.CutSuffix(strings.TrimPrefix(key, providers), ".key")
	if !ok {
		return false
	}
	old, _ := c.Provider(name)
	p, _ := next.Provider(name)
	return (old.Key == "") == (p.Key == "")
}

func byKey(settings []Setting) map[string]Setting {
	m := map[string]Setting{}
	for _, s := range settings {
		m[s.Key] = s
	}
	return m
}
