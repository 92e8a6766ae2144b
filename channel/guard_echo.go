package channel

import (
	"hash/maphash"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

const (
	echoIDLife   = 10 * time.Minute
	echoTextLife = 30 * time.Second // the echo of a send may overtake the answer with its id
	maxEchoes    = 10_000
)

// echo knows what was sent from here, by the ids that platforms gave it and, while it is on its way, by its text.
type echo struct {
	seed maphash.Seed

	mu    sync.Mutex
	ids   marks
	texts marks
}

func newEcho() *echo {
	return &echo{
		seed:  maphash.MakeSeed(),
		ids:   newMarks(echoIDLife),
		texts: newMarks(echoTextLife),
	}
}

// marks are hashes that live for a while: of the same life, so that the oldest is the next to go. The hash is of 64 bits and its
// seed a secret of the process: among 10 000, nobody meets another by chance or can make one that does.
type marks struct {
	life  time.Duration
	until *simplelru.LRU[uint64, time.Time]
}

func newMarks(life time.Duration) marks {
	until, _ := simplelru.NewLRU[uint64, time.Time](maxEchoes, nil) // it fails for a size below 1 only
	return marks{life, until}
}

func (m marks) add(hash uint64, now time.Time) {
	for _, until, ok := m.until.GetOldest(); ok && !now.Before(until); _, until, ok = m.until.GetOldest() {
		m.until.RemoveOldest()
	}
	m.until.Add(hash, now.Add(m.life))
}

func (m marks) drop(hash uint64) { m.until.Remove(hash) }

func (m marks) has(hash uint64, now time.Time) bool {
	until, ok := m.until.Peek(hash)
	return ok && now.Before(until)
}

func (g *echo) hash(parts ...string) uint64 {
	var h maphash.Hash
	h.SetSeed(g.seed)
	for _, p := range parts {
		n := len(p)
		for i := range 8 { // the length first: no parts are taken for others
			_ = h.WriteByte(byte(n >> (8 * i)))
		}
		_, _ = h.WriteString(p)
	}
	return h.Sum64()
}

// sending is called before a text is sent. The mark that it sets ends by itself; unsent ends it when nothing went out.
func (g *echo) sending(channel, account, conversation, text string) (unsent func()) {
	if text = spoken(text); text == "" {
		return func() {}
	}
	hash := g.hash(channel, account, conversation, text)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.texts.add(hash, time.Now())
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.texts.drop(hash)
	}
}

// sent is called with the ids that a platform gave to what was sent.
func (g *echo) sent(channel, account, conversation string, ids ...string) {
	now := time.Now()
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, id := range ids {
		if id != "" {
			g.ids.add(g.hash(channel, account, conversation, id), now)
		}
	}
}

// byID implements echoes.
func (g *echo) byID(channel, account, conversation, id string) bool {
	if id == "" {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.ids.has(g.hash(channel, account, conversation, id), time.Now())
}

// byText implements echoes. It is asked of bots and of unknown senders only: a person may say what the agent has just said.
func (g *echo) byText(channel, account, conversation, text string) bool {
	if text = spoken(text); text == "" {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.texts.has(g.hash(channel, account, conversation, text), time.Now())
}

// spoken is what is left of a text on its way through a platform, which changes markup, quotes and space: its letters and
// digits, and of a text without any, all but the space.
func spoken(text string) string {
	var b strings.Builder
	b.Grow(len(text))
	for _, r := range text {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			b.WriteRune(r)
		}
	}
	if b.Len() > 0 {
		return b.String()
	}
	return strings.Join(strings.Fields(text), "")
}
