//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package db

import (
	"errors"
	"os"
	"syscall"
)

// lockFile locks a file for this handle alone, until unlockFile, or until the process ends. locked is false if another handle, of this process or
// another, has the lock.
func lockFile(f *os.File) (locked bool, err error) {
	if err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); errors.Is(err, syscall.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}

// unlockFile releases the lock of lockFile. Closing the file is not enough: a process that is being started has all open files for a moment, and
// their locks.
func unlockFile(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_UN) }
