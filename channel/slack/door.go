package slack

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/lingserve/lingserve/channel"
)

// Headers of what the platform sends.
const (
	signatureHeader = "X-Slack-Signature"
	timeHeader      = "X-Slack-Request-Timestamp"
)

// maxSkew is how old or new a request may be, so that nobody sends again what he has seen.
const maxSkew = 5 * time.Minute

// signed says whether a request comes from the platform and is of now: its signature is the HMAC-SHA256 of "v0:", the time, a colon and
// the body.
func signed(secret []byte, h http.Header, body []byte, now time.Time) bool {
	got, ok := claimed(h, now)
	return ok && len(secret) > 0 && hmac.Equal(got, signature(secret, h.Get(timeHeader), body))
}

// claimed returns the signature that a request says it has. ok is false where the request cannot be valid, whatever its body is: its time is
// not now, or what it has is no signature.
func claimed(h http.Header, now time.Time) (got []byte, ok bool) {
	seconds, err := strconv.ParseInt(h.Get(timeHeader), 10, 64)
	if err != nil || now.Sub(time.Unix(seconds, 0)).Abs() > maxSkew {
		return nil, false
	}
	text, ok := strings.CutPrefix(h.Get(signatureHeader), "v0=")
	got, err = hex.DecodeString(text)
	return got, ok && err == nil && len(got) == sha256.Size
}

func signature(secret []byte, at string, body []byte) []byte {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte("v0:" + at + ":"))
	mac.Write(body)
	return mac.Sum(nil)
}

// Webhook is the door for all that the platform sends: POST /v1/channels/{name}/webhook is the Request URL of events, of slash commands
// and of interactivity.
func (c *Channel) Webhook() http.Handler { return http.HandlerFunc(c.receive) }

// receive answers with an empty 200 when the event is in the journal, before anything runs: the platform waits 3 s.
func (c *Channel) receive(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	if _, ok := claimed(r.Header, time.Now()); !ok {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	body, refusal := channel.ReadBody(w, r, maxEvent, "application/json", "application/x-www-form-urlencoded")
	if refusal != nil {
		refusal.Header(w.Header())
		w.WriteHeader(refusal.Status)
		return
	}
	if !signed(c.secret, r.Header, body, time.Now()) {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	e, err := Raw(body)
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	switch e.Type {
	case typeChallenge:
		h := w.Header()
		h.Set("Content-Type", "text/plain; charset=utf-8")
		h.Set("X-Content-Type-Options", "nosniff")
		_, _ = io.WriteString(w, e.Challenge)
		return
	case typeLimited:
		c.log.WarnContext(r.Context(), "platform drops events: too many within an hour", "channel", c.name)
	}
	if e.message == nil {
		return
	}
	if err := c.accept(r.Context(), e, body); err != nil {
		c.log.WarnContext(r.Context(), "cannot accept an event; the platform must retry", "channel", c.name, "error", err)
		w.Header().Set("Retry-After", "5")
		w.WriteHeader(http.StatusServiceUnavailable)
	}
}

var errStarting = errors.New("slack: the channel is not running")

// accept puts an event into the journal.
func (c *Channel) accept(ctx context.Context, e *Event, body []byte) error {
	door := c.service.Door()
	me := c.self()
	if door == nil || me.UserID == "" {
		return errStarting
	}
	m := e.message
	if !e.ours(me) || m.change != changeNone && m.sender(me).IsSelf { // of each edit of its own, too, the bot is told
		return nil
	}
	_, err := door.Accept(ctx, channel.Arrival{Key: c.key(m), Raw: body})
	return err
}
