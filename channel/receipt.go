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

// ReceiptOf makes one statement of the two that a send returns. An error says more than the receipt does: a PartialError has the
// receipt of what was seen, a NotSentError proves that nothing was, and any other leaves it open.
func ReceiptOf(r Receipt, err error) (Receipt, error) {
	if err == nil {
		return r, nil
	}
	r.State = UnknownWhether
	if part, ok := errors.AsType[*PartialError](err); ok { // also if the rest was certainly not sent
		r = part.Receipt
		r.State = Partial
	} else if _, ok := errors.AsType[*NotSentError](err); ok {
		r = Receipt{State: NotSent}
	}
	return r, err
}
