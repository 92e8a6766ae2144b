package channel

import (
	"context"

	"github.com/lingserve/lingserve/turn"
)

// noticeOf is the kernel's own notice: for a failure outside of the agent, which gives its own.
func noticeOf(turnID string) string { return turn.Sentence("") + " (reference " + turnID + ")" }

// IncompleteNotice is what a door tells a conversation whose answer a crash has cut off when something of it may have been seen
// (CH-74).
const IncompleteNotice = "The server restarted during the answer. The answer may be incomplete."

// notice tells whoever is answered that the turn has failed: what the agent has given to be told, or else text. It goes out at
// most once a turn, after end, and only where nothing was shown. That it may go out at all is the caller's to know: the event will
// not be run again, and the conversation is direct or the agent was addressed, and the settings want it. It is neither counted nor in
// the receipts: a notice is no reply.
func (d *deliveries) notice(ctx context.Context, text string) (Receipt, error) {
	d.mu.Lock()
	p := Payload{Text: text, IsError: true}
	if d.held != nil {
		p = *d.held
		d.held = nil
	}
	none := d.Observing || d.suppress || d.Delivery == nil || d.noticed || d.tally.Visible || d.tally.Unknown || d.tally.Queued
	d.noticed = true
	d.seq++
	seq := d.seq
	d.mu.Unlock()
	if none || p.Text == "" {
		return Receipt{State: Suppressed}, nil
	}
	if !d.mayShow(ctx) {
		return Receipt{State: Suppressed}, nil
	}
	d.ctx = ctx // the turn's may have been canceled
	b := Block{Kind: ReplyFinal, Seq: seq, Payload: p, Target: d.Target, Key: d.key(seq)}
	return d.sendNotice(ctx, &b)
}

// sendNotice sends a notice as a block is sent, but never by the outbox: nobody wants it tomorrow.
func (d *deliveries) sendNotice(ctx context.Context, b *Block) (Receipt, error) {
	d.durable = nil
	r, _, err := d.send(b)
	return r, err
}
