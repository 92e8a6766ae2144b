package kernel

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/internal/backoff"
	"github.com/lingserve/lingserve/store"
)

// The outbox sends replies that were stored, in the order of each target. A reply that is proven not to be sent is tried again, with a growing pause, for
// a day. A reply that may have been sent is sent again only if that does no harm; else the conversation gets one notice that it may be missing.

// Sender sends the replies of a login that were stored. Send is required.
type Sender struct {
	Send func(context.Context, channel.Outbound) (channel.Receipt, error)
	// Repeatable reports whether a second send of a reply, so long after it was stored, does no harm: the platform takes it for the first, or it only edits
	// a message. nil: it never is.
	Repeatable func(out channel.Outbound, age time.Duration) bool
}

const (
	sendsAtOnce  = 4               // without those of turns
	sendTimeout  = 2 * time.Minute // the store takes an attempt for lost after 3
	replyLife    = 24 * time.Hour
	shortestWait = 2 * time.Second
	longestWait  = 30 * time.Minute
	longestPause = time.Minute // in a turn, before a block; what the platform asks for beyond it is waited for in the outbox
)

var errBusy = errors.New("the platform asked to wait when it refused the preview")

// storedReply is a reply that this process sends.
type storedReply struct {
	store.Reply
	out     channel.Outbound
	handler *handler
}

// repeatable reports whether a reply that may have been sent may be sent again after a pause.
func (w *storedReply) repeatable(pause time.Duration) bool {
	repeatable := w.handler.Sender.Repeatable
	return repeatable != nil && repeatable(w.out, time.Since(w.Created)+pause)
}

// storesEnd reports whether the end of the answer is stored until it is sent. Only one is: it ends the event.
func (p *pass) storesEnd() bool {
	return !p.event.over && p.turn.Delivery != nil && p.turn.Delivery.Durable
}

// sendBlock sends a block. With an outcome it ends the event with the block, which is stored until it is sent, and makes the first attempt unless an
// earlier reply to the same target waits; held reports that it is sent later. If it cannot be stored, the event has not ended.
func (p *pass) sendBlock(ctx context.Context, o channel.Outcome, b *channel.Block) (r channel.Receipt, held bool, err error) {
	send := func(ctx context.Context) (channel.Receipt, error) {
		wait := time.Until(p.busyUntil)
		if wait > longestPause || wait > 0 && backoff.Sleep(ctx, wait) != nil {
			return channel.Receipt{}, &channel.NotSentError{Err: errBusy, Retryable: true, RetryAfter: wait}
		}
		return p.turn.Delivery.Deliver(ctx, *b)
	}
	if o == "" {
		r, err = p.k.send(ctx, p.facts, send)
		return r, false, err
	}
	e, out := p.event, channel.Outbound{
		Channel: p.facts.Channel, Account: p.facts.Account, TurnID: p.result.TurnID, Session: p.result.SessionKey, Event: p.event.Key,
		Conversation: p.facts.Conversation, Block: *b,
	}
	id, first, err := e.finishWith(ctx, o, &out)
	switch {
	case err != nil:
		return channel.Receipt{State: channel.NotSent}, false, &channel.NotSentError{Err: fmt.Errorf("the answer cannot be stored: %w", err)}
	case !first:
		return channel.Receipt{State: channel.NotSent}, true, nil
	}
	return e.queue.attempt(&storedReply{store.Reply{ID: id, Attempts: 1, Created: time.Now()}, out, e.handler}, send)
}

// startReplies claims replies and sends them.
func (q *Queue) startReplies() (next time.Time) {
	c := q.claim(sendsAtOnce - int(q.sends.Load()))
	if c.Limit <= 0 || len(c.Logins) == 0 {
		return time.Time{}
	}
	replies, next, err := q.kernel.Store.ClaimReplies(q.ctx, c)
	if err != nil {
		return q.claimFailed(err)
	}
	for _, r := range replies {
		q.sends.Add(1)
		started := q.start(r.Login, func(h *handler) {
			q.sendReply(&storedReply{Reply: r, handler: h})
			q.sends.Add(-1)
			signal(q.replies)
		})
		if !started {
			q.sends.Add(-1)
			_ = q.kernel.Store.PostponeReply(q.ctx, r.ID, q.o.Replica, time.Now(), r.Unsure)
		}
	}
	return next
}

// sendReply makes one attempt for a reply that no turn waits for.
func (q *Queue) sendReply(w *storedReply) {
	err := json.Unmarshal(w.Block, &w.out)
	switch {
	case err != nil:
		q.endReply(w, channel.Receipt{State: channel.NotSent}, err)
	case w.Unsure && !w.repeatable(0):
		q.postpone(w, channel.Receipt{State: channel.UnknownWhether}, nil)
	case time.Since(w.Created) > replyLife:
		q.endReply(w, channel.Receipt{State: channel.NotSent}, errors.New("all attempts within a day have failed"))
	default:
		_, _, _ = q.attempt(w, func(ctx context.Context) (channel.Receipt, error) { return w.handler.Sender.Send(ctx, w.out) })
	}
}

