package slack

import (
	"fmt"
	"sync"

	"github.com/lingserve/lingserve/channel/state"
)

// threads knows in which threads the bot has written: who answers there need not mention it. The platform does not say so, and what
// it says of a thread on request is counted dearly.
type threads struct {
	path string // of the file; "" keeps nothing

	mu    sync.Mutex
	known map[threadKey]bool
	order []threadKey // the oldest first
}

type threadKey struct{ Conversation, Thread string }

// maxThreads bounds what is remembered: the oldest go first.
const maxThreads = 2000

func openThreads(path string) (*threads, error) {
	t := &threads{path: path, known: map[threadKey]bool{}}
	var list [][2]string
	if err := state.Read(path, &list); err != nil {
		return nil, fmt.Errorf("slack: read what is known of threads: %w", err)
	}
	for _, one := range list {
		t.add(threadKey{one[0], one[1]})
	}
	return t, nil
}

// add remembers a thread, and says whether it is a new one.
func (t *threads) add(k threadKey) bool {
	if t.known[k] {
		return false
	}
	t.known[k] = true
	t.order = append(t.order, k)
	if len(t.order) > maxThreads {
		delete(t.known, t.order[0])
		t.order = append([]threadKey(nil), t.order[1:]...)
	}
	return true
}

// learn notes that the bot has written in a thread.
func (t *threads) learn(conversation, thread string) error {
	if conversation == "" || thread == "" {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.add(threadKey{conversation, thread}) || t.path == "" {
		return nil
	}
	list := make([][2]string, len(t.order))
	for i, k := range t.order {
		list[i] = [2]string{k.Conversation, k.Thread}
	}
	if err := state.Write(t.path, list); err != nil {
		return fmt.Errorf("slack: write what is known of threads: %w", err)
	}
	return nil
}

func (t *threads) has(conversation, thread string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.known[threadKey{conversation, thread}]
}
