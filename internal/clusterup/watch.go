//go:build unix

package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/lingserve/lingserve/internal/fleet"
)

// again is how long what has ended stays away. It is longer than a replica's lease and most elections, so that all that comes of an end
// is seen before it is over.
const again = 15 * time.Second

// server is a process that somebody may kill.
type server struct {
	name  string
	ended func() <-chan struct{}
	start func(context.Context) error
	pid   func() int
}

// watch starts again what ends, and says so, until ctx ends.
func watch(ctx context.Context, f *fleet.Fleet) {
	var servers []server
	for _, n := range f.Nodes {
		servers = append(servers, server{"NATS server " + n.Name(), n.Ended, func(context.Context) error { return n.Start() }, n.Pid})
	}
	for _, r := range f.Replicas {
		servers = append(servers, server{"replica " + r.Name, r.Ended, r.Start, r.Pid})
	}
	var wg sync.WaitGroup
	for _, s := range servers {
		wg.Go(func() { s.watch(ctx) })
	}
	wg.Wait()
}

func (s *server) watch(ctx context.Context) {
	for {
		select {
		case <-s.ended():
		case <-ctx.Done():
			return
		}
		s.say("has ended, and is started again after %s", again)
		for { // until it is there again
			select {
			case <-time.After(again):
			case <-ctx.Done():
				return
			}
			err := s.start(ctx)
			if err == nil {
				break
			}
			if ctx.Err() != nil {
				return
			}
			s.say("does not start: %v", err)
		}
		s.say("is there again: process %d", s.pid())
	}
}

func (s *server) say(format string, args ...any) {
	fmt.Printf("%s  %s %s\n", time.Now().Format(time.TimeOnly), s.name, fmt.Sprintf(format, args...))
}
