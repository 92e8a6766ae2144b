//go:build unix

package logs

import (
	"syscall"
	"time"
)

func init() {
	pipe = func(path string) error { return syscall.Mkfifo(path, 0o600) }
	cpu = func() time.Duration {
		var u syscall.Rusage
		if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
			return 0
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
}
