//go:build !unix

package mcp

import (
	"os"
	"os/exec"
)

// There are no process groups here: the program itself is ended.
func ownGroup(*exec.Cmd) {}

func terminate(p *os.Process) { _ = p.Kill() }

func kill(p *os.Process) { _ = p.Kill() }
