//go:build nightly

package faults

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TA-12, on a disk that is full: turns on a small file system until it takes nothing more, then room, then turns. Mounting one
// wants root.
func TestTurnsOutliveAFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"); err != nil {
		t.Skipf("no file system can be mounted here: %v", err)
	}
	defer syscall.Unmount(dir, syscall.MNT_DETACH)
	ballast := filepath.Join(dir, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 896<<10), 0o600); err != nil {
		t.Fatal(err)
	}
	var l ledger
	tapes := filepath.Join(dir, "tapes")
	for round := range 2 { // in the second one a process begins on the full disk
		inProcess(t, &l, tapes, []string{"p", "q"}[round], func(a *answering) {
			full := false
			for n := 0; n < 2000 && !full; n++ {
				for _, session := range sessions {
					_, err := a.take(t.Context(), session, n%40)
					switch {
					case err == nil:
					case errors.Is(err, syscall.ENOSPC) && strings.Contains(err.Error(), "the disk is full; make room"):
						full = true
					default:
						t.Fatalf("%s: message %d: %v", session, n, err)
					}
				}
			}
			if !full {
				t.Fatal("the disk was never full")
			}
			for _, session := range sessions { // as it is
				l.check(t, a.store, session)
			}
			if round == 0 {
				return
			}
			if err := os.Remove(ballast); err != nil {
				t.Fatal(err)
			}
			for _, session := range sessions {
				if r, err := a.take(t.Context(), session, 1); err != nil || !strings.HasPrefix(r.Output, "This is what there is to say") {
					t.Errorf("%s, with room again: %+v, %v", session, r, err)
				}
			}
		})
		l.checkAll(t, tapes)
	}
}
