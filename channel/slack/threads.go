package slack

import (
	"fmt"
	"slices"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/lingserve/lingserve/channel/platform"
)

// threads are the threads that the bot has written in: people who answer there need not mention it. The platform does not list them.
type threads struct {
	state platform.State // shared with other replicas; nil keeps threads in memory
	name  string         // in the state
	known *lru.Cache[thread, struct{}]
}

// thread is a conversation and the ts of the first message.
type thread [2]string

// maxThreads bounds what is remembered: the oldest go first.
const maxThreads = 2000

func openThreads(state platform.State, name string) (*threads, error) {
	known, _ := lru.New[thread, struct{}](maxThreads) // it fails for a size below 1 only
	t := &threads{state: state, name: name, known: known}
	if err := t.read(); err != nil {
		return nil, fmt.Errorf("read what is known of threads: %w", err)
	}
	return t, nil
}

// read adds the threads that the state has.
func (t *threads) read() error {
	if t.state == nil {
		return nil
	}
	var list []thread
	err := platform.ReadState(t.state, t.name, &list)
	for _, one := range list {
		t.known.ContainsOrAdd(one, struct{}{})
	}
	return err
}

// learn notes that the bot has written in a thread.
func (t *threads) learn(conversation, ts string) error {
	one := thread{conversation, ts}
	if conversation == "" || ts == "" || t.known.Contains(one) {
		return nil
	}
	t.known.Add(one, struct{}{})
	if t.state == nil {
		return nil
	}
	err := platform.ChangeState(t.state, t.name, func(list []thread) ([]thread, bool) {
		if slices.Contains(list, one) {
			return nil, false
		}
		list = append(list, one)
		return list[max(0, len(list)-maxThreads):], true
	})
	if err != nil {
		t.known.Remove(one) // the next message there stores it
		return fmt.Errorf("slack: write what is known of threads: %w", err)
	}
	return nil
}

// has reports whether the bot has written in a thread, as far as is known here if the state cannot be read.
func (t *threads) has(conversation, ts string) bool {
	one := thread{conversation, ts}
	if !t.known.Contains(one) {
		_ = t.read()
	}
	return t.known.Contains(one)
}
