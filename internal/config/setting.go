package config

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/lingserve/lingserve/access"
	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/ollama/host"
	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/internal/egress"
	"github.com/lingserve/lingserve/internal/yaml"
)

// Setting describes one setting and stores its value in a field of a [Config]. It is made from the tags of the field.
type Setting struct {
	Key     string   // in the file: "run.retention" is retention under run
	Help    string   // one sentence without a full stop
	Default string   // as it would be written
	Env     []string // other environment variables that set it, after LINGSERVE_…
	OneOf   []string // the only values allowed
	Min     string   // the smallest value allowed
	Secret  bool

	path     []string      // the parts of the key
	order    []int         // the positions of its sections; see group
	field    reflect.Value // where the value is stored
	verify   func() error  // checks the stored value, if set; the default is then stored nowhere
	check    string        // the name of a check
	max      string        // the largest value allowed
	short    string        // the short name of the flag
	kinds    []string      // of the providers that have it; nil is all
	fileOnly bool          // it is no flag and no variable
	optional bool          // it is shown only where it is set
	required bool          // its value may not be empty
	chain    bool          // text that may be a list in the file, joined with commas
	inherits *Setting      // whose value it has if it has none itself
}

// table has the settings of the server, and those of the presets, in the order in which they are shown.
var table = newConfig().settings

// flagSettings are those of table that are flags and variables, too.
var flagSettings = slices.DeleteFunc(slices.Clone(table), func(s Setting) bool { return s.fileOnly })

// Settings returns the settings that are flags and variables, too, in the order in which they are shown. The caller does not change them.
func Settings() []Setting { return flagSettings }

// newConfig returns a configuration with all presets, which has no values yet.
func newConfig() *Config {
	c := &Config{sources: map[string]Source{}, Access: shippedAccess()}
	c.settings = settingsOf(nil, c)
	for _, p := range presets {
		c.settings = append(c.settings, c.addPreset(p)...)
	}
	c.settings = group(c.settings)
	return c
}

// settingsOf returns the settings that the fields of a struct have. path comes before their keys.
func settingsOf(path []string, of any) []Setting {
	return settingsIn(path, reflect.ValueOf(of).Elem())
}

func settingsIn(path []string, of reflect.Value) (all []Setting) {
	for f, field := range of.Fields() {
		key, ok := f.Tag.Lookup("key")
		if !ok {
			continue
		}
		at := slices.Concat(path, strings.FieldsFunc(key, func(r rune) bool { return r == '.' }))
		if f.Type.Kind() == reflect.Struct && f.Type != reflect.TypeFor[adapter.Options]() {
			for _, s := range settingsIn(at, field) {
				name := s.path[len(s.path)-1] // the tags of a struct can replace those of its fields
				s.Default, s.Help = cmp.Or(f.Tag.Get(name+".default"), s.Default), cmp.Or(f.Tag.Get(name+".help"), s.Help)
				all = append(all, s)
			}
			continue
		}
		s := newSetting(at, f.Tag.Get("help"), field)
		s.Default, s.Min, s.max, s.check, s.short = f.Tag.Get("default"), f.Tag.Get("min"), f.Tag.Get("max"), f.Tag.Get("check"), f.Tag.Get("short")
		s.Env, s.OneOf, s.kinds = strings.Fields(f.Tag.Get("env")), strings.Fields(f.Tag.Get("oneof")), strings.Fields(f.Tag.Get("kinds"))
		s.optional, s.required = f.Tag.Get("optional") != "", f.Tag.Get("required") != ""
		s.chain, s.fileOnly = f.Tag.Get("chain") != "", f.Tag.Get("file") != ""
		all = append(all, s)
	}
	return all
}

func newSetting(path []string, help string, field reflect.Value) Setting {
	secret := field.Type() == reflect.TypeFor[Secret]() || field.Type() == reflect.TypeFor[[]Secret]()
	return Setting{Key: yaml.Path(path...), path: path, Help: help, field: field, Secret: secret}
}

