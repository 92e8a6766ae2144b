package kernel

import (
	"cmp"
	"strconv"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/internal/ratelimit"
)

const (
	maxRecent = 10_000 // keys of each kind; the one not used for longest goes

	loopEvents = 20 // of a pair in loopWindow; then they pause for as long
	loopWindow = time.Minute
	loopTurns  = 8 // in a row that bots have started

	perMinute = "/min" // behind the number of a rate, in a verdict
	sentLife  = 10 * time.Minute
)

// recent is a map that is bounded: what was not put for longest goes first. Peek reads it.
type recent[K comparable, V any] = simplelru.LRU[K, V]

func newRecent[K comparable, V any]() *recent[K, V] {
	r, _ := simplelru.NewLRU[K, V](maxRecent, nil) // fails for a size below 1 only
	return r
}

type (
	placeKey  struct{ channel, account, conversation string }
	senderKey struct{ channel, account, sender string }
	pairKey   struct{ channel, conversation, a, b string } // a ≤ b
	sentKey   struct{ channel, account, conversation, id string }
)

func placeOf(f *channel.Facts) placeKey {
	return placeKey{f.Channel, f.Account, f.Conversation.ID}
}

// guards bound what bots, senders and conversations may start, and know what was sent from here. Only events that they let pass are counted.
type guards struct {
	mu      sync.Mutex
	pairs   *recent[pairKey, *botPair]
	inARow  *recent[placeKey, int]         // turns that bots have started since a person wrote
	outside *recent[sentKey, time.Time]    // until when it is known that a message was sent from here
	notices *recent[stopNotice, time.Time] // when a sender was told last why a message was stopped
	senders *ratelimit.Buckets[senderKey]
	chats   *ratelimit.Buckets[placeKey]
}

// botPair is what two senders of which one is a bot have written to each other.
type botPair struct {
	times  []time.Time // in the window
	paused time.Time   // until
}

func (g *guards) init() {
	g.pairs, g.inARow = newRecent[pairKey, *botPair](), newRecent[placeKey, int]()
	g.outside, g.notices = newRecent[sentKey, time.Time](), newRecent[stopNotice, time.Time]()
	g.senders, g.chats = ratelimit.New[senderKey](maxRecent), ratelimit.New[placeKey](maxRecent)
}

// noticeDue reports whether a sender was not told for a minute why a message was stopped, and notes the time.
func (g *guards) noticeDue(n stopNotice) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	if last, ok := g.notices.Peek(n); ok && now.Sub(last) < stopNoticeEvery {
		return false
	}
	g.notices.Add(n, now)
	return true
}

// sent notes the ids of messages that were sent in a conversation.
func (g *guards) sent(f *channel.Facts, ids []string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, id := range ids {
		g.outside.Add(sentKey{f.Channel, f.Account, f.Conversation.ID, id}, time.Now().Add(sentLife))
	}
}

// sentFromHere reports whether a message was sent from here.
func (g *guards) sentFromHere(name, account, conversation, id string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	until, ok := g.outside.Peek(sentKey{name, account, conversation, id})
	return ok && time.Now().Before(until)
}

// guardVerdict is what the gates loop and rate say.
type guardVerdict struct {
	verdicts  []channel.Verdict
	admission channel.Admission
	wait      time.Duration // until there is room again
}

// use asks both gates, and counts the event if both let it pass.
func (g *guards) use(f *channel.Facts, p *channel.Policy, counted bool) (v guardVerdict) {
	g.mu.Lock()
	defer g.mu.Unlock()
	loop, loopWait, countLoop := g.loop(f, time.Now())
	rate, rateWait, countRate := g.rate(f, p, counted)
	v.verdicts = []channel.Verdict{loop, rate}
	switch {
	case loop.State == channel.Blocked:
		v.admission, v.wait = drop(loop.Reason), loopWait
	case rate.State == channel.Blocked:
		v.admission, v.wait = drop(rate.Reason), rateWait
	default:
		countLoop()
		countRate()
	}
	return v
}

