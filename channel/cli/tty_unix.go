//go:build unix

package cli

import (
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// Resized implements [Terminal].
func (tty) Resized() (changed <-chan struct{}, stop func()) {
	signals, told, ended := make(chan os.Signal, 1), make(chan struct{}, 1), make(chan struct{})
	signal.Notify(signals, syscall.SIGWINCH)
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-signals:
				select {
				case told <- struct{}{}:
				default: // it is told already
				}
			case <-ended:
				return
			}
		}
	})
	return told, func() {
		signal.Stop(signals)
		close(ended)
		wg.Wait()
	}
}
