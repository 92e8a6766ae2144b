//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package db

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// A process that is being started has the file for a moment, as a duplicate of its descriptor does.
func TestUnlockedFileCanBeLockedWhileACopyOfItsDescriptorIsOpen(t *testing.T) {
	name := filepath.Join(t.TempDir(), "lock")
	var files [2]*os.File
	for i := range files {
		f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		files[i] = f
	}
	lock := func(f *os.File, want bool) {
		t.Helper()
		if locked, err := lockFile(f); locked != want || err != nil {
			t.Errorf("locked: %v, %v, want %v", locked, err, want)
		}
	}
	lock(files[0], true)
	lock(files[1], false)
	child, err := syscall.Dup(int(files[0].Fd()))
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(child)
	if err := unlockFile(files[0]); err != nil {
		t.Error(err)
	}
	lock(files[1], true)
}
