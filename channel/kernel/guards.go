package kernel

import (
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/internal/ratelimit"
)

const (
	maxRecent = 10_000 // keys of each kind; the one not used for longest goes
	loopTurns = 8      // in a row that bots start
)

type (
	placeKey  struct{ channel, account, conversation string }
	senderKey struct{ channel, account, sender string }
	sentKey   struct{ channel, account, conversation, id string }
)

func placeOf(f *channel.Facts) placeKey {
	return placeKey{f.Channel, f.Account, f.Conversation.ID}
}

// guards bound what bots, senders and conversations start, and know what was sent from here.
type guards struct {
	sentIDs  *lru.Cache[sentKey, struct{}]
	botTurns *lru.Cache[placeKey, int] // turns that bots have started since a person wrote
	rates    sync.Mutex                // held from looking at both rates to taking of both
	senders  *ratelimit.Buckets[senderKey]
	chats    *ratelimit.Buckets[placeKey]
	notices  *ratelimit.Buckets[stopNotice]
}

func (g *guards) init() {
	g.sentIDs, _ = lru.New[sentKey, struct{}](maxRecent) // fails for a size below 1 only
	g.botTurns, _ = lru.New[placeKey, int](maxRecent)
	g.senders, g.chats = ratelimit.New[senderKey](maxRecent), ratelimit.New[placeKey](maxRecent)
	g.notices = ratelimit.New[stopNotice](maxRecent)
}

// sent notes the ids of messages that were sent in a conversation.
func (g *guards) sent(f *channel.Facts, ids []string) {
	for _, id := range ids {
		g.sentIDs.Add(sentKey{f.Channel, f.Account, f.Conversation.ID, id}, struct{}{})
	}
}

// admit evaluates the gates loop and rate, and counts the message if both pass. wait is how long the rate blocks.
func (g *guards) admit(f *channel.Facts, p *channel.Policy, counted bool) (reason channel.Reason, setting string, wait time.Duration) {
	turns, _ := g.botTurns.Peek(placeOf(f))
	if f.Sender.IsBot && turns >= loopTurns { // else two agents could answer each other without end
		return channel.ReasonBotLoop, "default:loop_turns", 0
	}
	if !counted {
		setting, wait = g.rate(f, p)
	}
	switch {
	case wait > 0:
		reason = channel.ReasonRateLimited
	case f.Sender.IsBot:
		g.botTurns.Add(placeOf(f), turns+1)
	}
	g.personWrote(f)
	return reason, setting, wait
}

// personWrote notes a message of a person: bots are not among themselves any more.
func (g *guards) personWrote(f *channel.Facts) {
	if !f.Sender.IsBot && !f.Sender.IsSelf {
		g.botTurns.Remove(placeOf(f))
	}
}

// rate counts a message against the rates of its sender and its conversation, unless one of them is used up: then it returns how long to wait, and the
// setting of the rate.
func (g *guards) rate(f *channel.Facts, p *channel.Policy) (setting string, wait time.Duration) {
	sender, chat := ratelimit.Rate{PerMinute: p.SenderRate, Burst: max(p.SenderBurst, 1)}, ratelimit.Rate{PerMinute: p.ChatRate}
	who, place := senderKey{f.Channel, f.Account, f.Sender.ID}, placeOf(f)
	if who.sender == "" {
		sender.PerMinute = 0
	}
	g.rates.Lock()
	defer g.rates.Unlock()
	setting, wait = p.Sources[channel.KeySenderRate], g.senders.Wait(who, sender)
	if other := g.chats.Wait(place, chat); other > wait {
		setting, wait = p.Sources[channel.KeyChatRate], other
	}
	if wait > 0 {
		return setting, wait
	}
	g.senders.Take(who, sender)
	g.chats.Take(place, chat)
	return "", 0
}