// attempt sends a reply. held reports that it is stored for another attempt. The end of its turn does not end the attempt, but that of the channel does,
// after the grace period.
func (q *Queue) attempt(w *storedReply, send func(context.Context) (channel.Receipt, error)) (r channel.Receipt, held bool, err error) {
	ctx, cancel := context.WithTimeout(w.handler.turns, sendTimeout)
	defer cancel()
	r, err = q.kernel.send(ctx, &channel.Facts{Channel: w.out.Channel, Account: w.out.Account, Conversation: w.out.Conversation}, send)
	if q.postpone(w, r, err) {
		return r, true, nil
	}
	return r, false, err
}

// send calls a function that sends to a conversation, makes one statement of what it returns, and notes the ids of what was sent.
func (k *Kernel) send(ctx context.Context, f *channel.Facts, send func(context.Context) (channel.Receipt, error)) (r channel.Receipt, err error) {
	err = k.guard(ctx, func() (err error) {
		r, err = send(ctx)
		return err
	})
	r, err = channel.ReceiptOf(r, err)
	k.guards.sent(f, r.MessageIDs)
	return r, err
}

// postpone stores a reply for another attempt, or ends it.
func (q *Queue) postpone(w *storedReply, r channel.Receipt, err error) (held bool) {
	pause := backoff.After(max(w.Attempts, 1), shortestWait, longestWait)
	unsure := r.State == channel.UnknownWhether
	again := unsure && (w.repeatable(pause) || w.handler.turns.Err() != nil) // at the end of the channel, the next start decides
	if not, ok := errors.AsType[*channel.NotSentError](err); ok && not.Retryable && !not.Permanent {
		again, pause = true, max(pause, not.RetryAfter)
	}
	if !again || time.Since(w.Created)+pause > replyLife {
		if !unsure || !q.sendUnsureNotice(w) {
			q.endReply(w, r, err)
		}
		return false
	}
	q.storeReply(w, func(ctx context.Context) error {
		return q.kernel.Store.PostponeReply(ctx, w.ID, q.o.Replica, time.Now().Add(pause), unsure)
	})
	return true
}

// storeReply stores what became of an attempt. stored is false if the store does not take it.
func (q *Queue) storeReply(w *storedReply, write func(context.Context) error) (stored bool) {
	err := persist(w.handler.turns, noteFor, write)
	if err != nil && !errors.Is(err, store.ErrMoved) {
		q.o.Log.ErrorContext(w.handler.turns, "cannot store the state of a reply", "turn", w.out.TurnID, "channel", w.out.Channel, "error", err)
	}
	signal(q.replies)
	return err == nil
}

// sendUnsureNotice makes the reply a notice that it may be missing, and sends that as any other. sent is false if it was such a notice already, or the
// store does not take it.
func (q *Queue) sendUnsureNotice(w *storedReply) (sent bool) {
	send, b := w.handler.Sender.Send, &w.out.Block
	if send == nil || b.IsError {
		return false
	}
	*b = channel.Block{Kind: channel.ReplyFinal, Seq: b.Seq + 1, Payload: channel.Payload{Text: unsureNotice, IsError: true}, Target: b.Target, Key: b.Key + ":notice"}
	data, err := json.Marshal(w.out)
	if err != nil || !q.storeReply(w, func(ctx context.Context) error { return q.kernel.Store.ReplaceReply(ctx, w.ID, q.o.Replica, data) }) {
		return false
	}
	w.Unsure = false
	q.logReply(w, channel.Receipt{State: channel.UnknownWhether}, nil)
	_, _, _ = q.attempt(w, func(ctx context.Context) (channel.Receipt, error) { return send(ctx, w.out) })
	return true
}

// endReply removes a reply, with any outcome.
func (q *Queue) endReply(w *storedReply, r channel.Receipt, err error) {
	q.logReply(w, r, err)
	q.storeReply(w, func(ctx context.Context) error { return q.kernel.Store.EndReply(ctx, w.ID, q.o.Replica) })
}

// logReply logs what became of a reply that was not sent.
func (q *Queue) logReply(w *storedReply, r channel.Receipt, err error) {
	if r.State == channel.Sent {
		return
	}
	log := q.o.Log.With("turn", w.out.TurnID, "channel", w.out.Channel, "attempts", w.Attempts, "state", r.State.String(), "error", err)
	if r.State == channel.UnknownWhether {
		log.WarnContext(w.handler.turns, "unknown whether a reply was sent")
		return
	}
	log.ErrorContext(w.handler.turns, "gave up a reply")
}
