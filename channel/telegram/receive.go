package telegram

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/lingserve/lingserve/channel/kernel"
	"github.com/lingserve/lingserve/channel/platform"
	"github.com/lingserve/lingserve/internal/backoff"
)

const (
	pollTimeout = 50 * time.Second // how long the platform waits for an update
	maxUpdate   = 1 << 20          // bytes
)

// poll reads updates until ctx ends or the token is invalid. The offset tells the platform that it may forget the updates before it. It moves when they are
// stored (CH-170).
func (c *Channel) poll(ctx context.Context, q *kernel.Queue) error {
	if err := c.persist(ctx, "deleteWebhook", c.deleteWebhook); err != nil {
		return err
	}
	for offset := int64(0); ; {
		begin := time.Now()
		next := int64(0)
		err := platform.Persist(ctx, c.Log, "cannot read or store updates; retrying", func(ctx context.Context) error {
			updates, err := c.getUpdates(ctx, offset)
			if err == nil {
				next, err = c.accept(ctx, q, updates)
			}
			return err
		}, badToken)
		if err != nil {
			return err
		}
		offset = next    // 0 without updates: after a quiet week, ids begin anywhere
		if offset == 0 { // not every server waits for updates
			_ = backoff.Sleep(ctx, platform.FirstPause-time.Since(begin))
		}
	}
}

// deleteWebhook removes the webhook. Updates that wait stay.
func (c *Channel) deleteWebhook(ctx context.Context) error {
	return c.api.Attempt(ctx, platform.Request{Name: "deleteWebhook", In: params{}})
}

func (c *Channel) getUpdates(ctx context.Context, offset int64) (updates []json.RawMessage, err error) {
	err = c.api.Attempt(ctx, platform.Request{Name: "getUpdates", Out: &updates, Timeout: pollTimeout + 15*time.Second, In: params{
		"offset": offset, "timeout": pollTimeout / time.Second, "allowed_updates": allowed,
	}})
	if platform.Is(err, otherWebhook) { // it was set after the start
		_ = c.deleteWebhook(ctx)
	}
	return updates, err
}

// accept stores updates, and returns the offset after the last of them; 0: there were none.
func (c *Channel) accept(ctx context.Context, q *kernel.Queue, raws []json.RawMessage) (next int64, err error) {
	var arrivals []kernel.Arrival
	for _, raw := range raws {
		u, err := readUpdate(raw)
		if err != nil { // it has no id, and is confirmed with the one behind it
			c.Log.WarnContext(ctx, "invalid update from the platform")
			continue
		}
		next = max(next, u.id+1)
		if u.message == nil {
			continue
		}
		a, err := c.arrival(ctx, q.Kernel(), u, raw)
		if err != nil {
			return 0, err
		}
		arrivals = append(arrivals, a)
	}
	if len(arrivals) > 0 {
		_, err = q.Accept(ctx, arrivals...)
	}
	return next, err
}

// arrival returns an update for the queue. It learns of a group that has become a supergroup.
func (c *Channel) arrival(ctx context.Context, k *kernel.Kernel, u *update, raw []byte) (kernel.Arrival, error) {
	if m := u.message; m.MigrateToChatID != 0 {
		c.learn(ctx, m.Chat.ID, m.MigrateToChatID)
	} else if m.MigrateFromChatID != 0 {
		c.learn(ctx, m.MigrateFromChatID, m.Chat.ID)
	}
	conversation, err := c.conversation(ctx, u.message.Chat.ID)
	return c.Arrival(k, c.input(k, u, conversation), u.kind, raw), err
}

func (c *Channel) webhookURL() string { return c.s.PublicURL + "/v1/channels/" + c.s.Name + "/webhook" }

// listen tells the platform where updates go, and waits for the end. The webhook stays after that, so that the platform keeps updates for the next start.
func (c *Channel) listen(ctx context.Context) error {
	r := platform.Request{Name: "setWebhook", In: params{"url": c.webhookURL(), "secret_token": string(c.secret), "allowed_updates": allowed}}
	if err := c.persist(ctx, r.Name, func(ctx context.Context) error { return c.api.Attempt(ctx, r) }); err != nil {
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

// receive answers with an empty 200 when the update is stored, before it runs.
func (c *Channel) receive(w http.ResponseWriter, r *http.Request) {
	body, ok := platform.ReadEvent(w, r, func(h http.Header) (maxBytes int64, valid bool) {
		return maxUpdate, c.secret.Matches(h.Get("X-Telegram-Bot-Api-Secret-Token"))
	}, "application/json")
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

// A group that becomes a supergroup gets another id. It keeps the session, the route and the window of the group (CH-173): the kernel knows it by the id of
// the group. The state, which all replicas share, has each id by the other one.

// largestSuper is the largest id of a supergroup.
const largestSuper = -1_000_000_000_000

// learn stores that a group has become a supergroup.
func (c *Channel) learn(ctx context.Context, group, super int64) {
	for chat, other := range map[int64]int64{group: super, super: group} {
		err := c.s.State.Change(ctx, c.idName(chat), func([]byte) ([]byte, error) { return strconv.AppendInt(nil, other, 10), nil })
		if err != nil {
			c.Log.WarnContext(ctx, "cannot store a supergroup's new id", "error", err)
		}
	}
}

func (c *Channel) idName(chat int64) string { return fmt.Sprintf("%s:%d", c.Login(), chat) }

// otherID returns the other id of a group or supergroup, or the same id if it has no other one.
func (c *Channel) otherID(ctx context.Context, chat int64) (int64, error) {
	text, err := c.s.State.Load(ctx, c.idName(chat))
	if err != nil || text == nil {
		return chat, err
	}
	return strconv.ParseInt(string(text), 10, 64)
}

// conversation returns the id by which the kernel knows a chat.
func (c *Channel) conversation(ctx context.Context, chat int64) (id string, err error) {
	if chat < largestSuper {
		chat, err = c.otherID(ctx, chat)
	}
	return strconv.FormatInt(chat, 10), err
}

// current returns the id to send to. If it cannot be read, the platform refuses the old one and names the new one.
func (c *Channel) current(ctx context.Context, chat int64) int64 {
	if chat > largestSuper && chat < 0 {
		if super, err := c.otherID(ctx, chat); err == nil {
			return super
		}
	}
	return chat
}
