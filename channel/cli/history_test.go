//go:build unix

package cli_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lingserve/lingserve/channel/cli"
)

func TestCH_161TheHistoryHas1000Lines(t *testing.T) {
	file := filepath.Join(t.TempDir(), "history")
	var b strings.Builder
	for i := range 1005 {
		fmt.Fprintf(&b, "line %d\n", i)
	}
	if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	one := newRig(t, kernelOf(t, &scripted{answer: echo}), cli.Options{History: file})
	two := newRig(t, kernelOf(t, &scripted{answer: echo}), cli.Options{History: file})
	for _, r := range []*rig{one, two} { // at the same time
		r.types("the same\rthe same\rback\\slash\x1b\rrow\r")
		r.sees(`echo back\slash`)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	const added = "the same\nback\\slash␤row\n"
	if got := string(data); !strings.HasPrefix(got, "line 5\n") || !strings.HasSuffix(got, "line 1004\n"+added+added) {
		t.Errorf("the file has %d lines: %.20q … %q", strings.Count(got, "\n"), got, got[max(0, len(got)-100):])
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the mode is %v, %v, expected 0600", info.Mode(), err)
	}
}

func TestAHistoryThatCannotBeReadIsLeftAlone(t *testing.T) {
	r := newRig(t, kernelOf(t, &scripted{answer: echo}), cli.Options{History: t.TempDir()}) // a folder
	r.sees("The input history is unreadable; new lines are not saved.")
	r.types("one\r")
	r.sees("echo one")
	r.types("\x1b[A")
	r.reads("one")
}
