package channel

import (
	"context"
	"errors"
	"log/slog"
	"runtime/debug"
)

// String names a state as logs and stores have it.
func (s ReceiptState) String() string {
	switch s {
	case Sent:
		return "sent"
	case Partial:
		return "partial"
	case Suppressed:
		return "suppressed"
	case NotSent:
		return "not_sent"
	default:
		return "unknown"
	}
}

// Seen says whether somebody can have noticed what the receipt is for, as far as is known.
func (s ReceiptState) Seen() bool { return s == Sent || s == Partial }

var (
	errPartly  = errors.New("channel: some of the block was sent, the rest was not")
	errNotSent = errors.New("channel: the block was not sent, the channel does not say why")
	errUnknown = errors.New("channel: it is not known whether the block was sent, the channel does not say why")
)

// ReceiptOf makes one statement of the two that a send returns. The error says more than the receipt does: a PartialError has the
// receipt of what was seen, a NotSentError proves that nothing was, ErrSuppress that nothing was to be, and any other leaves it
// open. A receipt that is not sent, without an error, gets one.
func ReceiptOf(r Receipt, err error) (Receipt, error) {
	if err == nil {
		switch r.State {
		case Sent, Suppressed:
			return r, nil
		case Partial:
			return r, &PartialError{Receipt: r, Err: errPartly}
		case NotSent:
			return r, &NotSentError{Err: errNotSent}
		default:
			r.State = UnknownWhether
			return r, errUnknown
		}
	}
	if errors.Is(err, ErrSuppress) {
		return Receipt{State: Suppressed}, nil
	}
	if part, ok := errors.AsType[*PartialError](err); ok {
		r = part.Receipt
		r.State = Partial
		return r, err
	}
	if _, ok := errors.AsType[*NotSentError](err); ok {
		return Receipt{State: NotSent}, err
	}
	r.State = UnknownWhether
	return r, err
}

// permanent says whether an error means that nothing can be sent there any more.
func permanent(err error) bool {
	not, ok := errors.AsType[*NotSentError](err)
	return ok && not.Permanent
}

// retryable says whether an error proves that a block was not sent, and that it may go another time.
func retryable(err error) (*NotSentError, bool) {
	not, ok := errors.AsType[*NotSentError](err)
	return not, ok && not.Retryable && !not.Permanent
}

// caught calls a channel's method. A panic becomes its error, and its stack goes to the log alone.
func caught(ctx context.Context, log *slog.Logger, method string, call func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{Value: v}
			if log != nil {
				log.LogAttrs(ctx, slog.LevelError, "panic in a channel's delivery", slog.String("method", method),
					slog.String("stack", string(debug.Stack())))
			}
		}
	}()
	return call()
}

// tally is what the deliveries of a turn came to, beside the receipts: what an outcome is made of, however many there were.
type tally struct {
	Attempted bool // the channel was asked to send something, or the outbox was
	Visible   bool // a sent or partial receipt, or a preview that was shown
	Unknown   bool // it is not known whether something was sent
	Queued    bool // the outbox holds a block
	Denied    bool // the gates did not let the reply go: the settings have changed (CH-61)
	Permanent bool // nothing can be sent there any more
	Failed    int  // blocks that were not sent, or not whole
}

// maxReceipts bounds the receipts of a turn: the tally goes on where the list ends.
const maxReceipts = 1024

// note adds a receipt to what the turn has.
func (d *deliveries) note(kind ReplyKind, r Receipt, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case r.State.Seen():
		d.tally.Visible = true
		switch kind {
		case ReplyTool:
			d.result.Tool++
		case ReplyFinal:
			d.result.Final++
		default:
			d.result.Block++
		}
	case r.State == UnknownWhether:
		d.tally.Unknown = true
	}
	if err != nil {
		d.tally.Failed++
		d.tally.Permanent = d.tally.Permanent || permanent(err)
	}
	if len(d.result.Receipts) < maxReceipts {
		d.result.Receipts = append(d.result.Receipts, r)
	}
}
