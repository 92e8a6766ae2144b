package channel

import (
	"context"
	"time"
)

// lostLife is how long a conversation is told of an answer that may not have come.
const lostLife = 24 * time.Hour

// lostText is what it is told, with the next message that it sends.
const lostText = "An earlier answer may not have reached you: the platform did not confirm it. If it is missing, please ask again."

// noteLost notes that an answer in a session may not have been seen, and is not sent again.
func (k *Kernel) noteLost(session string) {
	if session == "" {
		return
	}
	k.state.mu.Lock()
	defer k.state.mu.Unlock()
	k.state.lost.put(session, time.Now())
}

// tellLost tells a conversation once that an earlier answer may not have come.
func (p *pass) tellLost(ctx context.Context) {
	if p.delivery == nil || p.plan.Trigger != "" || p.observing() || p.k.Settings != nil && !p.policy.ErrorNotice {
		return
	}
	s, session := &p.k.state, p.result.SessionKey
	s.mu.Lock()
	at, lost := s.lost.get(session)
	s.lost.drop(session)
	s.mu.Unlock()
	if lost && time.Since(at) < lostLife && !p.tellSender(ctx, lostText) {
		p.k.noteLost(session) // the next message may bring it
	}
}
