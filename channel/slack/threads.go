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
	known *lru.Cache[target, struct{}]
}

// maxThreads bounds what is remembered: the oldest go first.
const maxThreads = 2000

func openThreads(state platform.State, name string) (*threads, error) {
	t := &threads{state: state, name: name, known: newCache[target, struct{}](maxThreads)}
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
	var list [][2]string
	err := platform.ReadState(t.state, t.name, &list)
	for _, one := range list {
		t.known.ContainsOrAdd(target{one[0], one[1]}, struct{}{})
	}
	return err
}

// learn notes that the bot has written in a thread.
func (t *threads) learn(at target) error {
	if known, _ := t.known.ContainsOrAdd(at, struct{}{}); known || t.state == nil {
		return nil
	}
	one := [2]string{at.conversation, at.thread}
	err := platform.ChangeState(t.state, t.name, func(list [][2]string) ([][2]string, bool) {
		list = append(list, one)
		return list[max(0, len(list)-maxThreads):], !slices.Contains(list[:len(list)-1], one)
	})
	if err != nil {
		t.known.Remove(at) // the next message there stores it
	}
	return err
}

// has reports whether the bot has written in a thread, as far as is known here if the state cannot be read.
func (t *threads) has(at target) bool {
	if !t.known.Contains(at) {
		_ = t.read()
	}
	return t.known.Contains(at)
}
