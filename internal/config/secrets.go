package config

import (
	"slices"
	"strings"
)

// Secrets returns all secrets of c, so that a log can redact them.
func (c *Config) Secrets() []string {
	var all []string
	for _, s := range c.settings {
		switch v := s.field.Interface().(type) {
		case Secret:
			all = append(all, v.Reveal())
		case []Secret:
			for _, secret := range v {
				all = append(all, secret.Reveal())
			}
		}
	}
	for _, entry := range c.Auth.Keys { // NAME:KEY:ROLE and more, of which callers send only the key
		if parts := strings.SplitN(string(entry), ":", 3); len(parts) == 3 {
			all = append(all, parts[1])
		}
	}
	if password := c.databasePassword(); password != "" {
		all = append(all, password, c.Database)
	}
	slices.Sort(all)
	// Shorter ones are words, such as the header of a team, which the log would remove from everything.
	return slices.DeleteFunc(slices.Compact(all), func(secret string) bool { return len(secret) < 8 })
}
