package trail

import (
	"sync"
	"time"
)

// Repeated is what the lines of a log have in common that a [Collector] counts as one kind.
type Repeated struct {
	Reason string
	Client string // the address of the caller, as [access.Caller] groups addresses; "" is any
}

const (
	// CollectEvery is how long a Collector counts before it reports.
	CollectEvery = time.Minute
	// firstLines of a kind are written each minute: enough to see what a person did wrong, and no flood.
	firstLines = 3
	// maxKinds are told apart each minute. Beyond them, only reasons are.
	maxKinds = 1024
)

// Collector keeps repeated lines out of a log, such as those of refused requests, which strangers can send as fast as they like. It is safe
// for concurrent use.
type Collector struct {
	// Report is called for each kind of which lines were left out, with their number. It must not call the Collector.
	Report func(kind Repeated, count int)

	mu    sync.Mutex
	lines map[Repeated]int // of this minute, by kind
	timer *time.Timer      // ends the minute; nil while there are no lines
}

// Allow reports whether a line of this kind may be written. Otherwise it is counted.
func (c *Collector) Allow(kind Repeated) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.timer == nil {
		c.lines = map[Repeated]int{}
		c.timer = time.AfterFunc(CollectEvery, c.Flush)
	}
	if _, known := c.lines[kind]; !known && len(c.lines) >= maxKinds {
		kind.Client = ""
	}
	c.lines[kind]++
	return c.lines[kind] <= firstLines
}

// Flush ends the minute early: it reports what was left out until now.
func (c *Collector) Flush() {
	c.mu.Lock()
	lines := c.lines
	if c.timer != nil {
		c.timer.Stop()
	}
	c.lines, c.timer = nil, nil
	c.mu.Unlock()
	for kind, n := range lines {
		if n > firstLines {
			c.Report(kind, n-firstLines)
		}
	}
}
