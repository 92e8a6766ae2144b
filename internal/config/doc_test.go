package config

import (
	"flag"
	"fmt"
	"os"
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
	"settings":  {"../../docs/configuration.md", settingsTable},
	"providers": {"../../docs/configuration.md", providersTable},
	"common":    {"../../docs/configuration.md", commonTable},
	"presets":   {"../../docs/models.md", presetsTable},
	"agents":    {"../../docs/agents.md", func() string { return namedTable((*Config).agentSettings) }},
	"mcp":       {"../../docs/agents.md", func() string { return namedTable((*Config).mcpSettings) }},
	"policies":  {"../../docs/channels.md", policiesTable},
	"telegram":  {"../../docs/channels/telegram.md", func() string { return channelTable("telegram") }},
	"slack":     {"../../docs/channels/slack.md", func() string { return channelTable("slack") }},
	"discord":   {"../../docs/channels/discord.md", func() string { return channelTable("discord") }},
	"feishu":    {"../../docs/channels/feishu.md", func() string { return channelTable("feishu") }},
	"webhook":   {"../../docs/channels/webhook.md", func() string { return channelTable("webhook") }},
}

// settingsTable has all settings except those of providers. It leaves out flags and variables that follow from the key.
func settingsTable() string {
	var b strings.Builder
	b.WriteString("| key | default | |\n|---|---|---|\n")
	for _, s := range Settings() {
		if strings.HasPrefix(s.Key, providers) {
			continue
		}
		help := s.Help
		if len(s.Env) > 0 {
			help += " (also " + code(s.Env...) + ")"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", s.Key, defaultOrKind(s), help)
	}
	return b.String()
}

// defaultOrKind returns the default with the other allowed values, or the kind of a setting without a default.
func defaultOrKind(s Setting) string {
	if s.Default == "" {
		return s.Kind()
	}
	var others []string
	for _, value := range s.OneOf {
		if value != s.Default {
			others = append(others, value)
		}
	}
	if len(others) == 0 {
		return code(s.Default)
	}
	return code(s.Default) + ", " + strings.Join(others, ", ")
}

// providersTable has the settings that most providers have once. presetsTable has their variables and defaults.
func providersTable() string {
	var b strings.Builder
	b.WriteString("| key | also the variable | default | |\n|---|---|---|---|\n")
	for _, s := range providerSettings(&Provider{Name: "NAME"}, "the provider")[:3] {
		fmt.Fprintf(&b, "| `%s` | [table](models.md) | [table](models.md) | %s |\n", s.Key, s.Help)
	}
	for _, s := range Settings() {
		parts := strings.Split(s.Key, ".")
		if strings.HasPrefix(s.Key, providers) && !slices.Contains([]string{"key", "base_url", "models"}, parts[len(parts)-1]) {
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", s.Key, code(s.Env...), defaultOrKind(s), s.Help)
		}
	}
	return b.String()
}

// commonTable has the settings that every provider, and every model, has in the file. They have no defaults.
func commonTable() string {
	var b strings.Builder
	b.WriteString("| key | value | |\n|---|---|---|\n")
	for _, s := range slices.Concat(providerSettings(&Provider{Name: "NAME"}, "")[3:], []Setting{headerSetting("NAME", &Header{Name: "HEADER"})}, new(Config).modelSettings("NAME")) {
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", s.Key, defaultOrKind(s), s.Help)
	}
	return b.String()
}

// namedTable has the settings of one of those that the file adds by name.
func namedTable(settings func(c *Config, name string) []Setting) string {
	var b strings.Builder
	b.WriteString("| key | default | |\n|---|---|---|\n")
	for _, s := range settings(new(Config), "NAME") {
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", s.Key, defaultOrKind(s), s.Help)
	}
	return b.String()
}

// policiesTable has the settings that every channel has, as they stand below a channel.
func policiesTable() string {
	var b strings.Builder
	b.WriteString("| key | also of | value | default | |\n|---|---|---|---|---|\n")
	fields := settingsOf(nil, new(channel.Place))
	for i, s := range channel.SettingsTable() {
		also := "–"
		switch {
		case s.Levels&channel.OfChannel == 0:
			also = "groups only"
		case s.Levels&channel.OfDirect != 0:
			also = "all"
		case s.Levels&channel.OfGroup != 0:
			also = "groups"
		}
		kind := strings.ReplaceAll(fields[i].Kind(), " or ", ", ")
		if fields[i].isList() && len(s.OneOf) > 0 {
			kind = "list of these"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", s.Key, also, kind, code(defaultOfPolicy(s)), s.Help)
	}
	return b.String()
}

// defaultOfPolicy is the default of a setting that every channel has.
func defaultOfPolicy(s channel.Setting) string {
	if s.Key == "agent" {
		return DefaultAgent
	}
	return s.Default
}

// channelTable has the settings that channels of one type have beside those.
func channelTable(name string) string {
	var b strings.Builder
	kind, _ := typeOfChannel(name)
	b.WriteString("| key | value | default | |\n|---|---|---|---|\n")
	for _, s := range kind.settings(new(Channel)) {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", s.path[len(s.path)-1], s.Kind(), code(s.Default), s.Help)
	}
	return b.String()
}

// presetsTable has what each preset needs.
func presetsTable() string {
	var b strings.Builder
	b.WriteString("| models | key | address, and the variable for another one | default model |\n|---|---|---|---|\n")
	for _, p := range presets {
		key := code(p.variables("key")...)
		switch {
		case p.Kind == KindVertex:
			key = "Google's own; " + code(p.Env["project"]...)
		case p.Kind == KindBedrock:
			key += " or Amazon's own; " + code(p.Env["region"]...)
		case p.Keyless:
			key += " (optional)"
		}
		address := code(p.variables("base_url")...)
		if p.BaseURL != "" {
			address = code(p.BaseURL) + ", " + address
		}
		fmt.Fprintf(&b, "| `%s:` | %s | %s | %s |\n", p.Name, key, address, code(p.Models))
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
			begin, end := "<!-- "+name+": made by `go test ./internal/config -update` -->\n", "<!-- end of "+name+" -->\n"
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
				t.Errorf("%s is not up to date; run go test ./internal/config -update\n%s", table.guide, diff)
			}
		})
	}
}
