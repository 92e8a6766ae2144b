//go:build !unix

package program

import "syscall"

// Apart makes a process one that a terminal's ctrl-C does not reach, where the system has that.
func Apart() *syscall.SysProcAttr { return nil }
