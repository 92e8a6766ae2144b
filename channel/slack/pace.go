package slack

import (
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/lingserve/lingserve/internal/ratelimit"
)

const (
	// callEvery is the platform's limit of one conversation in the long run: one message a second.
	callEvery = time.Second
	// postBurst is how many messages the platform lets an app send at once.
	postBurst = 3
	// maxKnown bounds how many conversations, and how many people, are remembered.
	maxKnown = 1000
)

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

// pace says when the next message may be sent to each conversation.
type pace struct {
	posts *ratelimit.Buckets[string]
	// previews are periods without previews, by conversation; "" is that of all.
	previews *periods
}

func newPace() *pace {
	return &pace{posts: ratelimit.New[string](maxKnown), previews: newPeriods()}
}

// reservePost reserves the next message to a conversation and returns how long to wait before sending it.
func (p *pace) reservePost(conversation string, every time.Duration) time.Duration {
	wait := p.posts.Reserve(conversation, ratelimit.Rate{PerMinute: int(time.Minute / every), Burst: postBurst})
	p.previews.extend(conversation, wait+every)
	return wait
}

// allowPreview reports whether a preview may be shown in a conversation now, and counts it.
func (p *pace) allowPreview(conversation string, every time.Duration) bool {
	return !p.previews.active("") && p.previews.begin(conversation, every)
}
