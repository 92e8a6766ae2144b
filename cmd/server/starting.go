package main

import (
	"context"
	"errors"
	"os"
	"sync"
	"syscall"
)

// untilSignal ends a context when the process is told to end: what is waited for at the start may take a minute. stop is called before the
// signals are read again.
func untilSignal(signals <-chan os.Signal) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case sig := <-signals:
				if sig != syscall.SIGHUP { // there is nothing to reload yet
					cancel(errAtStart)
					return
				}
			case <-done:
				return
			}
		}
	})
	return ctx, func() {
		close(done)
		wg.Wait()
	}
}

// errAtStart is why a server ends that was told to before it had begun.
var errAtStart = errors.New("a signal stopped the server while it was starting")
