package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"time"
)

// ticks calls do with 0, 1, 2, … and the time that has passed by the clock of a process of its own, step after step, until it is false. As with
// tokens of a model, it is the network that wakes this process: timers of its own would fire together with those of what is measured,
// since the runtime waits for whole milliseconds, and have it late or early by always the same.
func ticks(ctx context.Context, step time.Duration, do func(n int, passed time.Duration) (bool, error)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, exe, "-clock", step.String())
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	defer func() {
		cancel()
		_ = cmd.Wait() // it was killed
	}()
	buf := make([]byte, 1<<10)
	for n := 0; ; {
		came, err := out.Read(buf)
		for range came {
			if more, err := do(n, time.Duration(n)*step); err != nil || !more {
				return err
			}
			n++
		}
		if err != nil {
			return fmt.Errorf("the clock has stopped: %w", err)
		}
	}
}
