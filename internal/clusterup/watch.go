//go:build unix

package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/lingserve/lingserve/internal/fleet"
)

// again is how long what has ended stays away. It is longer than the time after which a replica is declared dead, so that everything that follows from an end can be
// seen before.
const again = 15 * time.Second

// watch starts replicas again that have ended, and says so, until ctx ends.
func watch(ctx context.Context, f *fleet.Fleet) {
	var wg sync.WaitGroup
	for _, r := range f.Replicas {
		wg.Go(func() { watchReplica(ctx, r) })
	}
	wg.Wait()
}

func watchReplica(ctx context.Context, r *fleet.Replica) {
	for {
		select {
		case <-r.Ended():
		case <-ctx.Done():
			return
		}
		say(r, "has ended, and is started again after %s", again)
		for { // until it is there again
			select {
			case <-time.After(again):
			case <-ctx.Done():
				return
			}
			err := r.Start(ctx)
			if err == nil {
				break
			}
			if ctx.Err() != nil {
				return
			}
			say(r, "does not start: %v", err)
		}
		say(r, "is there again: process %d", r.Pid())
	}
}

func say(r *fleet.Replica, format string, args ...any) {
	fmt.Printf("%s  replica %s %s\n", time.Now().Format(time.TimeOnly), r.Name, fmt.Sprintf(format, args...))
}
