package config

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/channel"
)

var update = flag.Bool("update", false, "write the tables of the guides")

// tables are what the guides show of the settings, between markers that bear the tables' names.
var tables = map[string]struct {
	guide string
	write func() string
}{
	"settings":  {"../docs/configuration.md", settingsTable},
	"providers": {"../docs/configuration.md", providersTable},
	"common":    {"../docs/configuration.md", commonTable},
	"model":     {"../docs/configuration.md", func() string { return namedTable(modelSettings) }},
	"presets":   {"../docs/models.md", presetsTable},
	"agents":    {"../docs/agents.md", func() string { return namedTable(agentSettings) }},
	"mcp":       {"../docs/agents.md", func() string { return namedTable(mcpSettings) }},
	"policies":  {"../docs/channels.md", policiesTable},
	"webhook":   {"../docs/channels/webhook.md", func() string { return channelTable(webhookSettings) }},
}

// settingsTable has all settings except those of providers. It leaves out flags and variables that follow from the key.
func settingsTable() string {
	var b strings.Builder
	b.WriteString("| key | value | default | |\n|---|---|---|---|\n")
	for _, s := range Settings() {
		if strings.HasPrefix(s.Key, providers) {
			continue
		}
		help := s.Help
		if s.flag != "" {
			help += " (flag " + code("--"+s.flag) + ")"
		}
		if len(s.Env) > 0 {
			help += " (also " + code(s.Env...) + ")"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", s.Key, s.Kind(), code(s.Default), help)
	}
	return b.String()
}

// providersTable has the settings that most providers have once. presetsTable has their variables and defaults.
func providersTable() string {
	var b strings.Builder
	b.WriteString("| key | also the variable | value | default | |\n|---|---|---|---|---|\n")
	for _, s := range providerSettings("NAME", "the provider", "")[:3] {
		fmt.Fprintf(&b, "| `%s` | [table](models.md) | %s | [table](models.md) | %s |\n", s.Key, s.Kind(), s.Help)
	}
	for _, s := range Settings() {
		parts := strings.Split(s.Key, ".")
		if strings.HasPrefix(s.Key, providers) && !slices.Contains([]string{"key", "base_url", "models"}, parts[len(parts)-1]) {
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", s.Key, code(s.Env...), s.Kind(), code(s.Default), s.Help)
		}
	}
	return b.String()
}

// commonTable has the settings that every provider has in the file.
func commonTable() string {
	header := headerSetting("NAME", "HEADER")
	return namedTable(commonSettings) + fmt.Sprintf("| `%s` | %s | %s | %s |\n", header.Key, header.Kind(), code(header.Default), header.Help)
}

// namedTable has the settings of one of those that the file adds by name.
func namedTable(settings func(name string) []Setting) string {
	var b strings.Builder
	b.WriteString("| key | value | default | |\n|---|---|---|---|\n")
	for _, s := range settings("NAME") {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", s.Key, s.Kind(), code(s.Default), s.Help)
	}
	return b.String()
}

// policiesTable has the settings that every channel has, as they stand below a channel.
func policiesTable() string {
	var b strings.Builder
	b.WriteString("| key | also of | value | default | |\n|---|---|---|---|---|\n")
	for _, s := range channel.SettingsTable() {
		var also []string
		for _, l := range []struct {
			level channel.Level
			name  string
		}{{channel.OfDirect, "a direct conversation"}, {channel.OfGroup, "a group"}, {channel.OfThread, "a thread"}} {
			if key, ok := s.At(l.level); ok && key != s.Key {
				also = append(also, l.name+" as `"+key+"`")
			} else if ok {
				also = append(also, l.name)
			}
		}
		if s.Levels&channel.OfChannel == 0 {
			also = append([]string{"not of a channel"}, also...)
		}
		if len(also) == 0 {
			also = []string{"–"}
		}
		kind := s.Kind()
		if s.IsList() && len(s.OneOf) > 0 {
			kind = "list of " + strings.Join(s.OneOf, ", ")
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", s.Key, strings.Join(also, ", "), kind, code(shippedText(channel.Place{}, s)), s.Help)
	}
	return b.String()
}

// channelTable has the settings that channels of one type have beside those.
func channelTable(settings func(at string, of func(*Config) *Channel) []Setting) string {
	var b strings.Builder
	b.WriteString("| key | value | default | |\n|---|---|---|---|\n")
	for _, s := range settings("", func(c *Config) *Channel { return c.channel("x", "") }) {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", s.Key, s.Kind(), code(s.Default), s.Help)
	}
	return b.String()
}

// presetsTable has what each preset needs.
func presetsTable() string {
	var b strings.Builder
	b.WriteString("| models | key | other address | default address | default model |\n|---|---|---|---|---|\n")
	for _, p := range Presets() {
		key := code(p.Variables("key")...)
		switch {
		case p.Kind == KindVertex:
			key = "Google's own; " + code(p.Env["project"]...)
		case p.Kind == KindBedrock:
			key += " or Amazon's own; " + code(p.Env["region"]...)
		case p.Keyless:
			key += " (optional)"
		case p.Name == "openai" || p.Kind == KindResponses:
			key += " (optional at another address)"
		case p.Kind == KindAnthropic || p.Kind == KindGemini:
			key += " (optional at another address)"
		}
		fmt.Fprintf(&b, "| `%s:` | %s | %s | %s | %s |\n", p.Name, key, code(p.Variables("base_url")...), code(p.BaseURL), code(p.Models))
	}
	return b.String()
}

// code is how the guide writes names and values; a dash is none.
func code(words ...string) string {
	if text := strings.Join(words, "`, `"); text != "" {
		return "`" + text + "`"
	}
	return "–"
}

func TestTheGuideShowsTheTables(t *testing.T) {
	for name, table := range tables {
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile(table.guide)
			if err != nil {
				t.Fatal(err)
			}
			begin, end := "<!-- "+name+": made by `go test ./config -update` -->\n", "<!-- end of "+name+" -->\n"
			head, rest, ok := strings.Cut(string(text), begin)
			shown, tail, ok2 := strings.Cut(rest, end)
			if !ok || !ok2 {
				t.Fatalf("%s has lost its markers", table.guide)
			}
			if *update {
				if err := os.WriteFile(table.guide, []byte(head+begin+table.write()+end+tail), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(table.write(), shown); diff != "" {
				t.Errorf("%s is not up to date; run go test ./config -update\n%s", table.guide, diff)
			}
		})
	}
}

func TestTheGuideSaysWhatEachKindSupports(t *testing.T) {
	text, err := os.ReadFile("../docs/models.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## What each supports\n")
	section, _, _ = strings.Cut(section, "\n## ")
	for _, p := range Presets() {
		row := regexp.MustCompile(`(?m)^\| ` + "`" + p.Kind + "`" + ` \|[^|]*\b` + p.Title + `\b[^|]*(\|[^|]+){5}\|$`)
		if !row.MatchString(section) {
			t.Errorf("there is no row of the kind %s that has %s", p.Kind, p.Title)
		}
		for _, variable := range slices.Concat(slices.Collect(maps.Values(p.Env))...) {
			if !strings.Contains(string(text), "`"+variable+"`") && !strings.Contains(string(text), variable+"=") {
				t.Errorf("%s of %s is not told of", variable, p.Title)
			}
		}
	}
}
