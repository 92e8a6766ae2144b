package tool

import (
	"context"
	"slices"
	"sync"
)

// gate lets calls run: so many at once, one that is serial alone, and all in the order in which they came. None overtakes a serial
// one, so that it gets its turn.
type gate struct {
	limit int

	mu      sync.Mutex
	running int
	alone   bool // what runs is serial
	waiting []*ticket
}

// ticket is a call's place. Its owner leaves with it, whatever came of it.
type ticket struct {
	serial bool
	open   chan struct{} // closed when it may run
	runs   bool          // guarded by the gate
}

// enter takes a place at the end.
func (g *gate) enter(serial bool) *ticket {
	g.mu.Lock()
	defer g.mu.Unlock()
	t := &ticket{serial: serial, open: make(chan struct{})}
	g.waiting = append(g.waiting, t)
	g.admit()
	return t
}

// wait returns when the call may run, or false when ctx has ended first.
func (g *gate) wait(ctx context.Context, t *ticket) bool {
	select {
	case <-t.open:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

// leave gives the place back.
func (g *gate) leave(t *ticket) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if t.runs {
		g.running--
		g.alone = false
	} else {
		g.waiting = slices.DeleteFunc(g.waiting, func(other *ticket) bool { return other == t })
	}
	g.admit()
}

// admit lets run what may.
func (g *gate) admit() {
	for len(g.waiting) > 0 {
		t := g.waiting[0]
		if g.alone || g.running == g.limit || t.serial && g.running > 0 {
			return
		}
		g.waiting = g.waiting[1:]
		g.running++
		g.alone = t.serial
		t.runs = true
		close(t.open)
	}
}
