package telegram

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/lingserve/lingserve/channel/platform"
)

// chats knows which groups have become supergroups. A supergroup has another id, and keeps the session, the route and the window of the group (CH-173): the
// kernel knows it by the id of the group.
type chats struct {
	store platform.State // shared with other replicas
	name  string         // in the store

	mu     sync.Mutex
	supers map[int64]int64 // by group
	read   time.Time       // when the store was read
}

const (
	maxSupers    = 10_000                 // that are stored; a group becomes a supergroup once
	largestSuper = -1_000_000_000_000     // the largest id of a supergroup
	readEvery    = 100 * time.Millisecond // how long the store is believed to be unchanged: a message asks more than once
)

// openChats returns the chats of a login.
func openChats(store platform.State, login string) (*chats, error) {
	c := &chats{store: store, name: login, supers: map[int64]int64{}}
	return c, c.readStore()
}

// readStore adds what other replicas have learned.
func (c *chats) readStore() error {
	c.read = time.Now()
	return platform.ReadState(c.store, c.name, &c.supers)
}

// learn notes that a group has become a supergroup.
func (c *Channel) learn(ctx context.Context, group, super int64) {
	c.chats.mu.Lock()
	defer c.chats.mu.Unlock()
	c.chats.supers[group] = super
	err := platform.ChangeState(c.chats.store, c.chats.name, func(all map[int64]int64) (map[int64]int64, bool) {
		if all == nil {
			all = map[int64]int64{}
		}
		all[group] = super
		return all, len(all) <= maxSupers
	})
	if err != nil {
		c.Log.WarnContext(ctx, "cannot store a supergroup's new id", "error", err)
	}
}

// conversation returns the id by which the kernel knows a chat.
func (c *chats) conversation(chat int64) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if chat < largestSuper && time.Since(c.read) > readEvery {
		_ = c.readStore() // without an answer, what is known here counts
	}
	for group, super := range c.supers {
		if super == chat {
			chat = group
			break
		}
	}
	return strconv.FormatInt(chat, 10)
}

// current returns the id to send to.
func (c *chats) current(chat int64) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if super, ok := c.supers[chat]; ok {
		return super
	}
	return chat
}
