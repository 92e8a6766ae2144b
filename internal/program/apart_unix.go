//go:build unix

package program

import "syscall"

// Apart makes a process one that a terminal's ctrl-C does not reach, so that whoever has started it says when it ends.
func Apart() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