// fileSetting returns a setting that is in the file alone, because its key has a name of the user's.
func fileSetting[T any](path []string, help string, field *T) Setting {
	s := newSetting(path, help, reflect.ValueOf(field).Elem())
	s.fileOnly = true
	return s
}

// fileSettingsOf returns the settings of a struct, all of which are in the file alone.
func fileSettingsOf(path []string, of any) []Setting {
	settings := settingsOf(path, of)
	for i := range settings {
		settings[i].fileOnly = true
	}
	return settings
}

// group orders settings so that those of one section follow one another; otherwise they keep their order.
func group(all []Setting) []Setting {
	positions := map[string]int{} // of sections, by the first of their settings
	for i, s := range all {
		all[i].order = nil
		for depth := range s.path {
			section := yaml.Path(s.path[:depth+1]...)
			if _, ok := positions[section]; !ok {
				positions[section] = len(positions)
			}
			all[i].order = append(all[i].order, positions[section])
		}
	}
	slices.SortStableFunc(all, func(a, b Setting) int { return slices.Compare(a.order, b.order) })
	return all
}

var (
	dashes      = strings.NewReplacer(".", "-", "_", "-")
	underscores = strings.NewReplacer(".", "_", "-", "_")
)

// Flag is the name on the command line, without dashes: run-retention.
func (s Setting) Flag() string { return dashes.Replace(s.Key) }

// Variables are the environment variables that set it; the first one that is not empty counts.
func (s Setting) Variables() []string {
	return append([]string{"LINGSERVE_" + strings.ToUpper(underscores.Replace(s.Key))}, s.Env...)
}

// find returns the setting of the table with a key.
func find(key string) (Setting, bool) {
	return lookup(table, func(s Setting) bool { return s.Key == key })
}

// checks are the checks of texts, and of the entries of lists, that fields name. An empty text is not checked.
var checks = map[string]func(string) error{
	"addr":        checkAddr,
	"database":    CheckDatabase,
	"domain":      checkDomain,
	"model":       checkModel,
	"url":         checkURL,
	"host":        checkHost,
	"timezone":    channel.CheckTimezone,
	"proxy":       parsable(egress.Through),
	"media":       parsable(adapter.ParseMediaRule),
	"key":         parsable(access.ParseKey),
	"role":        parsable(parseRoleName),
	"server name": func(s string) error { _, err := access.NewHosts([]string{s}); return err },
	"origin":      func(s string) error { _, err := access.NewCORS([]string{s}); return err },
	"addresses":   func(s string) error { _, err := access.ParseProxies([]string{s}); return err },
}

// parsable is the check of what parse accepts.
func parsable[T any](parse func(string) (T, error)) func(string) error {
	return func(s string) error {
		_, err := parse(s)
		return err
	}
}

func checkAddr(s string) error {
	_, port, err := net.SplitHostPort(s)
	if err != nil {
		return fmt.Errorf("%q is no address; expected HOST:PORT, such as 127.0.0.1:8080", s)
	}
	if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 {
		return fmt.Errorf("%q has an invalid port; expected 0 to 65535, such as 127.0.0.1:8080", s)
	}
	return nil
}

func checkModel(s string) error {
	for name := range strings.SplitSeq(s, ",") {
		provider, model, ok := strings.Cut(strings.TrimSpace(name), ":")
		if !ok || provider == "" || model == "" {
			return fmt.Errorf("%q is no model; expected PROVIDER:NAME, such as openai:gpt-6-luna", s)
		}
	}
	return nil
}

// checkURL never repeats the value: a base URL may carry a password.
func checkURL(s string) error {
	u, err := url.Parse(s)
	if err != nil || u.Host == "" || u.Fragment != "" || u.Scheme != "http" && u.Scheme != "https" {
		return errors.New("expected an http or https address, such as http://127.0.0.1:8000/v1")
	}
	return nil
}

// checkHost accepts what OLLAMA_HOST can be. It does not repeat the value either.
func checkHost(s string) error {
	if _, err := host.Parse(s); err != nil {
		return errors.New("expected an address, such as 127.0.0.1:11434 or http://127.0.0.1:11434")
	}
	return nil
}
