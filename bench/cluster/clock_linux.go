package main

import (
	"io"
	"os"
	"runtime"
	"syscall"
	"time"
)

// clock is that process: it writes a byte each step, and those that are late at once, until nobody reads them. It sleeps in the kernel, since the
// runtime's timers are too coarse.
func clock(step time.Duration) error {
	runtime.LockOSThread()
	for next := time.Now(); ; next = next.Add(step) {
		for wait := time.Until(next); wait > 0; wait = time.Until(next) {
			t := syscall.NsecToTimespec(wait.Nanoseconds())
			_ = syscall.Nanosleep(&t, nil) // what a signal has cut short is slept once more
		}
		if _, err := io.WriteString(os.Stdout, "."); err != nil {
			return err
		}
	}
}
