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
	path   string       // of the file; "" keeps nothing
	shared state.Shared // where other replicas learn, too; nil: the file
	name   string       // of what is shared

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

func openChats(path string, shared state.Shared, name string) (*chats, error) {
	c := &chats{path: path, shared: shared, name: name, grown: map[int64]int64{}, first: map[int64]int64{}}
	var err error
	if shared != nil {
		err = c.lookLocked()
	} else {
		err = state.Read(path, &c.grown)
	}
	if err != nil {
		return nil, fmt.Errorf("telegram: read what is known of groups: %w", err)
	}
	for from, to := range c.grown {
		c.first[to] = from
	}
	return c, nil
}

// lookLocked reads what other replicas have learned.
func (c *chats) lookLocked() error {
	c.looked = time.Now()
	all := map[int64]int64{}
	if err := state.ReadShared(c.shared, c.name, &all); err != nil {
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
	var err error
	if c.shared == nil {
		err = state.Write(c.path, c.grown)
	} else {
		err = state.ChangeShared(c.shared, c.name, func(all map[int64]int64) (map[int64]int64, bool) {
			if all[from] == to || len(all) >= maxGrown {
				return nil, false
			}
			if all == nil {
				all = map[int64]int64{}
			}
			all[from] = to
			return all, true
		})
	}
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
	if !ok && c.shared != nil && id < largestSupergroup && time.Since(c.looked) > lookAgain && c.lookLocked() == nil {
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
