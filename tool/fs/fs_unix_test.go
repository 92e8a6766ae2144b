//go:build unix

package fs

import (
	"path/filepath"
	"syscall"
	"testing"
)

func TestAPipeKeepsNobodyWaiting(t *testing.T) { // AG-62
	dir := t.TempDir()
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
		t.Skip(err)
	}
	if got := call(t, dir, "fs.read", `{"path":"pipe"}`); got != `failed: "pipe" is not a regular file` {
		t.Error(got)
	}
	if got := call(t, dir, "fs.list", `{}`); got != `{"entries":[{"name":"pipe","type":"other"}]}` {
		t.Error(got)
	}
}
