package slack

import (
	"context"
	"errors"
	"io"
	"net/http"

	slackgo "github.com/slack-go/slack"
	"github.com/slack-go/slack/slackevents"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/platform"
)

// Webhook receives all that the platform sends: POST /v1/channels/{name}/webhook is the Request URL of events, of slash commands and of interactivity. It is
// nil in Socket Mode.
func (c *Channel) Webhook() http.Handler {
	if c.s.AppToken != "" {
		return nil
	}
	return http.HandlerFunc(c.receive)
}

// receive answers with an empty 200 when the event is stored, before it runs: the platform waits 3 s.
func (c *Channel) receive(w http.ResponseWriter, r *http.Request) {
	var signature slackgo.SecretsVerifier
	body, ok := platform.ReadEvent(w, r, func(h http.Header) (most int64, valid bool) {
		var err error
		signature, err = slackgo.NewSecretsVerifier(h, string(c.s.SigningSecret)) // which checks the time
		return maxEvent, err == nil
	}, "application/json", "application/x-www-form-urlencoded")
	if !ok {
		return
	}
	_, _ = signature.Write(body) // a hash
	if signature.Ensure() != nil {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	e, err := parseEvent(body)
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	if e.Type == slackevents.URLVerification {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		_, _ = io.WriteString(w, e.Challenge)
	} else if c.accept(r.Context(), e, body) != nil {
		platform.Unavailable(w)
	}
}

var errStarting = errors.New("slack: the channel is not running")

// accept stores an event, unless it is of no interest. After an error the platform must retry.
func (c *Channel) accept(ctx context.Context, e *event, body []byte) (err error) {
	if e.Type == slackevents.AppRateLimited {
		c.Log.WarnContext(ctx, "platform drops events: too many within an hour")
	}
	q, me, m := c.Queue(), c.self(), e.message
	switch {
	case m == nil:
	case q == nil || me.UserID == "":
		err = errStarting
	case !e.concerns(me) || m.kind == channel.EventLifecycle && m.sender(me).IsSelf: // the platform sends the bot each of its own edits
	default:
		kind := m.kind
		if m.native {
			kind = channel.EventCommand
		}
		_, err = q.Accept(ctx, c.Arrival(q.Kernel(), c.input(q.Kernel(), m), kind, body)) // a message and its mention have one id
	}
	if err != nil {
		c.Log.WarnContext(ctx, "cannot accept an event; the platform must retry", "error", err)
	}
	return err
}
