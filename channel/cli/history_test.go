package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestCH_161TheHistoryHas1000Lines(t *testing.T) {
	file := filepath.Join(t.TempDir(), "history")
	a, err := openHistory(file)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 1000 {
		if err := a.add(fmt.Sprint("a", i)); err != nil {
			t.Fatal(err)
		}
	}
	b, err := openHistory(file)
	if err != nil {
		t.Fatal(err)
	}
	// Two processes that write at the same time lose nothing of one another.
	for i := range 5 {
		for name, h := range map[string]*history{"a": a, "b": b} {
			if err := h.add(fmt.Sprint(name, "-new-", i)); err != nil {
				t.Fatal(err)
			}
		}
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
	if len(lines) != 1000 || lines[0] != "a10" {
		t.Errorf("the file has %d lines and begins with %q", len(lines), lines[0])
	}
	for i := range 5 {
		for _, name := range []string{"a", "b"} {
			if want := fmt.Sprint(name, "-new-", i); strings.Count(string(data), want+"\n") != 1 {
				t.Errorf("%s is not there once", want)
			}
		}
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the mode is %v, expected 0600", info.Mode())
	}
	if len(a.lines) != 1000 {
		t.Errorf("%d lines are in memory", len(a.lines))
	}
}

func TestAHistoryThatOthersCouldReadIsClosed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "history")
	if err := os.WriteFile(file, []byte("one\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := openHistory(file); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the mode is %v, %v, expected 0600", info.Mode(), err)
	}
}

func TestAHistoryThatCannotBeReadIsLeftAlone(t *testing.T) {
	file := t.TempDir() // a folder
	h, err := openHistory(file)
	if err == nil {
		t.Fatal("a folder was read")
	}
	if err := h.add("one"); err != nil {
		t.Errorf("a line cannot be kept while it runs: %v", err)
	}
	if text, ok := h.at(1); !ok || text != "one" {
		t.Errorf("got %q, %v", text, ok)
	}
}

func TestARowOfTheHistoryIsOneLine(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.String().Draw(t, "text")
		row := quote(text)
		if strings.ContainsAny(row, "\n\r") {
			t.Fatalf("%q has a newline", row)
		}
		if got := unquote(row); got != text {
			t.Fatalf("%q comes back as %q", text, got)
		}
	})
}
