package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/lingserve/lingserve/config"
)

// DW-16: the help of serve fits on a screen; with --all it has every setting, below the title of its group.
func TestTheHelpOfServeFitsOnAScreen(t *testing.T) {
	help := func(args ...string) string {
		var out, problems strings.Builder
		if status := command(append([]string{"help", "serve"}, args...), nil, &out, &problems); status != exitOK || problems.Len() > 0 {
			t.Fatalf("status %d: %s", status, problems.String())
		}
		return out.String()
	}
	short, all := help(), help("--all")
	if lines := strings.Split(strings.TrimSuffix(short, "\n"), "\n"); len(lines) > 24 || slices.ContainsFunc(lines, func(s string) bool { return len(s) > 80 }) {
		t.Errorf("%d lines:\n%s", len(lines), short)
	}
	flags := map[string]bool{}
	for _, s := range config.Settings() {
		flags[s.Flag()] = true
		if strings.HasPrefix(s.Key, "providers.") {
			continue
		}
		if strings.Count(all, "\n  --"+s.Flag()+" ")+strings.Count(all, "\n  --"+s.Flag()+", -") != 1 {
			t.Errorf("--all does not show --%s once", s.Flag())
		}
		if first, _, dotted := strings.Cut(s.Key, "."); dotted && groups[first] == "" {
			t.Errorf("the settings of %s have no title", first)
		}
	}
	for _, title := range groups {
		if strings.Count(all, "\n\n"+title+"\n") != 1 {
			t.Errorf("--all does not show the title %q once", title)
		}
	}
	for _, s := range commonSettings {
		if !flags[s[0]] || !strings.Contains(short, "\n  --"+s[0]+" ") {
			t.Errorf("the help shows no setting --%s", s[0])
		}
	}
}
