package slack

import (
	"sync"
	"time"
)

// callEvery is what the platform lets an app do in one conversation in the long run: one message a second.
const callEvery = time.Second

// pace knows when the next message may go to each conversation. Its zero value works.
type pace struct {
	mu    sync.Mutex
	next  map[string]time.Time // when what was sent so far is used up
	shown map[string]time.Time // of the last write
	slow  time.Time            // until then, the platform wants nothing that can wait
}

const (
	// burst is how many messages may go at once, which the platform lets pass for a short time.
	burst = 3
	// maxPaced bounds the conversations of which something is known: those of the last seconds.
	maxPaced = 1000
)

// take takes the next place in a conversation and returns how long to wait for it.
func (p *pace) take(conversation string, every time.Duration, now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.start(now)
	next := p.next[conversation]
	if next.Before(now) {
		next = now
	}
	next = next.Add(every)
	p.next[conversation] = next
	wait := max(next.Add(-burst*every).Sub(now), 0)
	p.shown[conversation] = now.Add(wait)
	return wait
}

// free says whether something may be shown in a conversation that could as well be left out, and notes that it is.
func (p *pace) free(conversation string, every time.Duration, now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.start(now)
	if now.Before(p.slow) || now.Before(p.shown[conversation].Add(every)) {
		return false
	}
	p.shown[conversation] = now
	return true
}

// slowDown holds back what can wait.
func (p *pace) slowDown(wait time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if until := time.Now().Add(wait); until.After(p.slow) {
		p.slow = until
	}
}

// start forgets what is over where there is too much. The lock is held.
func (p *pace) start(now time.Time) {
	if p.next == nil {
		p.next, p.shown = map[string]time.Time{}, map[string]time.Time{}
	}
	for _, m := range []map[string]time.Time{p.next, p.shown} {
		if len(m) < maxPaced {
			continue
		}
		for k, at := range m {
			if at.Add(time.Minute).Before(now) {
				delete(m, k)
			}
		}
		for k := range m {
			if len(m) < maxPaced {
				break
			}
			delete(m, k)
		}
	}
}
