package slack

import (
	"fmt"
	"slices"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"github.com/lingserve/lingserve/channel/state"
)

// threads knows in which threads the bot has written: who answers there need not mention it. The platform does not say so, and what
// it says of a thread on request is counted dearly.
type threads struct {
	store state.Store // where other replicas learn, too; nil: threads are forgotten at the end
	name  string      // in the store

	mu    sync.Mutex
	known *simplelru.LRU[threadKey, struct{}]
}

type threadKey struct{ Conversation, Thread string }

// maxThreads bounds what is remembered: the oldest go first.
const maxThreads = 2000

func openThreads(store state.Store, name string) (*threads, error) {
	known, _ := simplelru.NewLRU[threadKey, struct{}](maxThreads, nil) // it fails for a size below 1 only
	t := &threads{store: store, name: name, known: known}
	if store == nil {
		return t, nil
	}
	var list [][2]string
	if err := state.Read(store, name, &list); err != nil {
		return nil, fmt.Errorf("slack: read what is known of threads: %w", err)
	}
	for _, one := range list {
		t.add(threadKey{one[0], one[1]})
	}
	return t, nil
}

// add remembers a thread, and says whether it is a new one.
func (t *threads) add(k threadKey) bool {
	if t.known.Contains(k) {
		return false
	}
	t.known.Add(k, struct{}{})
	return true
}

// learn notes that the bot has written in a thread.
func (t *threads) learn(conversation, thread string) error {
	if conversation == "" || thread == "" {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.add(threadKey{conversation, thread}) || t.store == nil {
		return nil
	}
	err := t.share([2]string{conversation, thread})
	if err != nil { // the next message there shares it
		t.known.Remove(threadKey{conversation, thread})
	}
	return err
}

// share tells the other replicas of a thread.
func (t *threads) share(one [2]string) error {
	err := state.Change(t.store, t.name, func(list [][2]string) ([][2]string, bool) {
		if slices.Contains(list, one) {
			return nil, false
		}
		list = append(list, one)
		return list[max(0, len(list)-maxThreads):], true
	})
	if err != nil {
		return fmt.Errorf("slack: write what is known of threads: %w", err)
	}
	return nil
}

// has says whether the bot has written in a thread. Where the others cannot be asked, it is as far as is known here.
func (t *threads) has(conversation, thread string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	k := threadKey{conversation, thread}
	if known := t.known.Contains(k); known || t.store == nil {
		return known
	}
	var list [][2]string
	if state.Read(t.store, t.name, &list) == nil {
		for _, one := range list {
			t.add(threadKey{one[0], one[1]})
		}
	}
	return t.known.Contains(k)
}
