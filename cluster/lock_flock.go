//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package cluster

import (
	"os"
	"syscall"
)

// tryLock takes a file until it is closed or the process ends, however it ends. It is false when another process has it.
func tryLock(f *os.File) (bool, error) {
	for {
		switch err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err {
		case nil:
			return true, nil
		case syscall.EWOULDBLOCK:
			return false, nil
		case syscall.EINTR:
		default:
			return false, &os.PathError{Op: "lock", Path: f.Name(), Err: err}
		}
	}
}
