package webhook

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/lingserve/lingserve/adapter/wire"
	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/platform"
	"github.com/lingserve/lingserve/internal/backoff"
	"github.com/lingserve/lingserve/internal/rawjson"
)

const (
	maxAttempts   = 5
	firstPause    = time.Second
	maxPause      = 30 * time.Second
	maxRetryAfter = 5 * time.Minute // that a callback may ask for
)

// reply is a part of a reply as it goes to the callback.
type reply struct {
	Turn         string            `json:"turn"`
	Message      string            `json:"message"` // the webhook-id of the message that is answered
	Conversation conversation      `json:"conversation"`
	Kind         channel.ReplyKind `json:"kind"`
	Seq          int               `json:"seq"`
	Text         string            `json:"text"`
	Final        bool              `json:"final"`
}

func replyTo(m *message, turn string, p part) *reply {
	return &reply{turn, m.id, m.Conversation, p.Kind, p.Seq, p.Text, p.Kind == channel.ReplyFinal}
}

// resend sends the end of a reply that was stored, after a first attempt that has failed or was not made. The answer is stored anew: no
// turn runs any more that could do it.
func (c *Channel) resend(ctx context.Context, out channel.Outbound) (channel.Receipt, error) {
	if !c.result {
		place := out.Conversation
		key, _ := channel.ParseEventKey(out.Event) // the kernel has written it
		m := &message{id: key.ID, Conversation: conversation{place.ID, place.Kind, place.ThreadID}}
		return receiptOf(&out.Block), c.send(ctx, replyTo(m, out.TurnID, partOf(&out.Block)))
	}
	a, _ := c.load(ctx, out.Event)
	a.add(partOf(&out.Block))
	a.complete(out.TurnID, channel.Admission{Kind: channel.Dispatch}, channel.OutcomeVisible)
	c.save(ctx, out.Event, out.Session, &a)
	return receiptOf(&out.Block), nil
}

// sendRepeatedly sends a part of a reply, again while that can help. One that perhaps was accepted can be sent again: it has the same webhook-id.
func (c *Channel) sendRepeatedly(ctx context.Context, r *reply) error {
	pauses := backoff.New(firstPause, maxPause)
	for n := 1; ; n++ {
		err, pause := c.send(ctx, r), pauses.NextBackOff()
		if not, ok := errors.AsType[*channel.NotSentError](err); ok {
			if !not.Retryable {
				return err
			}
			pause = max(pause, not.RetryAfter)
		}
		if err == nil || n >= maxAttempts || backoff.Sleep(ctx, pause) != nil {
			return err
		}
	}
}

// send makes one attempt to send a part of a reply.
func (c *Channel) send(ctx context.Context, r *reply) error {
	body := append(rawjson.MustMarshal(r), '\n')
	header := http.Header{"Content-Type": {"application/json"}, "User-Agent": {"lingserve"}}
	c.out.Sign(header, fmt.Sprintf("%s:%d", r.Turn, r.Seq), time.Now(), body)
	err := platform.Exchange(ctx, c.HTTP, callTimeout, http.MethodPost, c.s.Callback, header, body, statusError)
	if _, answered := errors.AsType[*channel.NotSentError](err); err == nil || answered {
		return err
	}
	return unreached(err)
}

// statusError returns what the answer of a callback means.
func statusError(res *http.Response, _ []byte) error {
	status := res.StatusCode
	err := fmt.Errorf("webhook: the callback answered with status %d; expected 2xx", status)
	switch {
	case status >= 200 && status < 300:
		return nil
	case status == http.StatusRequestTimeout, status == http.StatusTooEarly, status == http.StatusTooManyRequests, status >= 500:
		return &channel.NotSentError{Err: err, Retryable: true, RetryAfter: min(wire.RetryAfter(res.Header, time.Now()), maxRetryAfter)}
	}
	return &channel.NotSentError{Err: err, Permanent: true}
}

// unreached returns what it means that no answer has come. It does not contain the address, which may have a secret.
func unreached(err error) error {
	if errors.Is(err, errPrivate) {
		return &channel.NotSentError{Err: errPrivate, Permanent: true}
	}
	if dial, ok := errors.AsType[*platform.Unreached](err); ok {
		return &channel.NotSentError{Err: fmt.Errorf("webhook: cannot connect to the callback: %w", dial.Err), Retryable: true}
	}
	return fmt.Errorf("webhook: the callback has not answered: %w", err)
}
