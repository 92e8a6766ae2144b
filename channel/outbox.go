package channel

import (
	"context"
	"errors"
)

// Outbox holds blocks until they are sent, across restarts.
type Outbox struct{}

var errOutboxFull = errors.New("channel: the outbox is full")

func (o *Outbox) can(*Durable) (bool, error) { return false, nil }

func (o *Outbox) put(context.Context, Outbound) (uint64, error) { return 0, errOutboxFull }

func (o *Outbox) first(context.Context, uint64) (Receipt, bool, error) { return Receipt{}, false, nil }
