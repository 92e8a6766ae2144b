package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/kernel"
	"github.com/lingserve/lingserve/channel/platform"
	"github.com/lingserve/lingserve/internal/backoff"
	"github.com/lingserve/lingserve/internal/disk"
)

// Webhook returns the handler of POST /v1/channels/{name}/webhook.
func (c *Channel) Webhook() http.Handler { return http.HandlerFunc(c.receive) }

// receive authenticates a request, stores its message, and answers.
func (c *Channel) receive(w http.ResponseWriter, r *http.Request) {
	m, body, refusal := c.read(w, r)
	var a answer
	if refusal == nil {
		a, refusal = c.accept(r.Context(), m, body)
	}
	if refusal != nil {
		refuse(w, refusal)
		return
	}
	status := http.StatusAccepted
	if a.Status == statusDone {
		status = channel.Reason(a.Reason).HTTPStatus()
	}
	write(w, status, "application/json", a)
}

// read reads a message. What cannot be signed is refused before its body is read.
func (c *Channel) read(w http.ResponseWriter, r *http.Request) (m *message, body []byte, refusal *channel.BodyError) {
	id, err := checkHeaders(r.Header, time.Now())
	if err != nil {
		return nil, nil, &channel.BodyError{Status: http.StatusUnauthorized, Err: err}
	}
	if body, refusal = channel.ReadBody(w, r, c.s.MaxBody, "application/json"); refusal != nil {
		return nil, nil, refusal
	}
	if !c.in.verify(r.Header, body) {
		return nil, nil, &channel.BodyError{Status: http.StatusUnauthorized, Err: errSignature}
	}
	if m, err = parse(body); err != nil {
		return nil, nil, &channel.BodyError{Status: http.StatusBadRequest, Err: err}
	}
	m.id = id
	return m, body, nil
}

// accept stores a message and returns the answer. A message that is refused is not stored, so that it can be sent again.
func (c *Channel) accept(ctx context.Context, m *message, body []byte) (answer, *channel.BodyError) {
	q, in := c.Queue(), inputOf(m)
	if q == nil {
		return answer{}, c.unavailable(ctx, channel.ErrDraining)
	}
	arrival := c.Arrival(q.Kernel(), in, channel.EventMessage, append([]byte(m.id+"\n"), body...)) // what is stored until the turn has ended
	name := arrival.Key.String()
	if counted, _ := c.counted.ContainsOrAdd(name, struct{}{}); !counted {
		e := &platform.Event{Kernel: q.Kernel(), Meta: kernel.Meta{Channel: c.s.Name, Account: c.s.Account}, Agent: c.s.Agent}
		c.describe(e, []*message{m})
		f, _ := e.Facts(ctx, in)
		if wait := q.Kernel().CountRate(&f); wait > 0 {
			c.counted.Remove(name)
			return answer{}, &channel.BodyError{Status: http.StatusTooManyRequests, RetryAfter: wait, Err: errTooMany}
		}
	}
	isNew, err := q.Accept(ctx, arrival)
	if err != nil {
		c.counted.Remove(name)
		return answer{}, c.unavailable(ctx, err)
	}
	a := answer{Status: statusAccepted}
	if arrival.Bundle == "" {
		a.Turn = arrival.TurnID()
	}
	if c.result {
		a = c.await(ctx, name, a)
	}
	a.Duplicate = !isNew[0]
	return a, nil
}

const (
	// resultWait is how long a request waits for the reply.
	resultWait = time.Minute
	// pollEvery is the interval at which a request looks for the answer, which another replica may have stored.
	pollEvery = 100 * time.Millisecond
)

// await returns the answer when a turn has ended. After a minute, or when the sender has gone, the channel ends, or the answer cannot be
// read, it returns accepted with the parts of the reply so far: one may be a question.
func (c *Channel) await(ctx context.Context, name string, accepted answer) answer {
	ctx, cancel := context.WithTimeout(ctx, resultWait)
	defer cancel()
	for c.Queue() != nil {
		a, ok := c.load(ctx, name)
		switch {
		case a.Status == statusDone:
			return a
		case ok:
			accepted.Replies = a.Replies
		}
		if !ok || backoff.Sleep(ctx, pollEvery) != nil {
			break
		}
	}
	return accepted
}

var errTooMany = errors.New("too many messages per minute from this sender or conversation; send the message again after the time in Retry-After")

// unavailable asks for a message to be sent again that could not be stored.
func (c *Channel) unavailable(ctx context.Context, err error) *channel.BodyError {
	said := &channel.BodyError{
		Status: http.StatusServiceUnavailable, RetryAfter: 5 * time.Second,
		Err: errors.New("the channel accepts no messages at the moment; send it again"),
	}
	if !errors.Is(err, channel.ErrDraining) {
		c.Log.WarnContext(ctx, "cannot accept a message; the sender must retry", "error", err)
	}
	if disk.Failed(err) {
		said.RetryAfter, said.Err = 30*time.Second, errors.New("the server's disk is full or has failed; send the message again later")
	}
	return said
}

// problem is a problem document (RFC 9457).
type problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
	Code   string `json:"code"`
}

var codes = map[int]string{
	http.StatusBadRequest:            "invalid_request",
	http.StatusUnauthorized:          "unauthorized",
	http.StatusRequestEntityTooLarge: "too_large",
	http.StatusUnsupportedMediaType:  "invalid_request",
	http.StatusTooManyRequests:       "rate_limited",
	http.StatusServiceUnavailable:    "overloaded",
}

func refuse(w http.ResponseWriter, e *channel.BodyError) {
	e.Header(w.Header())
	code := codes[e.Status]
	p := problem{"urn:lingserve:problem:" + code, strings.ReplaceAll(code, "_", " "), e.Status, e.Error(), code}
	write(w, e.Status, "application/problem+json", p)
}

func write(w http.ResponseWriter, status int, mediaType string, v any) {
	w.Header().Set("Content-Type", mediaType)
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	_ = e.Encode(v) // the sender may have gone
}
