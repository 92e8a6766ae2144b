package slack

import (
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// maxKnown bounds how many conversations, and how many people, are remembered.
const maxKnown = 1000

// periods are times that go on, by name. They may be used by several goroutines.
type periods struct {
	mu   sync.Mutex
	ends *simplelru.LRU[string, time.Time]
}

func newPeriods() *periods {
	ends, _ := simplelru.NewLRU[string, time.Time](maxKnown, nil) // it fails for a size below 1 only
	return &periods{ends: ends}
}

// active reports whether a period goes on.
func (p *periods) active(name string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.activeLocked(name)
}

func (p *periods) activeLocked(name string) bool {
	end, ok := p.ends.Get(name)
	return ok && time.Now().Before(end)
}

// begin begins a period unless it goes on already.
func (p *periods) begin(name string, d time.Duration) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.activeLocked(name) {
		return false
	}
	p.ends.Add(name, time.Now().Add(d))
	return true
}

// extend lets a period go on for at least so long.
func (p *periods) extend(name string, d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	end := time.Now().Add(d)
	if known, ok := p.ends.Get(name); !ok || known.Before(end) {
		p.ends.Add(name, end)
	}
}
