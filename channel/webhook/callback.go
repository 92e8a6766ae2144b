package webhook

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/internal/backoff"
	"github.com/lingserve/lingserve/internal/rawjson"
)

const (
	attempts  = 5
	firstWait = time.Second
	lastWait  = 30 * time.Second
	// maxRetryAfter bounds what a callback may ask to wait (CH-183).
	maxRetryAfter = 5 * time.Minute
)

var errNoCallback = errors.New("webhook: no callback is set for replies")

// delivery is how the reply of one turn goes out: to who waits for it, or to the callback.
type delivery struct {
	c   *Channel
	rec *record
	id  string // of the message
	to  place
}

var (
	_ channel.Delivery = (*delivery)(nil)
	_ channel.Durabler = (*delivery)(nil)
)

// Deliver implements [channel.Delivery].
func (d *delivery) Deliver(ctx context.Context, b channel.Block) (channel.Receipt, error) {
	r := replyOf(b, d.id, where{d.to.id, d.to.kind, d.to.thread})
	if d.rec.hold(r) {
		return channel.Receipt{MessageIDs: []string{r.id}}, nil
	}
	if d.c.callback == "" {
		return channel.Receipt{}, &channel.NotSentError{Err: errNoCallback, Permanent: true}
	}
	d.rec.order.Lock()
	defer d.rec.order.Unlock()
	if err := d.c.post(ctx, r); err != nil {
		return channel.Receipt{}, err
	}
	return channel.Receipt{MessageIDs: []string{r.id}}, nil
}

// Durable implements [channel.Durabler]: what goes to the callback goes through the outbox.
func (d *delivery) Durable(channel.Block) *channel.Durable {
	if !d.c.outbox || d.rec.holds() {
		return nil
	}
	d.rec.order.Lock() // what was kept goes first
	defer d.rec.order.Unlock()
	return &channel.Durable{Sender: d.c.sender()}
}

// sender sends what the outbox has.
type sender Channel

var (
	_ channel.Sender     = (*sender)(nil)
	_ channel.Idempotent = (*sender)(nil)
)

// Can implements [channel.Sender]: all that can be said in text.
func (*sender) Can(channel.Capabilities) (bool, error) { return true, nil }

// HonoursKey implements [channel.Idempotent]: every attempt has the same webhook-id, by which receivers know it again.
func (*sender) HonoursKey() bool { return true }

// Send implements [channel.Sender]: one attempt. The fifth is the last.
func (s *sender) Send(ctx context.Context, m channel.Outbound) (channel.Receipt, error) {
	c := (*Channel)(s)
	var id string // none where the event was never accepted, which this door does not know
	if key, err := channel.ParseEventKey(m.Event); err == nil {
		id = key.ID
	}
	r := replyOf(m.Block, id, where{m.Origin.Conversation.ID, m.Origin.Conversation.Kind, m.Origin.Conversation.ThreadID})
	err := c.try(ctx, r)
	if err == nil {
		return channel.Receipt{MessageIDs: []string{r.id}}, nil
	}
	if _, again := retryable(err); again && m.Attempt >= attempts {
		err = &channel.NotSentError{Err: fmt.Errorf("webhook: given up after %d attempts: %w", attempts, unwrapped(err))}
	}
	return channel.Receipt{}, err
}

// replyOf is a block as callbacks get it, with the id of the message that it answers. Where it has media, the text ends with their addresses.
func replyOf(b channel.Block, message string, to where) reply {
	turn := b.Key
	if i := strings.LastIndexByte(b.Key, ':'); i >= 0 {
		turn = b.Key[:i]
	}
	text := b.Text
	for _, m := range b.Media {
		if m.URL != "" {
			text = strings.TrimSpace(text + "\n" + m.URL)
		}
	}
	return reply{
		Turn: turn, Message: message, Conversation: to, Kind: string(b.Kind), Seq: b.Seq, Text: text, Final: b.Kind == channel.ReplyFinal, id: b.Key,
	}
}

// post sends a reply to the callback, again while that may help.
func (c *Channel) post(ctx context.Context, r reply) error {
	pauses := backoff.New(c.firstWait, lastWait)
	for n := 1; ; n++ {
		err := c.try(ctx, r)
		if err == nil {
			return nil
		}
		wait, again := retryable(err)
		if !again || n >= attempts {
			return err
		}
		if backoff.Sleep(ctx, max(pauses.NextBackOff(), wait)) != nil {
			return err
		}
	}
}

// retryable says whether an attempt may be made again, and when at the earliest. What may have come may be sent again: it has the same
// webhook-id.
func retryable(err error) (after time.Duration, ok bool) {
	if not, is := errors.AsType[*channel.NotSentError](err); is {
		return not.RetryAfter, not.Retryable
	}
	return 0, true
}

func unwrapped(err error) error {
	if not, ok := errors.AsType[*channel.NotSentError](err); ok {
		return not.Err
	}
	return err
}

// try makes one attempt.
func (c *Channel) try(ctx context.Context, r reply) error {
	body, err := rawjson.Marshal(r)
	if err != nil {
		return &channel.NotSentError{Err: err}
	}
	body = append(body, '\n')
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.callback, bytes.NewReader(body))
	if err != nil {
		return &channel.NotSentError{Err: errors.New("webhook: callback is not an address; expected one such as https://example.com/replies")}
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "lingserve")
	c.out.Sign(req.Header, r.id, time.Now(), body)
	res, err := c.http.Do(req)
	if err != nil {
		return c.unreached(err)
	}
	// Read for the connection's sake; nobody is shown any of it.
	_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, maxAnswer))
	_ = res.Body.Close()
	return answered(res)
}

// answered is what a callback's answer means.
func answered(res *http.Response) error {
	status := res.StatusCode
	err := fmt.Errorf("webhook: the callback answered with status %d; expected 2xx", status)
	switch {
	case status >= 200 && status < 300:
		return nil
	case status == http.StatusRequestTimeout, status == http.StatusTooEarly, status == http.StatusTooManyRequests, status >= 500:
		return &channel.NotSentError{Err: err, Retryable: true, RetryAfter: retryAfter(res.Header.Get("Retry-After"), time.Now())}
	}
	return &channel.NotSentError{Err: err, Permanent: true}
}

// retryAfter understands the header: seconds or a date.
func retryAfter(text string, now time.Time) time.Duration {
	var d time.Duration
	if n, err := strconv.ParseUint(text, 10, 31); err == nil {
		d = time.Duration(n) * time.Second
	} else if at, err := http.ParseTime(text); err == nil {
		d = at.Sub(now)
	}
	return min(max(d, 0), maxRetryAfter)
}

// unreached is what it means that no answer has come.
func (c *Channel) unreached(err error) error {
	if errors.Is(err, errPrivate) {
		return &channel.NotSentError{Err: errPrivate, Permanent: true}
	}
	said := fmt.Errorf("webhook: cannot connect to the callback: %w", bare(err))
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		return &channel.NotSentError{Err: said, Retryable: true}
	}
	return said
}

// bare is an error without the address, which may have a secret of the receiver in it.
func bare(err error) error {
	if errors.Is(err, errPrivate) {
		return errPrivate
	}
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err
	}
	if d, ok := errors.AsType[*net.DNSError](err); ok {
		if d.IsNotFound {
			return errors.New("unknown host name")
		}
		return errors.New("cannot resolve the host name")
	}
	if t, ok := err.(interface{ Timeout() bool }); ok && t.Timeout() {
		return errors.New("it took too long")
	}
	return err
}
