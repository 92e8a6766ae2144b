package telegram

import (
	"fmt"
	"strconv"
	"sync"

	"github.com/lingserve/lingserve/channel/state"
)

// chats knows which groups have become supergroups: a supergroup has another id, and is to keep the session, the route and the
// window that the group had (CH-173). The id that the kernel knows is the group's.
type chats struct {
	path string // of the file; "" keeps nothing

	mu    sync.Mutex
	grown map[int64]int64 // of a group: its supergroup
	first map[int64]int64 // of a supergroup: the group that it was
}

// maxGrown bounds what is remembered: a bot sees one such message in the life of a group.
const maxGrown = 10_000

func openChats(path string) (*chats, error) {
	c := &chats{path: path, grown: map[int64]int64{}, first: map[int64]int64{}}
	if err := state.Read(path, &c.grown); err != nil {
		return nil, fmt.Errorf("telegram: read what is known of groups: %w", err)
	}
	for from, to := range c.grown {
		c.first[to] = from
	}
	return c, nil
}

// learn notes that a group has become a supergroup.
func (c *chats) learn(from, to int64) error {
	if from == 0 || to == 0 || from == to {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.grown[from] == to || len(c.grown) >= maxGrown {
		return nil
	}
	c.grown[from], c.first[to] = to, from
	if err := state.Write(c.path, c.grown); err != nil {
		return fmt.Errorf("telegram: write what is known of groups: %w", err)
	}
	return nil
}

// conversation is the id by which the kernel knows a chat.
func (c *chats) conversation(id int64) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if from, ok := c.first[id]; ok {
		id = from
	}
	return strconv.FormatInt(id, 10)
}

// now is the id to send to.
func (c *chats) now(id int64) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if to, ok := c.grown[id]; ok {
		return to
	}
	return id
}
