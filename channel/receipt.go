package channel

import (
	"errors"
)

// String names a state as logs and stores have it.
func (s ReceiptState) String() string {
	return [...]string{Sent: "sent", Partial: "partial", Suppressed: "suppressed", NotSent: "not_sent", UnknownWhether: "unknown"}[min(s, UnknownWhether)]
}

// First returns the id of the first message; "" if there is none, or no receipt.
func (r *Receipt) First() string {
	if r == nil || len(r.MessageIDs) == 0 {
		return ""
	}
	return r.MessageIDs[0]
}

// Seen says whether someone can have noticed what the receipt is for, as far as is known.
func (s ReceiptState) Seen() bool { return s == Sent || s == Partial }

var (
	errPartly  = errors.New("channel: some of the block was sent, the rest was not")
	errNotSent = errors.New("channel: the block was not sent, the channel does not say why")
	errUnknown = errors.New("channel: it is not known whether the block was sent, the channel does not say why")
)

// ReceiptOf makes one statement of the two that a send returns. The error says more than the receipt does: a PartialError has the
// receipt of what was seen, a NotSentError proves that nothing was, and any other leaves it open. A receipt that is not sent, without an error, gets one.
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
