//go:build unix

package skill_test

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/lingserve/lingserve/agent/skill"
)

// A pipe would keep its reader waiting for ever.
func TestOnlyOrdinaryFilesAreRead(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, map[string]string{"s/SKILL.md": text("s", "x", "body"), "pipe/x": ""})
	for _, name := range []string{"s/pipe.md", "pipe/SKILL.md"} {
		if err := syscall.Mkfifo(filepath.Join(dir, filepath.FromSlash(name)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	l := skill.New(nil, skill.Dir(dir, "."))
	if got := l.List(); len(got) != 1 || got[0].Name != "s" {
		t.Errorf("%+v", got)
	}
	if got := problems(l); len(got) != 1 || got[0] != "pipe/SKILL.md: it is not a regular file" {
		t.Errorf("%q", got)
	}
	loaded, err := l.Load("s")
	if err != nil || len(loaded.Files) != 0 {
		t.Errorf("%+v, %v", loaded, err)
	}
	if _, err := l.Read("s", "pipe.md"); err == nil || !strings.Contains(err.Error(), "cannot be read") {
		t.Error(err)
	}
}
