package coze

import (
	"context"
	"io"
	"sync"
	"time"

	"github.com/lingserve/lingserve/adapter/wire"
	"golang.org/x/sync/errgroup"
)

const (
	// cancelTime is how long Coze may take to hear that a chat is of no use any more.
	cancelTime = 5 * time.Second
	// maxCancels is how many chats are canceled at the same time; those beyond it end by themselves.
	maxCancels = 256
)

// cancels are the requests to cancel chats that are on their way.
type cancels struct {
	mu     sync.Mutex
	closed bool
	work   errgroup.Group // has a limit
}

// start calls f in a goroutine, which close waits for. Beyond the limit, and after close, it does nothing.
func (c *cancels) start(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.work.TryGo(func() error { f(); return nil })
	}
}

func (c *cancels) close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	_ = c.work.Wait() // no request fails
}

// cancelChat asks Coze to cancel a chat whose stream has been left: closing a stream alone does not end the chat. Nobody waits for
// it but Close, and nothing depends on its success.
func (p *provider) cancelChat(ctx context.Context, conversation, id string) {
	p.cancels.start(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cancelTime)
		defer cancel()
		body := jsonText(map[string]string{"conversation_id": conversation, "chat_id": id})
		res, _, err := p.Post(ctx, p.url("cancel").String(), wire.Accept("application/json"), []byte(body))
		if err != nil || res == nil {
			return
		}
		defer res.Body.Close()
		io.Copy(io.Discard, io.LimitReader(res.Body, 64<<10)) // so that the connection can be used again
	})
}
