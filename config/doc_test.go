package config

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the tables of docs/configuration.md")

const guide = "../docs/configuration.md"

// tables are what the guide shows of the settings, between the markers that bear their names.
var tables = map[string]func() string{"settings": settingsTable, "providers": providersTable}

// settingsTable has the settings but those of providers, which have a table of their own.
func settingsTable() string {
	var b strings.Builder
	b.WriteString("| key | flag | environment | value | default | |\n|---|---|---|---|---|---|\n")
	for _, s := range Settings() {
		if strings.HasPrefix(s.Key, providers) {
			continue
		}
		fmt.Fprintf(&b, "| `%s` | `--%s` | %s | %s | %s | %s |\n", s.Key, s.Flag(), code(s.Variables()...), s.Kind(), code(s.Default), s.Help)
	}
	return b.String()
}

// providersTable leaves out the flags and variables that follow from the key.
func providersTable() string {
	var b strings.Builder
	b.WriteString("| key | also the variable | value | default | |\n|---|---|---|---|---|\n")
	for _, s := range Settings() {
		if strings.HasPrefix(s.Key, providers) {
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", s.Key, code(s.Env...), s.Kind(), code(s.Default), s.Help)
		}
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
			text, err := os.ReadFile(guide)
			if err != nil {
				t.Fatal(err)
			}
			begin, end := "<!-- "+name+": made by `go test ./config -update` -->\n", "<!-- end of "+name+" -->\n"
			head, rest, ok := strings.Cut(string(text), begin)
			shown, tail, ok2 := strings.Cut(rest, end)
			if !ok || !ok2 {
				t.Fatal("docs/configuration.md has lost its markers")
			}
			if *update {
				if err := os.WriteFile(guide, []byte(head+begin+table()+end+tail), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(table(), shown); diff != "" {
				t.Errorf("docs/configuration.md is not up to date; run go test ./config -update\n%s", diff)
			}
		})
	}
}
