package config

import (
	"reflect"
	"slices"
	"strings"
)

// Secrets returns all secrets of c, so that a log can redact them.
func (c *Config) Secrets() []string {
	var all []string
	collect(reflect.ValueOf(c).Elem(), &all)
	for _, entry := range c.Auth.Keys { // NAME:KEY:ROLE and more, of which callers show the key alone
		if parts := strings.SplitN(string(entry), ":", 3); len(parts) == 3 {
			all = append(all, parts[1])
		}
	}
	if word := c.databasePassword(); word != "" { // which others may write without the rest
		all = append(all, word, c.Database)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// collect finds the secrets in a value. There are no cycles in a configuration, nor interfaces with secrets behind them.
func collect(v reflect.Value, all *[]string) {
	switch v.Kind() {
	case reflect.String:
		if v.Type() == reflect.TypeFor[Secret]() && v.Len() > 0 {
			*all = append(*all, v.String())
		}
	case reflect.Pointer:
		if !v.IsNil() {
			collect(v.Elem(), all)
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			collect(v.Index(i), all)
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			collect(v.MapIndex(key), all)
		}
	case reflect.Struct:
		if h, ok := v.Interface().(Header); ok && len(h.Value) < 8 {
			return // a word, as of a team, that would be taken out of everything
		}
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				collect(v.Field(i), all)
			}
		}
	}
}
