//go:build unix

package main

import "syscall"

// openFiles is how many files the process may have open. The runtime has raised it at the start as far as it may.
func openFiles() uint64 {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil {
		return 0
	}
	return uint64(limit.Cur) // which some systems have signed
}
