package channel

import (
	"cmp"
	"context"
	"hash/maphash"
	"strconv"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"github.com/lingserve/lingserve/internal/ratelimit"
)

const (
	maxBudgets = 10_000 // keys of each kind; the one not used for longest goes, and begins anew when it comes again

	defaultLoopEvents = 20
	defaultLoopWindow = time.Minute
	defaultLoopTurns  = 8
	defaultSenderRate = 20
	defaultBurst      = 10
	defaultChatRate   = 60

	perMinute = "/min" // behind the number of a rate, in a verdict
)

// budget bounds what bots, senders and conversations may start. It is asked of events that have passed every gate before, and only
// those that it lets pass too are counted: what is dropped neither uses anything nor makes a pause longer.
type budget struct {
	limits Limits
	seed   maphash.Seed

	mu      sync.Mutex
	pairs   recent[pairKey, *pairBudget]
	rows    recent[placeKey, int] // turns that bots started since a person spoke
	senders *ratelimit.Buckets[senderKey]
	chats   *ratelimit.Buckets[placeKey]
}

type (
	placeKey  struct{ channel, account, conversation string }
	senderKey struct{ channel, account, sender string }
	pairKey   struct{ channel, conversation, a, b string } // a ≤ b
)

func newBudget(l Limits) *budget {
	l.LoopEvents = cmp.Or(l.LoopEvents, defaultLoopEvents)
	l.LoopWindow = cmp.Or(l.LoopWindow, defaultLoopWindow)
	l.LoopTurns = cmp.Or(l.LoopTurns, defaultLoopTurns)
	l.SenderRate.PerMinute = cmp.Or(l.SenderRate.PerMinute, defaultSenderRate)
	l.SenderRate.Burst = cmp.Or(l.SenderRate.Burst, defaultBurst)
	l.ChatRate.PerMinute = cmp.Or(l.ChatRate.PerMinute, defaultChatRate)
	l.ChatRate.Burst = cmp.Or(l.ChatRate.Burst, l.ChatRate.PerMinute)
	return &budget{
		limits: l, seed: maphash.MakeSeed(), senders: ratelimit.New[senderKey](maxBudgets), chats: ratelimit.New[placeKey](maxBudgets),
	}
}

// rates are the limits of the place that a message is from.
type rates struct {
	sender, chat             Rate
	senderSource, chatSource string // paths of the settings
	counted                  bool   // the door has counted the message
}

// ratesOf are the limits that the settings give, else those of the kernel.
func (g *budget) ratesOf(p *Policy, counted bool) rates {
	r := rates{sender: p.Limits.SenderRate, chat: p.Limits.ChatRate, senderSource: p.Sources[KeySenderRate], chatSource: p.Sources[KeyChatRate], counted: counted}
	if r.sender.PerMinute == 0 {
		r.sender.PerMinute, r.senderSource = g.limits.SenderRate.PerMinute, builtIn+KeySenderRate
	}
	if r.sender.Burst == 0 {
		r.sender.Burst = g.limits.SenderRate.Burst
	}
	r.sender.Burst = max(r.sender.Burst, 1)
	if r.chat.PerMinute == 0 {
		r.chat, r.chatSource = g.limits.ChatRate, builtIn+KeyChatRate
	}
	r.chat.Burst = max(cmp.Or(r.chat.Burst, r.chat.PerMinute), 1)
	return r
}

// takeRate counts a message of a sender who may talk, where the rates let it pass; else it returns how long to wait.
func (g *budget) takeRate(f *Facts, p *Policy) (wait time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	_, wait, count := g.checkRates(f, g.ratesOf(p, false))
	if wait == 0 {
		count()
	}
	return wait
}

// use implements budgets. Both gates are asked before either is counted.
func (g *budget) use(_ context.Context, f *Facts, p *Policy, counted bool) budgetVerdict {
	now := time.Now()
	g.mu.Lock()
	defer g.mu.Unlock()
	loop, tookLoop := g.loopLocked(f, now)
	rate, wait, takeRate := g.checkRates(f, g.ratesOf(p, counted))
	v := budgetVerdict{verdicts: []Verdict{loop.Verdict, rate}}
	switch {
	case loop.State == Blocked:
		v.admission, v.wait = Admission{Kind: Drop, Reason: loop.Reason}, loop.wait
	case rate.State == Blocked:
		v.admission, v.wait = Admission{Kind: Drop, Reason: rate.Reason}, wait
	}
	switch {
	case v.admission.Kind == Drop && loop.starts:
		tookLoop() // the pause: it begins with the first event that is too many
	case v.admission.Kind != Drop:
		tookLoop()
		takeRate()
	}
	return v
}

