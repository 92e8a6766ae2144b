//go:build !unix

package mcp

import (
	"os"
	"os/exec"
)

// setProcessGroup does nothing: there are no process groups here, so only the program itself is ended.
func setProcessGroup(*exec.Cmd) {}

func terminate(p *os.Process) { _ = p.Kill() }

func kill(p *os.Process) { _ = p.Kill() }
