package channel

import "context"

// Ledger notes of accepted events whether something of the answer may have been seen, so that a turn that a crash has cut off is
// not run again after it (CH-74). It is asked for one event by one turn at a time. event is the key that the journal has it under.
type Ledger interface {
	// Sending notes that something is about to be sent; it is durable when Sending returns.
	Sending(_ context.Context, event string) error
	// Sent notes what became of it.
	Sent(_ context.Context, event string, state ReceiptState) error
	// Seen is what is known: NotSent where nothing was sent or all of it is proven not to have been.
	Seen(_ context.Context, event string) (ReceiptState, error)
	// Forget drops what is known of an event that is settled.
	Forget(_ context.Context, event string) error
}
