package slack

import "context"

// People who answer in a thread that the bot has written in need not mention it. The platform does not list such threads, so the state has a text for each.

// threadName is the name in the state of a thread.
func (c *Channel) threadName(t target) string {
	return c.Login() + ":" + t.conversation + ":" + t.thread
}

// noteThread stores that the bot has written in a thread.
func (c *Channel) noteThread(ctx context.Context, t target) {
	if t.thread == "" {
		return
	}
	err := c.s.State.Change(ctx, c.threadName(t), func([]byte) ([]byte, error) { return []byte("true"), nil })
	if err != nil {
		c.Log.WarnContext(ctx, "cannot store a thread", "error", err)
	}
}
