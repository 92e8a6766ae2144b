//go:build unix

package memlimit

import "syscall"

// OpenFiles is how many files the process may have open. The runtime has raised it at the start as far as it may.
func OpenFiles() uint64 {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil {
		return 0
	}
	return uint64(limit.Cur) // which some systems have signed
}
