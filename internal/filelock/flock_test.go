//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package filelock_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/lingserve/lingserve/internal/filelock"
)

func open(t *testing.T, name string) *os.File {
	t.Helper()
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

func try(t *testing.T, f *os.File) bool {
	t.Helper()
	ok, err := filelock.Try(f)
	if err != nil {
		t.Fatal(err)
	}
	return ok
}

func TestAFileIsLockedByOneHandleUntilItIsReleasedOrClosed(t *testing.T) {
	name := filepath.Join(t.TempDir(), "lock")
	first, second := open(t, name), open(t, name)
	for range 2 {
		if !try(t, first) {
			t.Error("the first does not get it")
		}
	}
	if try(t, second) {
		t.Error("two have it")
	}
	if err := filelock.Release(second); err != nil { // what it has not
		t.Error(err)
	}
	if try(t, second) {
		t.Error("who does not have it could release it")
	}
	if err := filelock.Release(first); err != nil {
		t.Error(err)
	}
	if !try(t, second) {
		t.Error("it was not released")
	}
	if err := second.Close(); err != nil {
		t.Error(err)
	}
	if !try(t, first) {
		t.Error("closing did not release it")
	}
	if _, err := filelock.Try(second); err == nil || !strings.Contains(err.Error(), name) {
		t.Errorf("of a closed file: %v", err)
	}
	if err := filelock.Release(second); err == nil || !strings.Contains(err.Error(), name) {
		t.Errorf("of a closed file: %v", err)
	}
}

// A process that is being started has the file for a moment, as a duplicate of it does.
func TestAReleasedFileIsFreeWhoeverElseHasItOpen(t *testing.T) {
	name := filepath.Join(t.TempDir(), "lock")
	first, second := open(t, name), open(t, name)
	if !try(t, first) {
		t.Fatal("it is not free")
	}
	child, err := syscall.Dup(int(first.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(child)
	if err := filelock.Release(first); err != nil {
		t.Fatal(err)
	}
	if !try(t, second) {
		t.Error("it is not free, though it was released")
	}
}
