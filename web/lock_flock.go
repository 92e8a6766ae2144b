//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package web

import (
	"os"
	"syscall"
)

// lock takes a file for this process alone, until it is closed or the process ends, however it ends.
func lock(f *os.File) error {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == syscall.EWOULDBLOCK {
		return errInUse
	}
	return err
}
