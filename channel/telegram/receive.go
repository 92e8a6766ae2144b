package telegram

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/lingserve/lingserve/channel/kernel"
	"github.com/lingserve/lingserve/channel/platform"
	"github.com/lingserve/lingserve/internal/backoff"
)

const (
	pollTimeout  = 50 * time.Second // how long the platform waits for an update
	maxPollPause = 5 * time.Second  // between calls that fail
	maxUpdate    = 1 << 20          // bytes
)

// poller asks for updates.
type poller struct {
	c       *Channel
	q       *kernel.Queue
	offset  int64 // after the last update that is stored
	trouble platform.Trouble
}

// poll asks for updates until ctx ends or the token is invalid.
func (p *poller) poll(ctx context.Context) error {
	p.trouble.Log = p.c.Log
	if err := p.c.persist(ctx, "deleteWebhook", p.deleteWebhook); err != nil {
		return err
	}
	for pauses := backoff.New(platform.FirstPause, maxPollPause); ; {
		wait, err := p.next(ctx)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case platform.Is(err, badToken):
			return err
		case err != nil:
			wait = max(wait, pauses.NextBackOff())
		default:
			pauses.Reset()
			p.trouble.Over(ctx, "updates come again")
		}
		_ = backoff.Sleep(ctx, wait)
	}
}

// deleteWebhook removes the webhook. Updates that wait stay.
func (p *poller) deleteWebhook(ctx context.Context) error {
	return p.c.api.call(ctx, request{method: "deleteWebhook"})
}

// next asks for updates and stores them. The offset, which tells the platform that it may forget the updates before it, is moved after that (CH-170). wait is
// the least time before the next call.
func (p *poller) next(ctx context.Context) (wait time.Duration, err error) {
	begin, updates := time.Now(), []json.RawMessage(nil)
	err = p.c.api.call(ctx, request{method: "getUpdates", out: &updates, timeout: pollTimeout + 15*time.Second, params: params{
		"offset": p.offset, "timeout": pollTimeout / time.Second, "allowed_updates": allowed,
	}})
	if err != nil {
		return p.failed(ctx, err), err
	}
	next, err := p.c.accept(ctx, p.q, updates)
	switch {
	case err != nil:
		p.trouble.Warn(ctx, "cannot store updates; asking again", "error", err)
		return 0, err
	case next > 0:
		p.offset = next
		return 0, nil
	}
	p.offset = 0                                              // the platform has forgotten all before it; after a quiet week, ids begin anywhere
	return max(0, platform.FirstPause-time.Since(begin)), nil // not every server waits for updates
}

// failed logs why there are no updates.
func (p *poller) failed(ctx context.Context, err error) (wait time.Duration) {
	switch {
	case ctx.Err() != nil || platform.Is(err, badToken):
	case platform.Is(err, otherWebhook): // it was set after the start
		if p.deleteWebhook(ctx) == nil {
			p.c.Log.WarnContext(ctx, "removed this bot's webhook")
		}
	case platform.Is(err, conflict):
		p.trouble.Warn(ctx, "another program reads this bot's updates; stop it, or use another bot")
		return 2 * time.Second
	default:
		p.trouble.Warn(ctx, "cannot read updates; retrying", "error", err)
	}
	return platform.RetryAfter(err)
}

// accept stores updates, and returns the offset after the last of them; 0: there was none.
func (c *Channel) accept(ctx context.Context, q *kernel.Queue, raws []json.RawMessage) (next int64, err error) {
	var arrivals []kernel.Arrival
	for _, raw := range raws {
		u, err := readUpdate(raw)
		if err != nil { // it has no id, and is confirmed with the one behind it
			c.Log.WarnContext(ctx, "invalid update from the platform")
			continue
		}
		next = max(next, u.id+1)
		if u.message != nil {
			arrivals = append(arrivals, c.arrival(ctx, q.Kernel(), u, raw))
		}
	}
	if len(arrivals) > 0 {
		_, err = q.Accept(ctx, arrivals...)
	}
	return next, err
}

// arrival returns an update for the queue. It learns of a group that has become a supergroup.
func (c *Channel) arrival(ctx context.Context, k *kernel.Kernel, u *update, raw []byte) kernel.Arrival {
	if m := u.message; m.MigrateToChatID != 0 {
		c.learn(ctx, m.Chat.ID, m.MigrateToChatID)
	} else if m.MigrateFromChatID != 0 {
		c.learn(ctx, m.MigrateFromChatID, m.Chat.ID)
	}
	return c.Arrival(k, c.input(k, u), u.kind, raw)
}

func (c *Channel) webhookURL() string { return c.s.PublicURL + "/v1/channels/" + c.s.Name + "/webhook" }

// listen tells the platform where updates go, and waits for the end. The webhook stays after that, so that the platform keeps updates for the next start.
func (c *Channel) listen(ctx context.Context) error {
	r := request{method: "setWebhook", params: params{"url": c.webhookURL(), "secret_token": string(c.s.Secret), "allowed_updates": allowed}}
	if err := c.persist(ctx, r.method, func(ctx context.Context) error { return c.api.call(ctx, r) }); err != nil {
		return err
	}
	<-ctx.Done()
	return context.Cause(ctx)
}

// Webhook takes the updates that the platform sends: POST /v1/channels/{name}/webhook. It is nil if updates are polled.
func (c *Channel) Webhook() http.Handler {
	if c.s.Mode != ModeWebhook {
		return nil
	}
	return http.HandlerFunc(c.receive)
}

// limit checks the secret of a request.
func (c *Channel) limit(h http.Header) (most int64, valid bool) {
	return maxUpdate, c.s.Secret.Matches(h.Get("X-Telegram-Bot-Api-Secret-Token"))
}

// receive answers with an empty 200 when the update is stored, before it runs.
func (c *Channel) receive(w http.ResponseWriter, r *http.Request) {
	body, ok := platform.ReadEvent(w, r, c.limit, "application/json")
	if !ok {
		return
	}
	if _, err := readUpdate(body); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	q := c.Queue()
	if q == nil || c.self().Username == "" { // it is not connected yet
		platform.Unavailable(w)
	} else if _, err := c.accept(r.Context(), q, []json.RawMessage{body}); err != nil {
		c.Log.WarnContext(r.Context(), "cannot accept an event; the platform must retry", "error", err)
		platform.Unavailable(w)
	}
}
