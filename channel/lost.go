package channel

import (
	"context"
	"time"
)

// lostLife is how long a conversation is told of an answer that may not have come.
const lostLife = 24 * time.Hour

// lostText is what it is told, with the next message that it sends.
const lostText = "You may have missed an earlier answer, because the platform did not confirm it. If it is missing, please ask again."

// lostAnswer is an answer that may not have been seen: to which event, "" if that is not known, and since when.
type lostAnswer struct {
	event string
	at    time.Time
}

// noteLost notes that the answer to an event may not have been seen, and is not sent again. After a crash the door tells the conversation
// so itself.
func (k *Kernel) noteLost(session, event string) {
	if session == "" {
		return
	}
	k.state.mu.Lock()
	defer k.state.mu.Unlock()
	if _, told := k.state.incomplete.get(event); !told || event == "" {
		k.state.lost.put(session, lostAnswer{event, time.Now()})
	}
}

// toldIncomplete notes that the conversation of an event was told that its answer may be incomplete, so that it is not told again.
func (k *Kernel) toldIncomplete(event string) {
	k.state.mu.Lock()
	defer k.state.mu.Unlock()
	k.state.incomplete.put(event, struct{}{})
	k.state.lost.dropValues(func(a lostAnswer) bool { return a.event == event })
}

// tellLost tells a conversation once that an earlier answer may not have come.
func (p *pass) tellLost(ctx context.Context) {
	if p.delivery == nil || p.plan.Trigger != "" || p.observing() || p.k.Settings != nil && !p.policy.ErrorNotice {
		return
	}
	s, session := &p.k.state, p.result.SessionKey
	s.mu.Lock()
	answer, lost := s.lost.get(session)
	if lost && answer.event != "" && p.claim != nil && answer.event == p.key().String() {
		lost = false // this turn answers that event again, or its door tells of it
	} else {
		s.lost.drop(session)
	}
	s.mu.Unlock()
	if lost && time.Since(answer.at) < lostLife && !p.tellSender(ctx, lostText) {
		p.k.noteLost(session, answer.event) // the next message may bring it
	}
}