// countRate counts a message of a sender if the rates let it pass; else it returns how long to wait.
func (g *guards) countRate(f *channel.Facts, p *channel.Policy) (wait time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	_, wait, count := g.rate(f, p, false)
	if wait == 0 {
		count()
	}
	return wait
}

// noteMessage notes a message that starts no turn: after one of a person, bots are not among themselves any more.
func (g *guards) noteMessage(f *channel.Facts) {
	if f.Sender.IsBot || f.Sender.IsSelf {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.inARow.Remove(placeOf(f))
}

// loop is the gate that keeps two agents from answering each other without end.
func (g *guards) loop(f *channel.Facts, now time.Time) (v channel.Verdict, wait time.Duration, count func()) {
	v = channel.Verdict{Gate: channel.GateLoop, State: channel.Passed, Setting: "default:loop_events", Value: strconv.Itoa(loopEvents)}
	place := placeOf(f)
	if !f.Sender.IsBot {
		v.State = channel.Skipped
		return v, 0, func() { g.inARow.Remove(place) }
	}
	self := cmp.Or(f.Account, f.Route.AgentID, f.Channel) // the other of the two
	key := pairKey{f.Channel, f.Conversation.ID, min(self, f.Sender.ID), max(self, f.Sender.ID)}
	p, ok := g.pairs.Peek(key)
	if !ok {
		p = &botPair{}
		g.pairs.Add(key, p)
	}
	for len(p.times) > 0 && now.Sub(p.times[0]) >= loopWindow {
		p.times = p.times[1:]
	}
	row, _ := g.inARow.Peek(place)
	switch {
	case now.Before(p.paused):
		v.Hint = "wait until the pause is over"
	case len(p.times) >= loopEvents:
		p.paused = now.Add(loopWindow)
		v.Hint = "two bots answer each other; wait until the pause is over"
	case row >= loopTurns:
		v.Setting, v.Value = "default:loop_turns", strconv.Itoa(loopTurns)
		v.Hint = "only bots are writing; the agent answers again after a person writes"
	default:
		return v, 0, func() {
			p.times = append(p.times, now)
			g.inARow.Add(place, row+1)
		}
	}
	v.State, v.Reason = channel.Blocked, channel.ReasonBotLoop
	return v, max(p.paused.Sub(now), 0), func() {}
}

// rate is the gate for the messages of a sender, and of a conversation, in a minute.
func (g *guards) rate(f *channel.Facts, p *channel.Policy, counted bool) (v channel.Verdict, wait time.Duration, count func()) {
	v = channel.Verdict{Gate: channel.GateRate, State: channel.Passed}
	sender, chat := p.Limits.SenderRate, p.Limits.ChatRate
	sender.Burst = max(sender.Burst, 1)
	who, place := senderKey{f.Channel, f.Account, f.Sender.ID}, placeOf(f)
	limitSender, limitChat := sender.PerMinute > 0 && who.sender != "", chat.PerMinute > 0
	if counted || !limitSender && !limitChat {
		v.State = channel.Skipped
		return v, 0, func() {}
	}
	block := func(need time.Duration, r channel.Rate, setting string) {
		if need > wait {
			wait = need
			v.State, v.Reason, v.Setting, v.Value = channel.Blocked, channel.ReasonRateLimited, setting, strconv.Itoa(r.PerMinute)+perMinute
			v.Hint = "wait, or raise the limit; 0 means no limit"
		}
	}
	if limitSender {
		block(g.senders.Wait(who, sender), sender, p.Sources[channel.KeySenderRate])
	}
	if limitChat {
		block(g.chats.Wait(place, chat), chat, p.Sources[channel.KeyChatRate])
	}
	return v, wait, func() {
		if limitSender {
			g.senders.Take(who, sender)
		}
		if limitChat {
			g.chats.Take(place, chat)
		}
	}
}
