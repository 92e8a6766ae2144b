package config

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the table of docs/configuration.md")

const (
	guide = "../docs/configuration.md"
	begin = "<!-- settings: made by `go test ./config -update` -->\n"
	end   = "<!-- end of settings -->\n"
)

// guideTable is the table as the guide shows it.
func guideTable() string {
	var b strings.Builder
	b.WriteString("| key | flag | environment | value | default | |\n|---|---|---|---|---|---|\n")
	for _, s := range Settings() {
		kind, value := s.Kind(), "–"
		if s.Default != "" {
			value = "`" + s.Default + "`"
		}
		fmt.Fprintf(&b, "| `%s` | `--%s` | `%s` | %s | %s | %s |\n",
			s.Key, s.Flag(), strings.Join(s.Variables(), "`, `"), kind, value, s.Help)
	}
	return b.String()
}

func TestTheGuideShowsTheTable(t *testing.T) {
	text, err := os.ReadFile(guide)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok := strings.Cut(string(text), begin)
	shown, tail, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatal("docs/configuration.md has lost its markers")
	}
	if *update {
		if err := os.WriteFile(guide, []byte(head+begin+guideTable()+end+tail), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(guideTable(), shown); diff != "" {
		t.Errorf("docs/configuration.md is not up to date; run go test ./config -update\n%s", diff)
	}
}
