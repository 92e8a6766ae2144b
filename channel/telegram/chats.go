package telegram

import (
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/lingserve/lingserve/channel/state"
)

// chats knows which groups have become supergroups: a supergroup has another id, and is to keep the session, the route and the
// window that the group had (CH-173). The id that the kernel knows is the group's.
type chats struct {
	store state.Store // where other replicas learn, too; nil: groups are forgotten at the end
	name  string      // in the store

	mu     sync.Mutex
	grown  map[int64]int64 // of a group: its supergroup
	first  map[int64]int64 // of a supergroup: the group that it was
	looked time.Time       // when it was looked what others have learned
}

// maxGrown bounds what is remembered: a bot sees one such message in the life of a group.
const maxGrown = 10_000

// lookAgain is how long it is believed that nobody has learned anything: a message is looked at more than once.
const lookAgain = 100 * time.Millisecond

// largestSupergroup is the largest id of a supergroup: smaller ones may be of a group that has grown.
const largestSupergroup = -1_000_000_000_000

func openChats(store state.Store, name string) (*chats, error) {
	c := &chats{store: store, name: name, grown: map[int64]int64{}, first: map[int64]int64{}}
	if store == nil {
		return c, nil
	}
	if err := c.lookLocked(); err != nil {
		return nil, fmt.Errorf("telegram: read what is known of groups: %w", err)
	}
	return c, nil
}

// lookLocked reads what other replicas have learned.
func (c *chats) lookLocked() error {
	c.looked = time.Now()
	all := map[int64]int64{}
	if err := state.Read(c.store, c.name, &all); err != nil {
		return err
	}
	for from, to := range all {
		c.grown[from], c.first[to] = to, from
	}
	return nil
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
	if c.store == nil {
		return nil
	}
	err := state.Change(c.store, c.name, func(all map[int64]int64) (map[int64]int64, bool) {
		if all[from] == to || len(all) >= maxGrown {
			return nil, false
		}
		if all == nil {
			all = map[int64]int64{}
		}
		all[from] = to
		return all, true
	})
	if err != nil {
		return fmt.Errorf("telegram: write what is known of groups: %w", err)
	}
	return nil
}

// conversation is the id by which the kernel knows a chat. Where it cannot be asked what others have learned, it is as far as is known here.
func (c *chats) conversation(id int64) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	from, ok := c.first[id]
	if !ok && c.store != nil && id < largestSupergroup && time.Since(c.looked) > lookAgain && c.lookLocked() == nil {
		from, ok = c.first[id]
	}
	if ok {
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
