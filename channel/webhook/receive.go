package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/internal/vfs"
)

const (
	// resultWait is how long an answer waits for the reply (CH-182).
	resultWait = time.Minute
	// turnWait is how long one that does not wait for the reply waits for its turn to begin, whose id it has.
	turnWait = 5 * time.Second
)

// Webhook is the door: POST /v1/channels/{name}/webhook.
func (c *Channel) Webhook() http.Handler { return http.HandlerFunc(c.receive) }

// receive takes a message: it is looked at, stored, and answered.
func (c *Channel) receive(w http.ResponseWriter, r *http.Request) {
	now := time.Now()
	what, err := headers(r.Header, now)
	if err != nil {
		refuse(w, http.StatusUnauthorized, err)
		return
	}
	body, refusal := channel.ReadBody(w, r, c.maxBody, "application/json")
	if refusal != nil {
		refusal.Header(w.Header())
		refuse(w, refusal.Status, refusal)
		return
	}
	if err := c.in.verify(what, body); err != nil {
		refuse(w, http.StatusUnauthorized, err)
		return
	}
	m, err := parse(body)
	if err != nil {
		refuse(w, http.StatusBadRequest, err)
		return
	}
	open := c.open.Load()
	if open == nil {
		later(w)
		return
	}
	rec, isNew := c.known.begin(what.id)
	if isNew {
		// Before the message is stored, so that it can come again.
		a := &adapter{c: c, k: open.kernel, id: what.id}
		if wait := open.kernel.TakeRate(new(a.facts(r.Context(), what.id, m.text, []*message{m}))); wait > 0 {
			rec.refuse()
			c.known.forget(rec)
			tooMany(w, wait)
			return
		}
		rec.counts()
		known, err := c.accept(r.Context(), open.door, rec, m, what.id, body)
		if err != nil {
			c.log.WarnContext(r.Context(), "cannot accept a message; the sender must retry", "channel", c.name, "error", err)
			if vfs.Failed(err) {
				w.Header().Set("Retry-After", diskRetry)
				refuse(w, http.StatusServiceUnavailable, errors.New("the server's disk is full or has failed; send the message again later"))
				return
			}
			later(w)
			return
		}
		if known { // by an earlier process, or by another replica
			a := c.elsewhere(r.Context(), open, what.id, now)
			a.Duplicate = true
			send(w, a)
			return
		}
	}
	c.wait(r.Context(), open, rec, now)
	if rec.isGone() && c.callback == "" {
		a := c.elsewhere(r.Context(), open, what.id, now)
		a.Duplicate = !isNew
		send(w, a)
		return
	}
	a, ok := rec.answer()
	if !ok {
		later(w)
		return
	}
	a.Duplicate = !isNew
	send(w, a)
}

// diskRetry is when a sender may try a disk again, in seconds.
const diskRetry = "30"

// accept puts a message into the journal. known says that it was there.
func (c *Channel) accept(ctx context.Context, door *channel.Door, rec *record, m *message, id string, body []byte) (known bool, err error) {
	isNew, err := door.Accept(ctx, channel.Arrival{
		Key: c.key(m, id), Raw: body,
		Ack:   func(_ context.Context, r channel.Result) { rec.ack(r, c.result) },
		Given: func() { c.given(rec) },
	})
	if err != nil || !isNew[0] {
		rec.refuse()
		c.known.forget(rec)
	}
	return err == nil && !isNew[0], err
}

// given lets go of a message that another replica runs. Where it is answered with the reply, that is kept there: the record here would
// keep a reply that nobody asks for, if the message came back.
func (c *Channel) given(rec *record) {
	if c.result {
		c.known.forget(rec)
	}
	rec.leaves()
}

// wait waits until a message's sender can be told of it. With ack result that is the reply; where that does not come in time, it goes
// to the callback.
func (c *Channel) wait(ctx context.Context, open *opened, rec *record, since time.Time) {
	limit := turnWait
	if c.result {
		limit = resultWait
	}
	timer := time.NewTimer(limit - time.Since(since))
	defer timer.Stop()
	select {
	case <-rec.acked:
		return
	case <-timer.C:
	case <-ctx.Done(): // nobody waits any more, but whoever sends it again gets what has come
		return
	case <-open.ended: // it stays in the journal
	}
	kept := rec.letGo()
	if len(kept) == 0 {
		return
	}
	c.wg.Go(func() {
		defer rec.order.Unlock()
		for _, one := range kept {
			if err := c.post(context.WithoutCancel(ctx), one); err != nil {
				c.log.WarnContext(ctx, "cannot send part of a reply to the callback", "channel", c.name, "error", err)
			}
		}
	})
}

// lookAgain is how often it is looked whether another replica has answered.
const lookAgain = 250 * time.Millisecond

// elsewhere is what another process has told of a message. Where that is another replica, and the answer has the reply, it is waited for
// as long as there.
func (c *Channel) elsewhere(ctx context.Context, open *opened, id string, since time.Time) answer {
	for {
		a, ok := c.known.earlier(ctx, id)
		if !ok {
			a = answer{Status: statusAccepted}
		}
		left := min(lookAgain, resultWait-time.Since(since))
		if !c.shares || a.Status == statusDone || left <= 0 {
			return a
		}
		timer := time.NewTimer(left)
		select {
		case <-timer.C:
			continue
		case <-ctx.Done():
		case <-open.ended:
		}
		timer.Stop()
		return a
	}
}

// send answers: 202 while there is nothing more to say than that the message was accepted.
func send(w http.ResponseWriter, a answer) {
	status := http.StatusAccepted
	if a.Status == statusDone {
		status = http.StatusOK
	}
	document(w, status, "application/json", a)
}

// problem is what is wrong with a message (RFC 9457).
type problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
	Code   string `json:"code"`
}

var codes = map[int]struct{ code, title string }{
	http.StatusBadRequest:            {"invalid_request", "invalid request"},
	http.StatusUnauthorized:          {"unauthorized", "unauthorized"},
	http.StatusRequestEntityTooLarge: {"too_large", "too large"},
	http.StatusUnsupportedMediaType:  {"invalid_request", "invalid request"},
	http.StatusTooManyRequests:       {"rate_limited", "rate limited"},
	http.StatusServiceUnavailable:    {"overloaded", "overloaded"},
}

func refuse(w http.ResponseWriter, status int, err error) {
	c := codes[status]
	document(w, status, "application/problem+json", problem{"urn:lingserve:problem:" + c.code, c.title, status, err.Error(), c.code})
}

// tooMany asks for the message to be sent again when its sender may send one.
func tooMany(w http.ResponseWriter, wait time.Duration) {
	w.Header().Set("Retry-After", strconv.Itoa(int((wait+time.Second-1)/time.Second)))
	refuse(w, http.StatusTooManyRequests, errors.New("too many messages per minute from this sender or conversation; send the message again after the time in Retry-After"))
}

// later asks for the message to be sent again.
func later(w http.ResponseWriter) {
	w.Header().Set("Retry-After", "5")
	refuse(w, http.StatusServiceUnavailable, errors.New("the channel accepts no messages at the moment; send it again"))
}

func document(w http.ResponseWriter, status int, media string, v any) {
	h := w.Header()
	h.Set("Content-Type", media)
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	_ = e.Encode(v) // the sender may have gone away
}
