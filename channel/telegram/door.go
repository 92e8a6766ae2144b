package telegram

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"net/http"

	"github.com/go-telegram/bot"

	"github.com/lingserve/lingserve/channel"
)

// rawUpdate is an update as it came.
type rawUpdate = json.RawMessage

// accept puts updates into the journal and returns the offset after the last that is there.
func (c *Channel) accept(ctx context.Context, door *channel.Door, updates []rawUpdate, offset int64) (int64, error) {
	arrivals := make([]channel.Arrival, 0, len(updates))
	next := offset
	for _, raw := range updates {
		u, err := Raw(raw)
		if err != nil { // it has no id, and cannot be confirmed; the one behind it can
			c.log.WarnContext(ctx, "invalid update from the platform", "channel", c.name)
			continue
		}
		next = max(next, u.ID+1)
		if a, ok := c.arrival(ctx, u, raw); ok {
			arrivals = append(arrivals, a)
		}
	}
	if len(arrivals) > 0 {
		if _, err := door.Accept(ctx, arrivals...); err != nil {
			return offset, err
		}
	}
	return next, nil
}

// arrival is an update for the door; ok is false for what no agent could be told of.
func (c *Channel) arrival(ctx context.Context, u *Update, raw []byte) (a channel.Arrival, ok bool) {
	if m, _, _ := message(u); m != nil && (m.MigrateToChatID != 0 || m.MigrateFromChatID != 0) {
		from, to := m.Chat.ID, m.MigrateToChatID
		if m.MigrateFromChatID != 0 {
			from, to = m.MigrateFromChatID, m.Chat.ID
		}
		if err := c.chats.learn(from, to); err != nil {
			c.log.WarnContext(ctx, "cannot store a supergroup's new id", "channel", c.name, "error", err)
		}
	}
	key, ok := c.key(u)
	return channel.Arrival{Key: key, Raw: raw}, ok
}

// webhookURL is where the platform sends updates.
func (c *Channel) webhookURL() string { return c.publicURL + "/v1/channels/" + c.name + "/webhook" }

// listen tells the platform where updates go, and waits for the end. The webhook stays set after that: the platform keeps what it
// cannot deliver.
func (c *Channel) listen(ctx context.Context) error {
	err := c.persist(ctx, "setWebhook", func(ctx context.Context) error {
		return c.api.call(ctx, callTimeout, "setWebhook", &bot.SetWebhookParams{
			URL: c.webhookURL(), SecretToken: c.secret, AllowedUpdates: allowed,
		}, nil)
	})
	if err != nil {
		return err
	}
	<-ctx.Done()
	return context.Cause(ctx)
}

// secretHeader has the secret of the webhook.
const secretHeader = "X-Telegram-Bot-Api-Secret-Token"

// Webhook is the door for updates that the platform sends: POST /v1/channels/{name}/webhook. nil where updates are polled.
func (c *Channel) Webhook() http.Handler {
	if c.mode != ModeWebhook {
		return nil
	}
	return http.HandlerFunc(c.receive)
}

// receive answers with an empty 200 when the update is in the journal, before anything runs (CH-171).
func (c *Channel) receive(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	// Sums are of one length, so that the comparison tells nothing of the secret's.
	got, want := sha256.Sum256([]byte(r.Header.Get(secretHeader))), sha256.Sum256([]byte(c.secret))
	if subtle.ConstantTimeCompare(got[:], want[:]) != 1 {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	body, refusal := channel.ReadBody(w, r, maxUpdate, "application/json")
	if refusal != nil {
		refusal.Header(w.Header())
		w.WriteHeader(refusal.Status)
		return
	}
	u, err := Raw(body)
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	door := c.service.Door()
	if door == nil || c.self().Username == "" {
		later(w)
		return
	}
	if a, ok := c.arrival(r.Context(), u, body); ok {
		if _, err := door.Accept(r.Context(), a); err != nil {
			c.log.WarnContext(r.Context(), "cannot accept an event; the platform must retry", "channel", c.name, "error", err)
			later(w)
			return
		}
	}
	w.WriteHeader(http.StatusOK)
}

// later asks the platform to send an update again.
func later(w http.ResponseWriter) {
	w.Header().Set("Retry-After", "5")
	w.WriteHeader(http.StatusServiceUnavailable)
}
