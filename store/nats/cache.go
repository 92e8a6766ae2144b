package nats

import "sync"

// cache has the heads of the records, or logs, that this process has read or written lately, so that a change need not read them. What a
// revision says never changes; whether it is still the newest, the servers decide.
type cache[H cached[H]] struct {
	mu    sync.Mutex
	of    map[string]H
	bytes int
}

type cached[H any] interface {
	sequence() uint64
	cost() int // in bytes, beside the key
	light() H  // without data
}

// mostKnown bounds the bytes of heads.
const mostKnown = 4 << 20

// headCost is about what a head takes beside its texts.
const headCost = 256

// add takes a head, which nobody changes any more.
func (c *cache[H]) add(key string, head H) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if old, ok := c.of[key]; ok {
		if old.sequence() > head.sequence() {
			return
		}
		c.bytes -= len(key) + old.cost()
	}
	if c.of == nil || c.bytes > mostKnown {
		c.of, c.bytes = map[string]H{}, 0
	}
	c.of[key] = head.light()
	c.bytes += len(key) + head.cost()
}

// find returns the head of a key as it was last seen, or nil.
func (c *cache[H]) find(key string) H {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.of[key]
}

func (c *cache[H]) remove(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if old, ok := c.of[key]; ok {
		c.bytes -= len(key) + old.cost()
		delete(c.of, key)
	}
}

func (c *cache[H]) clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.of, c.bytes = nil, 0
}