// heard is told of a message of a person that starts no turn, such as one that mentions nobody: bots are no longer by themselves.
func (g *budget) heard(f *Facts) {
	if f.Sender.IsBot || f.Sender.IsSelf {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.rows.drop(placeOf(f))
}

func placeOf(f *Facts) placeKey { return placeKey{f.Channel, f.Account, f.Conversation.ID} }

// pairBudget is what two of which one is a bot have said to each other in a sliding window.
type pairBudget struct {
	events []pairEvent // a ring, the oldest at next
	next   int
	paused time.Time // until
}

type pairEvent struct {
	id uint64
	at time.Time
}

type loopVerdict struct {
	Verdict
	wait   time.Duration
	starts bool // a pause
}

// loopLocked says what the gate loop does with an event, and how it is counted.
func (g *budget) loopLocked(f *Facts, now time.Time) (v loopVerdict, count func()) {
	v.Verdict = Verdict{Gate: GateLoop, State: Passed, Setting: builtIn + "loop_events", Value: strconv.Itoa(g.limits.LoopEvents)}
	place := placeOf(f)
	if !f.Sender.IsBot {
		v.State = Skipped
		return v, func() { g.rows.drop(place) }
	}
	// The other of the two is this account; an agent that has the only one is named by itself.
	self := cmp.Or(f.Account, f.Route.AgentID, f.Channel)
	if f.Sender.ID == "" || f.MessageID == "" || f.Conversation.ID == "" || g.limits.LoopEvents < 0 {
		v.State = Skipped
		return v, func() {}
	}
	key := pairKey{f.Channel, f.Conversation.ID, min(self, f.Sender.ID), max(self, f.Sender.ID)}
	id := maphash.String(g.seed, f.MessageID)
	p, _ := g.pairs.get(key)
	inWindow := 0
	if p != nil {
		for _, e := range p.events {
			if now.Sub(e.at) >= g.limits.LoopWindow {
				continue
			}
			if e.id == id {
				return v, func() {} // once more the same: it was counted
			}
			inWindow++
		}
	}
	block := func(wait time.Duration, hint string) {
		v.State, v.Reason, v.wait, v.Hint = Blocked, ReasonBotLoop, wait, hint
	}
	switch rows, _ := g.rows.get(place); {
	case p != nil && now.Before(p.paused):
		block(p.paused.Sub(now), "wait until the pause is over")
		return v, func() {}
	case inWindow >= g.limits.LoopEvents:
		block(g.limits.LoopWindow, "two bots answer each other; wait until the pause is over")
		v.starts = true
		return v, func() { p.paused = now.Add(g.limits.LoopWindow) }
	case g.limits.LoopTurns > 0 && rows >= g.limits.LoopTurns:
		v.Setting, v.Value = builtIn+"loop_turns", strconv.Itoa(g.limits.LoopTurns)
		block(0, "only bots are writing; the agent answers again after a person writes")
		return v, func() {}
	}
	return v, func() {
		if p == nil {
			p = &pairBudget{}
			g.pairs.put(key, p)
		}
		if e := (pairEvent{id, now}); len(p.events) < g.limits.LoopEvents {
			p.events = append(p.events, e)
		} else {
			p.events[p.next] = e
			p.next = (p.next + 1) % len(p.events)
		}
		rows, _ := g.rows.get(place)
		g.rows.put(place, rows+1)
	}
}

// checkRates returns the verdict of the rate gate, and count, which counts the event.
func (g *budget) checkRates(f *Facts, r rates) (v Verdict, wait time.Duration, count func()) {
	v = Verdict{Gate: GateRate, State: Passed}
	sender, place := senderKey{f.Channel, f.Account, f.Sender.ID}, placeOf(f)
	limitSender, limitChat := r.sender.PerMinute > 0 && sender.sender != "", r.chat.PerMinute > 0
	if r.counted || !limitSender && !limitChat {
		v.State = Skipped
		return v, 0, func() {}
	}
	block := func(need time.Duration, r Rate, setting string) {
		if need > wait {
			wait = need
			v.State, v.Reason, v.Setting, v.Value = Blocked, ReasonRateLimited, setting, strconv.Itoa(r.PerMinute)+perMinute
			v.Hint = "wait, or raise the limit; 0 means no limit"
		}
	}
	if limitSender {
		block(g.senders.Wait(sender, r.sender), r.sender, r.senderSource)
	}
	if limitChat {
		block(g.chats.Wait(place, r.chat), r.chat, r.chatSource)
	}
	return v, wait, func() {
		if limitSender {
			g.senders.Take(sender, r.sender)
		}
		if limitChat {
			g.chats.Take(place, r.chat)
		}
	}
}

// recent is a map that is bounded: what was not put for longest goes first. Its zero value is empty.
type recent[K comparable, V any] struct{ lru *simplelru.LRU[K, V] }

// get looks a value up; asking keeps nothing alive.
func (r *recent[K, V]) get(k K) (v V, ok bool) {
	if r.lru == nil {
		return v, false
	}
	return r.lru.Peek(k)
}

func (r *recent[K, V]) put(k K, v V) {
	if r.lru == nil {
		r.lru, _ = simplelru.NewLRU[K, V](maxBudgets, nil) // it fails for a size below 1 only
	}
	r.lru.Add(k, v)
}

func (r *recent[K, V]) drop(k K) {
	if r.lru != nil {
		r.lru.Remove(k)
	}
}

// dropValues removes those whose values match.
func (r *recent[K, V]) dropValues(match func(V) bool) {
	if r.lru == nil {
		return
	}
	for _, k := range r.lru.Keys() {
		if v, _ := r.lru.Peek(k); match(v) {
			r.lru.Remove(k)
		}
	}
}
