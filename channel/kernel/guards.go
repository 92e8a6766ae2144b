package kernel

import (
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

// noticeDue reports whether a sender was not told for a minute why a message was stopped, and counts the notice.
func (g *guards) noticeDue(n stopNotice) bool {
	return g.notices.Take(n, ratelimit.Rate{PerMinute: 1}) == 0
}

// sent notes the ids of messages that were sent in a conversation.
func (g *guards) sent(f *channel.Facts, ids []string) {
	for _, id := range ids {
		g.sentIDs.Add(sentKey{f.Channel, f.Account, f.Conversation.ID, id}, struct{}{})
	}
}

// sentFromHere reports whether a message was sent from here.
func (g *guards) sentFromHere(name, account, conversation, id string) bool {
	return g.sentIDs.Contains(sentKey{name, account, conversation, id})
}

// admit evaluates the gates loop and rate, and counts the message if both pass. wait is how long the rate blocks.
func (g *guards) admit(f *channel.Facts, p *channel.Policy, counted bool) (loop, rate channel.Verdict, wait time.Duration) {
	loop, rate = g.loop(f), channel.Verdict{Gate: channel.GateRate, State: channel.Skipped}
	if loop.State != channel.Blocked && !counted {
		rate, wait = g.rate(f, p)
	}
	switch {
	case !f.Sender.IsBot:
		g.personWrote(f)
	case loop.State != channel.Blocked && wait == 0:
		turns, _ := g.botTurns.Peek(placeOf(f))
		g.botTurns.Add(placeOf(f), turns+1)
	}
	return loop, rate, wait
}

// personWrote notes a message of a person: bots are not among themselves any more.
func (g *guards) personWrote(f *channel.Facts) {
	if !f.Sender.IsBot && !f.Sender.IsSelf {
		g.botTurns.Remove(placeOf(f))
	}
}

// loop is the gate that keeps two agents from answering each other without end.
func (g *guards) loop(f *channel.Facts) channel.Verdict {
	v := channel.Verdict{Gate: channel.GateLoop, State: channel.Skipped}
	if !f.Sender.IsBot {
		return v
	}
	v.State, v.Setting = channel.Passed, "default:loop_turns"
	if turns, _ := g.botTurns.Peek(placeOf(f)); turns >= loopTurns {
		v.State, v.Reason = channel.Blocked, channel.ReasonBotLoop
		v.Hint = "only bots are writing; the agent answers again after a person writes"
	}
	return v
}

// rate is the gate for the messages of a sender, and of a conversation, in a minute. It counts the message if it passes; else it returns how long to wait.
func (g *guards) rate(f *channel.Facts, p *channel.Policy) (v channel.Verdict, wait time.Duration) {
	sender, chat := p.Limits.SenderRate, p.Limits.ChatRate
	who, place := senderKey{f.Channel, f.Account, f.Sender.ID}, placeOf(f)
	if who.sender == "" {
		sender.PerMinute = 0
	}
	sender.Burst = max(sender.Burst, 1)
	key := channel.KeySenderRate
	wait = g.senders.Wait(who, sender)
	if other := g.chats.Wait(place, chat); other > wait {
		key, wait = channel.KeyChatRate, other
	}
	v = channel.Verdict{Gate: channel.GateRate, State: channel.Passed, Setting: p.Sources[key]}
	switch {
	case sender.PerMinute <= 0 && chat.PerMinute <= 0:
		v = channel.Verdict{Gate: channel.GateRate, State: channel.Skipped}
	case wait > 0:
		v.State, v.Reason, v.Hint = channel.Blocked, channel.ReasonRateLimited, "wait, or raise the limit; 0 means no limit"
	default:
		g.senders.Take(who, sender)
		g.chats.Take(place, chat)
	}
	return v, wait
}
