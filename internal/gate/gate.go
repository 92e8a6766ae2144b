// Package gate counts what goes on, and lets others wait until nothing does.
package gate

import "sync"

// Gate counts what is inside, and lets callers wait until it is empty. Unlike a sync.WaitGroup it can be entered while callers wait, and they can
// give up waiting.
type Gate struct {
	mu    sync.Mutex
	count int
	empty chan struct{} // closed at zero; nil while no caller waits
}

// Enter counts one more.
func (g *Gate) Enter() {
	g.mu.Lock()
	g.count++
	g.mu.Unlock()
}

// Leave counts one less.
func (g *Gate) Leave() {
	g.mu.Lock()
	if g.count--; g.count == 0 && g.empty != nil {
		close(g.empty)
		g.empty = nil
	}
	g.mu.Unlock()
}

// Wait returns when nothing is inside, or giveUp is closed.
func (g *Gate) Wait(giveUp <-chan struct{}) {
	g.mu.Lock()
	if g.count == 0 {
		g.mu.Unlock()
		return
	}
	if g.empty == nil {
		g.empty = make(chan struct{})
	}
	empty := g.empty
	g.mu.Unlock()
	select {
	case <-empty:
	case <-giveUp:
	}
}

// Count is how many are inside.
func (g *Gate) Count() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.count
}
