package slack

import (
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/lingserve/lingserve/internal/ratelimit"
)

const (
	// callEvery is the platform's limit of one conversation in the long run: one message a second.
	callEvery = time.Second
	// postBurst is how many messages the platform lets an app send at once.
	postBurst = 3
	// maxPaced bounds how many conversations are remembered.
	maxPaced = 1000
)

// pace tells when the next message may be sent to each conversation.
type pace struct {
	posts *ratelimit.Buckets[string]

	mu        sync.Mutex
	written   *lru.Cache[string, time.Time] // when a conversation was written to last
	slowUntil time.Time                     // previews are left out until then
}

func newPace() *pace {
	written, err := lru.New[string, time.Time](maxPaced)
	if err != nil {
		panic(err) // maxPaced is positive
	}
	return &pace{posts: ratelimit.New[string](maxPaced), written: written}
}

// reservePost reserves the next message to a conversation and returns how long to wait before sending it.
func (p *pace) reservePost(conversation string, every time.Duration) time.Duration {
	wait := p.posts.Reserve(conversation, ratelimit.Rate{PerMinute: int(time.Minute / every), Burst: postBurst})
	p.mu.Lock()
	defer p.mu.Unlock()
	p.written.Add(conversation, time.Now().Add(wait))
	return wait
}

// allowPreview reports whether a preview may be shown in a conversation now, and counts it.
func (p *pace) allowPreview(conversation string, every time.Duration) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if last, ok := p.written.Get(conversation); now.Before(p.slowUntil) || ok && now.Before(last.Add(every)) {
		return false
	}
	p.written.Add(conversation, now)
	return true
}

// slowDown leaves previews out for a while.
func (p *pace) slowDown(wait time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if until := time.Now().Add(wait); until.After(p.slowUntil) {
		p.slowUntil = until
	}
}
