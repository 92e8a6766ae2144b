package slack

import (
	"context"
	"slices"

	"github.com/lingserve/lingserve/channel/platform"
)

// maxThreads bounds the threads that are remembered: the oldest go first.
const maxThreads = 2000

// readThreads reads the threads that the bot has written in, also by other replicas: people who answer there need not mention it. The platform does not
// list them.
func (c *Channel) readThreads() error {
	var list [][2]string
	err := platform.ReadState(c.s.State, c.Login(), &list)
	for _, one := range list {
		c.threads.ContainsOrAdd(target{one[0], one[1]}, struct{}{})
	}
	return err
}

// noteThread notes that the bot has written in a thread.
func (c *Channel) noteThread(ctx context.Context, t target) {
	if t.thread == "" {
		return
	}
	if known, _ := c.threads.ContainsOrAdd(t, struct{}{}); known {
		return
	}
	one := [2]string{t.conversation, t.thread}
	err := platform.ChangeState(c.s.State, c.Login(), func(list [][2]string) ([][2]string, bool) {
		known := slices.Contains(list, one)
		list = append(list, one)
		return list[max(0, len(list)-maxThreads):], !known
	})
	if err != nil {
		c.threads.Remove(t) // the next message there stores it
		c.Log.WarnContext(ctx, "cannot store a thread", "error", err)
	}
}

// hasWritten reports whether the bot has written in a thread, as far as is known here if the state cannot be read.
func (c *Channel) hasWritten(t target) bool {
	if !c.threads.Contains(t) {
		_ = c.readThreads()
	}
	return c.threads.Contains(t)
}
